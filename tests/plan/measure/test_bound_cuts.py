"""How many units bounds cut: measured where a policy allots epsilon to it, in the same plan, and told after the answer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import plan_harness
import pytest
from fixture_cases import ACCEPTED, Case
from plan_harness import Sensitivity, Shop

from dpproxy.amounts import MICRO
from dpproxy.plan.model import Plan
from dpproxy.plan.report import omissions
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.privacy.noise_error import deviation, half_width

SHARE = 50_000


def measuring(name: str = "shop", share: int = SHARE) -> Policy:
    given = plan_harness.policy(name)
    roles = {n: replace(r, query=replace(r.query, measure_bounds=share)) for n, r in given.roles.items()}
    return replace(given, roles=roles)


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop(1)


@pytest.fixture(scope="module")
def small() -> Shop:
    """With fewer neighbours: the whales, whom bounds cut, and newcomers among them."""
    return Shop(1, 4)


def counted(made: Plan, shop: Shop) -> list[tuple[int, int]]:
    """Units, and those cut, without noise, of each measurement that says it."""
    found = []
    for cut in made.measured_cuts:
        table = shop.run(plan_harness.queries(made.measurements[cut.measurement], [])[0])
        found.append((table["b0"][0].as_py(), table["b1"][0].as_py()))
    return found


def by_hand(shop: Shop, rows: str, test: str) -> tuple[int, int]:
    """The same by another road: SQL over all rows of units, one after the other."""
    units = f"SELECT customer_id AS u, count(*) AS n FROM ({rows}) AS a WHERE customer_id IS NOT NULL GROUP BY 1, k"
    table = shop.run(
        f"SELECT count(*) AS a, count(*) FILTER (WHERE {test}) AS b FROM "
        f"(SELECT list(n) AS ns FROM ({units}) AS b GROUP BY u) AS c"
    )
    return table["a"][0].as_py(), table["b"][0].as_py()


@pytest.mark.parametrize(
    ("policy", "sql", "rows", "test"),
    [
        ("shop", "SELECT count(*) FROM orders", "SELECT customer_id, 1 AS k FROM orders", "list_max(ns) > 3"),
        (
            "shop",
            "SELECT status, sum(qty) FROM orders GROUP BY 1",
            "SELECT customer_id, status AS k FROM orders",
            "list_max(ns) > 3 OR len(ns) > 2",
        ),
        (
            "shop",
            "SELECT category, count(DISTINCT customer_id) FROM orders WHERE qty > 3 GROUP BY 1",
            "SELECT customer_id, category AS k FROM orders WHERE qty > 3",
            "len(ns) > 2",
        ),
        (
            "whole",
            "SELECT status, count(*) FROM orders GROUP BY 1",
            "SELECT customer_id, status AS k FROM orders",
            "list_sum(ns) > 2",
        ),
    ],
)
def test_units_beyond_bounds_are_counted(policy: str, sql: str, rows: str, test: str, shop: Shop, shop_catalog: Catalog) -> None:
    made = plan_harness.plan(sql, shop_catalog, measuring(policy))
    expected = by_hand(shop, rows, test)
    assert counted(made, shop) == [expected]
    assert 0 < expected[1] < expected[0]


@pytest.mark.parametrize("case", [c for c in ACCEPTED if not c.generates][::7], ids=str)
def test_one_unit_is_one_of_them(case: Case, small: Shop, shop_catalog: Catalog) -> None:
    """By deletion of units; and the parts of the charge add up to what they did without."""
    plain = case.plan(shop_catalog, plan_harness.policy(case.policy))
    made = case.plan(shop_catalog, measuring(case.policy))
    assert Sensitivity(small).problems(made, case.values) == []
    assert made.loss.epsilon <= plain.loss.epsilon + len(made.measurements)
    assert made.loss.epsilon >= plain.loss.epsilon * Fraction(98, 100)
    spent = sum(made.measurements[cut.measurement].loss.epsilon for cut in made.measured_cuts)
    if made.measured_cuts:
        assert spent * MICRO <= SHARE * made.loss.epsilon * Fraction(102, 100)
    for cut in made.measured_cuts:
        one = made.measurements[cut.measurement]
        assert [(b.linf, b.fine, b.norm) for b in one.bases] == [(1, 1, 0)] * 2
        assert one.l0 == 1
        assert sum(Fraction(1) / b.scale for b in one.bases) * MICRO <= one.loss.epsilon


def test_nothing_changes_where_nothing_is_allotted(shop_catalog: Catalog) -> None:
    sql = "SELECT status, sum(qty) FROM orders GROUP BY 1"
    plain = plan_harness.plan(sql, shop_catalog)
    assert plain == plan_harness.plan(sql, shop_catalog, measuring(share=0))
    assert plain.measured_cuts == ()
    assert plain.cuts == (
        "`rows_per_group`: 3 rows of a customer in a group",
        "`groups`: 2 groups of a customer",
        "`range` of qty",
    )


def test_what_cuts_nothing_is_not_measured(shop_catalog: Catalog) -> None:
    for sql in ("SELECT count(*) FROM customers", "SELECT count(DISTINCT customer_id) FROM orders"):
        assert plan_harness.plan(sql, shop_catalog, measuring()) == plan_harness.plan(sql, shop_catalog)


def test_measured_bounds_are_told_as_such_before_and_after(shop_catalog: Catalog) -> None:
    made = plan_harness.plan("SELECT status, sum(qty) FROM orders GROUP BY 1", shop_catalog, measuring())
    (cut,) = made.measured_cuts
    assert made.cuts == ("`range` of qty",)
    explained = "\n".join(made.explain)
    assert "how many units the bounds cut" in explained
    assert "customers that bounds cut: discrete Laplace" in explained
    values = {cut.measurement: [np.array([2000]), np.array([244])]}
    said = (
        "bounds cut about 12 % of customers (`rows_per_group`: 3 rows of a customer in a group, `groups`: 2 groups of a customer)"
    )
    assert (
        omissions.cuts_told(made.measured_cuts, values, made.cuts)
        == f"{said}; what is beyond these bounds may be missing: `range` of qty"
    )
    assert omissions.cuts_told(made.measured_cuts, {}, ()) == ""
    assert omissions.cuts_told((), {}, ("x",)) == "what is beyond these bounds may be missing: x"


@pytest.mark.parametrize(
    ("share", "epsilon", "people", "wider"),
    [(20_000, "0.1", 2996, 1.02), (20_000, "1", 300, 1.02), (50_000, "0.1", 1198, 1.05), (50_000, "1", 120, 1.05),
     (100_000, "0.1", 599, 1.11), (100_000, "1", 60, 1.11)],
)  # fmt: skip
def test_what_a_share_tells_and_costs(shop_catalog: Catalog, share: int, epsilon: str, people: int, wider: float) -> None:
    """The table of docs/adr/0008."""
    answer, cut = plan_harness.plan(
        "SELECT count(*) FROM orders", shop_catalog, measuring(share=share), dpproxy__epsilon=epsilon
    ).measurements
    (alone,) = plan_harness.plan("SELECT count(*) FROM orders", shop_catalog, dpproxy__epsilon=epsilon).measurements
    assert [half_width(basis, Fraction(95, 100)) for basis in cut.bases] == [people, people]
    assert deviation(answer.bases[0]) / deviation(alone.bases[0]) == pytest.approx(wider, abs=0.01)
