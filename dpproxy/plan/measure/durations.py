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
from dpproxy.plan.measure.output_weights import Kind
from dpproxy.plan.measure.specs import Measured
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.refusals import unsupported


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
    second = re.sub(r"\d+(?=\})", lambda m: str(int(m[0]) + (int(m[0]) >= shared)), clock.formula)
    whole = f"CAST({days.formula} AS float8) * interval '1 day'"
    formula = f"CAST({whole} + CAST({second} AS float8) * interval '1 second' AS interval)"
    kind: Kind = "linear" if agg.name == "sum" else "derived"
    return replace(
        days, bases=(*days.bases, rest), formula=formula, type="interval", kind=kind,
        weights=(*days.weights, clock.weights[-1]), range=None, bound=OPEN,
    )  # fmt: skip


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
        f"Take it of a number: {name}(extract(epoch FROM x)) * interval '1 second'.",
    )
