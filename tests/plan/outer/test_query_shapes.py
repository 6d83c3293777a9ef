"""Shapes of queries that need less measuring: sums that are means by another name, and the k largest groups."""

from __future__ import annotations

import pytest
from small_expressions import column, lit, ref
from sqlglot import exp

from dpproxy.plan.outer.query_shapes import MAX_TOP, chosen_by_values, divided_sums, top_request
from dpproxy.sql.statements import parse
from dpproxy.sql.trees import function_name
from dpproxy.tree.expr import Agg, Expr

COLUMNS = {name: ref(column(i)) for i, name in enumerate("abc")}


def select(sql: str) -> exp.Select:
    tree = parse(sql)
    assert isinstance(tree, exp.Select)
    return tree


def bind(node: exp.Expr) -> Agg | None:
    """Aggregates of columns a, b and c, with FILTER by a column."""
    where: Expr | None = None
    if isinstance(node, exp.Filter):
        where, node = COLUMNS[node.expression.this.name], node.this
    inner = node.expressions[0] if node.expressions else None
    distinct = isinstance(inner, exp.Distinct)
    inner = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    args = () if inner is None or isinstance(inner, exp.Star) else (COLUMNS.get(inner.name, lit("0")),)
    return Agg("int8", function_name(node), args, distinct, where) if function_name(node) in ("sum", "count", "max") else None


@pytest.mark.parametrize(
    ("items", "divided"),
    [
        ("sum(a) / count(*)", "a"),
        ("sum(a) / count(a)", "a"),
        ("100.0 * sum(a) / count(*)", "a"),
        ("sum(a) / nullif(count(*), 0)", "a"),
        ("sum(a) / count(*), sum(b) / count(b)", "ab"),
        ("sum(a) / count(*), sum(a)", ""),  # it is shown by itself as well
        ("sum(a) / count(b)", ""),
        ("sum(a) / sum(b)", ""),
        ("sum(DISTINCT a) / count(*)", ""),
        ("sum(a) / count(DISTINCT a)", ""),
        ("sum(a) FILTER (WHERE c) / count(*)", ""),
        ("(sum(a) + sum(b)) / count(*)", ""),
        ("count(*) / sum(a)", ""),
        ("max(a) / count(*)", ""),
    ],
)
def test_sums_that_are_means(items: str, divided: str) -> None:
    assert divided_sums(select(f"SELECT {items} FROM t"), bind) == {(COLUMNS[name], None) for name in divided}


def test_sums_of_a_filter_and_in_order_by() -> None:
    found = divided_sums(select("SELECT 1 FROM t ORDER BY sum(a) FILTER (WHERE c) / count(*) FILTER (WHERE c)"), bind)
    assert found == {(COLUMNS["a"], COLUMNS["c"])}
    assert not divided_sums(select("SELECT sum(a) / count(*) FROM t HAVING sum(a) > 3"), bind)


@pytest.mark.parametrize(
    ("sql", "k"),
    [
        ("SELECT a, count(*) FROM t GROUP BY a ORDER BY count(*) DESC LIMIT 3", 3),
        ("SELECT a, count(*) FROM t GROUP BY a ORDER BY 2 DESC, 1 LIMIT 3", 3),
        ("SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n DESC LIMIT 7", 7),
        ("SELECT a, count(*) FROM t GROUP BY a ORDER BY count DESC LIMIT 7", 7),
        ("SELECT a FROM t GROUP BY a ORDER BY count(b) DESC FETCH FIRST 5 ROWS ONLY", 5),
        (f"SELECT a FROM t GROUP BY a ORDER BY count(b) DESC LIMIT {MAX_TOP}", MAX_TOP),
        (f"SELECT a FROM t GROUP BY a ORDER BY count(b) DESC LIMIT {MAX_TOP + 1}", None),
        ("SELECT a FROM t GROUP BY a ORDER BY count(b) DESC FETCH FIRST 5 ROWS WITH TIES", None),
        ("SELECT a FROM t GROUP BY a ORDER BY count(b) LIMIT 3", None),
        ("SELECT a FROM t GROUP BY a ORDER BY a DESC LIMIT 3", None),
        ("SELECT a FROM t GROUP BY a ORDER BY sum(b) DESC LIMIT 3", None),
        ("SELECT a FROM t GROUP BY a ORDER BY count(b) DESC LIMIT 3 OFFSET 1", None),
        ("SELECT a FROM t GROUP BY a HAVING count(b) > 1 ORDER BY count(b) DESC LIMIT 3", None),
        ("SELECT a, rank() OVER (ORDER BY count(*)) FROM t GROUP BY a ORDER BY count(*) DESC LIMIT 3", None),
        ("SELECT a FROM t GROUP BY a ORDER BY count(*) DESC", None),
        ("SELECT count(*) FROM t ORDER BY 1 DESC LIMIT 3", None),
        ("SELECT a FROM t GROUP BY a ORDER BY count(*) DESC LIMIT 0", None),
        ("SELECT a FROM t GROUP BY a ORDER BY count(*) DESC LIMIT $1", None),
    ],
)
def test_the_k_largest_groups(sql: str, k: int | None) -> None:
    found = top_request(select(sql), bind)
    assert (found.k if found is not None else None) == k
    assert found is None or function_name(found.score) == "count"


@pytest.mark.parametrize(
    ("rest", "chosen"),
    [
        ("HAVING count(*) > 3", True),
        ("HAVING a > 3", False),
        ("ORDER BY count(*) DESC LIMIT 3", True),
        ("ORDER BY a, n LIMIT 3", True),
        ("ORDER BY 2 OFFSET 3", True),
        ("ORDER BY n FETCH FIRST 5 ROWS ONLY", True),
        ("ORDER BY n", False),
        ("ORDER BY a LIMIT 3", False),
        ("ORDER BY 1 LIMIT 3", False),
        ("LIMIT 3", False),
    ],
)
def test_groups_chosen_by_what_was_released_of_them(rest: str, chosen: bool) -> None:
    assert chosen_by_values(select(f"SELECT a, sum(b) / count(*) AS n FROM t GROUP BY a {rest}")) == chosen
