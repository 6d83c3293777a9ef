"""Output names where PostgreSQL has none are spelled out, and nothing else is touched."""

from __future__ import annotations

import pytest

from dpproxy.sql.translation import spelled_out

COLUMNS = frozenset({"a", "b", "total"})


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (
            "SELECT a, count(*) AS n FROM t GROUP BY a HAVING n > 1",
            "SELECT a, count(*) AS n FROM t GROUP BY a HAVING (count(*)) > 1",
        ),
        (
            "SELECT a, sum(b) AS n FROM t GROUP BY a ORDER BY CASE WHEN n > 1 THEN 0 ELSE 1 END, n",
            "SELECT a, sum(b) AS n FROM t GROUP BY a ORDER BY CASE WHEN (sum(b)) > 1 THEN 0 ELSE 1 END, n",
        ),
        (
            'SELECT a, count(*) AS "N" FROM t GROUP BY a HAVING "N" > 1',
            'SELECT a, count(*) AS "N" FROM t GROUP BY a HAVING (count(*)) > 1',
        ),
    ],
)
def test_spelled_out(query: str, found: str) -> None:
    assert spelled_out(query, COLUMNS) == found


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n",
        "SELECT a, sum(total) AS total FROM t GROUP BY a HAVING total > 1",  # a column: PostgreSQL says what is wrong
        "SELECT a, count(*) AS n FROM (SELECT a, b AS n FROM t) s GROUP BY a HAVING n > 1",  # may be the other one
        "SELECT a, count(*) AS n FROM t GROUP BY a HAVING t.n > 1",
        "SELECT a, count(*) AS n FROM t GROUP BY a HAVING count(*) > (SELECT max(n) FROM u)",
        "SELECT a, count(*) AS \"N\" FROM t GROUP BY a HAVING n > 1",
    ],
)  # fmt: skip
def test_left_as_it_is(query: str) -> None:
    assert spelled_out(query, COLUMNS) is query
