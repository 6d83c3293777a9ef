"""Interval arithmetic: how column bounds flow through expressions (PRIVACY.md section 3).

Knows: exact rationals. Must not know: SQL, types' widths. Dates are days, timestamps seconds, since 1970-01-01;
booleans 0 and 1. An end that is None means "no bound known" on that side.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True)
class Interval:
    """All values lie in [lo, hi]; an end that is None is unbounded. `lo` is at most `hi`, also where no value is expected."""

    lo: Fraction | None
    hi: Fraction | None

    @property
    def closed(self) -> bool:
        return self.lo is not None and self.hi is not None

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """Both ends of a closed interval. Raises ValueError for an open one."""
        if self.lo is None or self.hi is None:
            raise ValueError("the interval is not closed")
        return self.lo, self.hi

    @property
    def magnitude(self) -> Fraction:
        lo, hi = self.ends
        return max(abs(lo), abs(hi))

    def within(self, limit: Fraction | int) -> bool:
        """Tell whether every value's magnitude is at most `limit`."""
        return self.closed and self.magnitude <= limit


OPEN = Interval(None, None)


@dataclass(frozen=True)
class Limited:
    """Where the values of units within their contribution bounds lie: `range`. It is no fact of the data: other units have values
    beyond it, which are held there when they are added up. So it is a type of its own: nothing may take it for an `Interval` that
    encloses all values, to close an end, to size or enumerate a domain. `by`: the contribution bounds, as a reader knows them."""

    range: Interval
    by: tuple[str, ...] = ()

    def met(self, fact: Interval) -> Interval:
        """Return where values are held: at the ends of what is a fact; where there is none, at this range's."""
        lo, hi = self.range.lo, self.range.hi
        width = None if lo is None or hi is None else hi - lo
        if fact.lo is not None:  # WHERE n > 20 leaves those of more than 10 alone: the width is kept
            lo, hi = fact.lo, hi if hi is None or width is None or hi > fact.lo else fact.lo + width
        if fact.hi is not None:
            lo, hi = lo if lo is None or width is None or lo < fact.hi else fact.hi - width, fact.hi
        return Interval(lo, hi)


def interval(lo: Decimal | int | dt.date | dt.datetime, hi: Decimal | int | dt.date | dt.datetime) -> Interval:
    return Interval(number(lo), number(hi))


def number(value: Decimal | int | dt.date | dt.datetime) -> Fraction:
    """Return a bound of the policy as a rational: seconds for datetimes, days for dates."""
    if isinstance(value, dt.datetime):
        delta = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
        return Fraction(delta.days * 86400 + delta.seconds) + Fraction(delta.microseconds, 10**6)
    if isinstance(value, dt.date):
        return Fraction((value - EPOCH).days)
    return Fraction(value)


def _all(ends: Iterable[Fraction | None]) -> list[Fraction] | None:
    """The ends when every one is known, else None."""
    known: list[Fraction] = []
    for end in ends:
        if end is None:
            return None
        known.append(end)
    return known or None


def _map(a: Interval, f: Callable[[Fraction], Fraction], g: Callable[[Fraction], Fraction] | None = None) -> Interval:
    """A monotone function of an interval (`g` for the upper end when it differs)."""
    return Interval(None if a.lo is None else f(a.lo), None if a.hi is None else (g or f)(a.hi))


def hull(parts: Sequence[Interval]) -> Interval:
    """Return the smallest interval around all."""
    lows, highs = _all(p.lo for p in parts), _all(p.hi for p in parts)
    return Interval(min(lows) if lows else None, max(highs) if highs else None)


def meet(a: Interval, b: Interval) -> Interval:
    """Return the values in both; `a` when they are disjoint."""
    lo = max((x for x in (a.lo, b.lo) if x is not None), default=None)
    hi = min((x for x in (a.hi, b.hi) if x is not None), default=None)
    return a if lo is not None and hi is not None and lo > hi else Interval(lo, hi)


def add(a: Interval, b: Interval) -> Interval:
    lows, highs = _all((a.lo, b.lo)), _all((a.hi, b.hi))
    return Interval(sum(lows, Fraction(0)) if lows else None, sum(highs, Fraction(0)) if highs else None)


def negate(a: Interval) -> Interval:
    return Interval(None if a.hi is None else -a.hi, None if a.lo is None else -a.lo)


def subtract(a: Interval, b: Interval) -> Interval:
    return add(a, negate(b))


def multiply(a: Interval, b: Interval) -> Interval:
    if not (a.closed and b.closed):
        return OPEN
    corners = [x * y for x in a.ends for y in b.ends]
    return Interval(min(corners), max(corners))


def divide(a: Interval, b: Interval, *, whole: bool = False) -> Interval:
    """a / b where b = 0 yields NULL. Bounded when b keeps away from 0, or is a whole number (|b| >= 1)."""
    if not (a.closed and b.closed):
        return OPEN
    lo, hi = b.ends
    if lo > 0 or hi < 0:
        return multiply(a, Interval(min(1 / lo, 1 / hi), max(1 / lo, 1 / hi)))
    return Interval(-a.magnitude, a.magnitude) if whole else OPEN


def absolute(a: Interval) -> Interval:
    if a.closed:
        lo, hi = a.ends
        return Interval(Fraction(0) if lo <= 0 <= hi else min(abs(lo), abs(hi)), a.magnitude)
    return Interval(Fraction(0), None)


def least(parts: Sequence[Interval]) -> Interval:
    """Bound LEAST: bounded above by any known upper end, below only when all are (NULLs are skipped by LEAST)."""
    highs = [p.hi for p in parts if p.hi is not None]
    lows = _all(p.lo for p in parts)
    all_highs = _all(p.hi for p in parts)
    # With NULLs skipped, LEAST(a, b) may be either alone: the constant operand is what makes it an upper bound.
    constants = [p.hi for p in parts if p.hi is not None and p.lo == p.hi]
    hi = min(constants) if constants else (max(all_highs) if all_highs else None)
    return Interval(min(lows) if lows else None, hi if highs else None)


def greatest(parts: Sequence[Interval]) -> Interval:
    return negate(least([negate(p) for p in parts]))


def floor(a: Interval) -> Interval:
    return _map(a, lambda x: Fraction(x.__floor__()))


def ceiling(a: Interval) -> Interval:
    return _map(a, lambda x: Fraction(x.__ceil__()))


def outward(a: Interval, digits: int = 0) -> Interval:
    """Round to `digits` decimals, in any direction."""
    unit = Fraction(10) ** -digits
    return _map(a, lambda x: (x / unit).__floor__() * unit, lambda x: (x / unit).__ceil__() * unit)
