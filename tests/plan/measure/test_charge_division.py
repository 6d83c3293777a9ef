"""A statement's charge over its measurements: one Gaussian vector, kinds of noise chosen for all of them, no output starved."""

from __future__ import annotations

import math
from dataclasses import replace

import plan_harness
import pytest

from dpproxy.amounts import ATTO, MICRO
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Mechanism, Policy
from dpproxy.privacy.measurement import Basis
from dpproxy.privacy.noise_error import deviation
from dpproxy.privacy.noise_scale import gaussian_rho

DELTA = ATTO // MICRO
TILES = "SELECT {} FROM orders"
THREE = "SELECT status, count(*), (SELECT sum(amount) FROM orders), (SELECT count(*) FROM visits) FROM orders GROUP BY status"
MONTHS = "SELECT date_trunc('month', ts), {} FROM orders GROUP BY 1"


def with_mechanism(mechanism: Mechanism, name: str = "shop") -> Policy:
    return replace(plan_harness.policy(name), mechanism=mechanism)


def sums(made: Plan) -> list[Basis]:
    return [b for m in made.measurements for b in m.bases if b.label.lower().startswith("sum(")]


def test_one_vector_of_all_measurements(shop_catalog: Catalog) -> None:
    """rho of all Gaussian columns adds up to that of the statement's whole (epsilon, delta)."""
    made = plan_harness.plan(THREE, shop_catalog, with_mechanism("gaussian"))
    assert len(made.measurements) == 3
    assert {m.vector for m in made.measurements} == {made.measurements[0].vector}
    rho = sum(b.reach(m.reach) * b.linf**2 / (2 * float(b.scale) ** 2) for m in made.measurements for b in m.bases)
    assert rho == pytest.approx(float(gaussian_rho(MICRO, DELTA)), rel=1e-2)
    assert (made.loss.epsilon, made.loss.delta, made.loss.conversion) == (MICRO, DELTA, DELTA)
    assert all(MICRO > m.loss.epsilon > MICRO // 4 for m in made.measurements), "each alone costs more than its share"
    assert sum(m.loss.epsilon for m in made.measurements) > 1.3 * MICRO


@pytest.mark.parametrize("mechanism", ["gaussian", "auto"])
def test_three_measurements_are_a_third_better(shop_catalog: Catalog, mechanism: Mechanism) -> None:
    """Against epsilon and delta divided over the measurements, at the same proportions."""
    made = plan_harness.plan(THREE, shop_catalog, with_mechanism("gaussian"))
    gains = []
    for m in made.measurements:
        own = sum(b.reach(m.reach) * b.linf**2 / (2 * float(b.scale) ** 2) for b in m.bases)
        whole = float(gaussian_rho(MICRO, DELTA))
        apart = float(gaussian_rho(round(MICRO * math.sqrt(own / whole) / 1.7), DELTA // 3))  # epsilons that add up to the whole
        gains.append(math.sqrt(own / apart))
    assert sum(gains) / 3 > 1.5


def test_a_statement_chooses_its_noise_as_a_whole(shop_catalog: Catalog) -> None:
    """One count is best off with Laplace noise, twelve are not: Gaussian noise for all, though each alone would have had the other."""
    one = plan_harness.plan("SELECT count(*) FROM customers", shop_catalog, with_mechanism("auto"))
    many = "SELECT " + ", ".join(f"(SELECT count(*) FROM customers WHERE score > {i})" for i in range(24))
    made = plan_harness.plan(many, shop_catalog, with_mechanism("auto"))
    assert {b.mechanism for m in one.measurements for b in m.bases} == {"laplace"}
    assert {b.mechanism for m in made.measurements for b in m.bases} == {"gaussian"}
    apart = plan_harness.plan(many, shop_catalog, with_mechanism("laplace"))
    assert deviation(made.measurements[0].bases[0]) < 0.8 * deviation(apart.measurements[0].bases[0])


def test_a_sum_is_not_ruined_by_a_distinct_count(shop_catalog: Catalog) -> None:
    """Issue 17: beside count(DISTINCT ...) a sum by month had nine times the noise, as 80 to 97 % of epsilon went to the other."""
    rules = with_mechanism("auto", "whole")
    alone, beside = (
        sums(plan_harness.plan(MONTHS.format(what), shop_catalog, rules, dpproxy__epsilon="1"))[0]
        for what in ("sum(amount)", "sum(amount), count(DISTINCT qty)")
    )
    assert deviation(beside) < 2.2 * deviation(alone)


def test_no_output_gets_less_than_a_quarter_of_an_equal_share(shop_catalog: Catalog) -> None:
    """A total needs little beside counts of groups that a threshold hides, or whose customers reach many."""
    for sql in (
        "SELECT name, (SELECT count(*) FROM customers) FROM customers GROUP BY name",
        "SELECT due, count(*), (SELECT count(*) FROM customers) FROM orders GROUP BY due",
    ):
        made = plan_harness.plan(sql, shop_catalog, with_mechanism("laplace"))
        columns = [b.loss.epsilon / MICRO for m in made.measurements for b in m.bases]
        assert sum(columns) == pytest.approx(1, abs=1e-3)
        assert min(columns) == pytest.approx(1 / 4 / len(columns), rel=0.02)
