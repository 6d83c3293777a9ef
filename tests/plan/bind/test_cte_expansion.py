"""Statements that double or nest by their CTEs are refused before anything is expanded."""

from __future__ import annotations

import plan_harness
import pytest
from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.plan.bind import cte_expansion
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.statements import parse


def doubling(levels: int, table: str = "orders") -> str:
    steps = ", ".join(f"a{i} AS (SELECT x FROM a{i - 1} UNION ALL SELECT x FROM a{i - 1})" for i in range(1, levels + 1))
    return f"WITH a0 AS (SELECT qty AS x FROM {table}), {steps} SELECT count(*) FROM a{levels}"


def chain(links: int) -> str:
    steps = ", ".join(f"a{i} AS (SELECT * FROM a{i - 1})" for i in range(1, links + 1))
    return f"WITH a0 AS (SELECT * FROM orders), {steps} SELECT count(*) FROM a{links}"


@pytest.mark.parametrize("sql", [doubling(18), doubling(30, "products"), doubling(50), chain(60), chain(110)])
def test_refused_without_a_scan(sql: str, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpproxy.plan.bind.queries.QueryBinder.bind", None)  # nothing is bound
    with pytest.raises(Refusal) as caught:
        plan_harness.plan(sql, shop_catalog)
    assert caught.value.sqlstate == "54001"


@pytest.mark.parametrize("sql", [doubling(6), chain(20), "SELECT count(*) FROM (SELECT qty FROM orders) t"])
def test_what_is_small_is_let_through(sql: str, shop_catalog: Catalog) -> None:
    assert plan_harness.plan(sql, shop_catalog).measurements


def test_each_cte_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes looked at for twice as many levels are about twice as many."""
    looks = 0
    plain = cte_expansion._parts

    def counted(node: exp.Expr) -> list[exp.Expr]:
        nonlocal looks
        looks += 1
        return plain(node)

    def count(levels: int) -> int:
        nonlocal looks
        tree, looks = parse(doubling(levels)), 0
        with pytest.raises(Refusal):
            cte_expansion.check(tree)
        return looks

    monkeypatch.setattr(cte_expansion, "_parts", counted)
    assert 0 < count(30) < 2.2 * count(15)


def test_long_lists_of_tables(shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal, match="FROM has more than 64 items"):
        plan_harness.plan(f"SELECT count(*) FROM {', '.join(f'products p{i}' for i in range(80))}, orders", shop_catalog)


@pytest.mark.parametrize(("many", "what"), [("count(*)", "256 aggregates"), ("(SELECT 1)", "128 SELECTs")])
def test_caps_of_tokens(many: str, what: str) -> None:
    with pytest.raises(Refusal, match=what):
        parse(f"SELECT {', '.join([many] * 300)} FROM orders")
    assert parse(f"SELECT {', '.join([many] * 100)} FROM orders")
