"""Instants in sessions of other time zones than UTC: the same answers as PostgreSQL's, or a refusal that says what to set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import exact_harness
import plan_harness
import pytest
from exact_harness import Pair

from dpproxy.errors import Refusal
from dpproxy.plan.functions import time_zones
from dpproxy.plan.measure import compiler
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.table_terms import TableName
from dpproxy.tree.expr import Column, Lit, SeriesDomain, Taint
from dpproxy.tree.interval import Interval

SQL = "SELECT date_trunc('day', ts) AS day, count(*) FROM orders GROUP BY 1"
OF_INSTANTS = "ALTER TABLE orders ALTER ts TYPE TIMESTAMP WITH TIME ZONE"

QUERIES = [
    SQL,
    "SELECT date_trunc('month', ts)::date AS m, extract(hour FROM ts) AS h, count(*) FROM orders GROUP BY 1, 2",
    "SELECT to_char(ts, 'YYYY-MM-DD HH24') AS h, count(*) FROM orders GROUP BY 1",
    "SELECT ts::date AS d, count(*), sum(amount) FROM orders WHERE ts >= '2024-02-01' AND ts < DATE '2024-03-01' GROUP BY 1",
    "SELECT count(*) FROM orders WHERE ts >= timestamptz '2024-02-01 00:00:00+00'",
    "SELECT count(*) FROM orders WHERE ts > timestamp '2024-02-01' AND ts::time < time '09:30'",
    "SELECT sum(extract(epoch FROM ts) / 1e6)::numeric(20, 3) FROM orders WHERE ts BETWEEN '2024-01-01' AND '2024-12-31'",
    "SELECT date_part('epoch', ts)::int8 / 86400 AS d, count(*) FROM orders GROUP BY 1",
    "SELECT extract(dow FROM ts + interval '3 hours') AS d, count(*) FROM orders GROUP BY 1",
    "SELECT (ts + interval '1 month')::date AS d, count(*) FROM orders GROUP BY 1",
    "SELECT (ts - 5 * interval '1 hour')::date AS d, count(*) FROM orders GROUP BY 1",
    "SELECT date_trunc('day', ts AT TIME ZONE 'Asia/Tokyo') AS d, count(*) FROM orders GROUP BY 1",
    "SELECT date_trunc('day', ts, 'America/New_York') AS d, count(*) FROM orders GROUP BY 1",
    "SELECT date_trunc('day', ts::timestamp AT TIME ZONE 'Asia/Tokyo') AS d, count(*) FROM orders GROUP BY 1",
    "SELECT date_trunc('day', to_timestamp(extract(epoch FROM ts)::int8)) AS d, count(*) FROM orders GROUP BY 1",
    "SELECT extract(hour FROM first) AS h, count(*) FROM "
    "(SELECT customer_id, min(ts) AS first FROM orders GROUP BY customer_id) AS o GROUP BY 1",
    "SELECT days, count(*) FROM (SELECT customer_id, extract(day FROM max(ts) - min(ts)) AS days "
    "FROM orders GROUP BY customer_id) AS o GROUP BY 1",
    "SELECT (b.ts - a.ts) > interval '30 days' AS later, count(*) FROM orders a JOIN orders b USING (customer_id) "
    "WHERE a.order_id < b.order_id GROUP BY 1",
    "SELECT h, count(*) FROM (SELECT *, extract(hour FROM ts) AS h FROM (SELECT * FROM orders) AS i) AS o GROUP BY 1",
    "SELECT extract(hour FROM ts) AS h, count(*) FROM (SELECT ts, customer_id FROM orders UNION ALL "
    "SELECT ts, customer_id FROM orders) AS o GROUP BY 1",
    "SELECT d.day::date AS day, count(o.order_id) FROM generate_series('2024-02-01'::timestamptz, '2024-02-07', '1 day') AS d(day) "
    "JOIN orders o ON date_trunc('day', o.ts) = d.day GROUP BY 1",
    "SELECT date_trunc('week', ts) AS week, count(DISTINCT customer_id) FROM orders GROUP BY 1",
    "SELECT width_bucket(extract(epoch FROM age(timestamptz '2024-12-31', ts)), 0, 31536000, 6) AS w, count(*) FROM orders "
    "GROUP BY 1",
]


@pytest.fixture(scope="module")
def instants(shop_catalog: Catalog) -> Catalog:
    """The shop, whose orders have a column of type timestamptz."""
    name = TableName("public", "orders")
    table = shop_catalog.tables[name]
    columns = tuple(replace(c, type="timestamptz") if c.name == "ts" else c for c in table.columns)
    return Catalog({**shop_catalog.tables, name: replace(table, columns=columns)})


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    wide = plan_harness.wide(plan_harness.policy())
    made = Pair(tmp_path_factory.mktemp("zones"), wide, request.param, changes=OF_INSTANTS)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Europe/Paris", "America/St_Johns", "Asia/Tokyo"])
def test_answers_are_those_of_the_zone(zone: str, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = plan_harness.wide(plan_harness.policy())
    monkeypatch.setattr(plan_harness, "planning", lambda policy, catalog, _: planning(policy, catalog, pair.dialect))
    monkeypatch.setattr(compiler, "dense_domain", lambda *_: None)
    pair.set_zone(zone)
    for sql in QUERIES:
        ours, _ = pair.answer(plan_harness.plan(sql, pair.catalog, wide, TimeZone=zone))
        assert exact_harness.difference(ours, pair.plain(sql), ordered=False) == "", sql


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "GMT"])
def test_utc_by_its_names(zone: str, instants: Catalog) -> None:
    assert plan_harness.plan(SQL, instants, TimeZone=zone) == plan_harness.plan(SQL, instants)


@pytest.mark.parametrize("zone", ["CET", "<+02>-02", "Mars/Olympus", "posixrules"])
def test_zones_without_a_full_name_are_refused_where_they_matter(zone: str, instants: Catalog) -> None:
    with pytest.raises(Refusal, match="time zone") as refused:
        plan_harness.plan(SQL, instants, TimeZone=zone)
    assert refused.value.sqlstate == "0A000"
    assert refused.value.position == SQL.index("ts)") + 1
    assert "SET TimeZone" in (refused.value.hint or "")
    assert plan_harness.plan("SELECT count(*) FROM orders", instants, TimeZone=zone).measurements


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (ts + interval '1 day 3 hours')::date, count(*) FROM orders GROUP BY 1",
        "SELECT date_bin('7 days', ts, timestamptz '2024-01-01'), count(*) FROM orders GROUP BY 1",
    ],
)
def test_what_is_refused_says_what_to_set(sql: str, instants: Catalog) -> None:
    with pytest.raises(Refusal, match="time zone") as refused:
        plan_harness.plan(sql, instants, TimeZone="Europe/Paris")
    assert "SET TimeZone = 'UTC'" in (refused.value.hint or "")
    assert plan_harness.plan(sql, instants).measurements


def test_local_timestamps_have_no_zone(shop_catalog: Catalog) -> None:
    assert plan_harness.plan(SQL, shop_catalog, TimeZone="Europe/Paris").measurements[0].queries == (
        plan_harness.plan(SQL, shop_catalog).measurements[0].queries
    )


def test_other_zones_are_other_answers(instants: Catalog) -> None:
    plans = [plan_harness.plan(SQL, instants, TimeZone=zone) for zone in ("UTC", "Europe/Paris", "Asia/Tokyo")]
    assert len({made.measurements[0].canonical for made in plans}) == 3


@pytest.mark.parametrize(
    ("zone", "bound", "days"),
    [
        ("Asia/Tokyo", (9 * 3600, 365 * 86400 + 9 * 3600), (0, 365)),
        ("America/New_York", (-5 * 3600, 365 * 86400 - 5 * 3600), (-1, 364)),
        ("Europe/Paris", (3600, 365 * 86400 + 3600), (0, 365)),
    ],
)
def test_bounds_and_days_are_those_of_the_zone(zone: str, bound: tuple[int, int], days: tuple[int, int]) -> None:
    """Of the instants of 1970, in UTC."""
    year = Interval(Fraction(0), Fraction(365 * 86400))
    column = Column(1, "ts", "timestamptz", year, domain=SeriesDomain(0, 364, "day"))
    local = time_zones.column_in_zone(column, zone)
    assert local.bound == Interval(*map(Fraction, bound))
    assert isinstance(local.domain, SeriesDomain)
    assert (local.domain.lo, local.domain.hi) == days
    assert time_zones.column_in_zone(column, None) is column
    assert time_zones.column_in_zone(replace(column, type="timestamp"), zone).zone == ""


def test_identifiers_stay_as_they_are() -> None:
    """Two people of the hour that clocks show twice are two people."""
    column = time_zones.column_in_zone(Column(1, "id", "timestamptz", taint=Taint.UNIT), "Europe/Paris")
    assert (column.zone, column.usable) == ("", False)
    assert "SET TimeZone = 'UTC'" in column.reason


def test_an_instant_taken_back_is_itself() -> None:
    made = Lit("timestamptz", "2024-01-01 00:00:00")
    assert time_zones.instant(time_zones.local_time(made, "Europe/Paris"), "Europe/Paris") is made
    assert time_zones.instant(made, None) is made
