"""Every privacy number twice, by different roads (CONTRIBUTING.md, style 10).

The plan states sensitivities, scales, thresholds and losses. Here each is computed again: bounds by hand from the
policy, and read from the generated SQL, which is what will happen; losses from the noise alone, by the textbook's
formula; thresholds by adding up the tail of the noise. Nothing of the planner or of the formulas of `dpproxy.privacy` is used.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction

import plan_harness
import pytest
from fixture_cases import ACCEPTED, Case
from plan_harness import Shop

from dpproxy.amounts import ATTO, MICRO
from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Bounds
from dpproxy.privacy.measurement import Threshold
from dpproxy.table_terms import TableName

EPSILON, DELTA = 1 * MICRO, ATTO // MICRO  # of a statement, by the fixtures' policy


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop(3, most=0)


# --- l0: how many groups of one unit the SQL lets through


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_groups_of_a_unit(case: Case, shop: Shop, shop_catalog: Catalog) -> None:
    """`rank <= n` of the groups of a unit where groups are picked; else all declared groups, or one where keys are
    the same in all rows of a unit (which deletion shows)."""
    made = case.known_plan(shop_catalog)
    for m in made.measurements:
        texts = plan_harness.queries(m, plan_harness.values_of(made, case.values))
        picked = re.search(r"q AS \(.*?rank <= (\d+)\)", " ".join(texts))
        if picked:
            assert m.l0 == int(picked[1])
        elif not m.bases and not m.selections:  # only the declared keys are listed: no row of a unit is read
            assert m.dense
            assert not re.search(r"customers|orders|visits|items", " ".join(texts))
        elif m.l0 > 1:
            assert m.dense
            assert m.l0 >= shop.run(texts[0]).num_rows
        else:
            assert m.l0 == 1


# --- linf and l0 from the policy's bounds, by hand


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("groups", [1, 2, 7, None])
def test_bounds_of_the_policy(rows: int, groups: int | None, shop_catalog: Catalog) -> None:
    given = plan_harness.policy()
    orders, visits = (TableName("public", name) for name in ("orders", "visits"))
    tables = {
        **given.tables,
        orders: replace(given.tables[orders], bounds=Bounds(rows, groups)),
        visits: replace(given.tables[visits], bounds=Bounds(2, 3)),
    }
    bounded = replace(given, tables=tables)

    def numbers(sql: str) -> tuple[int, list[int]]:
        (m,) = plan_harness.plan(sql, shop_catalog, bounded).measurements
        return m.l0, [b.linf for b in m.bases]

    cents, statuses = 100, 3
    reached = min(groups or statuses, statuses)
    assert numbers("SELECT count(*) FROM orders") == (1, [rows])
    assert numbers("SELECT count(DISTINCT customer_id) FROM orders") == (1, [1])
    assert numbers("SELECT count(DISTINCT category) FROM orders") == (1, [rows])
    assert numbers("SELECT count(DISTINCT status) FROM orders") == (1, [min(rows, statuses)])
    assert numbers("SELECT status, sum(amount) FROM orders GROUP BY 1") == (reached, [rows * 1000 * cents])
    assert numbers("SELECT status, sum(amount - 300) FROM orders GROUP BY 1") == (reached, [rows * 700 * cents])
    assert numbers("SELECT status, avg(amount) FROM orders GROUP BY 1") == (reached, [rows, rows * 500 * cents])
    assert numbers("SELECT status, paid, count(*) FROM orders GROUP BY 1, 2") == (min(groups or 9, 9), [rows])
    joined = "FROM orders o JOIN visits v USING (customer_id)"
    assert numbers(f"SELECT count(*) {joined}") == (1, [rows * 2])
    assert numbers(f"SELECT page, count(*) {joined} GROUP BY 1") == (min(3 * groups, 3) if groups else 3, [rows * 2])
    per_customer = "SELECT customer_id, count(*) AS n, sum(qty) AS s FROM orders GROUP BY 1"
    assert numbers(f"SELECT sum(least(n, 3)), sum(least(s, 50)) FROM ({per_customer}) t") == (1, [3, 50])
    assert numbers("SELECT region, sum(income) FROM customers GROUP BY 1") == (1, [200_000])
    if groups is not None:
        assert numbers("SELECT category, count(*) FROM orders GROUP BY 1")[0] == groups


# --- scales and losses, from the noise alone


@pytest.mark.parametrize("case", [c for c in ACCEPTED if c.policy != "running"], ids=str)  # of Gaussian noise: test_running
def test_losses_cover_the_noise(case: Case, shop_catalog: Catalog) -> None:
    made = case.known_plan(shop_catalog)
    assert made.loss.epsilon == sum(m.loss.epsilon for m in made.measurements)
    assert made.loss.epsilon <= EPSILON
    assert made.loss.delta <= DELTA
    for m in made.measurements:
        spent = Fraction(0)
        for basis in m.bases:
            assert basis.mechanism == "laplace"
            kept = m.top.k if m.top else m.l0
            # a vector of l1 norm linf, or l0 numbers of at most linf each, of which no more than are kept are told
            groups = 1 if basis.norm == 1 else min(m.l0, kept)
            own = groups * basis.linf / basis.scale  # Dwork & Roth 2014, theorem 3.6: l1 sensitivity over scale
            assert own * MICRO <= basis.loss.epsilon
            spent += own
        spent += sum(Fraction(m.l0 * s.epsilon, MICRO) for s in m.selections)
        if m.top:
            spent += Fraction(m.top.k * m.top.epsilon, MICRO)  # k choices of epsilon each
        assert spent * MICRO <= m.loss.epsilon
        if m.bases or m.selections:
            assert spent * MICRO > m.loss.epsilon * Fraction(98, 100), "noise is wasted"


# --- thresholds, by adding up tails


def tail(scale: float, at: int) -> float:
    """P(X >= at) of discrete Laplace noise, at >= 1, by summation of P(X = x) = (1 - q) / (1 + q) * q**|x|."""
    q = math.exp(-1 / scale)
    if scale > 10**5:
        return q**at / (1 + q)  # the geometric series
    reach = at + int(60 * scale) + 10  # beyond, less than e**-60 of the tail is left
    return (1 - q) / (1 + q) * math.fsum(q**x for x in range(at, reach))


def chance(threshold: Threshold, scale: float, fine: int) -> float:
    """That a group of exactly `min_units` units, of weight 1 or `fine` parts each, is released."""
    over = threshold.tau - threshold.min_units * fine
    if threshold.reach is None:
        return tail(scale, over)
    q, k = math.exp(-1 / scale), threshold.reach
    whole = math.fsum(q ** abs(x) for x in range(-k, k + 1))
    return math.fsum(q**x for x in range(over, k + 1)) / whole


@pytest.mark.parametrize("role", ["analyst", "careful"])
@pytest.mark.parametrize("case", [c for c in ACCEPTED if any(m["groups"] == "threshold" for m in c.accept or ())], ids=str)
def test_thresholds_cost_their_delta(case: Case, role: str, shop_catalog: Catalog) -> None:
    made = plan_harness.plan(case.sql, shop_catalog, role=role, types=case.types)
    for m in made.measurements:
        if m.threshold is None:
            assert m.dense or not m.keys
            continue
        assert m.threshold.min_units == (3 if role == "careful" else 1)
        units = m.bases[m.threshold.basis]
        p = chance(m.threshold, float(units.scale), units.fine)
        assert m.l0 * p * ATTO <= m.threshold.delta * (1 + 1e-9)
        assert m.l0 * p * ATTO > m.threshold.delta / 4, "a higher threshold than needed"
        assert m.loss.delta >= m.threshold.delta


# --- what the session asks for is what is spent


@pytest.mark.parametrize("epsilon", ["0.000001", "0.1", "3", "10"])
def test_the_session_chooses_epsilon(epsilon: str, shop_catalog: Catalog) -> None:
    made = plan_harness.plan("SELECT region, count(*) FROM customers GROUP BY 1", shop_catalog, dpproxy__epsilon=epsilon)
    assert made.loss.epsilon == int(Fraction(epsilon) * MICRO)
    (basis,) = made.measurements[0].bases
    assert basis.scale == pytest.approx(1 / Fraction(epsilon), rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0", "-1", "NaN", "infinity", "10.000001", "1e-7", "x", ""])
def test_the_policy_limits_epsilon(epsilon: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal) as caught:
        plan_harness.plan("SELECT count(*) FROM customers", shop_catalog, dpproxy__epsilon=epsilon)
    assert caught.value.sqlstate == "22023"


def test_too_small_an_epsilon_for_many_columns(shop_catalog: Catalog) -> None:
    columns = ", ".join(f"sum(qty + {i})" for i in range(20))
    with pytest.raises(Refusal):
        plan_harness.plan(f"SELECT {columns} FROM orders", shop_catalog, dpproxy__epsilon="0.000001")


def test_equal_columns_are_measured_once(shop_catalog: Catalog) -> None:
    sql = "SELECT count(*), avg(qty), sum(qty) / count(*), avg(qty) FROM orders HAVING count(*) > 0 ORDER BY avg(qty)"
    made = plan_harness.plan(sql, shop_catalog)
    labels = [b.label for b in made.measurements[0].bases]
    assert len(labels) == len(set(labels)) <= 4


def test_equal_measurements_are_measured_once(shop_catalog: Catalog) -> None:
    made = plan_harness.plan("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM orders) + 1", shop_catalog)
    assert len(made.measurements) == 1
    assert made.loss.epsilon == EPSILON
