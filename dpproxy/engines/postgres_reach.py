"""How far numbers may go in PostgreSQL before an operation raises, and the guards that keep them within.

Knows: PostgreSQL's limits on float8 (a result that becomes infinite or 0 raises) and numeric (131,072 digits before the
point). Must not know: tables, policies. A `Reach` bounds the finite values of an expression by powers of ten; leaves of
arithmetic are guarded so that no node of the tree can pass the limits. Infinities and NaN pass through float8 and
numeric arithmetic without raising, so what lies beyond a guard becomes an infinity, as it would in DuckDB.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

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
