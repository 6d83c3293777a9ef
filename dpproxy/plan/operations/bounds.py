"""Which values operations can have: rules from the intervals of their operands, and from what else is known of these.

Knows: arithmetic of intervals, the mathematics of functions (`function_bounds`), the calendar. Must not know: which operation
uses which rule, columns, SQL text. A rule of intervals is used twice: on what the policy declares of the operands, and on what
their types can hold. Whatever the operands are within theirs, the result is within the rule's. An operation without a rule may
have any value. A rule of forms looks at the operands themselves, where a constant, a grid or a length tells more.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from fractions import Fraction

from dpproxy.plan.operations import function_bounds
from dpproxy.plan.operations.operation import BoundRule, FormRule, LengthRule, Operands, constant
from dpproxy.plan.operations.units import DAY, cut
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import Expr, Ref
from dpproxy.tree.interval import OPEN, Interval

ONE = Fraction(1)
MICROSECOND = Fraction(1, 10**6)
"""The grid of differences of moments, which have days and a time of less than a day; no other interval has a grid."""


# --- from intervals


def first(parts: list[Interval]) -> Interval:
    return parts[0]


def second(parts: list[Interval]) -> Interval:
    return parts[1]


def within(lo: int, hi: int) -> BoundRule:
    return lambda _: Interval(Fraction(lo), Fraction(hi))


def plus_minus(most: int) -> BoundRule:
    return within(-most, most)


def sums(parts: list[Interval]) -> Interval:
    return iv.add(parts[0], parts[1])


def differences(parts: list[Interval]) -> Interval:
    return iv.subtract(parts[0], parts[1])


def products(parts: list[Interval]) -> Interval:
    return iv.multiply(parts[0], parts[1])


def quotients(parts: list[Interval]) -> Interval:
    return iv.divide(parts[0], parts[1])


def whole_quotients(parts: list[Interval]) -> Interval:
    return iv.outward(iv.divide(parts[0], parts[1], whole=True))


def outward(parts: list[Interval]) -> Interval:
    return iv.outward(parts[0])


def masked(parts: list[Interval]) -> Interval:
    """Bound `&`: no larger than an operand that is not negative."""
    tops = [p.hi for p in parts if p.lo is not None and p.lo >= 0 and p.hi is not None]
    return Interval(Fraction(0), min(tops)) if tops else OPEN


def bits(parts: list[Interval]) -> Interval:
    """Bound `|` and `#` of what is not negative: no more bits than the larger has."""
    if not all(p.closed and p.ends[0] >= 0 for p in parts):
        return OPEN
    top = max(p.ends[1].__ceil__() for p in parts)
    return Interval(Fraction(0), Fraction(2 ** top.bit_length() - 1))


def shifted_right(parts: list[Interval]) -> Interval:
    by = Fraction(2 ** int(parts[1].hi or 0))
    return iv.floor(iv.divide(parts[0], Interval(by, by)))


def around(seconds: int) -> BoundRule:
    return lambda p: iv.add(p[0], Interval(Fraction(-seconds), Fraction(seconds)))


def dates(parts: list[Interval]) -> Interval:
    """Bound make_date: from the first day of the first year to the last of the last, of years 1 to 9999."""
    low, high = (parts[0].lo or Fraction(1), parts[0].hi if parts[0].hi is not None else Fraction(9999))
    start, last = (min(max(int(x), 1), 9999) for x in (low, high))
    return Interval(iv.number(dt.date(start, 1, 1)), iv.number(dt.date(last, 12, 31)))


def buckets(parts: list[Interval]) -> Interval:
    """Bound width_bucket: one below all, and one above."""
    return Interval(Fraction(0), (parts[3].hi or 0) + ONE)


def not_negative(_: list[Interval]) -> Interval:
    return Interval(Fraction(0), None)


def squares(parts: list[Interval]) -> Interval:
    return Interval(Fraction(0), parts[0].magnitude ** 2) if parts[0].closed else Interval(Fraction(0), None)


def remainders(parts: list[Interval]) -> Interval:
    if not parts[1].closed:
        return OPEN
    size = parts[1].magnitude
    return Interval(Fraction(0) if parts[0].lo is not None and parts[0].lo >= 0 else -size, size)


# --- from forms: bound and span, of what the rule of intervals says


def whole_remainders(operands: Operands, bound: Interval, span: Interval) -> tuple[Interval, Interval]:
    """Bound a remainder of whole numbers, which is smaller than the divisor by one at least."""
    if not bound.closed or any(operand.grid != ONE for operand in operands) or bound.magnitude < 1:
        return bound, span
    most = bound.magnitude - 1
    return iv.meet(bound, Interval(-most, most)), span


def stepped_quotients(operands: Operands, _: Interval, span: Interval) -> tuple[Interval, Interval]:
    """Bound a quotient by a number on a grid, which is at least a step from 0."""
    a, b = operands
    return function_bounds.quotient(a.bound, b.bound, b.grid), span


def logarithms(base: float) -> FormRule:
    """Bound the logarithm of a number on a grid, from its first step above 0 on."""

    def rule(operands: Operands, _: Interval, span: Interval) -> tuple[Interval, Interval]:
        above = function_bounds.positive(operands[0].bound, operands[0].grid)
        return function_bounds.logarithm(above, base), span

    return rule


def places(operands: Operands) -> int:
    """Return the places that ROUND and TRUNC keep."""
    return int(constant(operands[1].expr) or 0) if len(operands) > 1 else 0


def rounded(operands: Operands, bound: Interval, span: Interval) -> tuple[Interval, Interval]:
    if len(operands) == 1:
        return bound, span
    return iv.outward(operands[0].bound, places(operands)), iv.outward(operands[0].span, places(operands))


def characters(times: int) -> FormRule:
    """Bound what counts characters of a text, each so many times."""

    def rule(operands: Operands, bound: Interval, span: Interval) -> tuple[Interval, Interval]:
        longest = operands[0].longest
        return bound if longest is None else Interval(Fraction(0), Fraction(longest * times)), span

    return rule


def epochs(operands: Operands, bound: Interval, span: Interval) -> tuple[Interval, Interval]:
    """Bound the seconds since 1970, or of an interval: a year has 365 days and a quarter there, and compares as 360."""
    value = operands[0].expr
    if value.type == "date":
        bound = iv.multiply(operands[0].bound, Interval(Fraction(DAY), Fraction(DAY)))
    if isinstance(value, Ref) and value.column.lasts.closed:
        low, high = value.column.lasts.ends
        year = Fraction(1461, 1440)
        bound = Interval(min(low, low * year), max(high, high * year))
    return bound, span


def years(bound: Interval, type_: str) -> Interval:
    """Bound the calendar years reached by days, or by seconds, since 1970."""
    per = Fraction(1) if type_ == "date" else Fraction(DAY)

    def year(x: Fraction) -> Fraction:
        days = min(max((x / per).__floor__(), -719162), 2932896)
        return Fraction((iv.EPOCH + dt.timedelta(days=days)).year)

    lo, hi = bound.ends
    return Interval(year(lo), year(hi))


def cut_moments(operands: Operands, bound: Interval, span: Interval) -> tuple[Interval, Interval]:
    return cut(bound, constant(operands[0].expr)), span


def binned(operands: Operands, bound: Interval, span: Interval) -> tuple[Interval, Interval]:
    """Bound the beginning of a bin: before the moment, by less than its length."""
    if bound.lo is None:
        return bound, span
    return Interval(bound.lo - length(constant(operands[0].expr)), bound.hi), span


def parts_of(interval: str) -> tuple[int, int, int]:
    """Return the months, days and microseconds of a constant interval."""
    months, days, micros = (int(x) for x in (interval or "0 0 0").split())
    return months, days, micros


def length(interval: str) -> Fraction:
    """Return the seconds of a constant interval, its months aside."""
    _, days, micros = parts_of(interval)
    return days * DAY + Fraction(micros, 10**6)


def multiples(operands: Operands, _: Interval, span: Interval) -> tuple[Interval, Interval]:
    """Bound the seconds of so many constant intervals."""
    return scaled(operands[0].bound, constant(operands[1].expr), "epoch"), span


def scaled(number: Interval, unit: str, field: str) -> Interval:
    """Bound a field, or the seconds (`epoch`), of so many units; open for what a unit of months or another field may be."""
    if not unit or not number.closed:
        return OPEN
    months, days, micros = parts_of(unit)
    sizes = {"day": Fraction(days), "hour": Fraction(micros, 3600 * 10**6), "epoch": length(unit)}
    if months or field not in sizes:
        return OPEN
    found = iv.multiply(number, Interval(sizes[field], sizes[field]))
    return found if field == "epoch" else iv.outward(found)


# --- grids


def whole(_: Operands) -> Fraction:
    return ONE


def grid_of_first(operands: Operands) -> Fraction | None:
    return operands[0].grid


def grid_of_moments(_: Operands) -> Fraction:
    return MICROSECOND


def grid_of_places(operands: Operands) -> Fraction:
    return Fraction(10) ** -places(operands)


def product_of_grids(operands: Operands) -> Fraction | None:
    a, b = operands[0].grid, operands[1].grid
    return a * b if a is not None and b is not None else None


def common_grid(operands: Operands) -> Fraction | None:
    return coarsest([o.grid for o in operands])


def coarsest(grids: Sequence[Fraction | None]) -> Fraction | None:
    """Return a grid all values are on: powers of ten divide each other, so the smallest one."""
    known = [g for g in grids if g is not None]
    if len(known) < len(grids) or not known:
        return None
    smallest = min(known)
    return smallest if all((g / smallest).denominator == 1 for g in known) else None


# How long the texts are that operations make: rules from the lengths of their operands, in characters.
#
# Knows: constants, characters. Must not know: which operation uses which rule, bytes, engines. A length that nothing bounds is
# `MOST`, and so is one that would be greater.


MOST = 10**12
PADDED = 1_000  # what lpad and rpad make at most
_FIELDS = {"Y": 7, "G": 7, "B": 9, "A": 9, "f": 6, "j": 3, "b": 3, "a": 3, "-": 3, **dict.fromkeys("ymdHIMSpuVWU%", 2)}
"""Characters that a field of a format prints at most: a month's name has nine, a year six digits and a sign."""
_UNKNOWN_FIELD = 64

Sizes = Sequence[int]
Args = Sequence[Expr]


def first_length(sizes: Sizes, _: Args) -> int:
    return sizes[0]


def largest(sizes: Sizes, _: Args) -> int:
    return max(sizes)


def total(sizes: Sizes, _: Args) -> int:
    return sum(sizes)


def fixed(size: int) -> LengthRule:
    return lambda *_: size


def up_to(place: int) -> LengthRule:
    """Of no more characters than the number at this place says, nor than the first operand has."""

    def rule(sizes: Sizes, args: Args) -> int:
        number = constant(args[place])
        return min(sizes[0], int(number)) if number.isdigit() else sizes[0]

    return rule


def padded(_: Sizes, args: Args) -> int:
    number = constant(args[1])
    return min(int(number), PADDED) if number.isdigit() else PADDED


def joined(sizes: Sizes, _: Args) -> int:
    """Return the length of texts with a mark between."""
    return sum(sizes[1:]) + sizes[0] * len(sizes)


def repeated(sizes: Sizes, args: Args) -> int:
    return sizes[0] * int(constant(args[1]))


def replaced(sizes: Sizes, _: Args) -> int:
    return sizes[0] * max(sizes[2], 1)


def matches_replaced(sizes: Sizes, args: Args) -> int:
    """Return the length where every character, and the ends, may become the replacement."""
    return (sizes[0] + 1) * (len(constant(args[2])) + 1)


def printed(_: Sizes, args: Args) -> int:
    """Return the longest text that a format of strftime prints."""
    form = constant(args[1])
    codes = re.findall("%.", form, re.DOTALL)
    return len(form) - 2 * len(codes) + sum(_FIELDS.get(code[1], _UNKNOWN_FIELD) for code in codes)
