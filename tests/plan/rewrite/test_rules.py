"""Every rule by its fixtures: what it makes of a statement, what it leaves alone, and that both texts have the same rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import plan_harness
import pytest
import shop_world
from rewrite_cases import ALIKE, CASES, CHANGED, RuleCase
from sqlglot import exp

from dpproxy.plan.context import Context
from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite.rules import RULES
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.output_names import output_name
from dpproxy.sql.statements import parse

BY_NAME = dict(RULES)
SHOPS = [(1, True, True), (2, True, True), (3, True, False), (4, False, True), (5, False, False), (6, False, False)]
"""Seeds of shops, whether they are full of trouble, and whether all items that were ordered are there, or a few."""
NOBODY = (
    "DELETE FROM customers WHERE customer_id IS NULL",
    "DELETE FROM orders WHERE customer_id IS NULL OR order_id IS NULL",
    "DELETE FROM order_items WHERE order_id NOT IN (SELECT order_id FROM orders) OR order_id IS NULL",
    "DELETE FROM visits WHERE customer_id IS NULL",
)
"""Rows of nobody are no rows of a private table."""


def applied(case: RuleCase, catalog: Catalog) -> tuple[bool, exp.Expr]:
    """What the case's rule says it did, and the tree it leaves."""
    policy, tree = plan_harness.policy(case.policy), parse(case.before)
    tables = KnownTables(Context(policy, catalog, policy.roles["analyst"], "duckdb"))
    return BY_NAME[case.rule](tree, tables.of_tree(tree)), tree


def words(sql: str) -> str:
    return " ".join(sql.split())


@pytest.mark.parametrize("case", CHANGED, ids=str)
def test_what_a_rule_makes_of_it(case: RuleCase, shop_catalog: Catalog) -> None:
    changed, tree = applied(case, shop_catalog)
    assert changed
    assert words(to_sql(tree)) == words(case.after)
    before = [output_name(e) for e in parse(case.before).find(exp.Select).expressions]  # type: ignore[union-attr]
    assert [output_name(e) for e in tree.find(exp.Select).expressions] == before  # type: ignore[union-attr]


@pytest.mark.parametrize("case", ALIKE, ids=str)
def test_what_a_rule_leaves_alone(case: RuleCase, shop_catalog: Catalog) -> None:
    changed, tree = applied(case, shop_catalog)
    assert not changed
    assert to_sql(tree) == to_sql(parse(case.before))


@pytest.fixture(scope="module")
def shops() -> list[duckdb.DuckDBPyConnection]:
    found = []
    for seed, trouble, full in SHOPS:
        shop = duckdb.connect()
        shop_world.fill(shop, seed, trouble=trouble)
        for statement in (*NOBODY, *(["DELETE FROM order_items WHERE order_id % 40 <> 3"] if not full else [])):
            shop.execute(statement)
        shop.execute("CREATE MACRO dpproxy_first(x) AS coalesce(x, -1000000)")  # less than any declared number
        found.append(shop)
    return found


def rows(shop: duckdb.DuckDBPyConnection, sql: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(_plain, row)) for row in shop.execute(sql).fetchall())


def _plain(value: Any) -> Any:
    """Numbers of all types by their first digits: sums of doubles depend on the order."""
    return value if value is None or isinstance(value, str | bool) or not hasattr(value, "__float__") else f"{float(value):.9g}"


@pytest.mark.parametrize("case", [c for c in CHANGED if not c.unexecuted], ids=str)
def test_both_have_the_same_rows(case: RuleCase, shops: list[duckdb.DuckDBPyConnection]) -> None:
    answers = [rows(shop, case.before) for shop in shops]
    assert [rows(shop, case.after) for shop in shops] == answers
    assert len(set(map(str, answers))) > 1, "the rows say nothing of the shop"


@pytest.mark.parametrize("case", [c for c in CHANGED if not c.refused], ids=str)
def test_plans_name_the_rules_that_fired(case: RuleCase, shop_catalog: Catalog) -> None:
    made = plan_harness.plan(case.before, shop_catalog, plan_harness.policy(case.policy))
    assert case.rule in made.rewritten
    (line,) = (line for line in made.explain if "Rewritten" in line)
    assert line == f"  Rewritten before planning: {', '.join(name.replace('_', ' ') for name in made.rewritten)}"
    itself = plan_harness.plan(case.after, shop_catalog, plan_harness.policy(case.policy))
    assert itself.rewritten == tuple(name for name in made.rewritten if name != case.rule)
    assert [m.canonical for m in itself.measurements] == [m.canonical for m in made.measurements]


ORDERED = {
    ("parenthesised_joins", "anti_join_counts"): "SELECT count(*) FROM (products p LEFT JOIN order_items i ON i.product_id = "
    "p.product_id) WHERE i.product_id IS NULL",
}


@pytest.mark.parametrize(("pair", "sql"), ORDERED.items(), ids=str)
def test_the_order_is_needed(pair: tuple[str, str], sql: str, shop_catalog: Catalog) -> None:
    """In the other order the second rule finds nothing, or too much."""

    def text(names: tuple[str, str]) -> str:
        policy, tree = plan_harness.policy(), parse(sql)
        tables = KnownTables(Context(policy, catalog=shop_catalog, role=policy.roles["analyst"], dialect="duckdb")).of_tree(tree)
        for name in names:
            BY_NAME[name](tree, tables)
        return to_sql(tree)

    names = [name for name, _ in RULES]
    assert names.index(pair[0]) < names.index(pair[1])
    assert text(pair) != text((pair[1], pair[0]))
    assert set(plan_harness.plan(sql, shop_catalog).rewritten) <= set(pair)


def test_each_rule_has_its_fixtures() -> None:
    assert {case.rule for case in CASES} == set(BY_NAME)
    for name in BY_NAME:
        assert sum(case.rule == name for case in CHANGED) >= 4, name
        assert sum(case.rule == name for case in ALIKE) >= 3, name
