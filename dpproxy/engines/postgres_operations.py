"""PostgreSQL's spelling of operators and functions, total by construction: NULL where PostgreSQL would raise.

Knows: the planner's operations, in which kind of number each computes, and the domains of PostgreSQL's functions. Must not know:
aggregates, measurements, policies. An operation is spelled by the template of its row (`plan.operations.catalogue`) where its
operands need no thought, and by a method of this file where they do. Guards are CASE expressions: see `engines.postgres`, which
adds types, aggregates and what measurements need.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.engines import postgres_casts as times
from dpproxy.engines.base import Engine, Names, held_number, quote
from dpproxy.engines.postgres_casts import TYPES
from dpproxy.engines.postgres_numbers import HELD, Arithmetic, number_kind
from dpproxy.engines.spelling import Operand
from dpproxy.errors import INVALID_ESCAPE_SEQUENCE, Refusal
from dpproxy.plan.operations.bounds import MOST
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Operation, constant
from dpproxy.plan.properties.facts import LARGEST, facts, fits_int4
from dpproxy.plan.properties.text_growth import CUTS
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TEXTS
from dpproxy.tree.expr import Call, Cast, Expr, Hole, Lit, Ref

# Texts that are too long for functions that may need several bytes for one.
#
# Knows: rows of the catalogue, lengths. Must not know: tables, measurements. Where longer texts are made of shorter ones,
# columns are cut (`engines.base.Engine.grown`) to the length with which `plan.measure.amplification` found the whole
# measurement to stay within its limits. Functions that need several bytes for one are not computed of texts beyond a length.


LONG = 100_000_000  # bytes of a text that such functions are given: they may take eight for one, and raise beyond 1 GB


def null_beyond_limit(body: str, args: Sequence[Expr], texts: Sequence[object]) -> str:
    """NULL where an argument, of the texts given, is too long for it to be computed."""
    long = [f"{text}" for arg, text in zip(args, texts, strict=True) if not _known_short(arg)]
    if not long:
        return body
    return f"(CASE WHEN {' AND '.join(f'octet_length({text}) <= {LONG}' for text in long)} THEN {body} END)"


def _known_short(arg: Expr) -> bool:
    """Whether a text is at most `LONG` whatever the data: a constant, formatted, guarded, or a part of such a one."""
    match arg:
        case Lit() | Hole():
            return True
        case Cast(arg=inner):
            return inner.type not in (*TEXTS, "unknown") or _known_short(inner)
        case Call(op=op, args=args):
            row = operation(op)
            if row.part:
                return _known_short(args[0])
            return row.widens or row.grows or (row.length is not None and row.length([MOST] * len(args), args) < LONG)
    return False


INT32 = LARGEST["int4"]
_DEFAULTS = {"text": "''::text", "boolean": "FALSE", "date": "'2000-01-01'::date", "timestamp": "'2000-01-01'::timestamp",
             "interval": "'0'::interval", "time": "'0:0'::time",
             "uuid": "'00000000-0000-0000-0000-000000000000'::uuid"}  # fmt: skip


class PostgresOperations(Engine):
    """What of the engine spells operators and functions."""

    def __init__(self, cut: int = CUTS[0]) -> None:
        self._numbers = Arithmetic(self)
        self.cut = cut

    def number(self, expr: Expr, names: Names, wanted: str) -> str:
        assert wanted in ("bigint", "numeric", "float8")
        return self._numbers.number(expr, names, wanted)  # type: ignore[arg-type]

    def call(self, call: Call, names: Names) -> str:
        if call.op == HELD:
            return self._numbers.limited(call.args[0], names, int(constant(call.args[1])))
        return super().call(call, names)

    def operand(self, arg: Expr, call: Call, names: Names, form: str) -> str:
        """Of PostgreSQL: `f` float8, `d` numeric, `i` bigint, `k` the kind of number that the result is, `x` the same in as few
        digits as it has, `p` a place of 32 bits."""
        match form:
            case "f":
                return self.number(arg, names, "float8")
            case "d":
                return self.number(arg, names, "numeric")
            case "i":
                return self.output(arg, names)
            case "k":
                return self.number(arg, names, number_kind(call))
            case "p":
                return self._place(arg, names)
            case "w":
                return self._choice(arg, call, names)
            case "x":
                return self._exactly(arg, call, names)
        return super().operand(arg, call, names, form)

    def guarded(self, row: Operation, call: Call, operands: Sequence[Operand], text: str) -> str:
        return null_beyond_limit(text, call.args, operands) if row.widens else text

    def type_of(self, call: Call) -> str:
        return number_kind(call)

    def spell_arithmetic(self, expr: Call, names: Names) -> str:
        return self._numbers.operation(expr, names)

    def spell_not_distinct(self, expr: Call, names: Names) -> str:
        a, b = expr.args
        left, right = self.comparable(a, b, names), self.comparable(b, a, names)
        if a.type == b.type in TYPES and isinstance(a, Ref) and isinstance(b, Ref):
            return f"({self.same(left, right, a.type)})"
        return f"({left} IS NOT DISTINCT FROM {right})"

    def spell_part(self, expr: Call, names: Names, unit: str) -> str:
        return times.part(unit, self.expr(expr.args[0], names), expr.args[0].type)

    def spell_endless_part(self, expr: Call, names: Names, unit: str) -> str:
        return times.endless_part(unit, self.expr(expr.args[0], names), expr.args[0].type)

    def _choice(self, arg: Expr, whole: Expr, names: Names) -> str:
        """An operand of COALESCE and its like: whole numbers keep the kind of the whole."""
        return self.number(arg, names, number_kind(whole)) if whole.type in INTEGERS else self.as_type(arg, whole.type, names)

    def plain(self, text: str, type_: str) -> str:
        return f"trim_scale({text})" if type_ == "numeric" else f"({text} + '0'::float8)"

    def _place(self, arg: Expr, names: Names) -> str:
        """A number of characters as an int, which a bigint may be too large for."""
        text = self.output(arg, names)
        return f"{text if fits_int4(arg) else held_number(text, -INT32, INT32)}::int"

    def spell_split_part(self, expr: Call, names: Names) -> str:
        """There is no field 0: PostgreSQL raises."""
        args = expr.args
        place = self._place(args[2], names)
        known = isinstance(args[2], Lit) and args[2].text not in (None, "0")
        return (
            f"split_part({self.expr(args[0], names)}, {self.expr(args[1], names)}, {place if known else f'NULLIF({place}, 0)'})"
        )

    def spell_substring(self, expr: Call, names: Names) -> str:
        """PostgreSQL raises for a length below 0."""
        args = expr.args
        places = [self._place(a, names) for a in args[1:]]
        least = facts(args[-1]).span.lo
        if len(places) > 1 and (least is None or least < 0):
            places[1] = held_number(places[1], 0, INT32)
        return f"substr({', '.join([self.expr(args[0], names), *places])})"

    def spell_rounded(self, expr: Call, names: Names, name: str) -> str:
        args = expr.args
        if len(args) > 1:
            digits = args[1]
            assert isinstance(digits, Lit)
            return f"{name}({self.number(args[0], names, 'numeric')}, {int(digits.text or 0)})"
        return f"{name}({self.number(args[0], names, number_kind(expr))})"

    def spell_sign(self, expr: Call, names: Names) -> str:
        (arg,) = expr.args
        value = self.number(arg, names, "float8" if number_kind(arg) == "bigint" else number_kind(arg))
        arms = f"WHEN {value} = 0 THEN 0 WHEN {value} < 0 THEN -1 WHEN {value} <= 'Infinity' THEN 1"  # NaN is above it
        return f"(CASE {arms} END)::bigint"

    def _exactly(self, arg: Expr, whole: Expr, names: Names) -> str:
        """An argument whose digits decide how many the result has: 1.0 and 1.00 must have one result."""
        text = self.number(arg, names, number_kind(whole))
        return self.plain(text, "numeric") if number_kind(whole) == "numeric" else text

    def spell_power(self, expr: Call, names: Names) -> str:
        """NULL where PostgreSQL raises: 0 to a negative power, fractional powers of negatives, results beyond e**690."""
        base, exponent = (self._numbers.limited(Cast(expr.type, a), names, 25) for a in expr.args)
        if number_kind(expr) == "numeric":
            base, exponent = self.plain(base, "numeric"), self.plain(exponent, "numeric")
        whole = f"{base} > 0 OR ({base} < 0 AND {exponent} = floor({exponent}))"
        fits = f"CASE WHEN abs({exponent} * ln(abs({base}))) < 690 THEN power({base}, {exponent}) END"
        zero = f"CASE WHEN {exponent} > 0 THEN 0 WHEN {exponent} = 0 THEN 1 END"
        return f"(CASE WHEN {base} = 0 THEN ({zero})::{number_kind(expr)} WHEN {whole} THEN {fits} END)"

    def spell_shifted(self, expr: Call, names: Names, sign: str) -> str:
        args = expr.args
        stamp, interval = (self.expr(a, names) for a in args)
        known = args[1]
        if isinstance(known, Lit) and known.text is not None:
            months, days, micros = (int(x) for x in known.text.split())
            return times.constant_shift(sign, stamp, interval, months, days, micros)
        return times.shift(sign, stamp, interval)

    def spell_printed(self, expr: Call, names: Names) -> str:
        return times.formatted(self.expr(expr.args[0], names), constant(expr.args[1]))

    def spell_like(self, expr: Call, names: Names, word: str) -> str:
        text = self._like(word, expr.args, names)
        return null_beyond_limit(text, expr.args[:1], [self.expr(expr.args[0], names)]) if operation(expr.op).widens else text

    def _like(self, word: str, args: Sequence[Expr], names: Names) -> str:
        value, pattern = self.expr(args[0], names), self.expr(args[1], names)
        if isinstance(args[1], Hole):
            # a pattern that ends in its escape character raises, but only for rows that match so far
            return f"(CASE WHEN {pattern} ~ '^([^\\\\]|\\\\.)*$' THEN {value} {word} {pattern} END)"
        if not isinstance(args[1], Lit):
            return self.like_of_row(word, value, pattern)
        if len(args) == 2:
            return f"({value} {word} {pattern})"
        escape = args[2]
        if not isinstance(escape, Lit) or len(escape.text or "") > 1:
            raise Refusal(
                INVALID_ESCAPE_SEQUENCE, "invalid escape string", hint="The escape string must be empty or one character."
            )
        return f"({value} {word} {pattern} ESCAPE {quote(escape.text or '')})"

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
