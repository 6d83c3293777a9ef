"""Sums, means and extremes of differences of timestamps.

Knows: bases and formulas of numbers (`aggregates` hands in how one is measured), how PostgreSQL adds and divides intervals.
Must not know: noise, engines. A difference of timestamps is a number of days and a time of day; PostgreSQL adds up both
apart, and a mean of 4 days and 26 hours stays one of 4 days and 26 hours. So both are measured, and put together the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from dpproxy.plan.functions import operators
from dpproxy.plan.functions.times import extract
from dpproxy.plan.logical.expr import Agg, Call, Expr, Lit
from dpproxy.plan.logical.interval import OPEN
from dpproxy.plan.measure import enclosures
from dpproxy.plan.measure.enclosures import Range
from dpproxy.plan.measure.specs import Measured
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.refusals import unsupported

DAY = 86_400
"""Seconds of a day, as PostgreSQL compares intervals."""


def is_duration(expr: Expr) -> bool:
    return expr.type == "interval"


def seconds(value: Expr, name: str) -> Expr:
    """Return a difference as a number, whose order is that of the differences. Raises Refusal for other intervals."""
    return Call("float8", "epoch", (_difference(value, name),))


def read(text: str) -> str:
    """Write a number of seconds as PostgreSQL's difference of timestamps."""
    return f"justify_hours(CAST(CAST({text} AS float8) * interval '1 second' AS interval))"


def measured(agg: Agg, number: Callable[[Agg], Measured]) -> Measured:
    """Measure SUM and AVG: of the days, and of the hours, minutes and seconds beside them."""
    value = _difference(agg.args[0], agg.name)
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
    in_seconds = enclosures.plus(enclosures.scaled(days.range, str(DAY)), _of(clock.range, moved))
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


def _clock(value: Expr) -> Expr:
    hours, minutes = (
        operators.multiply("*", Call("int8", u, (value,)), Lit("int4", str(n))) for u, n in (("hour", 3600), ("minute", 60))
    )
    return operators.plus(operators.plus(hours, minutes), extract("second", value))


def _difference(value: Expr, name: str) -> Expr:
    if facts(value).grid is not None:
        return value
    raise unsupported(
        f"{name}() of an interval that is not a difference of timestamps",
        f"Take it of seconds within bounds: {name}(least(greatest(extract(epoch FROM x), 0), 86400)) * interval '1 second'.",
    )
