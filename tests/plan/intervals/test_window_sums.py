"""What reads a SELECT's aggregates: sums over windows alone, wherever they stand, or anything else."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from dpproxy.plan.intervals.window_sums import own_sums, read_by_sums, window_sum
from dpproxy.sql.dialect import FaithfulPostgres, to_sql

OWN = "SELECT day, {} FROM visits GROUP BY day"
CTE = "WITH d AS (SELECT day, page, count(*) AS n, sum(secs) s FROM visits GROUP BY 1, 2) SELECT {} FROM d"
SUBQUERY = "SELECT {} FROM (SELECT day, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1) AS d"


def measured(sql: str) -> exp.Select:
    """The SELECT that reads the table."""
    (table,) = [t for t in sqlglot.parse_one(sql, read=FaithfulPostgres).find_all(exp.Table) if t.name == "visits"]
    found = table.find_ancestor(exp.Select)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("frame", "width", "first"),
    [
        ("ORDER BY day", None, True),
        ("ORDER BY day RANGE UNBOUNDED PRECEDING", None, True),
        ("ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", None, True),
        ("ORDER BY day ROWS 6 PRECEDING", 7, False),
        ("ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW", 7, False),
        ("ORDER BY day ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING", 7, False),
        ("ORDER BY day ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", None, False),
        ("", None, True),
    ],
)
def test_frames(frame: str, width: int | None, first: bool) -> None:
    (found,) = own_sums(measured(OWN.format(f"sum(count(*)) OVER ({frame})")))
    assert (found.width, found.first) == (width, first)


@pytest.mark.parametrize(
    "call",
    [
        "max(count(*)) OVER (ORDER BY day)", "sum(count(*)) FILTER (WHERE true) OVER (ORDER BY day)", "sum(count(*)) OVER w",
        "sum(count(*)) OVER (ORDER BY day ROWS BETWEEN 7 PRECEDING AND 1 PRECEDING)",
        "sum(count(*)) OVER (ORDER BY day RANGE BETWEEN '6 days' PRECEDING AND CURRENT ROW)",
        "sum(count(*)) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
        "sum(count(*)) OVER (ORDER BY day ROWS BETWEEN 2 + 4 PRECEDING AND CURRENT ROW)",
    ],
)  # fmt: skip
def test_other_calls_are_no_window_sums(call: str) -> None:
    assert not own_sums(measured(OWN.format(call)))


@pytest.mark.parametrize(
    ("sql", "orders"),
    [
        (OWN.format("sum(count(*)) OVER (ORDER BY day)"), ["day"]),
        (OWN.format("sum(sum(secs)) OVER (ORDER BY day) / sum(count(*)) OVER (ORDER BY day)"), ["day", "day"]),
        (OWN.format("round(avg(count(*)) OVER (ORDER BY day ROWS 6 PRECEDING), 1)") + " ORDER BY day", ["day"]),
        (CTE.format("day, sum(n) OVER (PARTITION BY page ORDER BY day DESC), avg(d.s) OVER (ORDER BY d.day)"), ["day", "d.day"]),
        (SUBQUERY.format("day, sum(d.n) OVER (ORDER BY d.day)") + " WHERE day > '2024-01-01' ORDER BY 2", ["d.day"]),
    ],
)
def test_sums_alone(sql: str, orders: list[str]) -> None:
    found = read_by_sums(measured(sql))
    assert found is not None
    assert [to_sql(s.order) for s in found.sums if s.order is not None] == orders
    assert found.around == ("AS n" in sql)


@pytest.mark.parametrize(
    "sql",
    [
        OWN.format("count(*), sum(count(*)) OVER (ORDER BY day)"),
        OWN.format("sum(count(*)) OVER (ORDER BY day)") + " HAVING count(*) > 3",
        OWN.format("sum(count(*)) OVER (ORDER BY day)") + " ORDER BY count(*)",
        OWN.format("sum(count(*)) OVER (ORDER BY day), max(count(*)) OVER (ORDER BY day)"),
        OWN.format("sum(count(*)) OVER ()"), OWN.format("sum(count(*)) OVER (ORDER BY day, page)"),
        OWN.format("sum(count(*)) OVER (ORDER BY day NULLS FIRST)"), OWN.format("sum(1 + count(*)) OVER (ORDER BY day)"),
        OWN.format("count(*)"), OWN.format("sum(count(*)) OVER (ORDER BY day)") + " LIMIT 3",
        CTE.format("*, sum(n) OVER (ORDER BY day)"), CTE.format("n, sum(n) OVER (ORDER BY day)"),
        CTE.format("sum(n) OVER (ORDER BY day)") + " WHERE n > 0", CTE.format("sum(n)"),
        CTE.format("sum(n) OVER (ORDER BY day)") + " JOIN d AS e USING (day)",
        CTE.format("sum(n) OVER (ORDER BY day)") + " UNION ALL SELECT n FROM d",
        SUBQUERY.format("day, sum(n) OVER (ORDER BY day)").replace("AS d", "AS d(day, n)"),
        SUBQUERY.format("day, sum(n) OVER (ORDER BY n)"),
    ],
)  # fmt: skip
def test_groups_are_asked_for_as_well(sql: str) -> None:
    assert read_by_sums(measured(sql)) is None


def test_what_is_no_window_is_none() -> None:
    assert window_sum(measured(OWN.format("count(*)"))) is None
