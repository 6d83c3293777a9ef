"""The nodes of a tree are those that sqlglot walks over, in its order."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dpproxy.sql.nodes import every, nodes
from dpproxy.sql.statements import parse

STATEMENTS = [
    "SELECT 1",
    "WITH c AS (SELECT a, b FROM t WHERE a IN (1, 2) OR b IS NULL) SELECT c.a, count(*) FILTER (WHERE b > 2) FROM c JOIN u USING (a) GROUP BY 1",
    "SELECT sum(x) OVER (PARTITION BY y ORDER BY z ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (SELECT * FROM t UNION ALL VALUES (1)) v",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM t) THEN ARRAY[1, 2] END, x::numeric(5, 2), date '2024-01-01' + interval '1 day' FROM t ORDER BY 1",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_they_are_those_of_walk(statement: str) -> None:
    tree = parse(statement)
    assert list(map(id, nodes(tree))) == list(map(id, tree.walk()))
    for kinds in ((exp.Select,), (exp.Column, exp.Table), (exp.Identifier,)):
        assert list(map(id, every(tree, *kinds))) == list(map(id, tree.find_all(*kinds)))


def test_who_changes_the_tree_meanwhile_sees_the_nodes_that_there_were() -> None:
    tree = parse("SELECT a, b FROM t")
    for column in every(tree, exp.Column):
        column.replace(exp.Paren(this=column.copy()))
    assert tree.sql() == "SELECT (a), (b) FROM t"
