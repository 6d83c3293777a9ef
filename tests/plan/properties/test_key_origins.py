"""Keys are followed through subqueries and time zones to what is declared: every value that rows can have is among the groups."""

from __future__ import annotations

import datetime as dt
import random
import zoneinfo
from dataclasses import replace

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.plan.properties.key_origins import MAX_ORIGIN, clipped, expanded, local_days, origin, over_computed
from dpproxy.plan.properties.null_padding import nulled_column
from dpproxy.tree.expr import Agg, Cast, Expr, SeriesDomain, Win

DAYS = SeriesDomain(19_723, 19_753, "day")  # January 2024
MOMENT = column(1, "timestamp", domain=DAYS)
MONTH = call("trunc_time", lit("month", "text"), ref(MOMENT), type_="timestamp")
MADE = column(2, "timestamp", made=MONTH)
ZONES = ("Europe/Paris", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu")


def test_a_column_of_a_subquery_is_its_expression() -> None:
    assert expanded(ref(MADE)) == MONTH
    assert expanded(call("year", ref(MADE), type_="int8")) == call("year", MONTH, type_="int8")
    assert origin(call("year", ref(MADE), type_="int8")) == call("year", MONTH, type_="int8"), "down to the ground"
    assert expanded(ref(replace(MADE, domain=DAYS))) == ref(MADE), "what has declared values of its own keeps them"
    assert nulled_column(MADE).made is None, "it is NULL in rows that an outer join did not match"


def test_what_is_of_several_rows_or_too_long_is_not_followed() -> None:
    assert origin(Agg("timestamp", "max", (ref(MOMENT),))) is None
    assert origin(Win("timestamp", "lag", (ref(MOMENT),), (), ())) is None
    long: Expr = ref(MOMENT)
    for _ in range(MAX_ORIGIN):
        long = Cast("timestamp", long)
    assert origin(long) is None


@pytest.mark.parametrize("zone", ZONES)
def test_every_moment_of_declared_days_is_on_a_day_of_the_clock(zone: str) -> None:
    dice, there = random.Random(3), zoneinfo.ZoneInfo(zone)
    shown = local_days(call("from_utc", ref(MOMENT), lit(zone, "text"), type_="timestamp"), ())
    back = local_days(call("to_utc", ref(MOMENT), lit(zone, "text"), type_="timestamptz"), ())
    assert shown is not None
    assert back is not None
    assert shown.size <= DAYS.size + 2
    epoch = dt.date(1970, 1, 1)
    for second in [0, DAYS.size * 86_400 - 1, *(dice.randrange(DAYS.size * 86_400) for _ in range(200))]:
        moment = dt.datetime(2024, 1, 1) + dt.timedelta(seconds=second)
        local = moment.replace(tzinfo=dt.UTC).astimezone(there).date()
        utc = moment.replace(tzinfo=there).astimezone(dt.UTC).date()
        assert shown.lo <= (local - epoch).days <= shown.hi
        assert back.lo <= (utc - epoch).days <= back.hi


def test_other_clocks_than_those_of_declared_days_are_not_known() -> None:
    for strange in (
        call("from_utc", ref(column(5, "timestamp")), lit("Europe/Paris", "text")),
        call("from_utc", ref(MOMENT), lit("Nowhere/Town", "text")),
        call("from_utc", MONTH, lit("Europe/Paris", "text")),
        ref(MOMENT),
    ):
        assert local_days(strange, ()) is None
    far = replace(MOMENT, domain=SeriesDomain(-719_162, -719_160, "day"))
    assert local_days(call("from_utc", ref(far), lit("Europe/Paris", "text")), ()) is None, (
        "the year 1 begins in the year 0 there"
    )


def test_comparisons_with_constants_leave_a_part() -> None:
    """Whatever else is known of the column where it is compared; some day is left even where none is."""
    since = call(">=", ref(replace(MOMENT, nullable=False)), lit("2024-01-10 12:00:00", "timestamp"))
    until = call("<", ref(MOMENT), lit("2024-01-20 00:00:00", "timestamp"))
    assert clipped(DAYS, MOMENT, [since, until]) == SeriesDomain(19_732, 19_741, "day")
    assert clipped(replace(DAYS, nulls=True), MOMENT, [since]) == SeriesDomain(19_732, 19_753, "day")
    assert clipped(replace(DAYS, nulls=True), MOMENT, ()) == replace(DAYS, nulls=True)
    never = call(">", ref(MOMENT), lit("2030-01-01 00:00:00", "timestamp"))
    assert clipped(DAYS, MOMENT, [never]).size == 1
    hours = SeriesDomain(DAYS.lo * 24, DAYS.hi * 24 + 23, "hour")
    assert clipped(hours, MOMENT, [since]).lo == 19_732 * 24 + 12


def test_conditions_are_tried_on_the_clock_they_look_at() -> None:
    local = call("from_utc", ref(MOMENT), lit("Europe/Paris", "text"), type_="timestamp")
    clock = column(-1, "timestamp", domain=DAYS)
    assert over_computed(call("<", local, lit("1", "int4")), {local: clock}) == call("<", ref(clock), lit("1", "int4"))
