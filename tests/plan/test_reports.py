"""Readings of reports on every engine: the same integers, whatever is asked. The shop's orders stand for reports of devices.

What is estimated of these integers is tested with the second door (tests/mechanisms), and through a proxy (tests/serve).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache

import plan_harness
import pytest
from each_engine import Engine
from plan_harness import AnyShop, cells

from dpproxy.engines import literal
from dpproxy.local.claims import Binary, Direct, Levels
from dpproxy.mechanisms.noise import Exact
from dpproxy.mechanisms.reports import estimates
from dpproxy.plan.model import Plan
from dpproxy.plan.outer.report_weights import settled
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Bounds, ColumnPolicy, Policy, Randomised, Reports, TablePolicy
from dpproxy.policy.report_columns import visible_catalog
from dpproxy.sql.statements import split
from dpproxy.sql.template import Dialect

COIN, KRR = Binary(Fraction(3, 4), Fraction(1, 4)), Direct.within(Fraction(2), 3)
LEVELS = Levels.within(Fraction(2), Fraction(0), Fraction(20), 21)


@cache
def policy() -> Policy:
    """The shop with orders as reports, of a table that is called the same."""
    given = plan_harness.policy()
    name = next(n for n in given.tables if n.name == "orders")
    columns = {
        "category": ColumnPolicy("category", plain=True),
        "order_id": ColumnPolicy("order_id", range=(Decimal(0), Decimal(100_000)), plain=True),
        "paid": ColumnPolicy("paid", randomised=Randomised(((1, COIN),), "paid")),
        "status": ColumnPolicy("status", randomised=Randomised(((1, KRR),), "status", ("open", "paid", "void"))),
        "level": ColumnPolicy("level", randomised=Randomised(((1, LEVELS),), "qty")),
    }
    reports = Reports(Fraction(9), at_least=10)
    return replace(given, tables={**given.tables, name: TablePolicy(name, None, False, Bounds(1, 1), columns, reports=reports)})


def planned(sql: str, catalog: Catalog, dialect: Dialect) -> Plan:
    (statement,) = split(sql, frozenset({"orders", "customers"}))
    role = replace(next(iter(policy().roles.values())), tables=None)
    return planning(policy(), visible_catalog(policy(), catalog), dialect)(statement, role, {}, ())


STATEMENTS = (
    "SELECT count(*) FROM orders",
    "SELECT status, count(*) FROM orders GROUP BY status",
    "SELECT category, status, count(*) FROM orders WHERE order_id > 3 GROUP BY 1, 2",
    "SELECT paid, status, count(*) FROM orders GROUP BY 1, 2",
    "SELECT count(*) FILTER (WHERE paid), count(*) FILTER (WHERE category = 'toys'), avg(order_id) FROM orders WHERE status <> 'void'",
    "SELECT category, sum(order_id) FILTER (WHERE paid), sum(level), avg(level) FROM orders GROUP BY 1",
    "SELECT p.title, count(*) FROM orders o JOIN products p ON p.product_id = o.order_id WHERE paid GROUP BY 1",
)


PASSED_ON = {
    "SELECT category, count(*) FILTER (WHERE paid) FROM orders WHERE order_id > 3 GROUP BY 1": (
        "SELECT d, count(*) FILTER (WHERE h) FROM (SELECT paid h, category d FROM orders WHERE order_id > 3) t GROUP BY d",
        "WITH a AS (SELECT paid h, category d FROM orders WHERE order_id > 3) SELECT d, count(*) FILTER (WHERE h) FROM a GROUP BY 1",
        'SELECT "d", count(*) FILTER (WHERE t."paid") FROM (SELECT *, category AS d FROM orders) t WHERE order_id > 3 GROUP BY d',
        "WITH a AS (SELECT * FROM orders), b (h, d) AS (SELECT paid, category FROM a WHERE a.order_id > 3)"
        " SELECT b.d, count(*) FILTER (WHERE b.h) FROM b GROUP BY b.d",
    ),
    "SELECT status, avg(level) FROM orders WHERE status <> 'void' AND order_id > 3 GROUP BY status": (
        "SELECT s, avg(l) FROM (SELECT status s, level l, order_id FROM orders WHERE status <> 'void') t WHERE order_id > 3 GROUP BY s",
        "SELECT a, avg(l) FROM (SELECT x AS a, l FROM (SELECT status x, level l, order_id p FROM orders) t WHERE p > 3) t"
        " WHERE a <> 'void' GROUP BY a",
    ),
    "SELECT count(*) FROM orders WHERE status IN ('open', 'void')": (
        "SELECT sum(n) FROM (SELECT count(*) n FROM (SELECT status s FROM orders) t WHERE s = 'open' OR s = 'void') u",
    ),
}
"""Statements, and the same with columns passed on."""


@pytest.mark.parametrize("sql", PASSED_ON)
def test_columns_that_subqueries_pass_on_are_read_as_they_are(sql: str, shop_catalog: Catalog) -> None:
    (direct,) = planned(sql, shop_catalog, "duckdb").readings
    for passed in PASSED_ON[sql]:
        (found,) = planned(passed, shop_catalog, "duckdb").readings
        assert [e.weights for e in found.estimates] == [e.weights for e in direct.estimates]
        assert (found.cells, [key.type for key in found.keys]) == (direct.cells, [key.type for key in direct.keys])


def read(plan: Plan, shop: AnyShop) -> list[Counter[tuple[object, ...]]]:
    """What the backend returns of each reading."""
    return [
        Counter(map(tuple, cells(shop.run(query.render([], literal))))) for reading in plan.readings for query in reading.queries
    ]


def compared(sql: str, catalog: Catalog, one: Engine, other: Engine) -> None:
    found = [read(planned(sql, catalog, engine.dialect), engine.shop(1)) for engine in (one, other)]
    assert found[0]
    assert found[0] == found[1]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_duckdb_and_postgres_return_the_same(
    sql: str, shop_catalog: Catalog, duckdb_engine: Engine, postgres_engine: Engine
) -> None:
    compared(sql, shop_catalog, duckdb_engine, postgres_engine)


@pytest.mark.long
@pytest.mark.parametrize("sql", STATEMENTS)
def test_spark_returns_the_same(sql: str, shop_catalog: Catalog, duckdb_engine: Engine, spark_engine: Engine) -> None:
    compared(sql, shop_catalog, duckdb_engine, spark_engine)


def test_the_second_door_takes_what_engines_return(shop_catalog: Catalog, duckdb_engine: Engine) -> None:
    for sql in STATEMENTS:
        plan = planned(sql, shop_catalog, "duckdb")
        for reading in plan.readings:
            exact = Exact(tuple(duckdb_engine.shop(1).run(query.render([], literal)) for query in reading.queries))
            released, told = estimates(settled(reading, (), ()), exact)
            assert released.rows == len(released.values[0])
            assert told.reports + told.outside > 0
            assert len(plan.arrays) == len(released.keys) + len(released.values)
