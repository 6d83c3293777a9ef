"""Items taken out of FROM: their columns' meanings stand where their names stood, and the rows stay the same. Tried in an engine."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import plan_harness
import pytest
from sqlglot import exp

from dpproxy.plan.context import Context
from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite import lateral_expressions
from dpproxy.plan.rewrite.from_items import meets_each_row, put_columns
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.statements import parse


def select(sql: str) -> exp.Select:
    tree = parse(sql)
    assert isinstance(tree, exp.Select)
    return tree


def known(catalog: Catalog) -> KnownTables:
    policy = plan_harness.policy()
    return KnownTables(Context(policy, catalog, policy.roles["analyst"], "duckdb"))


@pytest.mark.parametrize(
    ("join", "meets"),
    [
        (", u", True), ("CROSS JOIN u", True), ("JOIN u ON TRUE", True), ("LEFT JOIN u ON TRUE", True), ("JOIN u ON a = b", False), ("JOIN u USING (a)", False),
        ("NATURAL JOIN u", False), ("RIGHT JOIN u ON TRUE", False), ("FULL JOIN u ON TRUE", False), ("JOIN u ON FALSE", False),
    ],
)  # fmt: skip
def test_what_meets_each_row(join: str, meets: bool) -> None:
    assert meets_each_row(select(f"SELECT 1 FROM t {join}").args["joins"][0]) == meets


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, s FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x",
        "SELECT x.s * 2 AS d, x.s FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x WHERE x.s > 2",
        "SELECT s, count(*) FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x GROUP BY x.s ORDER BY x.s",
        "SELECT a AS s FROM t CROSS JOIN LATERAL (SELECT -a AS s) x ORDER BY s",
        "SELECT -s AS n FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x ORDER BY s + 0",
        "SELECT (SELECT count(*) FROM v WHERE b < x.s) AS n FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x",
        "SELECT -a AS a FROM t CROSS JOIN LATERAL (SELECT a AS s) x ORDER BY x.s",
        "SELECT t.a FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x WHERE s IN (SELECT b AS s FROM v)",
    ],
)
def test_the_rows_stay_the_same(sql: str, shop_catalog: Catalog) -> None:
    engine = duckdb.connect()
    engine.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (2), (5)) q(a)")
    engine.execute("CREATE TABLE v AS SELECT * FROM (VALUES (2), (6)) q(b)")
    written = select(sql)
    (item,) = written.args["joins"]
    meaning = item.this.this.unnest().expressions[0]
    assert put_columns(written, item, "x", {"s": meaning.this}, known(shop_catalog))
    written.set("joins", [])
    assert "LATERAL" not in to_sql(written)
    told = []
    for text in (sql, to_sql(written)):
        found = engine.execute(text)
        told.append(([column[0] for column in found.description or ()], found.fetchall()))
    assert told[0] == told[1]
    assert told[0][1]


TINY = """
CREATE TABLE orders AS SELECT * FROM (VALUES (1, 1, 2), (2, 3, 1), (3, 2, NULL), (5, 1, 3)) q(order_id, customer_id, qty);
CREATE TABLE order_items AS SELECT * FROM (VALUES (1, 2, 4), (2, 1, 3), (2, 5, 1), (4, 3, NULL)) q(order_id, product_id, quantity);
CREATE TABLE products AS SELECT * FROM (VALUES (1, 'a'), (3, 'b'), (4, 'a'), (6, 'c')) q(product_id, kind);
"""
NUMBERS = {
    "orders": ("order_id", "customer_id", "qty"),
    "order_items": ("order_id", "product_id", "quantity"),
    "products": ("product_id",),
}
NESTED = (
    "WHERE EXISTS (SELECT 1 FROM {inner} WHERE {own} = {s})",
    "WHERE {s} IN (SELECT {own} FROM {inner})",
    "WHERE {s} > (SELECT min({own}) FROM {inner} WHERE {own} <> {s})",
    "WHERE EXISTS (SELECT 1 FROM {inner} WHERE {own} IN (SELECT {own2} FROM {inner2} WHERE {own2} >= {s}))",
    "WHERE EXISTS (SELECT 1 FROM {inner} CROSS JOIN LATERAL (SELECT {own} + {s} AS z) y WHERE y.z > 4)",
    "JOIN {inner} ON {own} = {s}",
    "LEFT JOIN {inner} ON {own} = {s}",
    "RIGHT JOIN {inner} ON {own} = {s}",
    "JOIN {inner} ON TRUE WHERE {s} > 2",
    "WHERE {s} > 1",
)


def item(dice: random.Random) -> tuple[str, str, str]:
    """An item of FROM, what it is called, and one of its columns, with the item's name or without."""
    table = dice.choice(sorted(NUMBERS))
    alias = dice.choice(["", "i", "o", "x", "order_items", "orders"])
    column = dice.choice(NUMBERS[table])
    return f"{table} {alias}".strip(), alias or table, dice.choice([column, f"{alias or table}.{column}"])


def statement(dice: random.Random) -> str:
    outer, called, of = item(dice)
    (inner, _, own), (inner2, _, own2) = item(dice), item(dice)
    column = dice.choice(["s", "s", "product_id", "order_id"])
    s = dice.choice([f"x.{column}", f"x.{column}", column])
    value = dice.choice([f"{of} + 1", of, f"coalesce({of}, 0)", f"{of} + {called}.{of.rpartition('.')[2]}", "2"])
    rest = dice.choice(NESTED).format(inner=inner, own=own, inner2=inner2, own2=own2, s=s)
    first = dice.choice(["count(*)", f"sum({s})", f"(SELECT count({own}) FROM {inner} WHERE {own} < max({s}))"])
    return f"SELECT {first} AS n FROM {outer} CROSS JOIN LATERAL (SELECT {value} AS {column}) x {rest}"


@pytest.mark.parametrize("seed", range(4))
def test_no_name_is_captured(seed: int, shop_catalog: Catalog) -> None:
    """Small statements whose aliases and columns are called alike: the same rows before and after, or left alone."""
    engine, dice, told = duckdb.connect(), random.Random(seed), Counter[str]()
    engine.execute(TINY)
    while told["valid"] < 150:
        sql = statement(dice)
        try:
            before = engine.execute(sql).fetchall()
        except duckdb.Error:
            continue  # an ambiguous name, or two items of one name
        told["valid"] += 1
        tree = parse(sql)
        changed = lateral_expressions.apply(tree, known(shop_catalog).of_tree(tree))
        told["changed"] += changed
        assert changed or to_sql(tree) == to_sql(parse(sql))
        assert engine.execute(to_sql(tree)).fetchall() == before, (sql, to_sql(tree))
    assert told["changed"] > 50
    assert told["valid"] - told["changed"] > 10
