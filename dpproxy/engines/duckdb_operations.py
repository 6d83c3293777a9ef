"""DuckDB's spelling of operators and functions, total by construction: NULL where DuckDB would raise.

Knows: the planner's operations, in which of DuckDB's types each computes, and the domains of DuckDB's functions. Must not know:
aggregates, measurements, policies. An operation is spelled by a template of `duckdb_functions` or of this file where its
arguments need no thought, and by a method `_op_<name>` where they do; what has neither is refused. An operation whose operands
could make DuckDB raise is widened or guarded here. `engines.duckdb` adds types, aggregates and what measurements need.
"""

from __future__ import annotations

from dpproxy.engines.base import APART, Engine, Names, check_number, held_number
from dpproxy.engines.duckdb_functions import FUNCTIONS, REVERSE, UPPER, decimal_operation
from dpproxy.engines.duckdb_types import narrowest, one_kind, representation
from dpproxy.engines.text_cuts import Growth
from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.properties.facts import LARGEST, facts, fits_int4
from dpproxy.plan.properties.text_growth import CUTS, grows
from dpproxy.sql.types import FLOATS, INTEGERS
from dpproxy.tree.expr import Call, Expr, Hole, InList, Lit, Ref

_SIMPLE = {
    "is_null": "({0} IS NULL)", "is_not_null": "({0} IS NOT NULL)", "not": "(NOT {0})",
    "is_true": "({0} IS TRUE)", "is_not_true": "({0} IS NOT TRUE)",
    "is_false": "({0} IS FALSE)", "is_not_false": "({0} IS NOT FALSE)",
    "lower": "lower({0})", "upper": UPPER.format("{0}"), "length": "length({0})", "trim": "trim({0}, {1})",
    "ltrim": "ltrim({0}, {1})", "rtrim": "rtrim({0}, {1})",
    "strpos": "strpos({0}, {1})", "reverse": REVERSE, "starts_with": "starts_with({0}, {1})",
    "md5": "md5({0})",
    "lpad": "lpad({0}, {1}, {2})", "rpad": "rpad({0}, {1}, {2})", "strftime": "strftime({0}, {1})",
    "regex": "regexp_matches({0}, {1}, 's')", "iregex": "regexp_matches({0}, {1}, 'is')",
    "epoch": "epoch({0})",
    "second": "(EXTRACT(microseconds FROM {0}) / 1000000.0)",
    "date_diff": "(CAST(epoch({0}) AS BIGINT) - CAST(epoch({1}) AS BIGINT)) // 86400",
}  # fmt: skip
_NUMERIC_UNARY = {"abs": "abs({0})", "floor": "floor({0})", "ceil": "ceil({0})", "neg": "(-{0})"}
_EXTRACT = {"year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "hour", "minute", "isoyear"}
INT32 = LARGEST["int4"]
_COMPARE = {"=", "<>", "<", "<=", ">", ">="}
_FEW = range(2, 5)
"""Items of a list with which DuckDB compares one by one: its planner writes the operand as many times, and those of nested lists
multiply where no text shows it. So do its macros `nullif` and `split_part`. What is written out here is seen by `MAX_TEXT`."""


class DuckDBOperations(Engine):
    """What of the engine spells operators and functions."""

    def __init__(self, cut: int = CUTS[0]) -> None:
        self._texts = Growth(self, cut)

    def number(self, expr: Expr, names: Names, as_: str) -> str:
        """Spell `expr` as BIGINT, HUGEINT or DOUBLE; `as_` is never narrower than its representation. Raises Refusal."""
        check_number(expr)
        text = self.expr(expr, names)
        if isinstance(expr, Lit) and expr.type in INTEGERS and as_ == "BIGINT":
            return text
        if isinstance(expr, Lit) and as_ == "DOUBLE" and expr.type not in INTEGERS:
            return text
        return f"CAST({text} AS {as_})"

    def _arithmetic(self, op: str, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        width = "DOUBLE"
        if expr.type in INTEGERS:
            order = ("BIGINT", "HUGEINT", "DOUBLE")
            needed = [narrowest(facts(expr).span), *(representation(a) for a in args)]
            width = max(needed, key=lambda t: order.index(t) if t in order else 2)
        texts = [self.number(a, names, width) for a in args]
        if width == "BIGINT" and all(isinstance(a, Lit) for a in args):  # DuckDB takes small constants for INT32
            texts[0] = f"CAST({texts[0]} AS BIGINT)"
        if op in _NUMERIC_UNARY:
            return _NUMERIC_UNARY[op].format(*texts)
        if expr.type == "numeric":
            return decimal_operation(op, texts[0], texts[1], facts(expr).grid)
        if op in ("/", "int/", "%"):
            sign = op
            if op == "int/":
                if width == "DOUBLE":
                    return f"trunc({texts[0]} / NULLIF({texts[1]}, 0))"
                sign = "//"
            return f"({texts[0]} {sign} NULLIF({texts[1]}, 0))"
        return f"({texts[0]} {op} {texts[1]})"

    def call(self, op: str, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        if op in ("and", "or"):
            return "(" + f" {op.upper()} ".join(self.expr(a, names) for a in args) + ")"
        if op in _COMPARE or op in ("is_distinct", "is_not_distinct"):
            a, b = args
            sign = {"is_distinct": "IS DISTINCT FROM", "is_not_distinct": "IS NOT DISTINCT FROM"}.get(op, op)
            return f"({self.comparable(a, b, names)} {sign} {self.comparable(b, a, names)})"
        if op in ("+", "-", "*", "/", "int/", "%") or op in _NUMERIC_UNARY:
            return self._arithmetic(op, expr, args, names)
        if op in _EXTRACT:
            return self._extract(op, self.expr(args[0], names))
        if op == "coalesce" and one_kind(args):
            return f"coalesce({', '.join(self.expr(a, names) for a in args)})"
        if op in ("coalesce", "least", "greatest"):
            return f"{op}(" + ", ".join(self.as_type(a, expr.type, names) for a in args) + ")"
        if op == "nullif":
            return self._null_where_equal(args[0], args[1], names)
        if grows(expr):
            return self._texts.text(expr, names)
        special = getattr(self, f"_op_{op}", None)
        if special is not None:
            return str(special(expr, args, names))
        if op in _SIMPLE:
            return _SIMPLE[op].format(*(self.expr(a, names) for a in args))
        if op in FUNCTIONS:
            kinds, spelled = FUNCTIONS[op]
            return spelled.format(*(self._argument(a, kind, names) for a, kind in zip(args, kinds, strict=True)))
        raise Refusal(FEATURE_NOT_SUPPORTED, f"`{op}` is not supported over private tables on DuckDB", hint=APART)

    def _null_where_equal(self, value: Expr, other: Expr, names: Names) -> str:
        """The value keeps its own type, whatever it is compared as: a whole number stays one beside a DOUBLE."""
        text, compared = self.expr(value, names), self.comparable(value, other, names)
        return f"CASE WHEN {compared} = {self.comparable(other, value, names)} THEN NULL ELSE {text} END"

    def _op_substring(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """DuckDB raises for places beyond 32 bits."""
        return f"substring({self.expr(args[0], names)}, {', '.join(self._place(a, names) for a in args[1:])})"

    _op_substring_from = _op_substring

    def _op_left(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return f"{expr.op}({self.expr(args[0], names)}, {self._place(args[1], names)})"

    _op_right = _op_left

    def _place(self, arg: Expr, names: Names) -> str:
        text = self.expr(arg, names)
        return text if fits_int4(arg) else held_number(text, -INT32, INT32)

    def _op_split_part(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        text, mark, index = (self.expr(a, names) for a in args)
        field = f"coalesce(string_split({text}, {mark})[{index}], '')"
        return f"CASE WHEN {text} IS NOT NULL AND {mark} IS NOT NULL AND {index} IS NOT NULL THEN {field} END"

    def in_list(self, expr: InList, names: Names) -> str:
        """Few items are compared one by one, as DuckDB would."""
        if isinstance(expr.arg, Ref) or len(expr.items) not in _FEW:
            return super().in_list(expr, names)
        sign, both = ("<>", " AND ") if expr.negated else ("=", " OR ")
        left = self.comparable(expr.arg, expr.items[0], names)
        return f"({both.join(f'{left} {sign} {self.comparable(item, expr.arg, names)}' for item in expr.items)})"

    def _argument(self, arg: Expr, kind: str, names: Names) -> str:
        """An argument of `duckdb_functions`: f DOUBLE, i BIGINT, m TIMESTAMP, t as it stands."""
        if kind == "f":
            return self.number(arg, names, "DOUBLE")
        text = self.expr(arg, names)
        if kind == "m":
            return f"TRY_CAST({text} AS TIMESTAMP)"
        return f"TRY_CAST({text} AS BIGINT)" if kind == "i" and not isinstance(arg, Ref | Lit) else text

    def _op_row(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """Several values as one that is never NULL."""
        return f"row({', '.join(self.output(a, names) for a in args)})"

    def replaced(self, text: str, rest: list[str]) -> str:
        return f"regexp_replace({text}, {rest[0]}, {rest[1]}, {rest[2]} || 's')"

    @staticmethod
    def _extract(op: str, text: str) -> str:
        """ISO weeks of DuckDB's first days raise: before PostgreSQL's own first year there are none here."""
        part = f"EXTRACT({op} FROM {text})"
        return f"(CASE WHEN {text} >= DATE '4714-01-01 (BC)' THEN {part} END)" if op in ("week", "isoyear") else part

    def _op_round(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        digits = self.expr(args[1], names) if len(args) > 1 else "0"
        if args[0].type in FLOATS and len(args) == 1:
            return f"round_even({value}, 0)"  # PostgreSQL rounds float8 half to even, numeric half away from zero
        return f"round({value}, {digits})"

    def _op_trunc(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        if len(args) == 1:
            return f"trunc({value})"
        scale = f"CAST(1e{int(self.expr(args[1], names))} AS DOUBLE)"
        # numeric computes as DOUBLE here: 0.29 * 100 is a little less than 29 and must still be 29
        return f"(trunc(round({value} * {scale}, 6)) / {scale})"

    def _op_square(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        return f"({value} * {value})"

    def _op_sign(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return f"CAST(sign({self.number(args[0], names, 'DOUBLE')}) AS BIGINT)"

    def _op_sqrt(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        return f"(CASE WHEN {value} >= 0 THEN sqrt({value}) END)"  # greatest(NULL, 0) would be 0

    def _op_ln(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._guarded_log("ln", args, names)

    def _op_log(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._guarded_log("log10", args, names)

    def _guarded_log(self, name: str, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        return f"(CASE WHEN {value} > 0 THEN {name}({value}) END)"

    def _op_exp(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        return f"(CASE WHEN {value} IS NOT NULL THEN exp(least({value}, 700)) END)"

    def _op_power(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        base, exponent = (self.number(a, names, "DOUBLE") for a in args)
        return f"pow({base} + 0, {exponent})"  # of -0 too: see Engine.key

    def _op_trunc_time(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """The year of DuckDB's first days begins before them: what PostgreSQL truncates to nothing is nothing here."""
        unit, moment = (self.expr(a, names) for a in args)
        within = f"{moment} >= TIMESTAMP '4000-01-01 (BC)' OR {moment} = TIMESTAMP '-infinity'"
        return f"(CASE WHEN {within} THEN date_trunc({unit}, {moment}) END)"

    def _op_date_add(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._date_shift("+", args, names)

    def _op_date_sub(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._date_shift("-", args, names)

    def _date_shift(self, sign: str, args: tuple[Expr, ...], names: Names) -> str:
        """Date plus days, guarded to years 1..9999 and a million days: beyond them DuckDB may raise."""
        date, days = self.expr(args[0], names), self.expr(args[1], names)
        guard = f"{date} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' AND {days} BETWEEN -1000000 AND 1000000"
        return f"(CASE WHEN {guard} THEN {date} {sign} TRY_CAST({days} AS INTEGER) END)"

    def _op_ts_add(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._ts_shift("+", args, names)

    def _op_ts_sub(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._ts_shift("-", args, names)

    def _ts_shift(self, sign: str, args: tuple[Expr, ...], names: Names) -> str:
        ts = f"TRY_CAST({self.expr(args[0], names)} AS TIMESTAMP)"
        guard = f"{ts} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31'"
        interval = self.expr(args[1], names)
        if not isinstance(args[1], Lit):
            guard += f" AND {interval} BETWEEN INTERVAL (-4000) YEAR AND INTERVAL (4000) YEAR"
        return f"(CASE WHEN {guard} THEN {ts} {sign} {interval} END)"

    def _op_ts_diff(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        a, b = (f"TRY_CAST({self.expr(x, names)} AS TIMESTAMP)" for x in args)
        guard = " AND ".join(f"{t} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31'" for t in (a, b))
        return f"(CASE WHEN {guard} THEN {a} - {b} END)"

    def _like(self, word: str, args: tuple[Expr, ...], names: Names) -> str:
        value, pattern = self.expr(args[0], names), self.expr(args[1], names)
        escape = self.expr(args[2], names) if len(args) > 2 else None
        if isinstance(args[1], Hole):
            return f"(CASE WHEN NOT contains({pattern}, '\\') THEN {value} {word} {pattern} END)"
        if not isinstance(args[1], Lit):
            return self._like_of_row(word, value, pattern)
        if escape is None and "\\" in (args[1].text or ""):
            escape = "'\\'"
        return f"({value} {word} {pattern}{f' ESCAPE {escape}' if escape else ''})"

    def comparable(self, expr: Expr, other: Expr, names: Names) -> str:
        text = self.expr(expr, names)
        numbers = (*INTEGERS, "numeric", *FLOATS)
        if expr.type in numbers and other.type in numbers:
            if one_kind((expr, other)):
                return text
            if expr.type in INTEGERS and other.type in INTEGERS:
                return text
            return self.number(expr, names, "DOUBLE")
        times = ("date", "timestamp", "timestamptz")
        if expr.type in times and other.type in times and expr.type != other.type:
            return f"TRY_CAST({text} AS TIMESTAMP)"
        return text
