"""Queries that cannot return a row cost nothing."""

from __future__ import annotations

import pytest

from dpproxy.sql.grouping_sets import returns_nothing
from dpproxy.sql.statements import parse


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t LIMIT 0",
        "SELECT * FROM t WHERE 1 = 0",
        "SELECT * FROM t WHERE FALSE",
        "SELECT a, count(*) FROM t WHERE x > 1 AND (0 = 1) GROUP BY a",
        "(SELECT * FROM t WHERE false)",
        "SELECT a FROM t WHERE false UNION ALL SELECT a FROM u LIMIT 0",
        "SELECT * FROM (SELECT * FROM t) AS q WHERE 1 = 0",
    ],
)
def test_nothing(sql: str) -> None:
    assert returns_nothing(parse(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "SELECT * FROM t LIMIT 10",
        "SELECT * FROM t WHERE 1 = 1",
        "SELECT * FROM t WHERE x = 0",
        "SELECT * FROM t WHERE 1 = 0 OR x = 1",
        "SELECT (SELECT count(*) FROM t), count(*) FROM t WHERE FALSE",
        "SELECT a FROM t WHERE false UNION ALL SELECT a FROM u",
        "SELECT * FROM t LIMIT $1",
        "SELECT * FROM t WHERE '1' = '0'",
    ],
)
def test_something(sql: str) -> None:
    assert not returns_nothing(parse(sql))
