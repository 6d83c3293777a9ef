"""Aggregates of rows, and of values of a person: the exact answer is within the stated interval, or beyond an open end.

Statements are generated: rows as they are, joined and with windows, values of a person made by GROUP BY, windows, LEFT JOIN and
correlated subqueries, and aggregates of these, by groups too, over orders of which one person has ten thousand and most have
one, under bounds that bind, with and without `rows_at_most`. A contribution bound that is taken for a fact of such a value - its
range, its greatest, how far an average can be off - is an interval that is closed beside the truth. With next to no noise nothing
else explains a miss. Where an end is open for what bounds cut, the notice names a bound, or the aggregate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import plan_harness
import pytest
from accuracy_stage import Seeded, Stage

from dpproxy.errors import Refusal
from dpproxy.mechanisms.noise import Exact
from dpproxy.mechanisms.release import release
from dpproxy.plan.intervals import arithmetic, columns
from dpproxy.plan.intervals.ends import Ends
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
MOST = 20_000
"""Rows of a customer at most: it holds for the whale."""
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
ROWS = (
    "SELECT customer_id AS c, qty AS n, amount AS s, weight AS w, qty - 3 AS q, status AS g FROM orders",
    "SELECT customer_id AS c, qty AS n, amount AS s, weight AS w, qty - 3 AS q, status AS g FROM orders WHERE amount > 50",
    "SELECT o.customer_id AS c, o.qty AS n, o.amount AS s, k.score AS w, o.qty AS q, k.region AS g FROM orders o "
    "JOIN customers k ON k.customer_id = o.customer_id",
    "SELECT customer_id AS c, qty AS n, amount AS s, avg(qty) OVER (PARTITION BY customer_id) AS w, "
    "qty - lag(qty) OVER (PARTITION BY customer_id ORDER BY order_id) AS q, status AS g FROM orders",
    "SELECT o.customer_id AS c, count(*) AS n, sum(o.amount) AS s, avg(o.qty) AS w, max(o.qty) - min(o.qty) AS q, k.region AS g "
    "FROM orders o JOIN customers k ON k.customer_id = o.customer_id GROUP BY 1, 6",
    "SELECT customer_id AS c, count(*) AS n, sum(amount) AS s, sum(weight) AS w, min(qty) AS q, status AS g FROM orders GROUP BY 1, 6",
    "SELECT customer_id AS c, count(DISTINCT qty) AS n, max(amount) AS s, max(weight) AS w, min(qty) AS q, least(count(*), 3) AS g "
    "FROM orders GROUP BY 1",
)
"""Rows and values of a person, with what they are grouped by."""
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
OF_ROWS = (
    *AGGREGATES, "count(*)", "count({x})", "count(*) * 1.0 / count(DISTINCT c)", "count(DISTINCT c)", "sum({x}) * 1.0 / count(DISTINCT c)",
    "sum({x} * {y})", "avg(n * 1.0 / greatest(q, 1))", "regr_intercept({y}, {x})", "regr_r2({y}, {x})", "sum(s) / nullif(sum(w), 0)",
)  # fmt: skip
OF_GROUPS = (*OF_ROWS, "100.0 * count(*) / sum(count(*)) OVER ()", "sum(count(*)) OVER ()", "sum(count(*)) OVER (ORDER BY g)")


@dataclass(frozen=True)
class Case:
    """An aggregate over values of persons, or rows. `grouped`: by the source's g."""

    source: str
    aggregate: str
    grouped: bool = False

    @property
    def asked(self) -> str:
        a = self.aggregate
        return f"SELECT {self._key}{a}, dpproxy.low({a}), dpproxy.high({a}) {self._rest}"

    @property
    def exact(self) -> str:
        return f"SELECT {self._key}{self.aggregate} {self._rest}"

    @property
    def _key(self) -> str:
        return "g, " if self.grouped else ""

    @property
    def _rest(self) -> str:
        return f"FROM ({self.source}) AS x{' GROUP BY g' if self.grouped else ''}"


def cases(seed: int, number: int) -> Iterator[Case]:
    chosen = random.Random(seed)
    for _ in range(number):
        x, y = chosen.choice(VALUES), chosen.choice(VALUES)
        aggregate = chosen.choice(AGGREGATES).format(x=x, y=y, k=chosen.choice((0, 3, 10, 11, 25)))
        yield Case(chosen.choice(SOURCES), aggregate)


def row_cases(seed: int, number: int) -> Iterator[Case]:
    chosen = random.Random(seed)
    for _ in range(number):
        x, y, grouped = chosen.choice(VALUES), chosen.choice(VALUES), chosen.random() < 0.4
        aggregate = chosen.choice(OF_GROUPS if grouped else OF_ROWS).format(x=x, y=y, k=chosen.choice((0, 3, 10, 11, 25)))
        yield Case(chosen.choice(ROWS), aggregate, grouped)


class World(Stage):
    """The stage, and a whale in it."""

    def __init__(self, folder: Any, catalog: Catalog) -> None:
        super().__init__(folder, catalog)
        self._data.execute(f"{WHALE}; UPDATE orders SET weight = weight + 15")  # within its range, which is taken as true

    def planned(self, sql: str, bounds: Bounds, epsilon: str, most: int | None = None) -> Plan:
        return plan_harness.plan(sql, self.catalog, bounded(bounds, most), dpproxy__epsilon=epsilon)

    def answer(self, made: Plan, seed: int) -> Sequence[Any]:
        ((*row,),) = self.answers(made, seed)
        return row

    def answers(self, made: Plan, seed: int) -> list[tuple[Any, ...]]:
        (measurement,) = made.measurements
        return self.shown(made, release(measurement, Exact(self.tables(measurement)), Seeded(seed)))

    def truth(self, case: Case) -> float | None:
        return next(iter(self.truths(case).values()))

    def truths(self, case: Case) -> dict[str, float | None]:
        """The exact answer, by the text of its group."""
        rows = self._data.execute(case.exact).fetchall()
        return {str(key): None if value is None or math.isnan(value) else float(value) for *key, value in rows}


def bounded(bounds: Bounds, most: int | None = None) -> Policy:
    """The shop's policy with other bounds of orders, and any epsilon. `most`: `rows_at_most`."""
    given = plan_harness.policy("shop")
    tables = {**given.tables, ORDERS: replace(given.tables[ORDERS], bounds=bounds, rows_at_most=most)}
    roles = {name: replace(r, query=replace(r.query, max_epsilon=10**18)) for name, r in given.roles.items()}
    return replace(given, tables=tables, roles=roles)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("persons"), shop_catalog)
    yield made
    made.close()


def beside(answer: Sequence[Any], truth: float | None, grid: float = 1e-5) -> bool:
    """Whether the truth is beyond an end that is not open. `grid`: how coarse sums are of what has no resolution, relative."""
    if truth is None:
        return False
    low, high = (None if end is None or math.isinf(end) else float(end) for end in answer[-2:])
    slack = grid * max(abs(truth), 1e-3)
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


@dataclass
class Judged:
    """What was seen of generated cases of rows."""

    missed: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)  # with an open end, and no bound named
    refused: list[str] = field(default_factory=list)
    cells: int = 0
    both: int = 0  # cells with both ends


def judged(world: World, bounds: Bounds, most: int | None, epsilon: str, number: int, seed: int) -> Judged:
    found = Judged()
    for i, case in enumerate(row_cases(seed, number)):
        try:
            made = world.planned(case.asked, bounds, epsilon, most)
            rows = world.answers(made, i)
        except Refusal as refusal:
            found.refused.append(f"{case.asked}: {refusal.message}")
            continue
        truths = world.truths(case)
        for *key, value, low, high in rows:
            truth = truths.get(str(key))
            if value is None or truth is None:
                continue
            ends = sum(end is not None and not math.isinf(end) for end in (low, high))
            found.cells, found.both = found.cells + 1, found.both + (ends == 2)
            if beside((value, low, high), truth, 1e-4):
                found.missed.append(f"{case.exact}: {key} {value} [{low}, {high}], exact {truth}")
            whole = "OVER (" in case.aggregate  # open for rows of no group, which are told as not counted
            if ends < 2 and not (whole or made.cuts or made.endless):
                found.unnamed.append(f"{case.exact}: {key} {value} [{low}, {high}]")
    return found


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


@pytest.mark.parametrize("most", [None, MOST])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_interval_of_rows_closes_beside_the_truth(world: World, bounds: str, most: int | None) -> None:
    found = judged(world, BOUNDS[bounds], most, "1000000", 14, seed=11)
    assert (found.missed, found.unnamed) == ([], [])
    assert found.cells > 14
    assert found.both > (found.cells / 2 if most else 0)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_intervals_of_rows_with_noise_hold(world: World, bounds: str) -> None:
    found = judged(world, BOUNDS[bounds], MOST, "1", 14, seed=12)
    assert len(found.missed) <= 1, found.missed
    assert found.cells > 14


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


@pytest.mark.long
@pytest.mark.parametrize("most", [None, MOST])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_interval_of_many_rows_closes_beside_the_truth(world: World, bounds: str, most: int | None) -> None:
    found = judged(world, BOUNDS[bounds], most, "1000000", 1500, seed=13)
    assert found.unnamed == []
    assert len(found.missed) <= found.cells / 100, found.missed  # moments of up to 20,000 rows have noise at any epsilon


def test_ends_closed_without_a_reason_are_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants the bug: what bounds cut is as much as noise hides, whatever closes it."""
    monkeypatch.setattr(columns, "column_ends", lambda *_: Ends())
    assert judged(world, BOUNDS["one"], None, "1000000", 14, seed=11).missed


def test_bounds_taken_for_facts_are_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants the bug: where values are held is where they end."""
    monkeypatch.setattr(Facts, "sure", property(lambda _: (True, True)))
    assert missed(world, BOUNDS["rows"], "1000000", 40)[0]


def test_clamps_taken_for_ends_are_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clamped = arithmetic.clamped
    monkeypatch.setattr(arithmetic, "clamped", lambda a, low, high, sure=(True, True): clamped(a, low, high))
    assert missed(world, BOUNDS["rows"], "1000000", 40)[0]
