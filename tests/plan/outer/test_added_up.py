"""What is added up is what was drawn: counts are raised to 0 once they are a sum, and then by the sum alone."""

from __future__ import annotations

import plan_harness
import pytest
from accuracy_stage import Stage

from dpproxy.plan.measure.request import Series
from dpproxy.plan.outer.registry import Registry
from dpproxy.policy.catalog import Catalog

DAYS = "SELECT signup, count(*) AS n FROM customers GROUP BY 1"
STATEMENTS = {
    "SELECT signup, sum(count(*)) OVER (ORDER BY signup) FROM customers GROUP BY 1 ORDER BY 1": [0, 0, 0, 2],
    "SELECT signup, avg(count(*)) OVER (ORDER BY signup ROWS 1 PRECEDING) FROM customers GROUP BY 1 ORDER BY 1": [0, 0, 0.5, 3.5],
    f"WITH d AS ({DAYS}) SELECT signup, sum(n) OVER (ORDER BY signup) FROM d ORDER BY 1": [0, 0, 0, 2],
    f"SELECT signup, sum(n) OVER (ORDER BY signup) AS n FROM ({DAYS}) AS d ORDER BY 1": [0, 0, 0, 2],
    "SELECT signup, count(*), sum(count(*)) OVER (ORDER BY signup) FROM customers GROUP BY 1 ORDER BY 1": [0, 0, 0, 2],
    # shares of a total add up to one: it is that of what is shown
    "SELECT signup, count(*), sum(count(*)) OVER () FROM customers GROUP BY 1 ORDER BY 1": [7, 7, 7, 7],
    # a query that reads more than sums of a column gets what may be shown
    f"WITH d AS ({DAYS}) SELECT signup, n, sum(n) OVER (ORDER BY signup) FROM d ORDER BY 1": [0, 0, 5, 7],
}


@pytest.mark.parametrize("sql", STATEMENTS)
def test_noise_below_nothing_is_added_as_it_was_drawn(stage: Stage, sql: str) -> None:
    made = stage.plan(sql)
    rows = stage.rows_of(made, [["2022-01-01", "2022-01-02", "2022-01-03", "2022-01-04"], [-1, -4, 5, 2]])
    assert [row[-1] for row in rows] == STATEMENTS[sql]


def test_sums_of_durations_stay_durations(shop_catalog: Catalog) -> None:
    sql = "SELECT status, sum(sum(ts - timestamp '2024-01-01')) OVER (ORDER BY status) FROM orders GROUP BY 1"
    made = plan_harness.plan(sql, shop_catalog)
    assert "INTERVAL" in made.outer.upper()
    assert "GREATEST(sum" not in made.outer


@pytest.mark.parametrize(
    ("sql", "series"),
    [
        ("SELECT region, signup, sum(count(*)) OVER (PARTITION BY region ORDER BY signup) FROM customers GROUP BY 1, 2", (1, None)),
        ("SELECT signup, avg(count(*)) OVER (ORDER BY signup ROWS 6 PRECEDING) FROM customers GROUP BY 1, region", None),
        ("SELECT region, signup, sum(count(*)) OVER (ORDER BY signup) FROM customers GROUP BY 1, 2", None),
        ("SELECT signup, sum(count(*)) OVER (PARTITION BY signup ORDER BY signup) FROM customers GROUP BY 1", None),
        (f"WITH d AS ({DAYS}) SELECT avg(n) OVER (ORDER BY signup ROWS 6 PRECEDING) FROM d", (0, 7)),
        (f"WITH d AS ({DAYS}) SELECT avg(n) OVER (ORDER BY signup - 1 ROWS 6 PRECEDING) FROM d", None),
        ("SELECT signup, region, sum(count(*)) OVER (PARTITION BY region ORDER BY signup) FROM customers "
         "GROUP BY GROUPING SETS ((1, 2), (1))", None),
    ],
)  # fmt: skip
def test_the_key_along_which_sums_go(
    shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch, sql: str, series: tuple[int, int | None] | None
) -> None:
    seen: list[Series | None] = []
    whole = Registry.compile_sets

    def noted(self: Registry, request: object, *rest: object) -> object:
        seen.append(request.series)
        return whole(self, request, *rest)

    monkeypatch.setattr(Registry, "compile_sets", noted)
    plan_harness.plan(sql, shop_catalog)
    assert seen[0] == (Series(series[0], (series[1],)) if series is not None else None)
