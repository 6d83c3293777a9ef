"""What is read from stored tables: the same integers as from scratch, and no more of a unit, for whatever is asked.

The tables of each statement are made of its own plan, and of the policy's, beside the database and beside each of its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import plan_harness
import pytest
from fixture_cases import ACCEPTED, Case
from plan_harness import Sensitivity, Shop, as_ordered, values_of
from stored_harness import is_read, opened, prepare, read, tables_of, texts

from dpproxy.acceleration.preparation import stored_tables
from dpproxy.plan.context import StoredTable
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy

WHALES = 3
"""Neighbours that lack a unit: whales and outliers."""


@pytest.fixture(scope="module")
def shop() -> Shop:
    return opened(Shop(1, WHALES))


def problems(case: Case, given: Policy, shop: Shop, catalog: Catalog, tables: Sequence[StoredTable]) -> list[str]:
    """What is wrong with a statement that is read from tables."""
    stored = read(case, given, catalog, tables)
    plain, values = read(case, given, catalog, ()), values_of(stored, case.values)
    prepare(shop, tables, " ".join(text for m in stored.measurements for text in texts(m, values)))
    found = Sensitivity(shop).problems(stored, case.values)
    for one, other in zip(plain.measurements, stored.measurements, strict=True):
        found += [f"{name} differs" for name in ("canonical", "bases", "l0") if getattr(one, name) != getattr(other, name)]
        pairs = zip(texts(one, values), texts(other, values), strict=True)
        found += ["read otherwise" for a, b in pairs if as_ordered(a, shop.run(a)) != as_ordered(b, shop.run(b))]
    return found


@pytest.mark.long
@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_every_statement(case: Case, shop: Shop, shop_catalog: Catalog) -> None:
    """By tables made of the statement itself."""
    given = plan_harness.policy(case.policy)
    tables = stored_tables(given, shop_catalog, "duckdb", asked=[case.sql])
    assert problems(case, given, shop, shop_catalog, tables) == []


BY_STATUS = "SELECT status, count(*), sum(amount), avg(amount), stddev(qty) FROM orders GROUP BY 1"
BY_PAGE = "SELECT page, sum(secs) FROM visits GROUP BY 1"
UNDECLARED = "SELECT category, count(*), sum(qty) FROM orders GROUP BY 1"
IN_ALL = "SELECT count(*), sum(qty), count(DISTINCT customer_id) FROM orders"


@pytest.mark.parametrize(("sql", "name"), [(BY_STATUS, "whole"), (BY_PAGE, "shop"), (IN_ALL, "whole"), (UNDECLARED, "whole")])
def test_dashboards(sql: str, name: str, shop: Shop, shop_catalog: Catalog) -> None:
    """By tables made of the policy; of keys that it does not declare, by those of the statement."""
    given, case = plan_harness.policy(name), Case("dashboards", name, sql)
    tables = tables_of(case, given, shop_catalog, [sql] if sql == UNDECLARED else ())
    assert is_read(read(case, given, shop_catalog, tables))
    assert problems(case, given, shop, shop_catalog, tables) == []
