"""Measurements that are others at each time of day say so; those of a day are the same all day, and narrow what is declared."""

from __future__ import annotations

import plan_harness
import pytest

from dpproxy.plan.measure.fingerprint import MOVING, moves
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.repeatability import CLOCK

MORNING, EVENING, NEXT = "2024-05-17 08:00:00.000001", "2024-05-17 19:11:12.131415", "2024-05-18 08:00:00.000001"


def planned(catalog: Catalog, sql: str, clock: str) -> Plan:
    return plan_harness.plan(sql, catalog, **{CLOCK: clock})


@pytest.mark.parametrize(
    "where",
    [
        "ts >= current_date - 90", "ts >= date_trunc('month', now()) - interval '13 months'", "due >= now() - interval '90 days'",
        "due < localtimestamp", "ts >= (now() - interval '30 days')::date", "ts::date >= CURRENT_TIMESTAMP AT TIME ZONE 'Europe/Paris'",
    ],
)  # fmt: skip
def test_the_same_measurement_all_day(shop_catalog: Catalog, where: str) -> None:
    sql = f"SELECT count(*) FROM orders WHERE {where}"
    first, later, next_day = (planned(shop_catalog, sql, clock).measurements for clock in (MORNING, EVENING, NEXT))
    assert first == later
    assert (next_day == first) == ("month" in where), "in May it is one month all along"
    assert not planned(shop_catalog, sql, MORNING).moving
    assert planned(shop_catalog, sql, MORNING).inputs == ()


def test_one_that_moves_says_so(shop_catalog: Catalog) -> None:
    sql = "SELECT count(*) FROM orders WHERE ts >= now() - interval '90 days'"
    first, later = planned(shop_catalog, sql, MORNING), planned(shop_catalog, sql, EVENING)
    assert first.measurements != later.measurements
    assert first.moving
    assert any(MOVING in line for line in first.explain)


def test_relative_dates_narrow_the_declared_days(shop_catalog: Catalog) -> None:
    """As a constant does: in what is enumerated, and in how many groups a unit can reach."""
    for where, constant in (
        (
            "ts >= now() - interval '3 months' AND ts < now()",
            "ts >= '2024-02-17 08:00:00.000001' AND ts < '2024-05-17 08:00:00.000001'",
        ),
        ("ts >= current_date - 30 AND ts < current_date", "ts >= date '2024-04-17' AND ts < date '2024-05-17'"),
    ):
        for key in ("date_trunc('day', ts)", "date_trunc('month', ts)", "ts::date"):
            relative, fixed = (
                planned(shop_catalog, f"SELECT {key}, count(*) FROM orders WHERE {w} GROUP BY 1", MORNING).measurements
                for w in (where, constant)
            )
            assert relative == fixed
            assert relative[0].dense


def test_nothing_moves_in_what_has_no_constants() -> None:
    assert not moves(((), [], "now", 1, None))
