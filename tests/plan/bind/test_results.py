"""What binding yields: items under the names of their alias, as far as these go."""

from __future__ import annotations

import pytest
from small_expressions import column
from sqlglot import exp

from dpproxy.plan.bind.results import Item, alias_columns, renamed
from dpproxy.sql.statements import parse
from dpproxy.table_terms import TableName
from dpproxy.tree.relation import PendingPath, Rows, Scan

A, B = column(1), column(2)
SCAN = Scan((A, B), 0, ("main", "t"), ("a", "b"))


def from_item(text: str) -> exp.Expr:
    found = parse(f"SELECT 1 FROM {text}").args["from_"].this
    assert isinstance(found, exp.Expr)
    return found


@pytest.mark.parametrize(
    ("text", "names"), [('t AS x (a, B, "C")', ("a", "b", "C")), ("t AS x", ()), ("t", ()), ("(SELECT 1, 2) AS v (p)", ("p",))]
)
def test_columns_of_an_alias(text: str, names: tuple[str, ...]) -> None:
    assert alias_columns(from_item(text)) == names


@pytest.mark.parametrize(
    ("names", "found"), [((), ("c1", "c2")), (("x",), ("x", "c2")), (("x", "y"), ("x", "y")), (("x", "y", "z"), ("x", "y"))]
)
def test_names_go_as_far_as_they_go(names: tuple[str, ...], found: tuple[str, ...]) -> None:
    item = renamed(Item("t", Rows(node=SCAN), (A, B), from_item("t")), names)
    assert tuple(c.name for c in item.columns) == found
    assert [c.id for c in item.columns] == [1, 2], "they are the same columns"


def test_items_are_private_as_their_rows_are() -> None:
    node = from_item("t")
    assert not Item("t", None, (), node).private
    assert not Item("t", Rows(node=SCAN), (A, B), node).private
    assert Item("t", Rows(node=SCAN, unit=A), (A, B), node).private
    assert Item("t", Rows(node=SCAN, pending=PendingPath(A, TableName("public", "u"), "x")), (A, B), node).private
