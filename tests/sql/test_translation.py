"""What is borrowed from other engines is written in PostgreSQL's words, and nothing else is touched."""

from __future__ import annotations

import pytest

from dpproxy.sql.translation import spelled_out

NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT median(a) FROM t", "SELECT (percentile_cont(0.5) WITHIN GROUP (ORDER BY a)) FROM t"),
        ("SELECT quantile_disc(a, 0.9) FROM t", "SELECT (percentile_disc(0.9) WITHIN GROUP (ORDER BY a)) FROM t"),
        ("SELECT count_if(a > 1) FROM t", "SELECT (count(*) FILTER(WHERE a > 1)) FROM t"),
        ("SELECT sum(a > 1) FROM t", "SELECT (sum(CAST((a > 1) AS INT))) FROM t"),
        ("SELECT sum(a > 1) OVER (ORDER BY b) FROM t", "SELECT sum(CAST((a > 1) AS INT)) OVER (ORDER BY b) FROM t"),
        ("SELECT IF(a > 1, 'x', 'y') FROM t", "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END FROM t"),
        ("SELECT iif(a > 1, ifnull(b, 0), 1) FROM t", "SELECT (CASE WHEN a > 1 THEN (coalesce(b, 0)) ELSE 1 END) FROM t"),
        ("SELECT datediff('day', a, b) FROM t", "SELECT (CAST(CAST((b) AS DATE) - CAST((a) AS DATE) AS BIGINT)) FROM t"),
        (
            "SELECT safe_divide(a, safe_add(b, 1)) FROM t",
            "SELECT (CAST(a AS DOUBLE PRECISION) / nullif(CAST(((b) + (1)) AS DOUBLE PRECISION), 0)) FROM t",
        ),
        ("SELECT safe_multiply(a, b - 1), safe_subtract(a, -b) FROM t", "SELECT ((a) * (b - 1)), ((a) - (-b)) FROM t"),
        ("SELECT CAST(a AS INT64), b::int32 FROM t", "SELECT CAST(a AS BIGINT), CAST(b AS INT) FROM t"),
        ("SELECT monthname(a) FROM t", "SELECT (to_char(a, 'FMMonth')) FROM t"),
        ("SELECT CAST(a AS DOUBLE) FROM t", "SELECT CAST(a AS DOUBLE PRECISION) FROM t"),
        ("SELECT a + INTERVAL 90 DAY FROM t", "SELECT a + INTERVAL '90 DAY' FROM t"),
        ("SELECT a, b + 1 AS c, sum(d) FROM t GROUP BY ALL", "SELECT a, b + 1 AS c, sum(d) FROM t GROUP BY 1, 2"),
        ("SELECT count(*) FROM t GROUP BY ALL", "SELECT count(*) FROM t"),
    ],
)
def test_written(query: str, found: str) -> None:
    assert spelled_out(query, NONE) == found
    assert spelled_out(query, NONE, frozenset({"t"})) == found
    assert spelled_out(query, NONE, frozenset({"u"})) == query


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(a) FROM t",
        "SELECT sum((a > 1)::int) FROM t",
        "SELECT nullif(a, 0), 'median(x)' FROM t",
        "SELECT datediff('fortnight', a, b) FROM t",
        "SELECT median(a, b) FROM t",
        "SELECT a::double precision FROM t",
        "SELECT * FROM t GROUP BY ALL",
    ],
)
def test_left_as_it_is(query: str) -> None:
    assert spelled_out(query, NONE) is query


def test_nested_calls_are_written_too() -> None:
    assert spelled_out("SELECT ifnull(ifnull(a, b), 0) FROM t", NONE) == "SELECT (coalesce((coalesce(a, b)), 0)) FROM t"
