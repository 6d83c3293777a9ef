"""Relations as SQL: the text has the rows of the relation, computed here in Python, and needs no more nesting than SQL does."""

from __future__ import annotations

import itertools
from collections import Counter

import duckdb
import pytest
from small_expressions import call, column, lit, ref, same

from dpproxy.engines import engine
from dpproxy.engines.relations import Block, Renderer
from dpproxy.tree.expr import Agg, Column, Exists, Expr, Relation, Scalar, Win
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Scan, Staged, Union, Values

A, B, C, D = (column(i) for i in (1, 2, 3, 4))
T = Scan((A, B), 0, ("main", "t"), ("a", "b"))
U = Scan((C, D), 1, ("main", "u"), ("c", "d"))
ROWS = {"t": [(1, 1), (1, 2), (2, None), (None, 3)], "u": [(1, 10), (3, 30), (None, 0)]}
Found = Counter[tuple[object, ...]]


@pytest.fixture(scope="module")
def tables() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for (name, rows), names in zip(ROWS.items(), ("a, b", "c, d"), strict=True):
        values = ", ".join(str(row).replace("None", "NULL") for row in rows)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM (VALUES {values}) AS v({names})")
    return connection


def run(node: Relation, tables: duckdb.DuckDBPyConnection) -> Found:
    renderer = Renderer(engine("duckdb"))
    block = renderer.block(node)
    text = renderer.select(block, [block.names[c.id] for c in node.columns])
    return Counter(tables.execute(text).fetchall())


def number(op: str, *args: Expr) -> Expr:
    return call(op, *args, type_="int4")


def both(kind: str, on: Expr | None, right: Relation = U) -> Join:
    return Join((A, B, C, D), kind, T, right, on)


S = column(9)
PAIRS = list(itertools.product(ROWS["t"], ROWS["u"]))
MATCHED = [(*t, *u) for t, u in PAIRS if t[0] is not None and t[0] == u[0]]
N, W = column(11, "int8"), column(12, "int8")


def numbered(child: Relation, *by: Column) -> Project:
    return Project(
        (W, *child.columns),
        child,
        (Win("int8", "row_number", (), (ref(child.columns[-1]),), tuple((ref(c), False, False) for c in by)),),
    )


MET = Aggregate((N,), numbered(Filter((C, D), U, same(A, C)), D), (), (Agg("int8", "max", (ref(W),)),))
"""The highest number among the rows of u that a row of t meets."""
COUNTED = Project((S, A), T, (Scalar("int8", MET, ref(N)),))

CASES: list[tuple[str, Relation, list[tuple[object, ...]]]] = [
    ("scan", T, ROWS["t"]),
    ("filter", Filter((A, B), T, call("=", ref(A), lit("1"))), [(1, 1), (1, 2)]),
    ("cross", both("cross", None), [(*t, *u) for t, u in PAIRS]),
    ("inner", both("inner", same(A, C)), MATCHED),
    ("left", both("left", same(A, C)), [*MATCHED, (2, None, None, None), (None, 3, None, None)]),
    ("full", both("full", same(A, C)), [*MATCHED, (2, None, None, None), (None, 3, None, None), (None, None, 3, 30), (None, None, None, 0)]),
    ("left of a filter", both("left", same(A, C), Filter((C, D), U, call("=", ref(C), lit("3")))), [(*t, None, None) for t in ROWS["t"]]),
    ("project", Project((S,), T, (number("+", ref(A), lit("1")),)), [(2,), (2,), (3,), (None,)]),
    ("left of a constant", Join((A, B, S), "left", T, Project((S,), Filter((C, D), U, call("=", ref(C), lit("3"))), (lit("7"),)), call("=", ref(A), lit("2"))), [(1, 1, None), (1, 2, None), (2, None, 7), (None, 3, None)]),
    ("aggregate", Aggregate((A, S), T, (ref(A),), (Agg("int8", "count", (ref(B),)),)), [(1, 2), (2, 0), (None, 1)]),
    ("distinct", Distinct((A,), Project((A,), T, (ref(A),))), [(1,), (2,), (None,)]),
    ("union all", Union((S,), (Project((A,), T, (ref(A),)), Project((C,), U, (ref(C),)))), [(1,), (1,), (2,), (None,), (1,), (3,), (None,)]),
    ("except", Union((S,), (Project((A,), T, (ref(A),)), Project((C,), U, (ref(C),))), "except"), [(2,)]),
    ("values", Values((A, B), ((lit("5"), lit(None)), (lit("6"), lit("7")))), [(5, None), (6, 7)]),
    ("a window over a subquery with one", numbered(COUNTED, S, A), [(1, 1, 1), (2, 1, 1), (1, None, 2), (1, None, None)]),
    ("exists", Filter((A, B), T, Exists("bool", Filter((C, D), U, same(A, C)))), [(1, 1), (1, 2)]),
    ("not exists", Filter((A, B), T, Exists("bool", Filter((C, D), U, same(A, C)), negated=True)), [(2, None), (None, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "node", "rows"), CASES, ids=[name for name, _, _ in CASES])
def test_rows(name: str, node: Relation, rows: list[tuple[object, ...]], tables: duckdb.DuckDBPyConnection) -> None:
    assert run(node, tables) == Counter(rows), name


def test_equal_relations_have_equal_texts() -> None:
    """Which names them for reuse, so aliases are numbered as they appear."""
    texts = {Renderer(engine("duckdb")).block(both("inner", same(A, C))).source for _ in range(2)}
    assert len(texts) == 1
    assert "AS t1" in texts.pop()


def test_filters_and_joins_stay_flat() -> None:
    renderer = Renderer(engine("duckdb"))
    condition = call("=", ref(A), lit("1"))
    block = renderer.block(Filter((A, B, C, D), Filter((A, B, C, D), both("inner", same(A, C)), condition), condition))
    assert "SELECT" not in block.source
    assert len(block.where) == 2
    assert block.where_text.count(" AND ") >= 1
    assert Block("t", {}).where_text == ""


def test_staged_rows_are_a_hole() -> None:
    block = Renderer(engine("duckdb")).block(Staged((A, B), 4))
    assert "\x004:rows(int4,int4)\x00" in block.source


def test_an_expression_is_spelled_once() -> None:
    renderer = Renderer(engine("duckdb"))
    block, expr = renderer.block(T), number("+", ref(A), ref(B))
    assert renderer.key(expr, block.names) is renderer.key(expr, block.names)
    assert renderer.resumed().alias() == renderer.resumed().alias(), "each goes on from the same place"
