"""Questions about trees, answered by hand on small statements."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dpproxy.sql import trees
from dpproxy.sql.dialect import ident, to_sql
from dpproxy.sql.statements import parse


def select(sql: str) -> exp.Select:
    tree = parse(sql)
    assert isinstance(tree, exp.Select)
    return tree


def item(text: str) -> exp.Expr:
    found = select(f"SELECT {text} FROM t").expressions[0]
    assert isinstance(found, exp.Expr)
    return found


def test_sources_are_in_order() -> None:
    found = select('SELECT 1 FROM a JOIN b ON true, c AS "D" LEFT JOIN (SELECT 2) e ON true')
    sources = trees.sources_of(found)
    assert [trees.table_alias(s) for s in sources] == ["a", "b", "D", "e"]
    joins = found.args["joins"]
    assert [len(trees.joins_before(found, join)) for join in joins] == [0, 1, 2]
    assert trees.sources_of(select("SELECT 1")) == []


def test_nested_queries_are_the_outermost_of_expressions() -> None:
    found = select(
        "WITH w AS (SELECT 0) SELECT (SELECT 1), a IN (SELECT 2 WHERE EXISTS (SELECT 3)) FROM (SELECT 4) t JOIN u ON x = (SELECT 5)"
        " WHERE EXISTS (SELECT 6 UNION SELECT 7) ORDER BY (SELECT 8)"
    )
    assert sorted(to_sql(q)[7:8] for q in trees.nested_queries(found)) == ["1", "2", "5", "6", "8"]


AGGREGATES = [
    "count(*)",
    "sum(a) FILTER (WHERE b)",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY a)",
    "string_agg(a, ',')",
    "pg_catalog.max(a)",
]
OTHERS = [
    "a",
    "upper(a)",
    "row_number() OVER ()",
    "sum(a) OVER (ORDER BY b)",
    "(SELECT count(*) FROM u)",
    "1",
    "pg_catalog.upper(a)",
]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        *((text, 1) for text in AGGREGATES),
        *((text, 0) for text in OTHERS),
        *((f"coalesce({text}, 0) + 1", 1) for text in AGGREGATES),
        ("sum(a) / count(*)", 2),
        ("sum(sum(a)) OVER (ORDER BY count(*))", 2),
        ("lag(max(a)) OVER (PARTITION BY min(b))", 2),
        ("count(*) OVER ()", 0),
    ],
)
def test_aggregates_in_an_expression(text: str, calls: int) -> None:
    assert len(list(trees.aggregate_calls(item(text)))) == calls
    assert trees.contains_aggregate(item(text)) == (calls > 0)
    assert trees.is_aggregate(item(text)) == (text in AGGREGATES)


def test_grouping_is_one_that_measures_nothing() -> None:
    assert trees.contains_aggregate(item("grouping(a)"))
    assert list(trees.aggregate_calls(item("grouping(a)"))) == []
    assert not trees.contains_aggregate(None)


@pytest.mark.parametrize(
    ("text", "counts"), [("count(*)", True), ("COUNT(1)", True), ("count(a)", False), ("sum(1)", False), ("count(a, b)", False)]
)
def test_counts_of_rows(text: str, counts: bool) -> None:
    assert trees.counts_rows(item(text)) == counts


@pytest.mark.parametrize(
    ("sql", "only"),
    [
        ("SELECT count(*) FROM t", True), ("SELECT count(DISTINCT a) AS n FROM t GROUP BY b", True), ("SELECT count(a) FILTER (WHERE b) FROM t", True),
        ("SELECT count(*), 1 FROM t", False), ("SELECT count(*) + 1 FROM t", False), ("SELECT max(a) FROM t", False), ("SELECT 1 UNION SELECT count(*) FROM t", False),
    ],
)  # fmt: skip
def test_queries_of_a_count(sql: str, only: bool) -> None:
    assert trees.only_counts(parse(sql)) == only
    assert trees.only_counts(parse(f"SELECT ({sql})").expressions[0]) == only


def test_tables_below() -> None:
    found = select('SELECT 1 FROM a WHERE x IN (SELECT y FROM b JOIN "C" ON true)')
    assert [name for name in ("a", "b", "C", "c", "x") if trees.mentions(found, name)] == ["a", "b", "C"]


def test_names_of_functions() -> None:
    assert trees.function_name(item("UPPER(a)")) == "upper"
    assert trees.function_name(item("a")) == ""
    assert ident(item("a").this) == "a"
