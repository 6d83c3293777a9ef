"""Expressions in columns of their own: each once, and no derived table where nothing is made of them."""

from __future__ import annotations

import duckdb
from small_expressions import call, column, lit, ref

from dpproxy.engines import engine
from dpproxy.engines.relations import Renderer
from dpproxy.engines.row_texts import HeldColumns
from dpproxy.tree.relation import Scan

AMOUNT = column(1)
SCAN = Scan((AMOUNT,), 0, ("main", "t"), ("a",))


def held() -> HeldColumns:
    renderer = Renderer(engine("duckdb"))
    return HeldColumns(renderer, renderer.block(SCAN))


def test_what_is_named_twice_is_one_column() -> None:
    columns = held()
    more = call("+", ref(AMOUNT), lit("1"), type_="int4")
    value, names = columns.held(more)
    assert columns.held(more) == (value, names)
    item = columns.where(call(">", ref(AMOUNT), lit("1"), type_="bool"), names[value.column.id])
    text = columns.select([], [f"{item} AS x0"])
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (NULL)) AS v(a)")
    assert connection.execute(text).fetchall() == [(None,), (3,), (None,)]
    assert text.count("+") == 1


def test_rows_alone_are_no_derived_table() -> None:
    columns = held()
    assert columns.where(None, "1") == "1"
    assert columns.select([], []) == 'SELECT 1 AS one FROM "main"."t" AS t1'
