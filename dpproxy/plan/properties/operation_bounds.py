"""Which values an operation can have, from the bounds of its arguments: one rule for each operation that has one.

Knows: arithmetic of intervals, the mathematics of functions (`function_bounds`). Must not know: columns, expressions, SQL text.
A rule is used twice: on what the policy declares of the arguments, and on what their types can hold. Whatever the arguments are
within their bounds, the result is within the rule's; an operation without a rule may have any value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction

from dpproxy.plan.properties import function_bounds
from dpproxy.tree import interval as iv
from dpproxy.tree.interval import OPEN, Interval

ONE = Fraction(1)


BoundRule = Callable[[list[Interval]], Interval]


def _first(parts: list[Interval]) -> Interval:
    return parts[0]


def _constant_interval(lo: int, hi: int) -> BoundRule:
    return lambda _: Interval(Fraction(lo), Fraction(hi))


def _plus_minus(most: int) -> BoundRule:
    return _constant_interval(-most, most)


def _masked(parts: list[Interval]) -> Interval:
    """`&`: no larger than an operand that is not negative."""
    tops = [p.hi for p in parts if p.lo is not None and p.lo >= 0 and p.hi is not None]
    return Interval(Fraction(0), min(tops)) if tops else OPEN


def _bits(parts: list[Interval]) -> Interval:
    """`|` and `#` of what is not negative: no more bits than the larger has."""
    if not all(p.closed and p.ends[0] >= 0 for p in parts):
        return OPEN
    top = max(p.ends[1].__ceil__() for p in parts)
    return Interval(Fraction(0), Fraction(2 ** top.bit_length() - 1))


def _shifted_right(parts: list[Interval]) -> Interval:
    by = Fraction(2 ** int(parts[1].hi or 0))
    return iv.floor(iv.divide(parts[0], Interval(by, by)))


def _around(seconds: int) -> BoundRule:
    return lambda p: iv.add(p[0], Interval(Fraction(-seconds), Fraction(seconds)))


def _dated(parts: list[Interval]) -> Interval:
    """make_date: from the first day of the first year to the last of the last, of years 1 to 9999."""
    low, high = (parts[0].lo or Fraction(1), parts[0].hi if parts[0].hi is not None else Fraction(9999))
    first, last = (min(max(int(x), 1), 9999) for x in (low, high))
    return Interval(iv.number(dt.date(first, 1, 1)), iv.number(dt.date(last, 12, 31)))


def _product(parts: list[Interval]) -> Interval:
    return iv.multiply(parts[0], parts[1])


def _non_negative(_: list[Interval]) -> Interval:
    return Interval(Fraction(0), None)


def _square(parts: list[Interval]) -> Interval:
    return Interval(Fraction(0), parts[0].magnitude ** 2) if parts[0].closed else Interval(Fraction(0), None)


def _modulo(parts: list[Interval]) -> Interval:
    if not parts[1].closed:
        return OPEN
    size = parts[1].magnitude
    lo = Fraction(0) if parts[0].lo is not None and parts[0].lo >= 0 else -size
    return Interval(lo, size)


RULES: dict[str, BoundRule] = {
    "+": lambda p: iv.add(p[0], p[1]),
    "-": lambda p: iv.subtract(p[0], p[1]),
    "*": _product,
    "square": _square,
    "/": lambda p: iv.divide(p[0], p[1]),
    "int/": lambda p: iv.outward(iv.divide(p[0], p[1], whole=True)),
    "%": _modulo,
    "neg": lambda p: iv.negate(p[0]),
    "abs": lambda p: iv.absolute(p[0]),
    "floor": lambda p: iv.floor(p[0]),
    "ceil": lambda p: iv.ceiling(p[0]),
    "trunc": lambda p: iv.outward(p[0]),
    "round": lambda p: iv.outward(p[0]),
    "sign": _constant_interval(-1, 1),
    "sqrt": lambda p: function_bounds.root(p[0]),
    "ln": lambda p: function_bounds.logarithm(p[0]),
    "log": lambda p: function_bounds.logarithm(p[0], 10),
    "exp": lambda p: function_bounds.exponential(p[0]),
    "power": lambda p: function_bounds.power(p[0], p[1]),
    "least": iv.least,
    "greatest": iv.greatest,
    "coalesce": iv.hull,
    "nullif": _first,
    "length": _non_negative,
    "strpos": _non_negative,
    "year": _constant_interval(-6_000_000, 6_000_000),  # of DuckDB's and PostgreSQL's dates
    "month": _constant_interval(1, 12),
    "day": _constant_interval(1, 31),
    "quarter": _constant_interval(1, 4),
    "dow": _constant_interval(0, 6),
    "isodow": _constant_interval(1, 7),
    "doy": _constant_interval(1, 366),
    "week": _constant_interval(1, 53),
    "hour": _constant_interval(0, 23),
    "minute": _constant_interval(0, 59),
    "second": _constant_interval(0, 60),
    "epoch": _first,
    "date_add": lambda p: iv.add(p[0], p[1]),
    "ts_add": lambda p: iv.add(p[0], p[1]),
    "ts_sub": lambda p: iv.subtract(p[0], p[1]),
    "date_sub": lambda p: iv.subtract(p[0], p[1]),
    "date_diff": lambda p: iv.subtract(p[0], p[1]),
    "ts_diff": lambda p: iv.subtract(p[0], p[1]),
    "trunc_time": lambda p: p[1],
    "sin": _plus_minus(1),
    "cos": _plus_minus(1),
    "asin": _plus_minus(2),
    "acos": _constant_interval(0, 4),
    "atan": _plus_minus(2),
    "atan2": _plus_minus(4),
    "bucket_numeric": lambda p: Interval(Fraction(0), (p[3].hi or 0) + ONE),
    "bucket_float": lambda p: Interval(Fraction(0), (p[3].hi or 0) + ONE),
    "bitand": _masked,
    "bitor": _bits,
    "bitxor": _bits,
    "bitright": _shifted_right,
    "ascii": _constant_interval(0, 0x10FFFF),
    "octet_length": _non_negative,
    "regexp_count": _non_negative,
    "make_date": _dated,
    "age": lambda p: iv.subtract(p[0], p[1]),
    "from_epoch": _first,
    "from_utc": _around(86400),
    "to_utc": _around(86400),
    "date_bin": lambda p: p[1],
}
