"""Averages and moments under `bounds: { rows: n }`: measured as counts and sums are, and so no further off than their quotient."""

from __future__ import annotations

from fractions import Fraction

import plan_harness
import pytest

from dpproxy.plan.measure.moments import centred, moments
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.tree.expr import Column, Ref
from dpproxy.tree.interval import Interval

MOMENTS = ["avg(amount)", "stddev(amount)", "var_pop(amount)", "corr(amount, qty)", "regr_slope(qty, amount)"]


def plan(sql: str, catalog: Catalog) -> Plan:
    return plan_harness.plan(sql, catalog, plan_harness.policy("whole"))


@pytest.mark.parametrize("moment", MOMENTS)
def test_every_column_is_measured_in_steps(moment: str, shop_catalog: Catalog) -> None:
    (measurement,) = plan(f"SELECT {moment} FROM orders", shop_catalog).measurements
    assert measurement.stepped == tuple(range(len(measurement.bases)))
    assert not any(basis.signed for basis in measurement.bases), "what is not negative has moments that are not"


def test_an_average_is_the_quotient_of_a_sum_and_a_count(shop_catalog: Catalog) -> None:
    (measurement,) = plan("SELECT avg(amount), sum(amount) / count(amount) FROM orders", shop_catalog).measurements
    assert len(measurement.bases) == 2


@pytest.mark.parametrize(("lo", "hi", "center"), [(0, 10, 0), (-5, 10, 0), (1871, 2020, 1871), (-9, -3, -3)])
def test_values_are_taken_from_the_number_nearest_to_nothing(lo: int, hi: int, center: int) -> None:
    value = Ref("int4", Column(1, "x", "int4", Interval(Fraction(lo), Fraction(hi))))
    whole, half = centred(value, 10**6, whole=True), centred(value, 10**6)
    assert (whole.center, whole.lo, whole.hi) == (center, lo - center, hi - center)
    assert whole.half <= max(abs(lo), abs(hi)), "no row adds more than it does to sum(x)"
    assert half.center == (lo + hi) // 2
    bases, *_ = moments("var_pop", [value], None, "x", 10**6, whole=True)
    assert [(spec.mean, spec.lo >= 0 or (lo, hi) in ((-5, 10), (-9, -3))) for spec in bases[1:]] == [(False, True)] * 2
    assert (bases[2].lo, bases[2].center) == (0, 0), "a sum of squares is not negative"
