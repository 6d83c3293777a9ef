"""By how many rows percentiles, extremes and modes may be displaced: as often as is said in releases, and told in words."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from accuracy_stage import Stage

from dpproxy.plan.report import rank_errors
from dpproxy.plan.report.typical_error import typical_errors_told

MEDIAN = "percentile_disc(0.5) WITHIN GROUP (ORDER BY income)"
MODE = "mode() WITHIN GROUP (ORDER BY sex)"


def test_a_median_is_displaced_by_no_more_rows(stage: Stage) -> None:
    made = stage.plan(f"SELECT {MEDIAN} FROM customers", dpproxy__epsilon="1")
    (typical,) = made.typical
    answers = stage.selected(made, 100)[:, 0]
    below = np.array([stage.true(f"SELECT count(*) FROM customers WHERE income < {v}") for v in np.unique(answers)])
    upto = np.array([stage.true(f"SELECT count(*) FROM customers WHERE income <= {v}") for v in np.unique(answers)])
    middle = stage.true("SELECT count(*) FROM customers") / 2
    assert np.all((below - typical.ranks <= middle) & (middle <= upto + typical.ranks))
    assert f"-> {MEDIAN}  within {typical.ranks} ranks" in "\n".join(made.explain)


def test_it_is_told_in_rows(stage: Stage) -> None:
    made = stage.plan(f"SELECT {MEDIAN}, {MODE} FROM customers", dpproxy__epsilon="1")
    median, mode = (t.ranks for t in made.typical)
    assert typical_errors_told(made.typical, {0: (np.zeros(1), np.zeros(1))}) == (
        f"{MEDIAN} may be up to {median} rows off in rank (mostly noise of fewer than {2 * median} rows); "
        f"{MODE} has at most {mode} rows fewer than the most frequent value (mostly noise of fewer than {2 * mode} rows)"
    )


def test_beside_a_count_it_is_known_whether_it_is_noise(stage: Stage) -> None:
    made = stage.plan(f"SELECT count(*), {MEDIAN} FROM customers", dpproxy__epsilon="1")
    typical = made.typical[-1]
    assert len(typical.columns) == 1
    for rows, noise in ((2 * typical.ranks - 1, True), (2 * typical.ranks, False)):
        said = typical_errors_told(made.typical, {0: (np.array([rows]), np.array([7]))})
        assert (f"mostly noise: {MEDIAN}" in said) is noise
        assert f"{MEDIAN} may be up to {typical.ranks} rows off in rank" in said


def test_another_filter_counts_other_rows(stage: Stage) -> None:
    made = stage.plan(f"SELECT count(*) FILTER (WHERE vip), {MEDIAN} FROM customers")
    assert made.typical[-1].columns == ()


def test_ends_are_no_values_of_their_own(stage: Stage) -> None:
    made = stage.plan(f"SELECT {MEDIAN}, dpproxy.low({MEDIAN}) FROM customers")
    assert [t.label for t in made.typical] == [MEDIAN]
    value, end = made.measurements[0].selections
    assert rank_errors.ranks(value, Fraction(19, 20)) < rank_errors.ranks(end, Fraction(19, 20))
