"""Names in scope: found, missed and ambiguous as PostgreSQL says."""

from __future__ import annotations

from typing import Any

import plan_harness
import psycopg
import pytest
from small_expressions import call, column, lit, ref
from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.plan.bind.scope import Merged, Scope, Source, narrowed_scope, resolve_group_item, unaliased
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.statements import parse
from dpproxy.tree.expr import Column


def named(id_: int, name: str) -> Column:
    return Column(id_, name, "int4")


T = Source("t", (named(1, "a"), named(2, "b")))
U = Source("u", (named(3, "b"), named(4, "c")))
OUT = Source("o", (named(5, "a"), named(6, "z")))
INSIDE = Scope((T, U), (), Scope((OUT,)))
NAMES = ["a", "b", "c", "z", "t.a", "t.b", "u.b", "u.a", "o.a", "o.z", "o.b", "x", "v.a"]


def test_names_are_postgresqls(postgres: psycopg.Connection[Any]) -> None:
    """Each column's value is its number."""
    postgres.execute(
        "CREATE TEMP TABLE t AS SELECT 1 AS a, 2 AS b; CREATE TEMP TABLE u AS SELECT 3 AS b, 4 AS c; CREATE TEMP TABLE o AS SELECT 5 AS a, 6 AS z"
    )
    for reference in NAMES:
        table, _, name = reference.rpartition(".")
        try:
            found = postgres.execute(f"SELECT (SELECT {reference} FROM t, u) FROM o".encode()).fetchone()
            theirs: object = found[0] if found is not None else None
        except psycopg.Error as error:
            theirs = error.sqlstate
        try:
            ours: object = INSIDE.resolve(table, name).id
        except Refusal as refusal:
            ours = refusal.sqlstate
        assert ours == (theirs if theirs != "42P01" else "42703"), reference


def test_merged_names_stand_once_and_first() -> None:
    scope = Scope((T, U), (Merged("b", 2, frozenset({2, 3})),))
    assert [(alias, c.id) for alias, c in scope.visible()] == [("t", 2), ("t", 1), ("u", 4)]
    assert scope.resolve("", "b").id == 2
    assert scope.resolve("u", "b").id == 3, "by its table it is still there"
    assert [c.id for _, c in scope.visible("u")] == [3, 4]


def test_where_narrows_what_it_compares() -> None:
    x, y = column(1, "int4", 0, 100), column(2, "int4", 0, 100)
    scope = Scope((Source("t", (x, y)),))
    found = narrowed_scope(scope, [call("<=", ref(x), lit("10"))])
    assert found.resolve("", "c1").bound.ends == (0, 10)
    assert found.resolve("", "c2") == y
    assert narrowed_scope(scope, []) is scope


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("SELECT a + 1, b FROM t GROUP BY 1", "a + 1"),
        ("SELECT a + 1 AS n FROM t GROUP BY n", "a + 1"),
        ("SELECT c + 1 AS a FROM t GROUP BY a", "a"),  # a column of the input first
        ("SELECT a AS n FROM t GROUP BY (2 - 1)", "2 - 1"),
        ("SELECT a AS n FROM t GROUP BY (1)", "a"),
        ("SELECT a AS n FROM t GROUP BY t.n", "t.n"),
        ("SELECT a FROM t GROUP BY '1'", "'1'"),
    ],
)
def test_keys_by_number_and_alias(sql: str, meant: str) -> None:
    select = parse(sql)
    assert isinstance(select, exp.Select)
    (item,) = select.args["group"].expressions
    assert to_sql(resolve_group_item(item, select, Scope((T,)))) == meant


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("SELECT a FROM t GROUP BY 2", "42P10"),
        ("SELECT a FROM t GROUP BY 0", "42P10"),
        ("SELECT a FROM t GROUP BY 1.5", "42P10"),
        ("SELECT a FROM t GROUP BY n", "42703"),
        ("SELECT 1 AS b FROM t, u GROUP BY b", "42702"),
    ],
)
def test_keys_that_are_none(sql: str, sqlstate: str) -> None:
    select = parse(sql)
    assert isinstance(select, exp.Select)
    with pytest.raises(Refusal) as caught:
        resolve_group_item(select.args["group"].expressions[0], select, Scope((T, U)))
    assert caught.value.sqlstate == sqlstate
    assert to_sql(unaliased(parse("SELECT a + 1 AS n").expressions[0])) == "a + 1"


def test_distinct_on_sorts_by_outputs_before_columns(shop_catalog: Catalog) -> None:
    """`amount` is the output, whose least value is the most of the column."""
    text = "SELECT sum(amount) FROM (SELECT DISTINCT ON (customer_id) customer_id, {} AS amount FROM orders ORDER BY customer_id, {}) q"
    called, written, column = (
        plan_harness.plan(text.format("-amount", term), shop_catalog).measurements[0].canonical
        for term in ("amount", "-amount", "orders.amount")
    )
    assert called == written != column
