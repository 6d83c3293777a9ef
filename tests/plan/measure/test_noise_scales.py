"""A statement's charge divided: everything adds up, every part is covered, and no output is worse off than it need be."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.mechanisms.charge_check import check
from dpproxy.mechanisms.noise_sources import OpenDPNoise
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Mechanism, Policy
from dpproxy.privacy import loss, noise_scale
from dpproxy.privacy.measurement import Basis, Measurement
from dpproxy.privacy.noise_tail import units_threshold

ATTO = 10**18
DELTA = 10**12  # 1e-6, the fixtures' query delta

QUERIES = [
    "SELECT count(*) FROM customers",
    "SELECT count(*), sum(income) FROM customers",
    "SELECT region, count(*), avg(income), stddev(score) FROM customers GROUP BY region",
    "SELECT category, count(*), sum(amount) FROM orders GROUP BY category",
    "SELECT DISTINCT category FROM orders",
    "SELECT name, count(*) FROM customers GROUP BY name",
    "SELECT region, count(*), min(income), percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY income) "
    "FROM customers GROUP BY region",
    "SELECT max(amount), mode() WITHIN GROUP (ORDER BY status) FROM orders",
    "SELECT region, sex, count(*), count(DISTINCT vip) FROM customers GROUP BY ROLLUP (region, sex)",
    "SELECT status, sum(amount) / (SELECT sum(amount) FROM orders) FROM orders GROUP BY status",
    "SELECT corr(income, score), regr_slope(income, score), count(*) FILTER (WHERE vip) FROM customers",
    "SELECT category, count(*) FROM orders WHERE amount > (SELECT avg(amount) FROM orders) GROUP BY category",
]


def with_mechanism(mechanism: Mechanism, delta: int | None = None) -> Policy:
    made = replace(plan_harness.policy(), mechanism=mechanism)
    if delta is None:
        return made
    roles = {n: replace(r, query=replace(r.query, delta=delta)) for n, r in made.roles.items()}
    return replace(made, roles=roles)


def scale(basis: Basis) -> float:
    return float(basis.scale / basis.linf)


def only(plan: Plan) -> Measurement:
    (found,) = plan.measurements
    return found


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "auto"])
@pytest.mark.parametrize("epsilon", ["0.037", "1", "10"])
@pytest.mark.parametrize("sql", QUERIES)
def test_the_charge_is_spent_and_never_more(shop_catalog: Catalog, sql: str, epsilon: str, mechanism: Mechanism) -> None:
    made = plan_harness.plan(sql, shop_catalog, with_mechanism(mechanism), dpproxy__epsilon=epsilon)
    whole = round(float(epsilon) * 10**6)
    assert whole * 0.999 <= made.loss.epsilon <= whole
    assert made.loss.delta <= DELTA
    for measurement in made.measurements:
        check(measurement, OpenDPNoise())  # by formula and by the library's map: each part costs at most its charge


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "auto"])
def test_the_same_statement_has_the_same_plan(shop_catalog: Catalog, mechanism: Mechanism) -> None:
    for sql in QUERIES:
        one, other = (plan_harness.plan(sql, shop_catalog, with_mechanism(mechanism)) for _ in range(2))
        assert one == other


def test_a_count_needs_less_than_a_sum(shop_catalog: Catalog) -> None:
    """Relative to what it adds up, a sum over 0..200000 errs twice as much as a count of the same rows."""
    count, total = only(plan_harness.plan("SELECT count(*), sum(income) FROM customers", shop_catalog)).bases
    assert scale(count) == pytest.approx(2 * scale(total), rel=0.02)


def test_the_division_depends_on_nothing_but_the_plan(shop_catalog: Catalog) -> None:
    sql = "SELECT count(*), avg(income), stddev(score) FROM customers"
    one, two = (only(plan_harness.plan(sql, shop_catalog, dpproxy__epsilon=e)) for e in ("1", "2"))
    for a, b in zip(one.bases, two.bases, strict=True):
        assert float(a.scale / b.scale) == pytest.approx(2, rel=1e-3)


def test_no_division_is_better_for_the_worst_output(shop_catalog: Catalog) -> None:
    """An average's error, to first order, against every other division in hundredths."""
    count, total = only(plan_harness.plan("SELECT avg(income) FROM customers", shop_catalog)).bases
    shares = [b.loss.epsilon / 10**6 for b in (count, total)]
    assert sum(shares) == pytest.approx(1, abs=1e-5)

    def error(s: float) -> float:
        return math.hypot(0.5 / s, 1 / (1 - s))  # half-width 100,000 is the usual value; the mean 1/4 off the middle

    assert error(shares[0]) <= 1.01 * min(error(s / 100) for s in range(1, 100))


def test_a_threshold_gets_its_share(shop_catalog: Catalog) -> None:
    made = only(plan_harness.plan("SELECT category, count(*) FROM orders GROUP BY category", shop_catalog))
    _, units = made.bases
    assert 0.5 < units.loss.epsilon / made.loss.epsilon < 0.8
    assert made.threshold is not None
    assert made.threshold.reach is not None
    plain = units_threshold(units.scale, made.l0, made.threshold.delta, made.threshold.min_units)
    assert made.threshold.tau < plain


def test_one_row_a_customer_needs_no_second_count(shop_catalog: Catalog) -> None:
    made = only(plan_harness.plan("SELECT name, count(*) FROM customers GROUP BY name", shop_catalog))
    assert len(made.bases) == 1


def test_a_small_group_gets_more_than_the_total(shop_catalog: Catalog) -> None:
    sql = "SELECT status, sum(amount) / (SELECT sum(amount) FROM orders) FROM orders GROUP BY status"
    total, by_status = plan_harness.plan(sql, shop_catalog).measurements
    assert total.loss.epsilon + by_status.loss.epsilon == 10**6
    assert by_status.loss.epsilon > 2 * total.loss.epsilon
    thousands = "SELECT due, count(*), (SELECT count(*) FROM orders) FROM orders GROUP BY due"
    total, by_day = plan_harness.plan(thousands, shop_catalog).measurements[::-1]
    found = sorted(m.loss.epsilon for m in (total, by_day))
    assert found[0] > 10**6 // 25  # the smaller one is not starved


def test_gaussian_columns_are_one_mechanism(shop_catalog: Catalog) -> None:
    sql = "SELECT region, count(*), avg(income), stddev(score) FROM customers GROUP BY region"
    made = only(plan_harness.plan(sql, shop_catalog, with_mechanism("gaussian")))
    assert {b.mechanism for b in made.bases} == {"gaussian"}
    rho = sum(Fraction(made.l0 * b.linf**2) / (2 * (b.scale**2 - loss.STEPPED)) for b in made.bases)
    allowed = noise_scale.normal_rho_for(10**6, DELTA)
    assert allowed * Fraction(999, 1000) <= rho <= allowed
    assert made.loss.conversion == DELTA
    assert made.loss.failure == 0


def test_gaussian_noise_and_threshold_share_delta(shop_catalog: Catalog) -> None:
    sql = "SELECT category, count(*) FROM orders GROUP BY category"
    made = only(plan_harness.plan(sql, shop_catalog, with_mechanism("gaussian")))
    assert made.threshold is not None
    assert (made.threshold.delta, made.loss.conversion) == (DELTA // 2, DELTA // 2)
    assert made.threshold.reach is None


def test_auto_takes_what_errs_less(shop_catalog: Catalog) -> None:
    """Laplace for one count a customer; Gaussian where a customer reaches many groups."""
    one = plan_harness.plan("SELECT region, count(*) FROM customers GROUP BY region", shop_catalog, with_mechanism("auto"))
    assert only(one).bases[0].mechanism == "laplace"
    assert one.loss.delta == 0
    wide = plan_harness.wide(with_mechanism("auto"))
    sql = "SELECT status, qty, count(*) FROM orders GROUP BY status, qty"
    many = only(plan_harness.plan(sql, shop_catalog, wide, dpproxy__epsilon="1"))
    assert many.l0 > 50
    assert many.bases[0].mechanism == "gaussian"
    laplace = only(plan_harness.plan(sql, shop_catalog, plan_harness.wide(with_mechanism("laplace")), dpproxy__epsilon="1"))
    assert many.bases[0].scale < math.sqrt(2) * laplace.bases[0].scale


def test_laplace_alone_keeps_the_whole_delta_for_keys(shop_catalog: Catalog) -> None:
    sql = "SELECT name, count(*) FROM customers GROUP BY name"
    for mechanism in ("laplace", "auto"):
        made = only(plan_harness.plan(sql, shop_catalog, with_mechanism(mechanism)))
        assert made.threshold is not None
        assert made.threshold.delta == DELTA


def test_without_delta(shop_catalog: Catalog) -> None:
    keys = "SELECT name, count(*) FROM customers GROUP BY name"
    for mechanism in ("laplace", "gaussian", "auto"):
        with pytest.raises(Refusal, match="needs a delta, and the policy gives this role none") as caught:
            plan_harness.plan(keys, shop_catalog, with_mechanism(mechanism, 0))
        assert caught.value.hint
    with pytest.raises(Refusal, match="Gaussian noise needs a larger delta"):
        plan_harness.plan("SELECT count(*) FROM customers", shop_catalog, with_mechanism("gaussian", 0))
    made = plan_harness.plan("SELECT count(*) FROM customers", shop_catalog, with_mechanism("auto", 0))
    assert made.loss.delta == 0


def test_too_little_is_refused(shop_catalog: Catalog) -> None:
    sql = "SELECT count(*), avg(income), max(score) FROM customers"
    for epsilon in ("0.000001", "0.000003"):
        with pytest.raises(Refusal, match="too small"):
            plan_harness.plan(sql, shop_catalog, dpproxy__epsilon=epsilon)
    with pytest.raises(Refusal, match="at most 10 for role analyst"):
        plan_harness.plan(sql, shop_catalog, dpproxy__epsilon="10.5")


def test_a_planted_bug_is_caught(shop_catalog: Catalog) -> None:
    """What `check` is for: half the noise, or a tenth less, at the same charge."""
    for sql, mechanism in itertools.product(QUERIES[:5], ("laplace", "gaussian")):
        made = plan_harness.plan(sql, shop_catalog, with_mechanism(mechanism)).measurements[0]  # type: ignore[arg-type]
        for factor in (Fraction(1, 2), Fraction(9, 10)):
            thinner = tuple(replace(b, scale=b.scale * factor) for b in made.bases)
            with pytest.raises(Exception, match=r"smaller than the loss|lower than|less noise"):
                check(replace(made, bases=thinner), OpenDPNoise())


def test_only_keys_that_vary_count_for_the_groups_of_a_customer(shop_catalog: Catalog) -> None:
    """A customer has one region: by region and status three groups can be reached, not twelve."""
    wide = plan_harness.wide(with_mechanism("laplace"))
    sql = "SELECT c.region, o.status, count(*) FROM customers c JOIN orders o USING (customer_id) GROUP BY 1, 2"
    made = only(plan_harness.plan(sql, shop_catalog, wide))
    assert (made.l0, made.dense) == (3, True)
    assert "a customer may reach 3 groups: none is cut" in made.notes
    undeclared = sql.replace("c.region", "c.name")
    made = only(plan_harness.plan(undeclared, shop_catalog, wide))
    assert (made.l0, made.dense) == (3, False)


def test_bounds_of_whole_contributions_are_told_of_the_columns_they_apply_to(shop_catalog: Catalog) -> None:
    def bounds(sql: str) -> str:
        return "\n".join(plan_harness.plan(sql, shop_catalog, plan_harness.policy("whole")).measurements[0].notes)

    steps, unscaled = (
        "in classes that double in size",
        "percentiles: at most 2 rows per customer and group",
    )
    counted = bounds("SELECT category, count(*) FROM orders GROUP BY 1")
    assert "at most 1000 groups per customer, since keys are not declared" in counted
    assert steps in counted
    assert unscaled not in counted
    median = bounds("SELECT category, percentile_cont(0.5) WITHIN GROUP (ORDER BY qty) FROM orders GROUP BY 1")
    assert "at most 5 groups per customer, since keys are not declared" in median
    assert unscaled in median
    distinct = bounds("SELECT category, count(DISTINCT qty) FROM orders GROUP BY 1")
    assert "at most 1000 groups per customer, since keys are not declared" in distinct
    assert "of the values of a customer as many are counted as make up 2 rows" in distinct
    assert unscaled not in distinct
    assert steps not in distinct
    assert steps in bounds("SELECT status, avg(qty) FROM orders GROUP BY 1")
