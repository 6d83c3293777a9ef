"""Aggregates and windows where PostgreSQL has none: refused with its SQLSTATE and its words, and nowhere else."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.sql.placement import check_group_key, check_placement
from dpproxy.sql.statements import parse

TABLE = "(VALUES (1, 2.0, 'x')) AS t (a, b, c)"
WRONG = [
    f"SELECT a FROM {TABLE} WHERE count(*) > 1",
    f"SELECT a FROM {TABLE} WHERE row_number() OVER () = 1",
    f"SELECT count(*) FROM {TABLE} GROUP BY sum(a)",
    f"SELECT count(*) FROM {TABLE} GROUP BY rank() OVER (ORDER BY a)",
    f"SELECT 1 FROM {TABLE} JOIN (SELECT 1 AS d) u ON max(a) = d",
    f"SELECT count(*) FROM {TABLE} HAVING row_number() OVER () = 1",
    f"SELECT sum(count(*)) FROM {TABLE}",
    f"SELECT sum(a + max(b)) FROM {TABLE}",
    f"SELECT sum(rank() OVER ()) FROM {TABLE}",
    f"SELECT count(*) FILTER (WHERE max(a) > 1) FROM {TABLE}",
    f"SELECT count(*) FILTER (WHERE rank() OVER () > 1) FROM {TABLE}",
    f"SELECT lag(rank() OVER ()) OVER () FROM {TABLE}",
    f"SELECT count(*) FROM {TABLE} ORDER BY sum(sum(a))",
    f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY sum(a)) FROM {TABLE}",
    f"SELECT sum(sum(sum(a))) OVER () FROM {TABLE}",
]
IN_WINDOWS = [
    f"SELECT row_number() OVER (ORDER BY rank() OVER ()) FROM {TABLE}",
    f"SELECT row_number() OVER (PARTITION BY rank() OVER ()) FROM {TABLE}",
]
"""PostgreSQL, which sees every statement first, has a sentence of its own for these."""
RIGHT = [
    f"SELECT sum(a), count(*) FILTER (WHERE b > 1) FROM {TABLE} WHERE a > 0 GROUP BY c HAVING max(a) > 0 ORDER BY min(b)",
    f"SELECT sum(sum(a)) OVER (ORDER BY count(*)) FROM {TABLE} GROUP BY b",
    f"SELECT a FROM {TABLE} WHERE a = (SELECT count(*) FROM {TABLE})",
    f"SELECT sum((SELECT max(d) FROM (VALUES (1)) u (d))) FROM {TABLE}",
    f"SELECT row_number() OVER (PARTITION BY c ORDER BY a) FROM {TABLE} ORDER BY rank() OVER (ORDER BY b)",
    f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM {TABLE}",
]


@pytest.mark.parametrize("sql", [*WRONG, *IN_WINDOWS])
def test_refused_as_postgresql_refuses(sql: str, postgres: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error) as theirs:
        postgres.execute(sql.encode())
    with pytest.raises(Refusal) as ours:
        check_placement(select(sql))
    assert ours.value.sqlstate == theirs.value.sqlstate
    assert sql in IN_WINDOWS or ours.value.message == theirs.value.diag.message_primary


@pytest.mark.parametrize("sql", RIGHT)
def test_nothing_else_is(sql: str, postgres: psycopg.Connection[Any]) -> None:
    postgres.execute(sql.encode())
    check_placement(select(sql))


@pytest.mark.parametrize(("item", "sqlstate"), [("max(a)", "42803"), ("1 + rank() OVER ()", "42P20")])
def test_keys_named_by_their_number(item: str, sqlstate: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_group_key(select(f"SELECT {item} FROM t").expressions[0])
    assert caught.value.sqlstate == sqlstate
    check_group_key(select("SELECT a + 1 FROM t").expressions[0])


def select(sql: str) -> exp.Select:
    tree = parse(sql)
    assert isinstance(tree, exp.Select)
    return tree
