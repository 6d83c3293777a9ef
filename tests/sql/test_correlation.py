"""Columns of the query around: marked where no source inside can have them, as PostgreSQL finds them, and copies keep the marks."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlglot import exp

from dpproxy.sql.capture import mark_outer, outer
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.statements import parse

TABLES = {"inside": frozenset({"a", "b"}), "more": frozenset({"c"}), "around": frozenset({"x", "a"})}
CASES = [
    ("SELECT a FROM inside", []),
    ("SELECT x FROM inside", ["x"]),
    ("SELECT o.a FROM inside", ["o.a"]),
    ("SELECT a FROM inside WHERE b = o.x AND c = 1", ["o.x", "c"]),
    ("SELECT a FROM inside AS i JOIN more AS m ON i.a = m.c WHERE o.x = i.b", ["o.x"]),
    ("SELECT a FROM inside WHERE EXISTS (SELECT 1 FROM more WHERE c = b AND c = x)", ["x"]),
    ("SELECT max(x) FROM (SELECT a AS x FROM inside) AS t", []),
    ("SELECT b FROM (SELECT a FROM inside) AS t", ["b"]),
    ("SELECT p, a FROM inside AS i (p, q)", ["a"]),
    ("SELECT q FROM (SELECT a, b FROM inside) AS t (p, q) WHERE a = 1", ["a"]),
    ("SELECT (SELECT c FROM more) FROM inside", []),
    ("SELECT a AS x FROM inside ORDER BY x", []),
]


def columns(table: exp.Table) -> frozenset[str] | None:
    return TABLES.get(ident(table.this))


def marked(sql: str) -> list[str]:
    tree = parse(sql)
    found = mark_outer(tree, columns)
    names = [c.sql() for c in copied(tree).find_all(exp.Column) if outer(c)]
    assert found == bool(names)
    return sorted(names)


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_marks(sql: str, expected: list[str]) -> None:
    assert marked(sql) == sorted(expected)


@pytest.mark.parametrize("sql", [sql for sql, expected in CASES])
def test_they_are_what_postgresql_cannot_find_inside(sql: str, postgres: psycopg.Connection[Any]) -> None:
    """By itself, a query is an error exactly if it refers to one around it."""
    postgres.execute("CREATE TEMP TABLE IF NOT EXISTS inside (a int, b int); CREATE TEMP TABLE IF NOT EXISTS more (c int)")
    try:
        postgres.execute(sql.encode())
        alone = True
    except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable):
        alone = False
    assert alone == (marked(sql) == [])


def test_an_unknown_table_may_have_any_column() -> None:
    assert marked("SELECT whatever FROM elsewhere") == []
    assert marked("SELECT whatever FROM (SELECT * FROM inside) AS t") == []
    assert marked("SELECT o.whatever FROM elsewhere") == ["o.whatever"]
