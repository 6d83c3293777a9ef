"""Times of constants come to what PostgreSQL says they are, at the ends of months, in skipped and repeated hours, in any zone."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any, cast

import psycopg
import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.bind.conditions import EnclosingQuery
from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.context import Clock
from dpproxy.plan.functions.constant_times import beside_column, folded, read_time
from dpproxy.plan.functions.operators import compare
from dpproxy.sql.skeleton import parse_expression
from dpproxy.tree.expr import Call, Cast, Column, Expr, Hole, Lit, Ref

ZONES = (None, "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
TURNS = ("2024-03-31", "2024-10-27", "2024-03-10", "2024-11-03", "2024-04-07", "2024-10-06")
"""Days on which clocks of these zones are changed."""

FORMS = [
    "now() - interval '13 months'", "now() + interval '1 month'", "now() - interval '1 year 2 months 40 days'",
    "current_date - 90", "current_date + 1", "current_date - interval '1 month'", "current_date - date '2020-02-29'",
    "date_trunc('month', now())", "date_trunc('month', now()) - interval '1 month'", "date_trunc('week', current_date)",
    "date_trunc('quarter', now())::date", "date_trunc('decade', now())", "date_trunc('hour', now()) - interval '36 hours'",
    "now() - interval '90 minutes'", "now() - interval '7200 seconds'", "(now() - interval '5 days')::date",
    "CURRENT_TIMESTAMP AT TIME ZONE 'Asia/Tokyo'", "(now() AT TIME ZONE 'America/New_York')::date", "localtimestamp - interval '1 day'",
    "(localtimestamp AT TIME ZONE 'Europe/Paris')", "date '2024-01-31' + interval '1 month'", "'2024-02-29'::date + 366",
    "'2024-03-31'::timestamp - interval '1 month'", "date_trunc('year', '2024-05-17'::timestamp) + interval '1 year' - interval '1 day'",
    "make_date(2024, 2, 29) - interval '12 months'", "extract(year FROM current_date)::int", "extract(isodow FROM now())::int",
    "date_part('week', now())", "extract(doy FROM now())::int", "to_char(now(), 'YYYY-MM')", "to_char(current_date, 'YYYYMMDD')",
    "now() - date_trunc('month', now()) > interval '14 days'", "current_date > '2024-06-30'", "now()::date = current_date",
    "to_date('20240131', 'YYYYMMDD') + 30", "to_timestamp('2024-05-01 13:14:15.123456', 'YYYY-MM-DD HH24:MI:SS.US')",
    "'yesterday'::date", "'today'::timestamp", "timestamp '2024-01-31 12:00' - timestamp '2024-03-01 11:59:59.5' < interval '0'",
]  # fmt: skip


class Query:
    """What an expression without columns asks of the query around it."""

    def __init__(self, now: dt.datetime | None, zone: str | None) -> None:
        self._clock, self._zone = None if now is None else Clock(now), zone

    def clock(self) -> Clock | None:
        return self._clock

    def zone(self) -> str | None:
        return self._zone

    def facade_constant(self, sql: str, type_: str) -> Expr:
        return Hole(type_, 0)


def bound(sql: str, now: dt.datetime | None, zone: str | None = None) -> Expr:
    return ExprBinder(cast(EnclosingQuery, Query(now, zone))).bind(parse_expression(sql), Scope(()))


def moments(dice: random.Random) -> dt.datetime:
    """Ends of months, changes of clocks, and any time."""
    day = (
        dt.date.fromisoformat(dice.choice(TURNS))
        if dice.random() < 0.4
        else dt.date(2023, 12, 25) + dt.timedelta(dice.randrange(800))
    )
    if dice.random() < 0.3:
        day = day.replace(day=1) - dt.timedelta(1)
    return dt.datetime.combine(day, dt.time(dice.randrange(24), dice.randrange(60), dice.randrange(60), dice.randrange(10**6)))


def test_constants_are_what_postgresql_says(postgres: psycopg.Connection[Any]) -> None:
    dice, wrong, said = random.Random(17), [], 0
    for round_ in range(12):
        zone = ZONES[round_ % len(ZONES)]
        postgres.execute("SELECT set_config('TimeZone', %s, false)", (zone or "UTC",))
        asked = []
        for form in FORMS:
            now = shown(postgres, moments(dice))
            try:
                found = bound(form, now, zone)
            except Refusal:  # days and hours together, in a zone
                continue
            assert isinstance(found, Lit) or ("interval '" in form and form.count(">") + form.count("<") > 0), form
            if isinstance(found, Lit):
                asked.append((form, now, found))
        theirs = postgres.execute(f"SELECT {', '.join(spelled(form, now, lit) for form, now, lit in asked)}").fetchone()
        wrong += [(zone, *a, b) for a, b in zip(asked, theirs or (), strict=True) if not b]
        said += len(asked)
    assert wrong == []
    assert said > 10 * len(FORMS)
    postgres.execute("RESET TimeZone")


def shown(postgres: psycopg.Connection[Any], local: dt.datetime) -> dt.datetime:
    """A time that the session's clocks do show: what they skip they never do."""
    row = postgres.execute("SELECT (%s::timestamp)::timestamptz::timestamp", (local,)).fetchone()
    assert row is not None
    return cast(dt.datetime, row[0])


def spelled(form: str, now: dt.datetime, found: Lit) -> str:
    """Whether PostgreSQL, at that time, comes to what was found."""
    local = f"timestamp '{now.isoformat(sep=' ')}'"
    text = form
    for name, value in (
        ("now()", f"({local})::timestamptz"), ("CURRENT_TIMESTAMP", f"({local})::timestamptz"), ("localtimestamp", f"({local})"),
        ("current_date", f"({local})::date"), ("'yesterday'::date", f"(({local})::date - 1)"),
        ("'today'::timestamp", f"({local})::date::timestamp"),
    ):  # fmt: skip
        text = text.replace(name, value)
    return f"({text})::{found.type} = '{found.text}'::{found.type}"


def test_only_a_time_of_day_moves() -> None:
    now = dt.datetime(2024, 5, 17, 10, 11, 12, 131415)
    moving = {form: getattr(bound(form, now), "moving", False) for form in FORMS}
    assert [form for form, moves in moving.items() if moves] == [
        "now() - interval '13 months'", "now() + interval '1 month'", "now() - interval '1 year 2 months 40 days'",
        "now() - interval '90 minutes'", "now() - interval '7200 seconds'", "CURRENT_TIMESTAMP AT TIME ZONE 'Asia/Tokyo'",
        "localtimestamp - interval '1 day'", "(localtimestamp AT TIME ZONE 'Europe/Paris')",
    ]  # fmt: skip


def test_without_a_clock_the_facade_is_asked() -> None:
    assert bound("now()", None) == Hole("timestamptz", 0)
    assert bound("current_date - 90", None) == Call("date", "date_sub", (Hole("date", 0), Lit("int4", "90")))


@pytest.mark.parametrize(
    "expr",
    [
        Call("timestamp", "ts_add", (Lit("timestamp", "9999-12-31 00:00:00"), Lit("interval", "1 0 0"))),
        Call("timestamp", "ts_sub", (Lit("timestamp", "0001-01-01 00:00:00"), Lit("interval", "0 1 0"))),
        Call("timestamp", "ts_add", (Lit("timestamp", None), Lit("interval", "1 0 0"))),
        Call("timestamp", "trunc_time", (Lit("text", "century"), Lit("timestamp", "2024-01-01 00:00:00"))),
        Call("timestamp", "trunc_time", (Lit("text", "decade"), Lit("timestamp", "0005-01-01 00:00:00"))),
        Call("text", "strftime", (Lit("timestamp", "2024-01-01 00:00:00"), Lit("text", "%B"))),
        Call("date", "make_date", (Lit("int4", "2023"), Lit("int4", "2"), Lit("int4", "29"))),
        Call("timestamp", "ts_add", (Ref("timestamp", Column(1, "ts", "timestamp")), Lit("interval", "1 0 0"))),
        Call("int4", "+", (Lit("int4", "1"), Lit("int4", "2"))),
        Cast("int4", Lit("int8", "2147483648")),
        Cast("numeric", Lit("int8", "7"), (3, 2)),
    ],
)
def test_what_has_no_rule_is_left_to_the_engine(expr: Expr) -> None:
    assert folded(expr) == expr


def test_a_date_beside_a_moment_is_compared_with_a_day(postgres: psycopg.Connection[Any]) -> None:
    """For every day around it the answer is the same, and it is the same all day."""
    day = Ref("date", Column(1, "d", "date"))
    for clock in ("00:00:00", "00:00:01", "23:59:59.999999"):
        moment = Lit("timestamp", f"2024-03-10 {clock}", True)
        for op in ("<", "<=", ">", ">="):
            for made in (compare(op, day, moment), compare({"<": ">", "<=": ">=", ">": "<", ">=": "<="}[op], moment, day)):
                (constant,) = (a for a in made.args if isinstance(a, Lit)) if isinstance(made, Call) else ()
                assert (constant.type, constant.moving) == ("date", False)
                text = (
                    f"d {made.op}" if isinstance(made, Call) and made.args[0] == day else f"'{constant.text}'::date {made.op} d"
                )
                text = text if text.endswith(" d") else f"{text} '{constant.text}'::date"
                sql = "SELECT count(*) FROM generate_series(-2, 2) AS i, LATERAL (SELECT date '2024-03-10' + i AS d) AS _ "
                different = postgres.execute(f"{sql} WHERE ({text}) <> (d {op} '{moment.text}'::timestamp)").fetchone()
                assert different == (0,), (op, clock)


def test_an_instant_beside_a_date_is_compared_with_its_midnight() -> None:
    instant = Ref("timestamptz", Column(1, "t", "timestamptz"))
    assert beside_column(">=", instant, Lit("date", "2024-01-02")) == (">=", instant, Lit("timestamptz", "2024-01-02 00:00:00"))
    same = ("=", instant, Lit("timestamptz", "2024-01-02 10:00:00"))
    assert beside_column(*same) == same


@pytest.mark.parametrize(
    ("text", "form", "found"),
    [
        ("2024-01-31", "YYYY-MM-DD", "2024-01-31"),
        ("31/01/2024", "DD/MM/YYYY", "2024-01-31"),
        ("20240131", "yyyymmdd", "2024-01-31"),
        ("2024-1-31", "YYYY-MM-DD", None),
        ("2024-02-30", "YYYY-MM-DD", None),
        ("24-01-31", "YY-MM-DD", None),
        ("2024-01-31 tail", "YYYY-MM-DD", None),
        ("2024-01-31", "YYYY-MM-DD TZ", None),
        ("20242024", "YYYYYYYY", None),
    ],
)
def test_texts_are_read_where_they_have_every_digit(text: str, form: str, found: str | None) -> None:
    assert read_time("date", text, form) == (None if found is None else Lit("date", found))
