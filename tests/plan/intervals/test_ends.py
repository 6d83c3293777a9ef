"""What has no interval is named, with the reason; and what is not named has an end, in the answer itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accuracy_stage import Stage, told

from dpproxy.plan.intervals.ends import CUT, UNORDERED, UNSHOWN, Ends, column_ends, endless_told, sum_ends
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.specs import BasisSpec, Bounding
from dpproxy.tree.expr import Column
from dpproxy.tree.measured import MeasuredRows, Sums
from dpproxy.tree.relation import Values
from dpproxy.tree.spelling import Query

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
    assert endless_told(("a (b)", "c (d)")) == "no interval can be given for a (b), c (d)"


def sides(made: Compiled, spec: BasisSpec) -> tuple[bool, bool]:
    ends = column_ends(made, spec)
    return ends.low.is_open, ends.high.is_open


def test_where_the_truth_may_be_when_bounds_cut() -> None:
    """Below and above a column's noise: rows left out take from a count, not from what is there."""
    counted, signed, units = (BasisSpec(kind, None, None, kind, lo) for kind, lo in (("count", 0), ("sum", -3), ("units", 0)))
    one = Bounding(1, 1, False, False, None, ())
    rows, groups = replace(one, rows=3, per_unit=True), replace(one, rows=3, l0=2, per_unit=True, pick=True)
    whole = replace(rows, l0=1000, norm=2)
    unit = Column(0, "u", "int4")
    nothing = Query(Sums(MeasuredRows(Values((unit,)), unit, ()), ()), "")
    expected = {
        one: [(False, False)] * 3,
        rows: [(False, True), (True, True), (False, False)],
        groups: [(False, True), (True, True), (False, True)],
        whole: [(False, True), (True, True), (False, True)],
    }
    for bounding, ends in expected.items():
        made = Compiled(nothing, (), (), (), (), bounding, None, 1)
        assert [sides(made, spec) for spec in (counted, signed, units)] == ends
    known = Compiled(nothing, (), (), (), (), rows, None, 1, all_rows=True)
    assert sides(known, counted) == (False, False)


def test_window_sums_of_groups_that_are_not_shown_have_no_ends() -> None:
    counted, one = BasisSpec("count", None, None, "n"), Bounding(1, 1, False, False, None, ())
    unit = Column(0, "u", "int4")
    nothing = Query(Sums(MeasuredRows(Values((unit,)), unit, ()), ()), "")
    alone = Compiled(nothing, (), (counted,), (), (), one, None, 1)
    grouped = replace(alone, keys=(("g", "text"),))
    assert (sum_ends(alone, counted), column_ends(grouped, counted)) == (Ends(), Ends())
    assert sum_ends(grouped, counted).why_none == UNSHOWN
