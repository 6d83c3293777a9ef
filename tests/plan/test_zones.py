"""Instants are read in UTC: a session in another zone would have them shifted, and is told so before anything is spent."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog, TableName

SQL = "SELECT date_trunc('day', ts) AS day, count(*) FROM orders GROUP BY 1"


@pytest.fixture(scope="module")
def instants(shop_catalog: Catalog) -> Catalog:
    """The shop, whose orders have a column of type timestamptz."""
    name = TableName("public", "orders")
    table = shop_catalog.tables[name]
    columns = tuple(replace(c, type="timestamptz") if c.name == "ts" else c for c in table.columns)
    return Catalog({**shop_catalog.tables, name: replace(table, columns=columns)})


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "GMT"])
def test_utc_by_its_names(zone: str, instants: Catalog) -> None:
    assert plan_harness.plan(SQL, instants, TimeZone=zone).measurements


def test_another_zone_is_refused_where_it_matters(instants: Catalog) -> None:
    with pytest.raises(Refusal, match="Europe/Paris") as refused:
        plan_harness.plan(SQL, instants, TimeZone="Europe/Paris")
    assert refused.value.sqlstate == "0A000"
    assert refused.value.position == SQL.index("ts)") + 1
    assert "SET TimeZone" in (refused.value.hint or "")
    assert plan_harness.plan("SELECT count(*) FROM orders", instants, TimeZone="Europe/Paris").measurements


def test_local_timestamps_have_no_zone(shop_catalog: Catalog) -> None:
    assert plan_harness.plan(SQL, shop_catalog, TimeZone="Europe/Paris").measurements
