"""Statements that grow while they are planned are planned in little room, or cut off."""

from __future__ import annotations

import tracemalloc

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.translation import spelled_out

ROOM = 64 * 2**20  # bytes; a text of texts of 30 levels would take a thousand times as much


def _peak(sql: str, catalog: Catalog) -> int:
    tracemalloc.start()
    try:
        plan_harness.plan(sql, catalog, plan_harness.policy())
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("other", ["SELECT qty FROM orders", "SELECT 1"])
def test_many_branches(other: str, shop_catalog: Catalog) -> None:
    """The name of a column held the text of its relation, which held names of columns: 2 to the branches."""
    sql = f"SELECT count(*) FROM ({' UNION ALL '.join(['SELECT qty FROM orders', other] * 20)}) t"
    assert _peak(sql, shop_catalog) < ROOM


def test_ctes_that_double(shop_catalog: Catalog) -> None:
    steps = ", ".join(f"a{i} AS (SELECT x FROM a{i - 1} UNION ALL SELECT x FROM a{i - 1})" for i in range(1, 20))
    with pytest.raises(Refusal) as caught:
        _peak(f"WITH a0 AS (SELECT qty AS x FROM orders), {steps} SELECT count(*) FROM a19", shop_catalog)
    assert caught.value.sqlstate == "54001"


def test_laterals_that_double(shop_catalog: Catalog) -> None:
    items = " ".join(
        f"CROSS JOIN LATERAL (SELECT {'o.qty + o.qty' if i == 0 else f'l{i - 1}.x + l{i - 1}.x'} AS x) l{i}" for i in range(20)
    )
    with pytest.raises(Refusal):
        _peak(f"SELECT count(*) FROM orders o {items} WHERE l19.x > 1", shop_catalog)


def test_names_of_long_outputs() -> None:
    many = " + ".join(["count(*)"] * 200)
    query = f"SELECT {many} AS n FROM t HAVING {' AND '.join(['n > 1'] * 200)}"
    assert spelled_out(query, frozenset()) is query
