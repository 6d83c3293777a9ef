"""Arithmetic in PostgreSQL, total: which kind of number an expression computes in, and where its leaves are guarded.

Knows: the planner's expressions, the reach of numbers. Must not know: tables, measurements. Whole numbers compute as
bigint where their span allows, else as numeric (exact); NUMERIC computes as numeric, floats as float8. A tree of
arithmetic is rendered as one: leaves of unknown size are guarded so that no node of it can raise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

from dpproxy.engines.base import Names, check_number
from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.plan.properties.facts import facts, literal_number
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit, Ref, Scalar

# How far numbers may go in PostgreSQL before an operation raises, and the guards that keep them within.
#
# Knows: PostgreSQL's limits on float8 (a result that becomes infinite or 0 raises) and numeric (131,072 digits before the
# point). Must not know: tables, policies. A `Reach` bounds the finite values of an expression by powers of ten; leaves of
# arithmetic are guarded so that no node of the tree can pass the limits. Infinities and NaN pass through float8 and numeric
# arithmetic without raising, so what lies beyond a guard becomes an infinity, as it would in DuckDB.


Kind = Literal["bigint", "numeric", "float8"]

INT64 = 2**63 - 1
DIGITS = 19  # of a bigint
FLOAT_LIMIT = 300  # powers of ten, within float8's 1e-307..1e308
NUMERIC_LIMIT = 100_000  # digits before the point, below 131,072
SCALE = 16_383  # most digits after the point of a numeric
CANCELLED = 17  # a difference of doubles is 0 or at least this many powers of ten below its operands
PLAIN = 100  # characters of what is a column, or little more: its size is looked at first without its sign
LEAVES: dict[Kind, tuple[int, ...]] = {"float8": (100, 60, 40, 25, 15), "numeric": (1_000, 100, 30), "bigint": (DIGITS,)}
"""Powers of ten at which leaves are guarded: the first with which the whole tree stays within the limits is taken."""


class TooFar(Exception):
    """No guard of this size keeps the expression within the limits."""


@dataclass(frozen=True)
class Reach:
    """Every finite value but 0 has a magnitude in [10**-low, 10**high]."""

    low: int
    high: int

    def within(self, kind: Kind) -> Reach:
        """Return the reach itself. Raises TooFar beyond the limits of `kind`."""
        if kind == "float8" and max(self.low, self.high) > FLOAT_LIMIT:
            raise TooFar
        if kind == "numeric" and self.high > NUMERIC_LIMIT:
            raise TooFar
        return Reach(min(self.low, SCALE), self.high) if kind == "numeric" else self


WHOLE = Reach(0, DIGITS)


def hull(parts: list[Reach]) -> Reach:
    return Reach(max(p.low for p in parts), max(p.high for p in parts))


def of_constant(value: Fraction) -> Reach:
    """Return the reach of one number."""
    if value == 0:
        return Reach(0, 0)
    size = abs(value)
    high = len(str(size.__ceil__()))
    low = len(str((1 / size).__ceil__()))
    return Reach(low, high)


def combined(op: str, kind: Kind, a: Reach, b: Reach) -> Reach:
    """Return the reach of `a op b`. Raises TooFar."""
    if op == "*":
        return Reach(a.low + b.low, a.high + b.high).within(kind)
    if op in ("/", "int/"):
        low = a.low + b.high if kind == "float8" else SCALE
        return Reach(low, a.high + b.low).within(kind)
    if op == "%":
        return Reach(max(a.low, b.low), max(a.high, b.high)).within(kind)
    lost = CANCELLED if kind == "float8" else 0
    return Reach(max(a.low, b.low) + lost, max(a.high, b.high) + 1).within(kind)


def anchored(constant: Reach, other: Reach) -> Reach:
    """Return the reach of a difference of doubles one of which is a constant other than 0: 0, or not far below it, however tiny
    the other is."""
    return Reach(constant.low + CANCELLED, max(constant.high, other.high) + 1).within("float8")


def guarded(text: str, kind: Kind, leaf: int, tiny: bool = False) -> tuple[str, Reach]:
    """Spell a value of unknown size held within 10**leaf: what is larger becomes an infinity, a tinier float8 0 unless `tiny`."""
    if kind == "float8":
        small = "" if tiny else f"WHEN abs({text}) < '1e-{leaf}'::float8 THEN '0'::float8 "
        inside = f"WHEN abs({text}) <= '1e{leaf}'::float8 THEN {text} "
        usual = f"WHEN {text} >= '1e-{leaf}'::float8 AND {text} <= '1e{leaf}'::float8 THEN {text} " if len(text) < PLAIN else ""
        return f"(CASE {usual}{small}{inside}ELSE {text} * 'Infinity'::float8 END)", Reach(leaf, leaf)
    value = f"(CASE WHEN abs({text}) < '1e{leaf}'::numeric THEN {text} ELSE sign({text}) * 'Infinity'::numeric END)"
    return value, Reach(SCALE, leaf)


def narrowed(text: str) -> str:
    """Spell a numeric as float8: the cast raises beyond its limits, on either side."""
    return (
        f"(CASE WHEN abs({text}) < '1e-100'::numeric THEN '0'::float8 WHEN abs({text}) < '1e100'::numeric "
        f"THEN ({text})::float8 ELSE sign({text})::float8 * 'Infinity'::float8 END)"
    )


NARROW = Reach(100, 100)


ARITHMETIC = {"+", "-", "*", "/", "int/", "%", "neg", "abs", "square"}
HELD = "limit"
"""The planner's own operation around subqueries: a number held within a power of ten."""
_CHOICES = {"coalesce", "least", "greatest"}
_ROUNDING = {"floor", "ceil"}


class Speller(Protocol):
    """Arithmetic needs this of the engine."""

    def expr(self, expr: Expr, names: Names) -> str: ...


def number_kind(expr: Expr) -> Kind:
    """The kind of number an expression of a numeric type is rendered as."""
    if expr.type not in INTEGERS:
        return "float8" if expr.type in FLOATS else "numeric"
    match expr:
        case Call(op=op, args=args) if op in ARITHMETIC:
            wide = not facts(expr).span.within(INT64)
            return "numeric" if wide or any(number_kind(a) != "bigint" for a in args) else "bigint"
        case Call(op=op, args=args) if op in _CHOICES:
            return _widest(args)
        case Call(op="nullif", args=args):
            return number_kind(args[0])
        case Scalar(value=value):
            return number_kind(value)
        case Case(whens=whens, default=default):
            return _widest((*(r for _, r in whens), *((default,) if default is not None else ())))
    return "bigint"


def _widest(args: tuple[Expr, ...]) -> Kind:
    return "numeric" if any(a.type in INTEGERS and number_kind(a) != "bigint" for a in args) else "bigint"


def number_literal(kind_: Kind, text: str) -> str:
    """Spell a number as a constant of a kind; beyond float8 it is an infinity."""
    if kind_ == "bigint" and abs(int(text)) > INT64:
        kind_ = "numeric"
    if kind_ == "float8":
        value = float(text)
        text = "Infinity" if value > 1.7e308 else "-Infinity" if value < -1.7e308 else repr(value)
    return f"'{text}'::{kind_}"


def converted_number(text: str, source: Kind, target: Kind) -> str:
    if source == target:
        return text
    return narrowed(text) if (source, target) == ("numeric", "float8") else f"{text}::{target}"


class Arithmetic:
    """Renders numbers for one engine."""

    def __init__(self, speller: Speller) -> None:
        self._speller = speller

    def number(self, expr: Expr, names: Names, wanted: Kind) -> str:
        """Spell `expr` as a kind of number; never narrower than its own. Raises Refusal."""
        check_number(expr)
        if isinstance(expr, Lit) and expr.text is not None:
            return number_literal(wanted, expr.text)
        text = self._speller.expr(expr, names)
        own = number_kind(expr)
        if own == wanted and expr.type not in ("int2", "int4", "float4"):
            return text
        return f"{text}::{wanted}" if own == wanted else converted_number(text, own, wanted)

    def operation(self, expr: Call, names: Names) -> str:
        """Spell an arithmetic operation. Raises Refusal when no guard keeps it within what PostgreSQL computes."""
        own = number_kind(expr)
        for leaf in LEAVES[own]:
            try:
                return self._tree(expr, names, own, leaf)[0]
            except TooFar:
                continue
        raise Refusal(STATEMENT_TOO_COMPLEX, "this product has too many factors", hint="Compute it in an outer query.")

    def limited(self, expr: Expr, names: Names, leaf: int) -> str:
        """Spell a number, as its own kind, held within 10**leaf: what sums and squares of it need in order not to raise."""
        try:
            return self._tree(expr, names, number_kind(expr), leaf)[0]
        except TooFar:
            return guarded(self._speller.expr(expr, names), number_kind(expr), leaf)[0]

    def _tree(self, expr: Expr, names: Names, as_: Kind, leaf: int, tiny: bool = False) -> tuple[str, Reach]:
        """Text and reach of `expr` as kind `as_`. `tiny`: a leaf may be tinier than its reach says. Raises TooFar."""
        if isinstance(expr, Lit) and expr.text is not None:
            value = literal_number(expr.type, expr.text)
            return number_literal(as_, expr.text), of_constant(value) if value is not None else Reach(leaf, leaf)
        own = number_kind(expr)
        if own != as_:
            return self._changed(expr, names, own, as_, leaf)
        match expr:
            case Call(op=op) if op in ARITHMETIC | _CHOICES | _ROUNDING:
                return self._call(expr, names, as_, leaf)
            case Case(whens=whens, default=default):
                parts = [self._tree(e, names, as_, leaf) for e in (*(r for _, r in whens), *((default,) if default else ()))]
                arms = [f"WHEN {self._speller.expr(t, names)} THEN {p[0]}" for (t, _), p in zip(whens, parts, strict=False)]
                other = f" ELSE {parts[-1][0]}" if default is not None else ""
                return f"(CASE {' '.join(arms)}{other} END)", hull([p[1] for p in parts])
            case Cast(arg=arg, length=()) if arg.type in NUMBERS and expr.type in ("numeric", "float8"):
                return self._tree(arg, names, as_, leaf)
        if as_ == "bigint":
            return self.number(expr, names, as_), WHOLE
        if isinstance(expr, Scalar):  # guarded inside, or it would run three times
            inner = Call(expr.value.type, HELD, (expr.value, Lit("int4", str(leaf))))
            size = Reach(leaf, leaf) if as_ == "float8" else Reach(SCALE, leaf)
            return self._speller.expr(replace(expr, value=inner), names), size
        return guarded(self.number(expr, names, as_), as_, leaf, tiny)

    def _changed(self, expr: Expr, names: Names, own: Kind, as_: Kind, leaf: int) -> tuple[str, Reach]:
        if own == "bigint":
            return self.number(expr, names, as_), WHOLE
        if isinstance(expr, Ref):
            return guarded(self.number(expr, names, as_), as_, leaf)
        inner, size = self._tree(expr, names, own, min(leaf, LEAVES[own][0]))
        if own == "numeric" and as_ == "float8":
            return narrowed(inner), NARROW
        return f"{inner}::{as_}", Reach(size.low, max(size.high, DIGITS)).within(as_)

    def _call(self, expr: Call, names: Names, as_: Kind, leaf: int) -> tuple[str, Reach]:
        anchor = _anchor(expr) if as_ == "float8" else None
        parts = [self._tree(a, names, as_, leaf, anchor is not None) for a in expr.args]
        texts, sizes = [p[0] for p in parts], [p[1] for p in parts]
        match expr.op:
            case _ if anchor is not None:
                return f"({texts[0]} {expr.op} {texts[1]})", anchored(sizes[anchor], sizes[1 - anchor])
            case "neg":
                return f"(-{texts[0]})", sizes[0]
            case "abs":
                return f"abs({texts[0]})", sizes[0]
            case "floor" | "ceil":
                return f"{expr.op}({texts[0]})", Reach(0, sizes[0].high + 1).within(as_)
            case "coalesce" | "least" | "greatest":
                return f"{expr.op}({', '.join(texts)})", hull(sizes)
            case "square":
                return f"({texts[0]} * {texts[0]})", combined("*", as_, sizes[0], sizes[0])
            case "int/" if as_ == "numeric":
                return f"div({texts[0]}, NULLIF({texts[1]}, 0))", combined("int/", as_, *sizes)
            case "/" if as_ == "numeric":
                a, b = (_plain(*pair) for pair in zip(texts, expr.args, strict=True))
                return f"({a} / NULLIF({b}, 0))", combined("/", as_, *sizes)
            case "/" | "int/" | "%":
                sign = "%" if expr.op == "%" else "/"
                return f"({texts[0]} {sign} NULLIF({texts[1]}, 0))", combined(expr.op, as_, *sizes)
        return f"({texts[0]} {expr.op} {texts[1]})", combined(expr.op, as_, *sizes)


def _plain(text: str, operand: Expr) -> str:
    """An operand of a division: its digits decide how many the quotient has, and 1.0 and 1.00 must have one quotient."""
    return text if isinstance(operand, Lit) or operand.type in INTEGERS else f"trim_scale({text})"


def _anchor(expr: Call) -> int | None:
    """Which operand of a sum or difference is a constant other than 0."""
    if expr.op not in ("+", "-") or len(expr.args) != 2:
        return None
    values = [literal_number(a.type, a.text) if isinstance(a, Lit) and a.text is not None else None for a in expr.args]
    return next((i for i, value in enumerate(values) if value), None)
