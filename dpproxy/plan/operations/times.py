"""Rows of the catalogue: fields of times, what is added to them, and how they are cut and printed.

Knows: the calendars of engines, and where each raises or wraps around. Must not know: where they are used. Moments are computed
between the years 1 and 9999 where they are shifted or subtracted, and are NULL elsewhere.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod

from dpproxy.plan.operations import bounds, constants
from dpproxy.plan.operations.bounds import length, parts_of, scaled, years
from dpproxy.plan.operations.operation import (
    BoundRule,
    FoldRule,
    FormRule,
    Nulls,
    Operand,
    Operands,
    Operation,
    Refused,
    Span,
    Spelling,
    Step,
    StepRule,
    by,
    constant,
)
from dpproxy.plan.operations.units import DAY, UNITS
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import Expr
from dpproxy.tree.interval import OPEN, Interval

# Fields of dates, moments and intervals: their bounds, and what days or hours they look at.
#
# Knows: the calendar, how intervals are made. Must not know: which operations are fields, engines. Hours of an interval are not
# carried into days, nor days into months; of multiples of a constant interval the fields are multiplied one by one and not
# carried.


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


FROM_UTC, TO_UTC, CUT_TO = "from_utc", "to_utc", "trunc_time"
"""What a zone's clocks show of a moment in UTC, and back; a moment cut to a unit."""
_SPANS = Refused("intervals of Spark are of months or of seconds, never of both")
_YEARS = "BETWEEN TIMESTAMP '0001-01-02' AND TIMESTAMP '9999-12-30'"
_POSTGRES_YEARS = "BETWEEN '0001-01-02'::timestamp AND '9999-12-30'::timestamp"
_DAYS_SHIFTED = "BETWEEN -1000000 AND 1000000"
_FIRST_SECOND, _LAST_SECOND = "'-62135596800'::float8", "'253402300799'::float8"  # of the years 1 and 9999
_LAST_DAY = "date_part('day', make_date({0:i}::int, {1:i}::int, 1) + '1 month'::interval - '1 day'::interval)"
_IS_DATE = "{0:i} BETWEEN 1 AND 9999 AND {1:i} BETWEEN 1 AND 12 AND {2:i} BETWEEN 1 AND 31"
_DAYS = "trunc({0:f} * {1})"
_REST = f"to_microseconds(CAST(round_even(({{0:f}} * {{1}} - {_DAYS}) * 86400000000 + {{0:f}} * {{2}}, 0) AS BIGINT))"
_WEEKDAY = "pmod(dayofweek({0}) + 5, 7) + 1"


Field = Callable[[dt.datetime], int]
"""A field of a moment that is known."""


def _of_moments(
    name: str, most: tuple[int, int], spark: str, value: Field, *, endless: bool = False, early: bool = True
) -> Operation:
    """A field of dates and moments that begins with a day. `endless`: infinite for an infinite moment on PostgreSQL; `early`:
    DuckDB computes it from its first day on: ISO weeks of those before PostgreSQL's first year raise."""
    return _time_field(name, "[dp]>i", most, spark, value, None, of_days, endless=endless, early=early)


def _time_field(
    name: str, takes: str, most: tuple[int, int], spark: str, value: Field, form: FormRule | None, step: StepRule | None,
    *, endless: bool = False, early: bool = True, bounded: bool = True,
) -> Operation:  # fmt: skip
    part = f"EXTRACT({name} FROM {{0}})"
    return Operation(
        name=name, takes=takes, nulls=Nulls.OPERAND, bound=bounds.within(*most) if bounded else None, form=form,
        grid=bounds.whole, dense=bounded, field=True, step=step, fold=constants.field(value), steady=True,
        duckdb=part if early else f"(CASE WHEN {{0}} >= DATE '4714-01-01 (BC)' THEN {part} END)",
        postgres=by("endless_part" if endless else "part", name), spark=by("part", name, spark),
    )  # fmt: skip


def _seconds(name: str, takes: str, form: FormRule, duckdb: str, **more: object) -> Operation:
    """A field with a fraction."""
    return Operation(
        name=name, takes=takes, nulls=Nulls.OPERAND, form=form, field=True, grid=bounds.grid_of_moments, duckdb=duckdb,
        postgres=f"EXTRACT({name} FROM {{0}})::{{whole}}", spark=by("seconds", name), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _day_shift(name: str, sign: str, bound: BoundRule) -> Operation:
    """A date plus days, up to a million of them."""
    return Operation(
        name=name, takes="di>d", nulls=Nulls.OPERAND, bound=bound, grid=bounds.whole, rises=0,
        fold=constants.day_shifted(int(f"{sign}1")),
        duckdb=f"(CASE WHEN {{0}} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' AND {{1}} {_DAYS_SHIFTED} "
        f"THEN {{0}} {sign} TRY_CAST({{1}} AS INTEGER) END)",
        postgres=f"(CASE WHEN {{0}} BETWEEN '0001-01-01'::date AND '9999-12-31'::date AND {{1}} {_DAYS_SHIFTED} "
        f"THEN {{0}} {sign} {{1}}::int END)",
        spark=f"(CASE WHEN {{0}} BETWEEN DATE'0001-01-01' AND DATE'9999-12-31' AND {{1}} {_DAYS_SHIFTED} "
        f"THEN date_add({{0}}, CAST({sign.strip('+')}({{1}}) AS INT)) END)",
    )  # fmt: skip


def _shift(name: str, sign: str, bound: BoundRule) -> Operation:
    return Operation(
        name=name, takes="pv>p", nulls=Nulls.OPERAND, bound=bound, rises=0, fold=constants.shifted(int(f"{sign}1")),
        duckdb=by("shifted", sign), postgres=by("shifted", sign),
        spark=by("shifted", sign),
    )  # fmt: skip


def _zone(name: str, zone: int, fold: FoldRule, duckdb: str, postgres: str, spark: Spelling) -> Operation:
    """What a zone's clocks show of a moment in UTC, or back."""
    return Operation(
        name=name, takes="pt>p", nulls=Nulls.OPERAND, bound=bounds.around(DAY), zone=zone, fold=fold,
        duckdb=f"(CASE WHEN {{0:m}} {_YEARS} THEN {duckdb} END)", spark=spark,
        postgres=f"(CASE WHEN {{0}} {_POSTGRES_YEARS} THEN {postgres} END)",
    )  # fmt: skip


def _both(form: str) -> str:
    return " AND ".join(form.format(f"{{{i}{':m' if 'TIMESTAMP' in form else ''}}}") for i in (0, 1))


_MOMENT = "{} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31'"
_POSTGRES_MOMENT = "{} BETWEEN '0001-01-01'::timestamp AND '9999-12-31'::timestamp"
_YEAR_OF: Mapping[Span, int] = {Span.DIFFERENCE: 0, Span.AGE: 10_000}
_DAY_OF: Mapping[Span, int] = {Span.DIFFERENCE: 3_660_000, Span.AGE: 31}

TIMES = (
    _time_field(
        "year", "[dpv]>i", (-6_000_000, 6_000_000), "year({0})", lambda t: t.year,  # of DuckDB's and PostgreSQL's dates
        year_field(interval_field("year", 200_000_000, _YEAR_OF, {Span.AGE: YEAR_SECONDS})), of_months,
        endless=True,
    ),
    _of_moments("quarter", (1, 4), "quarter({0})", lambda t: (t.month + 2) // 3),
    _time_field(
        "month", "[dpv]>i", (1, 12), "month({0})", lambda t: t.month, interval_field("month", 11, {Span.DIFFERENCE: 0}),
        of_months,
    ),
    _of_moments("week", (1, 53), "weekofyear({0})", lambda t: t.isocalendar()[1], early=False),
    _time_field(
        "day", "[dpv]>i", (1, 31), "day({0})", lambda t: t.day,
        interval_field("day", 2**31, _DAY_OF, {Span.DIFFERENCE: DAY}), of_days,
    ),
    _time_field(
        "hour", "[pvc]>i", (0, 23), "hour({0})", lambda t: t.hour,
        interval_field("hour", 2_600_000_000, {Span.DIFFERENCE: 23, Span.AGE: 23}), of_hours,
    ),
    _time_field("minute", "[pvc]>i", (0, 59), "minute({0})", lambda t: t.minute, interval_field("minute", 59), None),
    _seconds(
        "second", "[pvc]>[nf]", interval_field("second", 60), "(EXTRACT(microseconds FROM {0}) / 1000000.0)",
        bound=bounds.within(0, 60),
    ),
    _seconds("epoch", "[dpvc]>[nf]", bounds.epochs, "epoch({0})", bound=bounds.first, rises=0),
    _of_moments("dow", (0, 6), "dayofweek({0}) - 1", lambda t: t.isoweekday() % 7),
    _of_moments("isodow", (1, 7), _WEEKDAY, lambda t: t.isoweekday()),
    _of_moments("doy", (1, 366), "dayofyear({0})", lambda t: t.timetuple().tm_yday),
    _time_field(  # the year of the week's Thursday; Sail lacks YEAROFWEEK, and its weekday() of a Sunday is -1
        "isoyear", "[dp]>i", (0, 0), "year(date_add(CAST({0} AS DATE), 3 - pmod(dayofweek({0}) + 5, 7)))",
        lambda t: t.isocalendar()[0], None, of_days,
        endless=True, early=False, bounded=False,
    ),
    Operation(
        name=CUT_TO, takes="tp>p", nulls=Nulls.OPERAND, bound=bounds.second, form=bounds.cut_moments,
        count=count_of_units, step=step_of_unit, moment=1, rises=1, fold=constants.cut, steady=True, cuts=True,
        duckdb="(CASE WHEN {1} >= TIMESTAMP '4000-01-01 (BC)' OR {1} = TIMESTAMP '-infinity' THEN date_trunc({0}, {1}) END)",
        postgres="(CASE WHEN {1} >= '4000-01-01 BC'::timestamp OR {1} = '-infinity'::timestamp THEN date_trunc({0:q}, {1}) END)",
        spark=by("cut"),
    ),
    Operation(
        name="date_bin", takes="vpp>p", nulls=Nulls.OPERAND, bound=bounds.second, form=bounds.binned,
        count=count_of_bins,
        step=step_of_bins, moment=1,
        duckdb=f"(CASE WHEN {{1:m}} {_YEARS} THEN time_bucket({{0}}, {{1:m}}, {{2:m}}) END)",
        postgres=f"(CASE WHEN {{1}} {_POSTGRES_YEARS} THEN date_bin({{0}}, {{1}}, {{2}}) END)", spark=_SPANS,
    ),
    Operation(
        name="strftime", takes="pt>t", nulls=Nulls.OPERAND, count=count_of_formats, step=step_of_format,
        length=bounds.printed, prints=True, fold=constants.printed, steady=True, duckdb="strftime({0}, {1})",
        postgres=by("printed"), spark=by("printed"),
    ),
    _day_shift("date_add", "+", bounds.sums),
    _day_shift("date_sub", "-", bounds.differences),
    Operation(
        name="date_diff", takes="dd>i", nulls=Nulls.OPERAND, bound=bounds.differences, grid=bounds.whole,
        fold=constants.days_between, steady=True,
        duckdb="(CAST(epoch({0}) AS BIGINT) - CAST(epoch({1}) AS BIGINT)) // 86400",
        postgres="(CASE WHEN isfinite({0}) AND isfinite({1}) THEN ({0} - {1})::bigint END)", spark=by("time", "days_between"),
    ),
    _shift("ts_add", "+", bounds.sums),
    _shift("ts_sub", "-", bounds.differences),
    Operation(
        name="ts_diff", takes="pp>v", nulls=Nulls.OPERAND, bound=bounds.differences, grid=bounds.grid_of_moments,
        interval=Span.DIFFERENCE, fold=constants.time_between,
        duckdb=f"(CASE WHEN {_both(_MOMENT)} THEN {{0:m}} - {{1:m}} END)",
        postgres=f"(CASE WHEN {_both(_POSTGRES_MOMENT)} THEN {{0}} - {{1}} END)", spark=Refused(),
    ),
    Operation(
        name="age", takes="pp>v", nulls=Nulls.OPERAND, bound=bounds.differences, interval=Span.AGE, functions=("age",),
        operands="pp", result="interval",
        duckdb=f"(CASE WHEN {{0:m}} {_YEARS} AND {{1:m}} {_YEARS} THEN age({{0:m}}, {{1:m}}) END)",
        postgres=f"(CASE WHEN {{0}} {_POSTGRES_YEARS} AND {{1}} {_POSTGRES_YEARS} THEN age({{0}}, {{1}}) END)", spark=_SPANS,
    ),
    Operation(
        name="interval_times", takes="ivi>v", nulls=Nulls.OPERAND, form=bounds.multiples, interval=Span.MULTIPLE,
        duckdb="(CASE WHEN {0:i} BETWEEN -{2} AND {2} THEN {0:i} * {1} END)",
        postgres="(CASE WHEN {0:i} BETWEEN -{2} AND {2} THEN {0:i} * {1} END)", spark=_SPANS,
    ),
    Operation(
        name="interval_parts", takes="[inf]iii>v", nulls=Nulls.OPERAND, interval=Span.PARTS,
        duckdb=f"(CASE WHEN {{0:f}} BETWEEN -{{3}} AND {{3}} THEN to_days(CAST({_DAYS} AS INTEGER)) + {_REST} END)",
        postgres="(CASE WHEN {0:f} BETWEEN -{3} AND {3} "
        "THEN {0:f} * make_interval(days => ({1})::int, secs => {2} / 1000000.0) END)",
        spark=Refused(),
    ),
    Operation(
        name="make_date", takes="iii>d", nulls=Nulls.OTHERS, bound=bounds.dates, grid=bounds.whole,
        functions=("make_date", "date_from_parts"),
        operands="www", result="date",
        fold=constants.date_of_numbers,
        duckdb=f"(CASE WHEN {_IS_DATE} THEN TRY_CAST(printf('%04d-%02d-%02d', {{0:i}}, {{1:i}}, {{2:i}}) AS DATE) END)",
        postgres=f"(CASE WHEN {_IS_DATE} "
        f"THEN CASE WHEN {{2:i}} <= {_LAST_DAY} THEN make_date({{0:i}}::int, {{1:i}}::int, {{2:i}}::int) END END)",
        spark=by("time", "from_numbers"),
    ),
    Operation(
        name="from_epoch", takes="f>p", nulls=Nulls.OTHERS, bound=bounds.first,
        duckdb="(CASE WHEN {0:f} BETWEEN -62135596800 AND 253402300799 "
        "THEN TIMESTAMP '1970-01-01' + to_microseconds(CAST(round({0:f} * 1000000) AS BIGINT)) END)",
        postgres=f"(CASE WHEN {{0:f}} BETWEEN {_FIRST_SECOND} AND {_LAST_SECOND} "
        "THEN timezone('UTC', to_timestamp({0:f})) END)",
        spark=by("moment_of_seconds"),
    ),
    _zone(
        FROM_UTC, 1, constants.from_utc, "timezone({1}, timezone('UTC', {0:m}))",
        "timezone({1}, timezone('UTC', {0}))", by("clocks_of"),
    ),
    _zone(
        TO_UTC, -1, constants.to_utc, "timezone('UTC', timezone({1}, {0:m}))", "timezone('UTC', timezone({1}, {0}))",
        Refused("an hour that clocks show twice is read otherwise"),
    ),
    Operation(
        name="isfinite", takes="[dp]>b", nulls=Nulls.OPERAND, functions=("isfinite",), operands="m", result="bool",
        duckdb="isfinite({0})", postgres="isfinite({0})",
        spark="(CASE WHEN {0} IS NOT NULL THEN TRUE END)",
    ),
)  # fmt: skip
