"""DuckDB's spelling of the planner's expressions, total by construction.

Knows: DuckDB 2's types and what can raise there (integer overflow, division by zero, casts, date arithmetic; floats
never raise). Must not know: policies. Representation: integers are BIGINT or, where their span may pass it,
HUGEINT or DOUBLE; NUMERIC computes as DOUBLE (columns keep their DECIMAL until computed with); TIMESTAMPTZ is the
session's local TIMESTAMP. The rule: an operation whose operands could make DuckDB raise is widened or guarded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.engines import duckdb_sums as sums
from dpproxy.plan.engines.base import Engine, Names, check_number, quote
from dpproxy.plan.engines.duckdb_functions import FUNCTIONS, REVERSE, UPPER, decimal_operation, snapped
from dpproxy.plan.engines.text_cuts import Growth
from dpproxy.plan.logical.expr import (
    Agg,
    Call,
    Cast,
    Column,
    Expr,
    Hole,
    Lit,
    Ref,
    Win,
)
from dpproxy.plan.logical.interval import Interval
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.text_growth import CUTS, GROWING
from dpproxy.sql.decimals import decimal
from dpproxy.sql.template import Dialect
from dpproxy.sql.types import FLOATS, INTEGERS, TEXTS

INT64 = 2**63 - 1
INT128 = 2**126  # below HUGEINT's 2**127 - 1, so that a sum of two still fits
INT32 = 2**31 - 1
DECIMALS = 9  # places of a DECIMAL summed as it is: 2**32 grid units of each of 2**63 rows, times 10**9, fit 38 digits

_TYPES = {
    "int2": "BIGINT", "int4": "BIGINT", "int8": "BIGINT", "numeric": "DOUBLE", "float4": "DOUBLE", "float8": "DOUBLE",
    "text": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR", "unknown": "VARCHAR", "bool": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP", "interval": "INTERVAL", "uuid": "UUID", "time": "TIME",
}  # fmt: skip

_SIMPLE = {
    "is_null": "({0} IS NULL)", "is_not_null": "({0} IS NOT NULL)", "not": "(NOT {0})",
    "is_true": "({0} IS TRUE)", "is_not_true": "({0} IS NOT TRUE)",
    "is_false": "({0} IS FALSE)", "is_not_false": "({0} IS NOT FALSE)",
    "lower": "lower({0})", "upper": UPPER.format("{0}"), "length": "length({0})", "trim": "trim({0}, {1})",
    "ltrim": "ltrim({0}, {1})", "rtrim": "rtrim({0}, {1})",
    "strpos": "strpos({0}, {1})", "reverse": REVERSE, "starts_with": "starts_with({0}, {1})",
    "left": "left({0}, {1})", "right": "right({0}, {1})", "split_part": "split_part({0}, {1}, {2})",
    "substring": "substring({0}, {1}, {2})", "substring_from": "substring({0}, {1})", "md5": "md5({0})",
    "lpad": "lpad({0}, {1}, {2})", "rpad": "rpad({0}, {1}, {2})", "strftime": "strftime({0}, {1})",
    "regex": "regexp_matches({0}, {1}, 's')", "iregex": "regexp_matches({0}, {1}, 'is')",
    "trunc_time": "date_trunc({0}, {1})", "epoch": "epoch({0})",
    "second": "(EXTRACT(microseconds FROM {0}) / 1000000.0)",
    "date_diff": "(CAST(epoch({0}) AS BIGINT) - CAST(epoch({1}) AS BIGINT)) // 86400",
}  # fmt: skip
_NUMERIC_UNARY = {"abs": "abs({0})", "floor": "floor({0})", "ceil": "ceil({0})", "neg": "(-{0})"}
_EXTRACT = {"year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "hour", "minute", "isoyear"}
_COMPARE = {"=", "<>", "<", "<=", ">", ">="}


def representation(expr: Expr) -> str:
    """Return the DuckDB type in which an integer expression is computed."""
    return _width(facts(expr).span) if expr.type in INTEGERS else _TYPES.get(expr.type, "VARCHAR")


def _width(span: Interval) -> str:
    if span.within(INT64):
        return "BIGINT"
    if span.within(INT128):
        return "HUGEINT"
    return "DOUBLE"


class DuckDB(Engine):
    dialect: Dialect = "duckdb"

    def __init__(self, cut: int = CUTS[0]) -> None:
        self._texts = Growth(self, cut)

    def literal(self, type_: str, text: str | None) -> str:
        if text is None:
            return f"CAST(NULL AS {_TYPES.get(type_, 'VARCHAR')})" if type_ != "unknown" else "NULL"
        if type_ in INTEGERS:
            value = int(text)
            return str(value) if abs(value) <= INT64 else f"CAST({value} AS HUGEINT)"
        if type_ in ("numeric", *FLOATS):
            return f"CAST({quote(text)} AS DOUBLE)"
        if type_ == "bool":
            return "TRUE" if text in ("true", "t") else "FALSE"
        if type_ == "interval":
            months, days, micros = text.split()
            return f"(INTERVAL ({months}) MONTH + INTERVAL ({days}) DAY + INTERVAL ({micros}) MICROSECOND)"
        if type_ in TEXTS or type_ == "unknown":
            return quote(text)
        if type_ in _TYPES:
            return f"TRY_CAST({quote(text)} AS {_TYPES[type_]})"
        raise Refusal(FEATURE_NOT_SUPPORTED, f"constants of type {type_} are not supported over private tables")

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
            needed = [_width(facts(expr).span), *(representation(a) for a in args)]
            width = max(needed, key=lambda t: order.index(t) if t in order else 2)
        texts = [self.number(a, names, width) for a in args]
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
        if op == "coalesce" and _one_kind(args):
            return f"coalesce({', '.join(self.expr(a, names) for a in args)})"
        if op in ("coalesce", "least", "greatest"):
            return f"{op}(" + ", ".join(self.as_type(a, expr.type, names) for a in args) + ")"
        if op == "nullif":
            return f"nullif({self.comparable(args[0], args[1], names)}, {self.comparable(args[1], args[0], names)})"
        if op in GROWING:
            return self._texts.text(expr, names)
        special = getattr(self, f"_op_{op}", None)
        if special is not None:
            return str(special(expr, args, names))
        if op in _SIMPLE:
            return _SIMPLE[op].format(*(self.expr(a, names) for a in args))
        if op in FUNCTIONS:
            kinds, spelled = FUNCTIONS[op]
            return spelled.format(*(self._argument(a, kind, names) for a, kind in zip(args, kinds, strict=True)))
        raise Refusal(FEATURE_NOT_SUPPORTED, f"`{op}` is not supported over private tables on DuckDB")

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
        if escape is None and isinstance(args[1], Lit) and "\\" in (args[1].text or ""):
            escape = "'\\'"
        return f"({value} {word} {pattern}{f' ESCAPE {escape}' if escape else ''})"

    def output(self, expr: Expr, names: Names) -> str:
        text = self.expr(expr, names)
        summed = isinstance(expr, Agg | Win) and expr.name == "sum"  # SUM of BIGINT is a HUGEINT
        wide = expr.type in INTEGERS and (summed or representation(expr) != "BIGINT")
        return f"TRY_CAST({text} AS BIGINT)" if wide and not isinstance(expr, Ref) else text

    def comparable(self, expr: Expr, other: Expr, names: Names) -> str:
        text = self.expr(expr, names)
        numbers = (*INTEGERS, "numeric", *FLOATS)
        if expr.type in numbers and other.type in numbers:
            if _one_kind((expr, other)):
                return text
            if expr.type in INTEGERS and other.type in INTEGERS:
                return text
            return self.number(expr, names, "DOUBLE")
        times = ("date", "timestamp", "timestamptz")
        if expr.type in times and other.type in times and expr.type != other.type:
            return f"TRY_CAST({text} AS TIMESTAMP)"
        return text

    def as_type(self, expr: Expr, type_: str, names: Names) -> str:
        if isinstance(expr, Lit) and expr.text is None:
            return self.literal(type_, None)
        if type_ in INTEGERS:
            return self.expr(expr, names)
        if type_ in ("numeric", *FLOATS):
            return self.number(expr, names, "DOUBLE")
        if type_ in ("timestamp", "timestamptz"):
            return f"TRY_CAST({self.expr(expr, names)} AS TIMESTAMP)"
        if type_ in TEXTS and expr.type not in (*TEXTS, "unknown"):
            return self.cast(Cast(type_, expr), names)
        return self.expr(expr, names)

    def cast(self, expr: Cast, names: Names) -> str:
        source, target = expr.arg.type, expr.type
        text = self.expr(expr.arg, names)
        if target in INTEGERS:
            return self._cast_int(expr, text)
        if target in ("numeric", *FLOATS):
            value = f"TRY_CAST({text} AS DOUBLE)"
            if target == "float4":
                return f"CAST(TRY_CAST({value} AS FLOAT) AS DOUBLE)"
            if target == "numeric" and source in FLOATS:
                value = snapped(value)
            return f"round({value}, {expr.length[1] if len(expr.length) > 1 else 0})" if expr.length else value
        if target in TEXTS:
            value = self._cast_text(expr.arg, text)
            return f"left({value}, {expr.length[0]})" if expr.length and target != "text" else value
        if target == "bool" and source in INTEGERS:
            return f"({text} <> 0)"
        if target in _TYPES:
            return text if source == target else f"TRY_CAST({text} AS {_TYPES[target]})"
        raise Refusal(FEATURE_NOT_SUPPORTED, f"casts to {target} are not supported over private tables")

    def _cast_int(self, expr: Cast, text: str) -> str:
        source = expr.arg.type
        if source == "bool":
            return f"CAST({text} AS BIGINT)"
        narrow = {"int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT"}[expr.type]
        if source in INTEGERS:
            fits = facts(expr.arg).span.within({"int2": 2**15 - 1, "int4": 2**31 - 1, "int8": INT64}[expr.type])
            return text if fits else f"CAST(TRY_CAST({text} AS {narrow}) AS BIGINT)"
        if source == "numeric":
            text = f"round({text})"
        return f"CAST(TRY_CAST({text} AS {narrow}) AS BIGINT)" if narrow != "BIGINT" else f"TRY_CAST({text} AS BIGINT)"

    def _cast_text(self, arg: Expr, text: str) -> str:
        if arg.type in INTEGERS and representation(arg) == "DOUBLE":  # whose text has a `.0`
            return f"CAST(TRY_CAST({text} AS BIGINT) AS VARCHAR)"
        if arg.type in (*TEXTS, "unknown", "uuid", *INTEGERS, "date", "timestamp", "bool"):
            return f"CAST({text} AS VARCHAR)"
        if arg.type in ("numeric", *FLOATS) and facts(arg).grid == 1:
            return f"CAST(TRY_CAST({text} AS BIGINT) AS VARCHAR)"
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            f"casting {arg.type} to text is not supported below an aggregate",
            hint="Group by the value itself and format it in the outer query.",
        )

    def aggregate(self, expr: Agg, names: Names) -> str:
        if expr.name in ("min", "max") and expr.args[0].type == "interval":
            return self.extreme_interval(expr, names)
        distinct = "DISTINCT " if expr.distinct else ""
        where = f" FILTER (WHERE {self.expr(expr.where, names)})" if expr.where is not None else ""
        exact = self._added_up(expr, distinct, where, names)
        if exact is not None:
            return exact
        args = [self.expr(a, names) for a in expr.args]
        order = f" ORDER BY {self.order(expr.order, names)}" if expr.order else ""
        if expr.name.startswith(("stddev", "var")):  # of equal rows in another order they differ in the last digits
            args = [self.number(expr.args[0], names, "DOUBLE")]
            order = f" ORDER BY {args[0]}"
        inner = distinct + (", ".join(args) if args else "*")
        text = f"{expr.name}({inner}{order}){where}"
        as_it_is = expr.name in ("min", "max") and _one_kind(expr.args)
        return f"CAST({text} AS DOUBLE)" if expr.type in ("numeric", *FLOATS) and not as_it_is else text

    def window(self, expr: Win, names: Names) -> str:
        """DuckDB raises for ntile(0), and for an nth value before the first; a number of tiles may be a column."""
        if expr.name in ("ntile", "nth_value"):
            *first, number = expr.args
            number = Call("int8", "greatest", (Call("int8", "least", (number, Lit("int4", str(INT32)))), Lit("int4", "1")))
            expr = replace(expr, args=(*first, number))
        return self._added_up(expr, "", self.over(expr, names), names) or super().window(expr, names)

    def _added_up(self, expr: Agg | Win, distinct: str, tail: str, names: Names) -> str | None:
        """A sum or mean of what is not BIGINT (whose sums are of 128 bits); None for other aggregates."""
        if expr.name not in ("sum", "avg") or (expr.args[0].type in INTEGERS and representation(expr.args[0]) == "BIGINT"):
            return None
        (value,) = expr.args
        return sums.total(expr.name, value, self.number(value, names, "DOUBLE"), distinct, tail)

    def fixed(self, expr: Expr, lo: int, hi: int, grid: Fraction, center: Fraction, names: Names) -> str:
        """The test of the usual case comes first: least and greatest cost several times as much.

        A DOUBLE within the float bounds is rounded to within the whole ones: each side errs by less than 2**32 * 2**-50.
        """
        shift = center / grid
        low, high = lo + int(shift), hi + int(shift)
        if shift.denominator != 1 or max(abs(low), abs(high)) > 2**32:
            raise ValueError("a centre off the grid, or more steps than are known to round well")
        if expr.type in INTEGERS and grid == 1 and representation(expr) != "DOUBLE":
            text = self.expr(expr, names)
            value = f"CASE WHEN {text} BETWEEN {low} AND {high} THEN {text} "
            value += f"WHEN {text} < {low} THEN {low} WHEN {text} > {high} THEN {high} END"
        else:
            text = self.number(expr, names, "DOUBLE")
            first, last = (f"CAST('{float(x * grid)!r}' AS DOUBLE)" for x in (low, high))
            scaled = text if grid == 1 else _scaled(text, grid)
            type_ = "INTEGER" if max(abs(low), abs(high)) <= INT32 else "BIGINT"
            # NaN sorts above everything in DuckDB: keep it out by hand, as it is nobody's value
            value = f"CASE WHEN {text} BETWEEN {first} AND {last} THEN CAST({scaled} AS {type_}) WHEN isnan({text}) THEN NULL "
            value += f"WHEN {text} < {first} THEN {low} WHEN {text} > {last} THEN {high} END"
        return value if shift == 0 else f"(CAST({value} AS BIGINT) - {int(shift)})"

    def addend(self, expr: Expr, lo: int, hi: int, grid: Fraction, names: Names) -> tuple[str, int]:
        """DECIMALs are summed as such: as DOUBLE they cost twice as much. What does not fit DECIMAL(18) is out of bounds."""
        places = len(str(grid.denominator)) - 1
        if expr.type != "numeric" or grid != Fraction(1, 10**places) or places > DECIMALS:
            return super().addend(expr, lo, hi, grid, names)
        text = self.expr(expr, names)
        narrow, wide, type_ = f"TRY_CAST({text} AS DECIMAL(18, {places}))", f"CAST({text} AS DOUBLE)", f"DECIMAL(18, {places})"
        first, last = (f"CAST('{decimal(x * grid)}' AS {type_})" for x in (lo, hi))
        value = f"CASE WHEN {narrow} BETWEEN {first} AND {last} THEN {narrow} WHEN {text} IS NULL OR isnan({wide}) THEN NULL "
        return f"{value}WHEN {wide} < {float((lo + hi) * grid / 2)!r} THEN {first} ELSE {last} END", 10**places

    def pick_hash(self, columns: list[str], key: int) -> str:
        return f"hash({', '.join([str(key), *columns])})"

    def group_number(self, columns: list[str], key: int) -> str:
        return f"CAST({self.pick_hash(columns, key)} >> 1 AS BIGINT)"

    def wide_sum(self, text: str) -> str:
        # NULL out first: least and greatest skip NULLs, so that an empty sum would come out as -LIMIT
        return self.saturated(f"sum({text})")

    def total(self, column: str, shift: int, factor: int = 1) -> str:
        units = f"sum({column})" if factor == 1 else f"CAST(sum({column}) * {factor} AS HUGEINT)"
        return units if shift == 0 else f"({units} - CAST(count({column}) AS HUGEINT) * {shift})"

    def clamped(self, number: str, lo: int, hi: int) -> str:
        type_ = "INTEGER" if max(-lo, hi) <= INT32 else "BIGINT"
        within = f"WHEN {number} BETWEEN {lo} AND {hi} THEN {number}"
        return f"CAST(CASE {within} WHEN {number} < {lo} THEN {lo} WHEN {number} > {hi} THEN {hi} ELSE 0 END AS {type_})"

    def quotient(self, text: str, by: str) -> str:
        return f"({text} // {by})"

    def series(self, lo: int, hi: int, kind: str) -> str:
        numbers = f"range({lo}, {hi + 1}) AS s(n)"
        if kind == "int":
            return f"(SELECT n AS v FROM {numbers})"
        if kind == "day":
            return f"(SELECT DATE '1970-01-01' + CAST(n AS INTEGER) AS v FROM {numbers})"
        return f"(SELECT TIMESTAMP '1970-01-01' + to_hours(n) AS v FROM {numbers})"

    def column(self, column: Column, text: str) -> str:
        if column.zone:
            return FUNCTIONS["from_utc"][1].format(f"timezone('UTC', {text})", quote(column.zone))
        # of moments of other precisions: to compare one with a usual one DuckDB makes that one of the finer, and may raise
        return f"TRY_CAST({text} AS TIMESTAMP)" if column.exact.startswith("TIMESTAMP_") else text


def _one_kind(exprs: Sequence[Expr]) -> bool:
    """Columns of one of DuckDB's own types of numbers, whose values need not be doubles to be compared."""
    kinds = {e.column.exact if isinstance(e, Ref) else "" for e in exprs}
    return len(kinds) == 1 and "" not in kinds


def _scaled(text: str, grid: Fraction) -> str:
    inverse = 1 / grid
    sign, factor = ("*", inverse) if inverse.denominator == 1 else ("/", grid)
    return f"{text} {sign} CAST('{float(factor)!r}' AS DOUBLE)"
