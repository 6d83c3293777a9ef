"""What an answer's notice says: its typical error from released values alone, and the bounds that may have cut data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plan_harness
import pytest

from dpproxy.mechanisms import sampler
from dpproxy.plan.model import Plan
from dpproxy.plan.report.typical_error import relative_error, typical_errors_told
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy import noise_error


def noisy(made: Plan, exact: list[int], releases: int) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    bases = made.measurements[0].bases
    return tuple(
        e + sampler.laplace(b.scale, releases, np.random.default_rng(i).bytes)
        for i, (e, b) in enumerate(zip(exact, bases, strict=True))
    )


@pytest.mark.parametrize(
    ("aggregate", "exact", "truth"),
    [
        ("count(*)", [400], lambda v: v[0]),
        ("sum(income)", [400 * 40_000], lambda v: v[0]),
        ("sum(income), avg(income)", [400, 400 * -60_000], lambda v: 100_000 * v[0] + v[1]),
        ("avg(income)", [400, 400 * -60_000], lambda v: 100_000 + v[1] / v[0]),
    ],
)
def test_the_typical_error_is_that_of_many_releases(
    aggregate: str, exact: list[int], truth: object, shop_catalog: Catalog
) -> None:
    assert callable(truth)
    made = plan_harness.plan(f"SELECT {aggregate} FROM customers", shop_catalog, dpproxy__epsilon="0.2")
    values = noisy(made, exact, 4000)
    typical = made.typical[0]
    assert made.aimable
    found = relative_error(typical, values)
    assert found == pytest.approx(np.std([truth(v) for v in zip(*values, strict=True)]) / truth(exact), rel=0.15)
    assert relative_error(typical, tuple(v[:0] for v in values)) is None
    assert relative_error(typical, tuple(np.zeros(3, dtype=np.int64) for _ in values)) == 1 or aggregate == "avg(income)"
    assert typical_errors_told(made.typical, {0: values}).startswith(("typical error ", "mostly noise: "))
    assert typical_errors_told(made.typical, {}) == ""


def test_what_is_mostly_noise_is_named_with_what_would_help(shop_catalog: Catalog) -> None:
    made = plan_harness.plan("SELECT count(*), sum(score) FROM customers", shop_catalog, dpproxy__epsilon="0.1")
    (measurement,) = made.measurements

    def said(factor: float) -> str:
        columns = [np.array([int(factor * noise_error.deviation(basis))]) for basis in measurement.bases]
        return typical_errors_told(made.typical, {0: columns})

    assert "mostly noise" not in said(20)
    assert "typical error" not in said(1.5), "it would be one of the noise"
    assert "mostly noise: count(*), sum(score) (a larger dpproxy.epsilon, fewer groups by a coarser key, " in said(1.5)
    many = [replace(made.typical[0], label=f"c{i}") for i in range(5)]
    assert "mostly noise: c0, c1, c2 and 2 more (" in typical_errors_told(many, {0: [np.array([1])] * 2})


def test_bounds_that_may_cut_are_named(shop_catalog: Catalog) -> None:
    def cuts(sql: str, policy: str = "shop") -> tuple[str, ...]:
        return plan_harness.plan(sql, shop_catalog, plan_harness.policy(policy)).cuts

    assert cuts("SELECT count(*) FROM customers") == ()
    assert cuts("SELECT sum(income) FROM customers") == ("`range` of income",)
    assert cuts("SELECT count(DISTINCT customer_id) FROM orders") == ()
    assert cuts("SELECT status, count(*) FROM orders GROUP BY 1") == (
        "`rows_per_group`: 3 rows of a customer in a group",
        "`groups`: 2 groups of a customer",
    )
    assert cuts("SELECT max(amount) FROM orders") == ("`rows_per_group`: 3 rows of a customer", "`range` of amount")
    assert cuts("SELECT status, avg(amount) FROM orders GROUP BY 1", "whole") == (
        "`rows`: 2 rows of a customer over all groups (more count where they exceed the noise)",
        "`range` of amount",
    )


def test_what_is_said_does_not_depend_on_data(shop_catalog: Catalog) -> None:
    """A plan says the same whoever's rows there are; `typical_errors_told` sees released values only."""
    sql = "SELECT status, count(*), sum(amount) FROM orders GROUP BY 1"
    once, again = (plan_harness.plan(sql, shop_catalog) for _ in range(2))
    assert (once.cuts, once.typical) == (again.cuts, again.typical)
    assert replace(once, cuts=()).explain == again.explain
