"""Fields of dates, moments and intervals: their bounds, and what days or hours they look at.

Knows: the calendar, how intervals are made. Must not know: which operations are fields, engines. Hours of an interval are not
carried into days, nor days into months; of multiples of a constant interval the fields are multiplied one by one and not carried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod

from dpproxy.plan.operations.bounds import length, parts_of, scaled, years
from dpproxy.plan.operations.operation import FormRule, Operand, Operands, Span, Step, constant
from dpproxy.plan.operations.units import DAY, UNITS
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import Expr
from dpproxy.tree.interval import OPEN, Interval

Most = Mapping[Span, int]
YEAR_SECONDS = 365 * DAY
"""At least."""


def interval_field(name: str, most: int, made: Most | None = None, lasts: Mapping[Span, int] | None = None) -> FormRule:
    """Bound a field of an interval: by `most` of any, by less where `made` tells how; of so many seconds (`lasts`) it has one for
    each. Of what is no interval nothing is said."""

    def rule(operands: Operands, bound: Interval, span: Interval) -> tuple[Interval, Interval]:
        value = operands[0]
        if value.expr.type != "interval":
            return bound, span
        return _field(name, most, made or {}, lasts or {}, value)

    return rule


def _field(name: str, most: int, made: Most, lasts: Mapping[Span, int], value: Operand) -> tuple[Interval, Interval]:
    how = value.made_by.interval if value.made_by is not None else None
    if how is Span.MULTIPLE:
        number, unit = value.operands[:2]
        known = scaled(number.bound, constant(unit.expr), name)
        if known.closed:
            return known, Interval(Fraction(-most), Fraction(most))
    how = Span.DIFFERENCE if value.grid is not None else how
    largest = made.get(how, most) if how is not None else most
    span = Interval(Fraction(-largest), Fraction(largest))
    per = lasts.get(how) if how is not None else None
    if per is not None:
        return iv.meet(span, iv.outward(iv.divide(value.bound, Interval(Fraction(per), Fraction(per))))), span
    return (span if how in (Span.DIFFERENCE, Span.AGE) or largest < 100 else OPEN), span


def year_field(of_intervals: FormRule) -> FormRule:
    """Bound a year: of days or moments by the calendar."""

    def rule(operands: Operands, bound: Interval, span: Interval) -> tuple[Interval, Interval]:
        value = operands[0]
        if value.expr.type != "interval" and value.bound.closed:
            return years(value.bound, value.expr.type), span
        return of_intervals(operands, bound, span)

    return rule


# --- what it looks at, and how many results it has


def of_months(_: Sequence[Expr]) -> Step:
    return "month"


def of_days(_: Sequence[Expr]) -> Step:
    return "day"


def of_hours(_: Sequence[Expr]) -> Step:
    return "hour"


def step_of_unit(args: Sequence[Expr]) -> Step | None:
    """Say what moments cut to a unit look at."""
    unit = UNITS.get(constant(args[0]))
    if unit is None:
        return None
    if unit.interval[0]:
        return "month"
    return "day" if unit.of_days else "hour" if unit.name == "hour" else None


def step_of_bins(args: Sequence[Expr]) -> Step | None:
    """Say what bins look at: those of whole days that begin at midnight, or of whole hours at a full hour, hold their days, or
    hours, whole."""
    micros, clock = parts_of(constant(args[0]))[2], constant(args[2])[11:] or "00:00:00"
    if micros == 0 and clock == "00:00:00":
        return "day"
    return "hour" if micros % UNITS["hour"].micros == 0 and clock.endswith(":00:00") else None


def step_of_format(args: Sequence[Expr]) -> Step | None:
    """Say what a format of strftime looks at."""
    pattern = constant(args[1])
    if set(re.findall("%.", pattern)) <= {"%Y", "%y", *_MONTHS}:
        return "month"
    return None if "%M" in pattern or "%S" in pattern else "hour" if "%H" in pattern else "day"


Moments = Callable[[Expr], Interval]


def count_of_units(args: Sequence[Expr], moments: Moments) -> int | None:
    unit = UNITS.get(constant(args[0]))
    return _steps_within(args[1], unit.seconds[0] if unit is not None and unit.of_days else Fraction(0), moments)


def count_of_bins(args: Sequence[Expr], moments: Moments) -> int | None:
    return _steps_within(args[1], length(constant(args[0])), moments)


def _steps_within(moment: Expr, size: Fraction, moments: Moments) -> int | None:
    bound = moments(moment)
    return _steps(bound, size) if bound.closed and size > 0 else None


def _steps(bound: Interval, size: Fraction) -> int:
    """How many intervals of at least `size`, end to end, values within a closed bound fall in, wherever these begin."""
    lo, hi = bound.ends
    return int(max(hi - lo, Fraction(0)) // size) + 2


_CLOCK = {"%H": 24, "%M": 60, "%S": 60}
_CALENDAR = {"%m": 12, "%b": 12, "%B": 12, "%d": 31, "%a": 7, "%A": 7, "%y": 100}
"""How many texts a code of strftime prints, of those that the allow-list writes. Of others nothing is known here."""
_DATES = {"%d", "%a", "%A"}
_MONTHS = {"%m", "%b", "%B"}


def count_of_formats(args: Sequence[Expr], moments: Moments) -> int | None:
    """Count the texts of a format: as many as its codes print, or as there are days, months or years with a year in it."""
    codes = set(re.findall("%.", constant(args[1])))
    if not codes <= {"%Y", *_CLOCK, *_CALENDAR}:
        return None
    if "%Y" not in codes:
        return prod({**_CLOCK, **_CALENDAR}[c] for c in codes)
    bound = moments(args[0])
    if not bound.closed:
        return None
    days = 1 if codes & _DATES else 28 if codes & _MONTHS else 365
    return _steps(bound, Fraction(days * DAY)) * prod(_CLOCK[c] for c in codes & set(_CLOCK))
