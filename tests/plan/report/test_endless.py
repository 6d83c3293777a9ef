"""What has no interval is named, with the reason; and what is not named has an end, in the answer itself."""

from __future__ import annotations

import numpy as np
import pytest
from accuracy_stage import Stage, told

from dpproxy.plan.report.endless import CUT, UNORDERED, endless_told

WITHOUT = ["sum(qty - 10)", "regr_slope(amount, qty)", "regr_intercept(amount, qty)", "regr_sxy(amount, qty)"]
WITH = ["count(*)", "sum(qty)", "avg(qty)", "avg(amount)", "stddev(amount)", "corr(amount, qty)", "regr_sxx(amount, qty)",
        "count(DISTINCT category)", "regr_count(amount, qty)", "covar_pop(amount, qty)", "regr_r2(amount, qty)"]  # fmt: skip


@pytest.mark.parametrize("call", [*WITHOUT, *WITH])
def test_what_is_named_is_what_has_no_end(stage: Stage, call: str) -> None:
    made = stage.plan(told(call).replace("customers", "orders"), dpproxy__epsilon="10")
    ends = stage.released(made)[:, 1:3]
    without = bool(np.median(np.isfinite(ends).sum(axis=1)) == 0)
    assert without is (call in WITHOUT)
    assert made.endless == ((f"{call} ({CUT})",) if without else ())
    assert (f"no interval: {CUT}" in "\n".join(made.explain)) is without


def test_of_one_row_a_person_all_have_ends(stage: Stage) -> None:
    made = stage.plan("SELECT sum(score), regr_slope(income, score), avg(score) FROM customers")
    assert made.endless == ()


def test_values_without_an_order(stage: Stage) -> None:
    mode = "mode() WITHIN GROUP (ORDER BY sex)"
    made = stage.plan(f"SELECT {mode}, max(income) FROM customers")
    assert made.endless == (f"{mode} ({UNORDERED})",)
    assert f"ranks; no interval: {UNORDERED}" in "\n".join(made.explain)


def test_the_sentence_of_the_notice() -> None:
    assert endless_told(()) == ""
    assert endless_told(("a (b)", "c (d)")) == "no interval can be told of a (b), c (d)"
