"""What a SELECT asks to be measured: equal things once, by the index they keep."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.errors import Refusal
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.measure.request import MAX_COLUMNS, MeasurementRequest
from dpproxy.plan.measure.specs import BasisSpec, SelectionSpec
from dpproxy.tree.relation import Contribution, ContributionLimits, Rows, Scan

UNIT, X = column(1), column(2)
SCAN = Scan((UNIT, X), 0, ("main", "t"), ("u", "x"))


def request(whole: bool = False, one: bool = False) -> MeasurementRequest:
    limits = Contribution(ContributionLimits(3, None, whole))
    return MeasurementRequest(Rows(node=SCAN, unit=UNIT, one=one, contribution=limits))


COUNT = BasisSpec("count", None, None, "count(*)")
SUM = BasisSpec("sum", ref(X), None, "sum(x)", 0, 5)


def test_equal_columns_are_one() -> None:
    asked = request()
    assert asked.empty
    assert [asked.basis(s) for s in (COUNT, SUM, replace(COUNT, label="n"), replace(SUM, lo=-1), SUM)] == [0, 1, 0, 2, 1]
    assert len(asked.specs) == 3
    assert not asked.empty


def test_one_count_serves_means_too() -> None:
    mean = replace(COUNT, mean=True)
    asked = request()
    assert asked.basis(mean) == asked.basis(COUNT) == 0
    whole = request(whole=True)
    assert (whole.basis(mean), whole.basis(COUNT)) == (0, 0)
    assert [request(*flags).stepped for flags in ((False, False), (True, False), (True, True))] == [False, True, False]


def test_a_sum_of_a_mean_is_another_than_a_sum() -> None:
    asked = request()
    assert asked.basis(SUM) != asked.basis(replace(SUM, mean=True))


def test_columns_beside_those_with_steps() -> None:
    asked = request(whole=True)
    for spec in (COUNT, replace(SUM, mean=True), SUM):
        asked.basis(spec)
    assert [asked.in_steps(i) for i in range(3)] == [True, False, True]
    assert asked.step_columns() == ["r0", "t0", "x0", "r2", "t2", "x2"]
    assert request().step_columns() == []


def test_keys_keep_their_place() -> None:
    asked, key = request(), call("upper", ref(X), type_="text")
    assert asked.key(key) is None
    assert [asked.add_key("x", ref(X)), asked.add_key("upper", key)] == [0, 1]
    assert (asked.key(key), asked.key(ref(X))) == (1, 0)
    assert [label for label, _ in asked.keys] == ["x", "upper"]


def test_selections_and_their_columns() -> None:
    asked = request()
    median = SelectionSpec(ref(X), None, "median", 0, 5, Fraction(1), (Fraction(1, 2),))
    both = replace(median, fractions=(Fraction(0), Fraction(1)))
    assert [asked.selection(s) for s in (median, both, median)] == [["s0_0"], ["s1_0", "s1_1"], ["s0_0"]]


def test_outputs_are_told_once() -> None:
    asked = request()
    for label in ("a", "b", "a"):
        asked.output(Output(label, "linear", (1.0,), (0,)))
    assert [o.label for o in asked.outputs] == ["a", "b"]


def test_too_many_columns_are_refused() -> None:
    asked = request()
    specs = [replace(SUM, value=lit(str(i))) for i in range(MAX_COLUMNS + 1)]
    assert [asked.basis(s) for s in specs[:-1]] == list(range(MAX_COLUMNS))
    assert asked.basis(specs[0]) == 0, "what is asked for already is no more"
    with pytest.raises(Refusal) as caught:
        asked.basis(specs[-1])
    assert caught.value.sqlstate == "54000"
