"""Sums, means and extremes of intervals.

Knows: bases and formulas of numbers (`aggregates` hands in how one is measured), how PostgreSQL adds and divides intervals.
Must not know: noise, engines. A difference of timestamps is a number of days and a time of day; PostgreSQL adds up both
apart, and a mean of 4 days and 26 hours stays one of 4 days and 26 hours. So both are measured, and put together the same way.

Other intervals have months as well, and nothing bounds their months, days and hours each. Where the policy bounds the whole, or
the statement, `least(greatest(x, interval '0 hours'), interval '1 day')`, they are measured as one number of seconds, in which a
month has 30 days and a day 24 hours. PostgreSQL compares intervals by that number, and carries down parts of a mean's months by
it, so the answer, in days and a time of day, is equal to PostgreSQL's, which rounds such parts to a millionth of a day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from dpproxy.plan.functions import operators
from dpproxy.plan.functions.times import extract
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.intervals.arithmetic import Range
from dpproxy.plan.measure.specs import Measured
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.constants import interval_of
from dpproxy.plan.operations.operation import Span
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.key_origins import expanded
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.types import decimal
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import Agg, Call, Case, Expr, Lit, Ref
from dpproxy.tree.interval import OPEN, Interval

DAY = 86_400
"""Seconds of a day, as PostgreSQL compares intervals."""


def is_duration(expr: Expr) -> bool:
    return expr.type == "interval"


def seconds(value: Expr, name: str) -> Expr:
    """Return an interval as a number, whose order is that of the intervals. Raises Refusal for those without bounds."""
    return Call("float8", "epoch", (value,)) if _is_difference(value) else _bounded_seconds(value, name)


def read(text: str) -> str:
    """Write a number of seconds as PostgreSQL's difference of timestamps."""
    return f"justify_hours(CAST(CAST({text} AS float8) * interval '1 second' AS interval))"


def measured(agg: Agg, number: Callable[[Agg], Measured]) -> Measured:
    """Measure SUM and AVG: of differences of timestamps as of the days, and of the hours, minutes and seconds that remain."""
    value = agg.args[0]
    if not _is_difference(value):
        rounded = Call("numeric", "round", (_bounded_seconds(value, agg.name), Lit("int4", "6")))  # on the grid of intervals
        return _measured_as_one(agg, number(replace(agg, args=(rounded,))))
    days = number(replace(agg, args=(Call("int8", "day", (value,)),)))
    clock = number(replace(agg, args=(_clock(value),)))
    shared = len(days.bases) - 1  # a mean's count is the days'
    rest = replace(clock.bases[-1], counted=days.bases[-1].counted)

    def moved(text: str) -> str:
        return re.sub(r"\d+(?=\})", lambda m: str(int(m[0]) + (int(m[0]) >= shared)), text)

    second = moved(clock.formula)
    whole = f"CAST({days.formula} AS float8) * interval '1 day'"
    formula = f"CAST({whole} + CAST({second} AS float8) * interval '1 second' AS interval)"
    assert days.range is not None
    assert clock.range is not None
    in_seconds = arithmetic.plus(arithmetic.scaled(days.range, str(DAY)), _of(clock.range, moved))
    return replace(
        days, bases=(*days.bases, rest), formula=formula, type="interval", kind="derived",
        weights=(*days.weights, clock.weights[-1]), range=in_seconds, bound=OPEN, statistic=f"seconds of {agg.name}",
    )  # fmt: skip


def _of(found: Range, moved: Callable[[str], str]) -> Range:
    """The range with other numbers of its bases."""
    assert not found.steps
    texts = replace(
        found, value=moved(found.value), low=moved(found.low), high=moved(found.high), free=moved(found.free)
    )  # fmt: skip
    low, high = (frozenset(moved(f"{{{need}}}")[1:-1] for need in needs) for needs in (found.low_needs, found.high_needs))
    return replace(texts, low_needs=low, high_needs=high)


def _measured_as_one(agg: Agg, found: Measured) -> Measured:
    """The number of seconds read as an interval."""
    return replace(
        found, formula=read(found.formula), type="interval", kind="derived", bound=OPEN, statistic=f"seconds of {agg.name}"
    )  # fmt: skip


def _clock(value: Expr) -> Expr:
    """The hours, minutes and seconds of an interval in seconds."""
    return operators.plus(_whole((value,), hour=3600, minute=60), extract("second", value))


def _whole(of: tuple[Expr], **units: int) -> Expr:
    """These fields of an interval, so many seconds each."""
    parts = [operators.multiply("*", Call("int8", unit, of), Lit("int4", str(n))) for unit, n in units.items()]
    return reduce(operators.plus, parts)


def _is_difference(value: Expr) -> bool:
    return facts(value).grid is not None


def _bounded_seconds(value: Expr, name: str) -> Expr:
    """What PostgreSQL compares an interval by, held within its bound. NULL stays NULL, which LEAST and GREATEST pass over."""
    bound = _bound(expanded(value))
    if not bound.closed:
        raise unsupported(
            f"{name}() of an interval without bounds",
            f"Clamp it: {name}(least(greatest(x, interval '0 hours'), interval '1 day')); or declare its range in the policy.",
        )
    low, high = (Lit("numeric", decimal(end)) for end in bound.ends)
    number = operators.plus(_whole((value,), **_UNITS), _clock(value))
    held = Call("numeric", "least", (Call("numeric", "greatest", (number, low)), high))
    return Case("numeric", ((Call("bool", "is_not_null", (value,)), held),), None)


_UNITS = {"year": 360 * DAY, "month": 30 * DAY, "day": DAY}


def _bound(value: Expr) -> Interval:
    """Between what an interval lies, in the seconds that it is compared by: as the policy says, and the statement clamps it."""
    match value:
        case Lit(text=str()):
            months, days, micros = interval_of(value) or (0, 0, 0)
            number = (30 * months + days) * DAY + Fraction(micros, 10**6)
            return Interval(number, number)
        case Call(op=op) if operation(op).interval in (Span.DIFFERENCE, Span.MULTIPLE):
            return facts(value).bound
        case Ref(column=column):
            return column.lasts
        case Call(op="coalesce", args=args):
            return iv.hull([_bound(a) for a in args])
        case Case(whens=whens, default=default):
            chosen = [result for _, result in whens] + ([default] if default is not None else [])
            return iv.hull([_bound(c) for c in chosen if not (isinstance(c, Lit) and c.text is None)])
        case Call(op="least", args=args):
            return _least([(_bound(a), facts(a).nullable) for a in args])
        case Call(op="greatest", args=args):
            return iv.negate(_least([(iv.negate(_bound(a)), facts(a).nullable) for a in args]))
        case _:
            return OPEN


def _least(parts: Sequence[tuple[Interval, bool]]) -> Interval:
    """The least of some values, of which those that may be NULL are passed over: one that is none is not exceeded."""
    either = iv.hull([bound for bound, _ in parts])
    sure = [bound.hi for bound, nullable in parts if not nullable and bound.hi is not None]
    return Interval(either.lo, min(sure)) if sure else either
