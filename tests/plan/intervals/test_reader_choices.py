"""Which queries around a measured SELECT choose among its rows by what was released, and which by keys alone."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from dpproxy.plan.intervals.reader_choices import chosen_above
from dpproxy.sql.dialect import FaithfulPostgres

INNER = "SELECT region, sex AS s, count(*) AS n, dpproxy.low(count(*)) AS l FROM customers GROUP BY region, sex"

CHOSEN = [
    f"SELECT * FROM ({INNER}) AS t WHERE n > 5",
    f"SELECT * FROM ({INNER}) AS t WHERE t.l > 5",
    f"SELECT * FROM ({INNER}) AS t (a, b, c) WHERE c > 5",
    f"SELECT * FROM ({INNER}) AS t ORDER BY n DESC LIMIT 1",
    f"SELECT region, n * 2 AS twice FROM ({INNER}) AS t ORDER BY twice FETCH FIRST 1 ROW ONLY",
    f"SELECT region, n FROM ({INNER}) AS t ORDER BY 2 DESC OFFSET 3",
    f"({INNER}) ORDER BY n LIMIT 1",
    f"SELECT DISTINCT ON (region) region, n FROM ({INNER}) AS t ORDER BY region, n DESC",
    f"WITH t AS ({INNER}) SELECT * FROM t WHERE n > 5",
    f"WITH t AS ({INNER}), u AS (SELECT region AS r, n AS m FROM t) SELECT * FROM u WHERE m > 5",
    f"WITH t AS ({INNER}) SELECT * FROM t JOIN (SELECT 5 AS n) AS f USING (n)",
    f"WITH t AS ({INNER}) SELECT * FROM t NATURAL JOIN (SELECT 5 AS n) AS f",
    f"WITH t AS ({INNER}) SELECT * FROM t JOIN (SELECT 5 AS m) AS f ON f.m < t.n",
    f"WITH t AS ({INNER}) SELECT region, max(n), max(l) FROM t GROUP BY region",
    f"WITH t AS ({INNER}) SELECT region, sum(l) FROM t GROUP BY region HAVING sum(n) > 5",
    f"SELECT * FROM (SELECT *, row_number() OVER (ORDER BY n DESC) AS r FROM ({INNER}) AS t) AS u WHERE r <= 3",
    f"SELECT * FROM ({INNER.replace('count(*) AS n', 'rank() OVER (ORDER BY count(*)) AS n')}) AS t WHERE n < 3",
    f"SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d UNION ALL {INNER} ORDER BY c DESC LIMIT 1",
    f"SELECT * FROM (SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d UNION ALL {INNER}) AS t WHERE c > 5",
    f"{INNER} EXCEPT SELECT 'north', 'F', 5, 5",
]

BY_KEYS = [
    INNER,
    f"SELECT * FROM ({INNER}) AS t WHERE region = 'north' AND s IN ('F')",
    f"SELECT n, l FROM ({INNER}) AS t ORDER BY n DESC",
    f"SELECT * FROM ({INNER}) AS t LIMIT 3",
    f"SELECT * FROM ({INNER}) AS t ORDER BY t.region LIMIT 3",
    f"WITH t AS ({INNER}) SELECT * FROM t JOIN (VALUES ('north', 9)) AS f(region, m) USING (region) WHERE f.m > 5",
    f"WITH t AS ({INNER}), u AS (SELECT 1 AS n) SELECT * FROM u WHERE n > 5",
    f"WITH t AS ({INNER}) SELECT region, sum(n), sum(l) FROM t GROUP BY region HAVING region > 'a'",
    f"SELECT * FROM ({INNER}) AS t WHERE region IN (SELECT r FROM regions)",
    "SELECT * FROM (SELECT region, count(*) AS n FROM customers GROUP BY region) AS t WHERE n > 5",  # asks for no interval
]


def measured(sql: str) -> exp.Select:
    tree = sqlglot.parse_one(sql, read=FaithfulPostgres)
    return next(s for s in tree.find_all(exp.Select) if s.args.get("from_") and s.args["from_"].this.name == "customers")


@pytest.mark.parametrize("sql", CHOSEN)
def test_choices_by_released_values(sql: str) -> None:
    assert chosen_above(measured(sql))


@pytest.mark.parametrize("sql", BY_KEYS)
def test_choices_by_keys_alone_and_none(sql: str) -> None:
    assert not chosen_above(measured(sql))
