"""Intervals of window sums hold the true sums as often as they say: with noise on each group, and with noise on the sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from accuracy_stage import Seeded, Stage

from dpproxy.errors import Refusal
from dpproxy.mechanisms.noise import Exact
from dpproxy.mechanisms.release import release
from dpproxy.policy.model import Mechanism

ANSWERS = 12
TOTALS, MONTH = "ORDER BY signup", "ORDER BY signup ROWS 27 PRECEDING"
BACK = "ORDER BY signup DESC"
BY_REGION = f"PARTITION BY region {MONTH}"


def told(call: str) -> str:
    more = ", ".join(f"dpproxy.{name}({call})" for name in ("low", "high", "stderr"))
    keys = "region, signup" if "region" in call else "signup"
    return f"SELECT {keys}, {call}, {more} FROM customers GROUP BY {keys} ORDER BY {keys}"


def answers(
    stage: Stage, sql: str, mechanism: Mechanism, times: int = ANSWERS
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], bool]:
    """Value, low, high and deviation of each cell in some answers, the truth, and whether noise was on sums."""
    made = stage.plan(sql, mechanism, "running")
    (measurement,) = made.measurements
    keys, noise = len(measurement.keys), Seeded(4)

    def shown(values: Any) -> np.ndarray[Any, Any]:
        columns = [table.column(f"k{i}").to_pylist() for i in range(keys)]
        return np.array(
            [[math.nan if v is None else float(v) for v in row[keys:]] for row in stage.rows_of(made, [*columns, *values])]
        )

    table = stage.tables(measurement)[0]
    exact = [table.column(f"b{i}").to_numpy() for i in range(len(measurement.bases))]
    drawn = [shown(release(measurement, Exact((table,)), noise).values) for _ in range(times)]
    return np.array(drawn), shown(exact)[:, 0], measurement.bases[0].running is not None


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "call",
    [
        f"sum(count(*)) OVER ({TOTALS})", f"sum(sum(income)) OVER ({MONTH})", f"avg(count(*)) OVER ({BACK})",
        "sum(count(*)) OVER ()", f"avg(sum(wealth)) OVER ({MONTH})", f"sum(count(*)) OVER ({BY_REGION})",
    ],
)  # fmt: skip
def test_ends_hold_the_true_sums(stage: Stage, call: str, mechanism: Mechanism) -> None:
    """Of single cells 98.75 % (`noise_error.each`); sums that share groups err together, so that of few answers 96 is no fault. A
    sum at the beginning of a run errs less than is told."""
    drawn, truth, on_sums = answers(stage, told(call), mechanism)
    assert on_sums == (mechanism == "gaussian" and "wealth" not in call and "()" not in call.replace("(*)", ""))
    value, low, high, deviation = np.moveaxis(drawn, 2, 0)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.96
    full = slice(-20, None) if "DESC" not in call else slice(0, 20)
    off = np.sqrt(np.mean(((value - truth) / deviation)[:, full] ** 2))
    assert 0.5 < off < 1.35
    assert np.all(high - low < 7.5 * deviation + 4) or mechanism == "laplace"


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("call", "keys"),
    [
        ("100.0 * count(*) / sum(count(*)) OVER ()", "region"),
        ("round((100 * sum(income) / sum(sum(income)) OVER (PARTITION BY region))::numeric, 2)", "region, signup"),
        ("(count(*))::float8 / (sum(count(*)) OVER (PARTITION BY signup))", "signup, region"),
        ("sum(count(*)) OVER (ORDER BY signup) / sum(count(*)) OVER ()", "signup"),
        ("sum(sum(income)) OVER (ORDER BY signup) / sum(count(*)) OVER (ORDER BY signup)", "signup"),
        ("count(*) - avg(count(*)) OVER (ORDER BY signup ROWS 6 PRECEDING)", "signup"),
    ],
)  # fmt: skip
def test_ends_of_shares_and_other_expressions_hold_the_truth(stage: Stage, call: str, keys: str, mechanism: Mechanism) -> None:
    """And what is shown. Of the union bound coverage is at least what is said; of a share no more than needs be."""
    sql = f"SELECT {keys}, {call}, dpproxy.low({call}), dpproxy.high({call}) FROM customers GROUP BY {keys} ORDER BY {keys}"
    drawn, truth, _ = answers(stage, sql, mechanism, 4)
    value, low, high = np.moveaxis(drawn, 2, 0)
    told = np.isfinite(truth)  # of no rows there is no share
    assert np.mean(((low <= truth) & (truth <= high))[:, told]) >= 0.985
    assert ((low <= value) & (value <= high))[:, told].all()


def test_rows_of_values_that_are_not_declared_may_be_in_the_total(stage: Stage) -> None:
    """Of a share the low end is nothing then; within one value of the key they are none."""
    total, part = "sum(count(*)) OVER ()", "100.0 * count(*) / sum(count(*)) OVER ()"
    calls = ", ".join(
        f"dpproxy.low({call}), dpproxy.high({call})" for call in (total, part, "sum(count(*)) OVER (PARTITION BY region)")
    )
    drawn, _, _ = answers(stage, f"SELECT region, {calls} FROM customers GROUP BY 1 ORDER BY 1", "laplace", 1)
    low, high, least, most, own_low, own_high = np.moveaxis(drawn[0], 1, 0)
    assert np.isfinite(low).all()
    assert np.isnan(high).all(), "of other regions, and of none, there may be any number"
    assert (least == 0).all()
    assert ((most > 0) & (most < 100)).all()
    assert np.isfinite(own_low).all()
    assert np.isfinite(own_high).all()


def test_noise_on_sums_is_less(stage: Stage) -> None:
    """Totals over 91 days: nearly 4 times less than Gaussian noise on days added up, at the end."""
    sums = answers(stage, told(f"sum(count(*)) OVER ({TOTALS})"), "gaussian")[0]
    days = answers(
        stage, told(f"sum(count(*)) OVER ({TOTALS})").replace("SELECT signup", "SELECT signup, 0 * count(*)"), "gaussian"
    )
    assert days[0][0, -1, 4] / sums[0, -1, 3] == pytest.approx(3.8, abs=0.1)


def test_where_nothing_is_known_it_is_said(stage: Stage) -> None:
    call = f"sum(count(*)) OVER ({TOTALS})"
    refused = [
        f"SELECT signup, dpproxy.low({call}) FROM customers GROUP BY 1 HAVING count(*) > 3",
        f"SELECT signup, dpproxy.low(sum(avg(income)) OVER ({TOTALS})) FROM customers GROUP BY 1",
        f"SELECT signup, region, dpproxy.low({call}) FROM customers GROUP BY ROLLUP (1, 2)",
        f"SELECT signup, dpproxy.low(sum(1) OVER ({TOTALS})) FROM customers GROUP BY 1",
        f"SELECT signup, dpproxy.low(count(*) / sum(1) OVER ({TOTALS})) FROM customers GROUP BY 1",
        f"SELECT signup, dpproxy.low(stddev(income) / sum(count(*)) OVER ({TOTALS})) FROM customers GROUP BY 1",
        "SELECT signup, dpproxy.low(count(*) / rank() OVER (ORDER BY count(*))) FROM customers GROUP BY 1",
    ]
    for sql in refused:
        with pytest.raises(Refusal, match=r"dpproxy\.low\(\)"):
            stage.plan(sql, "gaussian", "running")
    phones = "SELECT phone, dpproxy.low(sum(count(*)) OVER ()), dpproxy.high(sum(count(*)) OVER ()) FROM customers GROUP BY 1"
    part = "count(*) / sum(count(*)) OVER ()"
    shares = f"SELECT phone, dpproxy.low({part}), dpproxy.high({part}) FROM customers GROUP BY 1"
    assert [row[1:] for row in stage.rows_of(stage.plan(shares, "gaussian", "running"), [[1], [1000]])] == [(0, 1)]
    undeclared = stage.rows_of(stage.plan(phones, "gaussian", "running"), [[1, 2], [1000, 1000]])
    assert {tuple(map(str, ends)) for _, *ends in undeclared} == {("0", "None")}, "of groups that are not shown"
    cut = f"SELECT day, dpproxy.low({call.replace('signup', 'day')}), dpproxy.high({call.replace('signup', 'day')}) FROM visits GROUP BY 1"
    made = stage.plan(cut, "gaussian", "running")
    rows = stage.rows_of(made, [["2024-01-01", "2024-01-02"], [1000, 1000]])
    stage.plan(
        f"SELECT signup, dpproxy.low(2.0 / sum(count(*)) OVER ({TOTALS})) FROM customers GROUP BY 1", "gaussian", "running"
    )
    assert stage.rows_of(
        stage.plan(shares.replace("phone", "page").replace("customers", "visits"), "gaussian", "running"),
        [["home", "cart"], [1000, 1000]],
    )[0][1:] == (0, 1), "a share is one, whatever is cut"
    with pytest.raises(Refusal, match=r"dpproxy\.stderr\(\) is not available"):
        stage.plan(f"SELECT signup, dpproxy.stderr({part}) FROM customers GROUP BY 1", "gaussian", "running")
    assert [(low > 0, high) for _, low, high in rows] == [(True, None), (True, None)], "visits beyond two a day are cut"


def test_ends_are_wider_where_rows_are_chosen_by_them(stage: Stage) -> None:
    call = f"sum(count(*)) OVER ({TOTALS})"
    plain, chosen = (
        stage.rows_of(stage.plan(told(call) + more, "gaussian", "running"), [["2022-01-01"], [100_000]])[0]
        for more in ("", ", 2 LIMIT 3")
    )
    assert chosen[2] < plain[2]
