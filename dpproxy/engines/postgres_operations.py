"""PostgreSQL's spelling of operators and functions, total by construction: NULL where PostgreSQL would raise.

Knows: the planner's operations, in which kind of number each computes, and the domains of PostgreSQL's functions. Must not know:
aggregates, measurements, policies. An operation is spelled by a template of `postgres_functions` or of this file where its
arguments need no thought, and by a method `_op_<name>` where they do; what has neither is refused. Guards are CASE expressions:
see `engines.postgres`, which adds types, aggregates and what measurements need.
"""

from __future__ import annotations

from dpproxy.engines import postgres_times as times
from dpproxy.engines.base import APART, Engine, Names, held_number, quote
from dpproxy.engines.postgres_casts import TYPES
from dpproxy.engines.postgres_functions import FUNCTIONS
from dpproxy.engines.postgres_numbers import ARITHMETIC, Arithmetic, number_kind
from dpproxy.engines.text_cuts import Growth, null_beyond_limit
from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_ESCAPE_SEQUENCE, Refusal
from dpproxy.plan.properties.facts import LARGEST, facts, fits_int4
from dpproxy.plan.properties.text_growth import CUTS, grows
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS
from dpproxy.tree.expr import Call, Cast, Expr, Hole, Lit, Ref

_SIMPLE = {
    "is_null": "({0} IS NULL)", "is_not_null": "({0} IS NOT NULL)", "not": "(NOT {0})",
    "is_true": "({0} IS TRUE)", "is_not_true": "({0} IS NOT TRUE)",
    "is_false": "({0} IS FALSE)", "is_not_false": "({0} IS NOT FALSE)",
    "lower": "lower({0})", "upper": "upper({0})", "length": "length({0})", "trim": "btrim({0}, {1})",
    "ltrim": "ltrim({0}, {1})", "rtrim": "rtrim({0}, {1})", "strpos": "strpos({0}, {1})", "reverse": "reverse({0})",
    "starts_with": "starts_with({0}, {1})", "md5": "md5({0})", "lpad": "lpad({0}, {1}::int, {2})",
    "rpad": "rpad({0}, {1}::int, {2})", "regex": "({0} ~ {1})", "iregex": "({0} ~* {1})",
}  # fmt: skip
_PARTS = {"year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "hour", "minute", "isoyear"}
_COMPARE = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "is_distinct": "IS DISTINCT FROM",
            "is_not_distinct": "IS NOT DISTINCT FROM"}  # fmt: skip
INT32 = LARGEST["int4"]
_DEFAULTS = {"text": "''::text", "boolean": "FALSE", "date": "'2000-01-01'::date", "timestamp": "'2000-01-01'::timestamp",
             "interval": "'0'::interval", "time": "'0:0'::time",
             "uuid": "'00000000-0000-0000-0000-000000000000'::uuid"}  # fmt: skip


class PostgresOperations(Engine):
    """What of the engine spells operators and functions."""

    def __init__(self, cut: int = CUTS[0]) -> None:
        self._numbers = Arithmetic(self)
        self._texts = Growth(self, cut)

    def number(self, expr: Expr, names: Names, wanted: str) -> str:
        assert wanted in ("bigint", "numeric", "float8")
        return self._numbers.number(expr, names, wanted)  # type: ignore[arg-type]

    def call(self, op: str, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        if op in ("and", "or"):
            return "(" + f" {op.upper()} ".join(self.expr(a, names) for a in args) + ")"
        if op in _COMPARE:
            a, b = args
            left, right = self.comparable(a, b, names), self.comparable(b, a, names)
            if op == "is_not_distinct" and a.type == b.type in TYPES and isinstance(a, Ref) and isinstance(b, Ref):
                return f"({self.same(left, right, a.type)})"
            return f"({left} {_COMPARE[op]} {right})"
        if op in ARITHMETIC:
            return self._numbers.operation(expr, names)
        if op in _PARTS:
            return times.part(op, self.expr(args[0], names), args[0].type)
        if grows(expr):
            return self._texts.text(expr, names)
        if op in ("coalesce", "least", "greatest"):
            return f"{op}(" + ", ".join(self._choice(a, expr, names) for a in args) + ")"
        special = getattr(self, f"_op_{op}", None)
        if special is not None:
            return str(special(expr, args, names))
        if op in _SIMPLE:
            texts = [self.expr(a, names) for a in args]
            return null_beyond_limit(op, _SIMPLE[op].format(*texts), args, texts)
        if op in FUNCTIONS:
            kinds, spelled = FUNCTIONS[op]
            texts = [self._argument(a, kind, names) for a, kind in zip(args, kinds, strict=True)]
            return null_beyond_limit(op, spelled.format(*texts), args, texts)
        raise Refusal(FEATURE_NOT_SUPPORTED, f"`{op}` is not supported over private tables on PostgreSQL", hint=APART)

    def _argument(self, arg: Expr, kind: str, names: Names) -> str:
        """An argument of `postgres_functions`: f float8, d numeric, i bigint, t as it stands."""
        if kind in "fd":
            return self.number(arg, names, "float8" if kind == "f" else "numeric")
        return self.output(arg, names) if kind == "i" else self.expr(arg, names)

    def _choice(self, arg: Expr, whole: Expr, names: Names) -> str:
        """An operand of COALESCE and its like: whole numbers keep the kind of the whole."""
        return self.number(arg, names, number_kind(whole)) if whole.type in INTEGERS else self.as_type(arg, whole.type, names)

    def _op_row(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """Several values as one that is never NULL: a record's text, since an anonymous record within another has no hash."""
        return f"(ROW({', '.join(self.key(a, names) for a in args)})::text)"

    def replaced(self, text: str, rest: list[str]) -> str:
        return f"regexp_replace({', '.join([text, *rest])})"

    def plain(self, text: str, type_: str) -> str:
        return f"trim_scale({text})" if type_ == "numeric" else f"({text} + '0'::float8)"

    def _place(self, arg: Expr, names: Names) -> str:
        """A number of characters as an int, which a bigint may be too large for."""
        text = self.output(arg, names)
        return f"{text if fits_int4(arg) else held_number(text, -INT32, INT32)}::int"

    def _op_left(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return f"{expr.op}({self.expr(args[0], names)}, {self._place(args[1], names)})"

    _op_right = _op_left

    def _op_split_part(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """There is no field 0: PostgreSQL raises."""
        place = self._place(args[2], names)
        known = isinstance(args[2], Lit) and args[2].text not in (None, "0")
        return (
            f"split_part({self.expr(args[0], names)}, {self.expr(args[1], names)}, {place if known else f'NULLIF({place}, 0)'})"
        )

    def _op_substring(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """PostgreSQL raises for a length below 0."""
        places = [self._place(a, names) for a in args[1:]]
        least = facts(args[-1]).span.lo
        if len(places) > 1 and (least is None or least < 0):
            places[1] = held_number(places[1], 0, INT32)
        return f"substr({', '.join([self.expr(args[0], names), *places])})"

    _op_substring_from = _op_substring

    def _op_nullif(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value, other = args
        text, equal = self.expr(value, names), f"{self.comparable(value, other, names)} = {self.comparable(other, value, names)}"
        return f"(CASE WHEN {equal} THEN NULL ELSE {text} END)"

    def _op_round(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._rounded("round", expr, args, names)

    def _op_trunc(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._rounded("trunc", expr, args, names)

    def _rounded(self, name: str, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        if len(args) > 1:
            digits = args[1]
            assert isinstance(digits, Lit)
            return f"{name}({self.number(args[0], names, 'numeric')}, {int(digits.text or 0)})"
        return f"{name}({self.number(args[0], names, number_kind(expr))})"

    def _op_floor(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return f"floor({self.number(args[0], names, number_kind(expr))})"

    def _op_ceil(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return f"ceil({self.number(args[0], names, number_kind(expr))})"

    def _op_sign(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, number_kind(args[0]) if number_kind(args[0]) != "bigint" else "float8")
        arms = f"WHEN {value} = 0 THEN 0 WHEN {value} < 0 THEN -1 WHEN {value} <= 'Infinity' THEN 1"  # NaN is above it
        return f"(CASE {arms} END)::bigint"

    def _exactly(self, arg: Expr, whole: Expr, names: Names) -> str:
        """An argument whose digits decide how many the result has: 1.0 and 1.00 must have one result."""
        text = self.number(arg, names, number_kind(whole))
        return self.plain(text, "numeric") if number_kind(whole) == "numeric" else text

    def _op_sqrt(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self._exactly(args[0], expr, names)
        return f"(CASE WHEN {value} >= 0 THEN sqrt({value}) END)"

    def _op_ln(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self._exactly(args[0], expr, names)
        return f"(CASE WHEN {value} > 0 THEN ln({value}) END)"

    def _op_log(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self._exactly(args[0], expr, names)
        return f"(CASE WHEN {value} > 0 THEN log({value}) END)"

    def _op_exp(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self._exactly(args[0], expr, names)
        return f"(CASE WHEN {value} IS NOT NULL THEN exp(greatest(least({value}, 700), -700)) END)"

    def _op_power(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """NULL where PostgreSQL raises: 0 to a negative power, fractional powers of negatives, results beyond e**690."""
        base, exponent = (self._numbers.limited(Cast(expr.type, a), names, 25) for a in args)
        if number_kind(expr) == "numeric":
            base, exponent = self.plain(base, "numeric"), self.plain(exponent, "numeric")
        whole = f"{base} > 0 OR ({base} < 0 AND {exponent} = floor({exponent}))"
        fits = f"CASE WHEN abs({exponent} * ln(abs({base}))) < 690 THEN power({base}, {exponent}) END"
        zero = f"CASE WHEN {exponent} > 0 THEN 0 WHEN {exponent} = 0 THEN 1 END"
        return f"(CASE WHEN {base} = 0 THEN ({zero})::{number_kind(expr)} WHEN {whole} THEN {fits} END)"

    def _op_limit(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """A number held within a power of ten: the planner's own, made by `postgres_numbers` around subqueries."""
        leaf = args[1]
        assert isinstance(leaf, Lit)
        return self._numbers.limited(args[0], names, int(leaf.text or 0))

    def _op_date_add(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.date_shift("+", *(self.expr(a, names) for a in args))

    def _op_date_sub(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.date_shift("-", *(self.expr(a, names) for a in args))

    def _op_date_diff(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.date_difference(*(self.expr(a, names) for a in args))

    def _op_ts_add(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._shifted("+", args, names)

    def _op_ts_sub(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._shifted("-", args, names)

    def _shifted(self, sign: str, args: tuple[Expr, ...], names: Names) -> str:
        stamp, interval = (self.expr(a, names) for a in args)
        known = args[1]
        if isinstance(known, Lit) and known.text is not None:
            months, days, micros = (int(x) for x in known.text.split())
            return times.constant_shift(sign, stamp, interval, months, days, micros)
        return times.shift(sign, stamp, interval)

    def _op_ts_diff(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.difference(*(self.expr(a, names) for a in args))

    def _op_trunc_time(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        unit = args[0]
        assert isinstance(unit, Lit)
        return times.truncated(unit.text or "", self.expr(args[1], names))

    def _op_strftime(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        pattern = args[1]
        assert isinstance(pattern, Lit)
        return times.formatted(self.expr(args[0], names), pattern.text or "")

    def _op_epoch(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return f"EXTRACT(epoch FROM {self.expr(args[0], names)})::{number_kind(expr)}"

    def _op_second(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return f"EXTRACT(second FROM {self.expr(args[0], names)})::{number_kind(expr)}"

    def _like(self, word: str, args: tuple[Expr, ...], names: Names) -> str:
        value, pattern = self.expr(args[0], names), self.expr(args[1], names)
        if isinstance(args[1], Hole):
            # a pattern that ends in its escape character raises, but only for rows that match so far
            known = f"(CASE WHEN {pattern} ~ '^([^\\\\]|\\\\.)*$' THEN {value} {word} {pattern} END)"
            return null_beyond_limit(word.lower(), known, args[:2], [value, pattern])
        if not isinstance(args[1], Lit):
            return null_beyond_limit(word.lower(), self._like_of_row(word, value, pattern), args[:1], [value])
        if len(args) == 2:
            return null_beyond_limit(word.lower(), f"({value} {word} {pattern})", args, [value, pattern])
        escape = args[2]
        if not isinstance(escape, Lit) or len(escape.text or "") > 1:
            raise Refusal(
                INVALID_ESCAPE_SEQUENCE, "invalid escape string", hint="The escape string must be empty or one character."
            )
        return null_beyond_limit(
            word.lower(), f"({value} {word} {pattern} ESCAPE {quote(escape.text or '')})", args[:2], [value, pattern]
        )

    def same(self, a: str, b: str, type_: str) -> str:
        """Equality that finds NULL equal to NULL and still hashes, unlike IS NOT DISTINCT FROM."""
        native = TYPES.get(type_, "text")
        zero = _DEFAULTS.get(native, "0")
        return f"coalesce({a}, {zero}) = coalesce({b}, {zero}) AND ({a} IS NULL) = ({b} IS NULL)"

    def comparable(self, expr: Expr, other: Expr, names: Names) -> str:
        """PostgreSQL compares whole numbers with numeric, and dates with timestamps, exactly and without a cast that
        raises; of numeric and float8 the first must be narrowed by hand."""
        floats = any(e.type.removesuffix("[]") in FLOATS for e in (expr, other))
        if floats and expr.type in NUMBERS and expr.type not in FLOATS:
            return self.number(expr, names, "float8")
        return self.expr(expr, names)
