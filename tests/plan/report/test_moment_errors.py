"""The spread of statistics of moments, computed a second way: as `dpproxy.stderr` has it, in the outer query."""

from __future__ import annotations

import numpy as np
import pytest
from accuracy_stage import RELEASES, Seeded, Stage

from dpproxy.plan.measure import moments
from dpproxy.plan.report import moment_errors
from dpproxy.plan.report.typical_error import relative_error, typical_errors_told

CALLS = [f"{name}(score)" for name in sorted(moments.SINGLE)]
CALLS += [f"{name}(income, score)" for name in sorted(moments.PAIRED)]
CALLS += [f"{name}(signup::timestamp - TIMESTAMP '2021-06-01 06:30')" for name in ("avg", "sum")]


@pytest.mark.parametrize("call", CALLS)
def test_the_spread_is_that_of_the_outer_query(stage: Stage, call: str) -> None:
    shown = f"extract(epoch FROM {call})" if "signup" in call else call
    made = stage.plan(f"SELECT {shown}, dpproxy.stderr({call}) FROM customers", dpproxy__epsilon="1")
    (measurement,), (typical,) = made.measurements, made.typical
    assert typical.kind == "moments" or call.startswith(("regr_count", "regr_avg"))
    exact = stage._exact(measurement)
    noise = Seeded(5)
    released = [e + noise.draw(b, RELEASES) for e, b in zip(exact, measurement.bases, strict=True)]
    answers = stage.answered(made, released)
    totals = [column * grid for column, grid in zip(released, typical.grids, strict=True)]
    deviations = [d * grid for d, grid in zip(typical.deviations, typical.grids, strict=True)]
    spread = moment_errors.spread(typical.statistic, totals, deviations, typical.centers)
    assert spread == pytest.approx(answers[:, 1], rel=1e-6, abs=1e-9)
    told = moment_errors.value(typical.statistic, totals, typical.centers)
    near = np.abs(told - answers[:, 0]) <= 1e-6 * np.abs(told) + 1e-9
    assert near.mean() > (0.9 if "signup" not in call else 0.2), "but where what is shown is clamped"
    expected = float(np.median(np.minimum(answers[:, 1] / np.abs(told), 1)))
    assert relative_error(typical, tuple(released)) == pytest.approx(expected, rel=1e-3)


def test_a_slope_of_nothing_is_said_to_be_noise(stage: Stage) -> None:
    made = stage.plan("SELECT regr_slope(income, score), stddev(income), regr_r2(income, score) FROM customers")
    (measurement,) = made.measurements
    nothing = tuple(np.zeros(1, dtype=np.int64) for _ in measurement.bases)
    said = typical_errors_told(made.typical, {0: nothing})
    assert "mostly noise: regr_slope(income, score), stddev(income), regr_r2(income, score) (a larger" in said
    exact = tuple(np.array([v]) for v in stage._exact(measurement))
    assert "stddev" not in typical_errors_told(made.typical, {0: exact}).partition("mostly noise")[2]


def test_a_mean_is_noise_when_it_may_be_anywhere_in_its_range(stage: Stage) -> None:
    """Of a year the error is small beside 1950, and says nothing all the same."""
    made = stage.plan("SELECT avg(birth_year) FROM customers", dpproxy__epsilon="1")
    (typical,) = made.typical
    for rows, noise in ((1, True), (10_000, False)):
        values = (np.array([rows]), np.array([rows * 3]))
        assert (relative_error(typical, values) or 1) < 0.1
        assert ("mostly noise: avg(birth_year)" in typical_errors_told(made.typical, {0: values})) is noise


def test_columns_are_named_in_the_order_of_the_formula() -> None:
    assert moment_errors.columns("regr_slope") == ("n", "y", "x", "yx", "xx")
    assert moment_errors.columns("variance") == ("n", "x", "xx")
    assert not moment_errors.known("")
    assert moment_errors.known("corr")
