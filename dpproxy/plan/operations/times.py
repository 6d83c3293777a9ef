"""Rows of the catalogue: fields of times, what is added to them, and how they are cut and printed.

Knows: the calendars of engines, and where each raises or wraps around. Must not know: where they are used. Moments are computed
between the years 1 and 9999 where they are shifted or subtracted, and are NULL elsewhere.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from dpproxy.plan.operations import bounds, constants, fields, lengths
from dpproxy.plan.operations.fields import YEAR_SECONDS, interval_field
from dpproxy.plan.operations.operation import (
    BoundRule,
    FoldRule,
    FormRule,
    Nulls,
    Operation,
    Refused,
    Span,
    Spelling,
    StepRule,
    by,
)
from dpproxy.plan.operations.units import DAY

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
    return _field(name, "[dp]>i", most, spark, value, None, fields.of_days, endless=endless, early=early)


def _field(
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
        name=name, takes=takes, nulls=Nulls.OPERAND, form=form, field=True, duckdb=duckdb,
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
    _field(
        "year", "[dpv]>i", (-6_000_000, 6_000_000), "year({0})", lambda t: t.year,  # of DuckDB's and PostgreSQL's dates
        fields.year_field(interval_field("year", 200_000_000, _YEAR_OF, {Span.AGE: YEAR_SECONDS})), fields.of_months,
        endless=True,
    ),
    _of_moments("quarter", (1, 4), "quarter({0})", lambda t: (t.month + 2) // 3),
    _field(
        "month", "[dpv]>i", (1, 12), "month({0})", lambda t: t.month, interval_field("month", 11, {Span.DIFFERENCE: 0}),
        fields.of_months,
    ),
    _of_moments("week", (1, 53), "weekofyear({0})", lambda t: t.isocalendar()[1], early=False),
    _field(
        "day", "[dpv]>i", (1, 31), "day({0})", lambda t: t.day,
        interval_field("day", 2**31, _DAY_OF, {Span.DIFFERENCE: DAY}), fields.of_days,
    ),
    _field(
        "hour", "[pvc]>i", (0, 23), "hour({0})", lambda t: t.hour,
        interval_field("hour", 2_600_000_000, {Span.DIFFERENCE: 23, Span.AGE: 23}), fields.of_hours,
    ),
    _field("minute", "[pvc]>i", (0, 59), "minute({0})", lambda t: t.minute, interval_field("minute", 59), None),
    _seconds(
        "second", "[pvc]>[nf]", interval_field("second", 60), "(EXTRACT(microseconds FROM {0}) / 1000000.0)",
        bound=bounds.within(0, 60),
    ),
    _seconds("epoch", "[dpvc]>[nf]", bounds.epochs, "epoch({0})", bound=bounds.first, rises=0),
    _of_moments("dow", (0, 6), "dayofweek({0}) - 1", lambda t: t.isoweekday() % 7),
    _of_moments("isodow", (1, 7), _WEEKDAY, lambda t: t.isoweekday()),
    _of_moments("doy", (1, 366), "dayofyear({0})", lambda t: t.timetuple().tm_yday),
    _field(  # the year of the week's Thursday; Sail lacks YEAROFWEEK, and its weekday() of a Sunday is -1
        "isoyear", "[dp]>i", (0, 0), "year(date_add(CAST({0} AS DATE), 3 - pmod(dayofweek({0}) + 5, 7)))",
        lambda t: t.isocalendar()[0], None, fields.of_days,
        endless=True, early=False, bounded=False,
    ),
    Operation(
        name=CUT_TO, takes="tp>p", nulls=Nulls.OPERAND, bound=bounds.second, form=bounds.cut_moments,
        count=fields.count_of_units, step=fields.step_of_unit, moment=1, rises=1, fold=constants.cut, steady=True, cuts=True,
        duckdb="(CASE WHEN {1} >= TIMESTAMP '4000-01-01 (BC)' OR {1} = TIMESTAMP '-infinity' THEN date_trunc({0}, {1}) END)",
        postgres="(CASE WHEN {1} >= '4000-01-01 BC'::timestamp OR {1} = '-infinity'::timestamp THEN date_trunc({0:q}, {1}) END)",
        spark=by("cut"),
    ),
    Operation(
        name="date_bin", takes="vpp>p", nulls=Nulls.OPERAND, bound=bounds.second, form=bounds.binned,
        count=fields.count_of_bins,
        step=fields.step_of_bins, moment=1,
        duckdb=f"(CASE WHEN {{1:m}} {_YEARS} THEN time_bucket({{0}}, {{1:m}}, {{2:m}}) END)",
        postgres=f"(CASE WHEN {{1}} {_POSTGRES_YEARS} THEN date_bin({{0}}, {{1}}, {{2}}) END)", spark=_SPANS,
    ),
    Operation(
        name="strftime", takes="pt>t", nulls=Nulls.OPERAND, count=fields.count_of_formats, step=fields.step_of_format,
        length=lengths.printed, prints=True, fold=constants.printed, steady=True, duckdb="strftime({0}, {1})",
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
