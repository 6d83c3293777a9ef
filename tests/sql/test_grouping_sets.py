"""GROUP BY's sets: those that PostgreSQL makes of ROLLUP, CUBE, GROUPING SETS and their products."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest
from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.sql.dialect import ident
from dpproxy.sql.grouping_sets import MAX_SETS, grouping_sets
from dpproxy.sql.statements import parse

CLAUSES = [
    "a", "a, b", "a, a", "ROLLUP (a, b, c)", "CUBE (a, b)", "CUBE (a, b, c)", "ROLLUP ((a, b), c)", "GROUPING SETS ((a, b), a, ())",
    "a, ROLLUP (b, c)", "ROLLUP (a, b), CUBE (c)", "GROUPING SETS (ROLLUP (a, b), CUBE (c))", "GROUPING SETS ((a), (a), (b, c)), c",
    "CUBE ((a, b), (c))", "(a, b), c", "()",
]  # fmt: skip


def sets(clause: str) -> list[list[str]]:
    select = parse(f"SELECT count(*) FROM t GROUP BY {clause}")
    assert isinstance(select, exp.Select)
    return [[ident(key.this) for key in keys] for keys in grouping_sets(select)]


@pytest.mark.parametrize("clause", CLAUSES)
def test_they_are_postgresqls(clause: str, postgres: psycopg.Connection[Any]) -> None:
    """One row makes one group of each set: GROUPING says what it is not by."""
    told = ", ".join(f"{x}" for x in "abc" if x in clause) or "1"
    grouping = f"GROUPING({told})" if told != "1" else "0"
    found = postgres.execute(f"SELECT {grouping} FROM (VALUES (1, 2, 3)) AS t (a, b, c) GROUP BY {clause}".encode()).fetchall()
    names = [x for x in told.split(", ") if x != "1"]
    ours = [sum(2 ** (len(names) - 1 - i) for i, x in enumerate(names) if x not in keys) for keys in sets(clause)]
    assert Counter(ours) == Counter(mask for (mask,) in found)


def test_the_order_is_of_levels() -> None:
    assert sets("ROLLUP (a, b)") == [["a", "b"], ["a"], []]
    assert sets("c, ROLLUP (a)") == [["c", "a"], ["c"]]


def test_without_group_by_there_is_one() -> None:
    select = parse("SELECT count(*) FROM t")
    assert isinstance(select, exp.Select)
    assert grouping_sets(select) == [()]


def test_too_many_are_refused() -> None:
    assert len(sets("CUBE (a, b, c, d, e, f)")) == MAX_SETS
    with pytest.raises(Refusal) as caught:
        sets("CUBE (a, b, c, d, e, f, g)")
    assert caught.value.sqlstate == "54001"


@pytest.mark.parametrize(
    "clause",
    [
        f"CUBE ({', '.join(['a'] * 40)})",
        ", ".join(["ROLLUP (a, b)"] * 40),
        f"GROUPING SETS ({', '.join(['CUBE (a, b, c)'] * 40)})",
    ],
)
def test_too_many_are_refused_before_they_are_made(clause: str) -> None:
    with pytest.raises(Refusal, match="more than 64"):
        sets(clause)
