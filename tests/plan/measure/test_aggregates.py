"""What bounded aggregates are: on a few rows, by hand."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import plan_harness
import pytest
import shop_world

from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog


def bases(made: Plan, orders: list[tuple[int, int, str]]) -> list[int]:
    """The exact columns over orders of (customer, quantity, note)."""
    (measurement,) = made.measurements
    with duckdb.connect() as data:
        data.execute(shop_world.DDL)
        for i, (customer, quantity, note) in enumerate(orders):
            row = (
                f"({i}, {customer}, TIMESTAMP '2024-02-01', NULL, NULL, NULL, {quantity}, NULL, 'c', NULL, NULL, NULL, '{note}')"
            )
            data.execute(f"INSERT INTO orders VALUES {row}")
        return [int(v) for v in data.execute(plan_harness.queries(measurement, [])[0]).fetchone() or ()]


HEAVY = [(1, 2, f"n{i}") for i in range(9)] + [(2, 17, "x")]
"""Nine orders of 2 by one customer, whose bound is 3 rows; one order of 17 by another. Quantities are within 0..20."""


def test_a_customer_beyond_the_bound_weighs_as_much_as_the_bound(shop_catalog: Catalog) -> None:
    """A clamped sum about the centre would be -30 for the first customer, and the mean 5 too low."""
    made = plan_harness.plan("SELECT avg(qty) FROM orders", shop_catalog)
    count, total = bases(made, HEAVY)
    assert count == 4
    assert 10 + Fraction(total, count) == Fraction(3 * 2 + 17, 4)


def test_squares_weigh_alike(shop_catalog: Catalog) -> None:
    made = plan_harness.plan("SELECT var_pop(qty) FROM orders", shop_catalog)
    count, total, squares = bases(made, HEAVY)
    grid, center = made.measurements[0].bases[2].grid, Fraction(50)  # half of 10 squared
    mean_square = Fraction(squares * grid, count) + center
    assert float(mean_square) == pytest.approx((3 * 64 + 49) / 4, abs=1e-3)
    assert mean_square >= Fraction(total, count) ** 2


def test_a_sum_alone_is_clamped_and_loses_less(shop_catalog: Catalog) -> None:
    """Nine orders of 2 are 18, which is within 3 rows of up to 20: nothing is lost."""
    (total,) = bases(plan_harness.plan("SELECT sum(qty) FROM orders", shop_catalog), HEAVY)
    assert total == 9 * 2 + 17


def test_a_sum_beside_its_mean_is_not_measured_again(shop_catalog: Catalog) -> None:
    made = plan_harness.plan("SELECT avg(qty), sum(qty), count(qty), stddev(qty), var_pop(qty) FROM orders", shop_catalog)
    assert len(made.measurements[0].bases) == 3
    made = plan_harness.plan("SELECT avg(qty), sum(qty) FILTER (WHERE paid) FROM orders", shop_catalog)
    assert len(made.measurements[0].bases) == 3  # another sum
    made = plan_harness.plan("SELECT count(income), sum(income) FROM customers", shop_catalog)
    assert [b.linf for b in made.measurements[0].bases] == [1, 100_000]  # about the centre
    made = plan_harness.plan("SELECT count(qty), sum(qty) FROM orders", shop_catalog)
    assert [b.linf for b in made.measurements[0].bases] == [3, 60]  # a cut count would lose more than it helps


@pytest.mark.parametrize(
    ("value", "where", "times"),
    [
        ("CASE WHEN qty > 3 THEN 1 ELSE 0 END", "qty > 3", 1),
        ("CASE WHEN note = 'x' THEN 1 END", "note = 'x'", 1),
        ("CASE WHEN paid THEN 2.5 ELSE 0.0 END", "paid", 2.5),
    ],
)
def test_a_sum_of_a_constant_or_nothing_is_a_count(value: str, where: str, times: float, shop_catalog: Catalog) -> None:
    sql = f"SELECT sum({value}), count(*) FILTER (WHERE {where}) FROM orders"
    made = plan_harness.plan(sql, shop_catalog)
    (basis,) = made.measurements[0].bases
    assert basis.linf == 3, "of a row one"
    assert bases(made, HEAVY)[0] <= 4
    other = plan_harness.plan("SELECT sum(CASE WHEN qty > 3 THEN 1 ELSE 2 END) FROM orders", shop_catalog)
    assert other.measurements[0].bases[0].linf == 6, "of a row two"


@pytest.mark.parametrize("others", [0, 4])
def test_distinct_values_of_one_customer(shop_catalog: Catalog, others: int) -> None:
    """At most the bound, reached when they are the customer's own."""
    made = plan_harness.plan("SELECT count(DISTINCT note) FROM orders", shop_catalog)
    (basis,) = made.measurements[0].bases
    rest = [(2, 1, f"n{i}") for i in range(others)]
    (less,), (more,) = bases(made, rest), bases(made, [*rest, *[(1, 2, f"own{i}") for i in range(9)]])
    assert more - less == 3 == basis.linf
    (shared,) = bases(made, [*rest, *[(1, 1, f"n{i}") for i in range(others)]])
    assert 0 <= shared - less <= 3
