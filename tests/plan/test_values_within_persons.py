"""What is computed within one person and then over persons: the exact answer is within the stated interval, or beyond an open end.

Statements are generated: values of a person made by GROUP BY, windows, LEFT JOIN and correlated subqueries, and aggregates of
these, over orders of which one person has ten thousand and most have one, under bounds that bind. A contribution bound that is
taken for a fact of such a value - its range, its greatest, how far an average can be off - is an interval that is closed beside
the truth. With next to no noise nothing else explains a miss.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import plan_harness
import pytest
from accuracy_stage import Seeded, Stage

from dpproxy.mechanisms.noise import Exact
from dpproxy.mechanisms.release import release
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.model import Plan
from dpproxy.plan.properties.facts import Facts
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Bounds, Policy
from dpproxy.table_terms import TableName

ORDERS = TableName("public", "orders")
WHALE = """
INSERT INTO orders SELECT 10000000 + k, 5, TIMESTAMP '2024-01-01', DATE '2024-01-01', k % 1000, k % 50 - 20, k % 20,
  ['open', 'paid', 'void'][1 + k % 3], 'x', 'y', TRUE, 0, 'z' FROM range(10000) AS t(k)
"""
BOUNDS = {
    "rows": Bounds(10, None, whole=True),
    "rows_per_group": Bounds(2, 10),
    "one": Bounds(1, 1),
}
SOURCES = (
    "SELECT customer_id AS c, count(*) AS n, sum(amount) AS s, sum(weight) AS w, max(qty) AS q FROM orders GROUP BY 1",
    "SELECT customer_id AS c, count(*) AS n, sum(amount) AS s, sum(weight) AS w, max(qty) AS q FROM orders WHERE qty > 3 GROUP BY 1",
    "SELECT customer_id AS c, count(qty) AS n, sum(amount) AS s, sum(weight) AS w, min(qty) AS q FROM orders GROUP BY 1 "
    "HAVING count(*) > 12",
    "SELECT k.customer_id AS c, count(o.order_id) AS n, coalesce(sum(o.amount), 0) AS s, coalesce(sum(o.weight), 0) AS w, "
    "coalesce(max(o.qty), 0) AS q FROM customers k LEFT JOIN orders o ON o.customer_id = k.customer_id GROUP BY 1",
    "SELECT k.customer_id AS c, (SELECT count(*) FROM orders o WHERE o.customer_id = k.customer_id) AS n, "
    "(SELECT coalesce(sum(o.amount), 0) FROM orders o WHERE o.customer_id = k.customer_id) AS s, "
    "(SELECT coalesce(sum(o.weight), 0) FROM orders o WHERE o.customer_id = k.customer_id) AS w, k.birth_year - 1900 AS q "
    "FROM customers k",
    "SELECT c, n, s, w, q FROM (SELECT customer_id AS c, count(*) OVER (PARTITION BY customer_id) AS n, "
    "sum(amount) OVER (PARTITION BY customer_id) AS s, sum(weight) OVER (PARTITION BY customer_id) AS w, qty AS q, "
    "row_number() OVER (PARTITION BY customer_id ORDER BY order_id) AS r FROM orders) AS v WHERE r = 1",
    "SELECT customer_id AS c, status, count(*) AS n, sum(amount) AS s, sum(weight) AS w, max(qty) AS q FROM orders GROUP BY 1, 2",
    "SELECT customer_id AS c, row_number() OVER (PARTITION BY customer_id ORDER BY order_id) AS n, amount AS s, weight AS w, "
    "qty AS q FROM orders",
)
VALUES = (
    "n", "n", "n", "s", "w", "n * 2 + 1", "100 - n", "least(n, 40)", "greatest(n, 3)", "n * q", "CASE WHEN n > 40 THEN 40 ELSE n END",
    "CASE WHEN q > 5 THEN n ELSE q END", "coalesce(n, 0) - q", "abs(w)", "sqrt(n)", "n % 7", "s + w", "CAST(n AS float8)",
)  # fmt: skip
AGGREGATES = (
    "sum({x})", "avg({x})", "sum({x})", "avg({x})", "stddev({x})", "var_pop({x})", "count(*) FILTER (WHERE {x} > {k})", "max({x})",
    "min({x})", "percentile_cont(0.5) WITHIN GROUP (ORDER BY {x})", "percentile_disc(0.9) WITHIN GROUP (ORDER BY {x})",
    "avg({x}) FILTER (WHERE q > 4)", "sum({x}) FILTER (WHERE n > {k})", "corr({x}, s)", "covar_pop({x}, {y})", "regr_slope(s, {x})",
    "sum({x}) / count(*)", "avg({x}) - avg({y})", "sum({x}) * 2", "coalesce(sum({x}), 0)", "sum(DISTINCT n)", "count(DISTINCT n)",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An aggregate over values of persons."""

    source: str
    aggregate: str

    @property
    def asked(self) -> str:
        a = self.aggregate
        return f"SELECT {a}, dpproxy.low({a}), dpproxy.high({a}) FROM ({self.source}) AS x"

    @property
    def exact(self) -> str:
        return f"SELECT {self.aggregate} FROM ({self.source}) AS x"


def cases(seed: int, number: int) -> Iterator[Case]:
    chosen = random.Random(seed)
    for _ in range(number):
        x, y = chosen.choice(VALUES), chosen.choice(VALUES)
        aggregate = chosen.choice(AGGREGATES).format(x=x, y=y, k=chosen.choice((0, 3, 10, 11, 25)))
        yield Case(chosen.choice(SOURCES), aggregate)


class World(Stage):
    """The stage, and a whale in it."""

    def __init__(self, folder: Any, catalog: Catalog) -> None:
        super().__init__(folder, catalog)
        self._data.execute(f"{WHALE}; UPDATE orders SET weight = weight + 15")  # within its range, which is taken as true

    def planned(self, sql: str, bounds: Bounds, epsilon: str) -> Plan:
        return plan_harness.plan(sql, self.catalog, bounded(bounds), dpproxy__epsilon=epsilon)

    def answer(self, made: Plan, seed: int) -> Sequence[Any]:
        (measurement,) = made.measurements
        ((*row,),) = self.shown(made, release(measurement, Exact(self.tables(measurement)), Seeded(seed)))
        return row

    def truth(self, case: Case) -> float | None:
        (value,) = self._data.execute(case.exact).fetchone() or (None,)
        return None if value is None or math.isnan(value) else float(value)


def bounded(bounds: Bounds) -> Policy:
    """The shop's policy with other bounds of orders, and any epsilon."""
    given = plan_harness.policy("shop")
    tables = {**given.tables, ORDERS: replace(given.tables[ORDERS], bounds=bounds)}
    roles = {name: replace(r, query=replace(r.query, max_epsilon=10**18)) for name, r in given.roles.items()}
    return replace(given, tables=tables, roles=roles)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("persons"), shop_catalog)
    yield made
    made.close()


def beside(answer: Sequence[Any], truth: float | None) -> bool:
    """Whether the truth is beyond an end that is not open."""
    if truth is None:
        return False
    low, high = (None if end is None or math.isinf(end) else float(end) for end in answer[1:])
    slack = 1e-5 * max(abs(truth), 1e-3)  # grids of what has no resolution
    return (low is not None and truth < low - slack) or (high is not None and truth > high + slack)


def missed(world: World, bounds: Bounds, epsilon: str, number: int, seed: int = 1) -> tuple[list[str], int]:
    """The cases whose truth is beside their interval, and how many ends were closed."""
    found, closed = [], 0
    for i, case in enumerate(cases(seed, number)):
        answer, truth = world.answer(world.planned(case.asked, bounds, epsilon), i), world.truth(case)
        closed += sum(end is not None and not math.isinf(end) for end in answer[1:])
        if beside(answer, truth):
            found.append(f"{case.aggregate} of {case.source}: {answer}, exact {truth}")
    return found, closed


@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_interval_closes_beside_the_truth(world: World, bounds: str) -> None:
    found, closed = missed(world, BOUNDS[bounds], "1000000", 40)
    assert found == []
    assert closed > 30


@pytest.mark.parametrize("bounds", BOUNDS)
def test_intervals_with_noise_hold(world: World, bounds: str) -> None:
    found, closed = missed(world, BOUNDS[bounds], "1", 40, seed=2)
    assert len(found) <= 1, found  # of forty that hold with 98.75 % each two miss one time in eleven; the noise is seeded
    assert closed > 30


CERTAIN = (
    "sum(n)", "avg(n)", "avg(s)", "sum(n) / count(*)", "max(n)", "stddev(n) FILTER (WHERE n < 5000)", "avg(n) FILTER (WHERE n > 25)",
)  # fmt: skip


@pytest.mark.parametrize("aggregate", CERTAIN)
@pytest.mark.parametrize("source", [SOURCES[i] for i in (0, 3, 4, 5)])
def test_what_nobody_has_two_of_is_counted_whole(world: World, source: str, aggregate: str) -> None:
    """A whale of ten thousand rows and people of two hundred weigh as much as they do: no bound of rows cuts what is one value."""
    case = Case(source, aggregate)
    answer, truth = world.answer(world.planned(case.asked, BOUNDS["rows"], "1000000"), 1), world.truth(case)
    assert float(answer[0]) == pytest.approx(truth, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_interval_of_many_closes_beside_the_truth(world: World, bounds: str) -> None:
    assert missed(world, BOUNDS[bounds], "1000000", 2000, seed=3)[0] == []


def test_bounds_taken_for_facts_are_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants the bug: where values are held is where they end."""
    monkeypatch.setattr(Facts, "sure", property(lambda _: (True, True)))
    assert missed(world, BOUNDS["rows"], "1000000", 40)[0]


def test_clamps_taken_for_ends_are_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clamped = arithmetic.clamped
    monkeypatch.setattr(arithmetic, "clamped", lambda a, low, high, sure=(True, True): clamped(a, low, high))
    assert missed(world, BOUNDS["rows"], "1000000", 40)[0]
