"""Totals and parts of separate measurements: which are made to agree, and what is then stated of their errors."""

from __future__ import annotations

import math

import numpy as np
import plan_harness
import pytest
from accuracy_stage import Seeded, Stage

from dpproxy.plan.model import Plan
from dpproxy.plan.outer.totals import NOTE
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Mechanism
from dpproxy.privacy import noise_error

WITHIN = "customers WHERE region IN ('north', 'south', 'east') AND sex IN ('F', 'M')"
TOTAL = f"SELECT count(*) FROM {WITHIN}"
PARTS = f"SELECT region, count(*) AS n FROM {WITHIN} GROUP BY region"
FEWER = TOTAL.replace(", 'east'", "")
BORN = "CASE WHEN birth_year > 1980 THEN 'young' WHEN birth_year IS NULL THEN 'unknown' ELSE 'old' END"
ENDS = "dpproxy.low(sum(score)), dpproxy.high(sum(score)), dpproxy.stderr(sum(score))"
SUMS = f"sum(score), {ENDS} FROM {WITHIN}"


def agreeing(made: Plan) -> list[bool]:
    """Which measurements are adjusted to others."""
    assert [m.independent for m in made.measurements] == [NOTE in m.notes for m in made.measurements]
    return [m.independent for m in made.measurements]


@pytest.mark.parametrize(
    ("sql", "adjusted"),
    [
        (f"SELECT region, count(*), ({TOTAL}) FROM {WITHIN} GROUP BY region", [True, True]),
        (f"WITH t AS ({TOTAL}), p AS ({PARTS}) SELECT region, 100.0 * n / count FROM p, t", [True, True]),
        (f"{PARTS} UNION ALL SELECT 'all', count(*) FROM {WITHIN}", [True, True]),
        (f"{PARTS} UNION ALL SELECT sex, count(*) FROM {WITHIN} GROUP BY sex", [True, True]),
        (f"SELECT ({TOTAL}), (SELECT count(*) + sum(income) FROM {WITHIN}), (SELECT sum(score) FROM {WITHIN})", [True, True, False]),
        (f"SELECT {BORN}, count(*), (SELECT count(*) FROM customers) FROM customers GROUP BY 1", [True, True]),
        ("SELECT birth_year > 1980, count(*), (SELECT count(*) FROM customers) FROM customers GROUP BY 1", [True, True]),
        ("SELECT date_trunc('year', signup), count(*), (SELECT count(*) FROM customers) FROM customers GROUP BY 1", [False, False]),
        # rows of other regions, or of none, are in the total alone
        ("SELECT region, count(*), (SELECT count(*) FROM customers) FROM customers GROUP BY region", [False, False]),
        (f"SELECT region, count(*), ({TOTAL} AND vip) FROM {WITHIN} GROUP BY region", [False, False]),
        # what of a customer's orders bounds cut depends on the groups
        (
            "SELECT status, count(*), (SELECT count(*) FROM orders WHERE status IN ('open', 'paid')) FROM orders "
            "WHERE status IN ('open', 'paid') GROUP BY status",
            [False, False],
        ),
        (
            "SELECT CASE WHEN qty > 3 THEN 'more' ELSE 'few' END, count(*), (SELECT count(*) FROM orders) FROM orders GROUP BY 1",
            [False, False],
        ),
        # other rows, by a list that groups could decide as well
        (f"SELECT region, count(*), ({FEWER}) FROM {WITHIN} GROUP BY region", [False, False]),
        # another measurement was decided by the total as it was released
        (f"{PARTS} UNION ALL SELECT 'few', count(*) FROM {WITHIN} AND income > ({TOTAL}) UNION ALL SELECT 'all', ({TOTAL})", [False] * 3),
        ("SELECT income, count(*), (SELECT count(*) FROM customers) FROM customers GROUP BY income", [False, False]),
        (f"SELECT sum(count(*)) OVER (), region, count(*) FROM {WITHIN} GROUP BY region", [False]),
    ],
)  # fmt: skip
def test_what_is_made_to_agree(shop_catalog: Catalog, sql: str, adjusted: list[bool]) -> None:
    made = plan_harness.plan(sql, shop_catalog)
    assert sorted(agreeing(made)) == sorted(adjusted)


def test_grouping_sets_are_adjusted_by_themselves(shop_catalog: Catalog) -> None:
    sql = f"SELECT region, sex, count(*), ({TOTAL}), (SELECT count(*) + sum(income) FROM {WITHIN}) FROM {WITHIN} GROUP BY GROUPING SETS ((region), (sex), ())"
    made = plan_harness.plan(sql, shop_catalog)
    assert [m.independent for m in made.measurements] == [len(m.bases) == 1 for m in made.measurements]
    assert not any(NOTE in m.notes for m in made.measurements)


def test_nothing_is_adjusted_that_rounding_would_make_worse(shop_catalog: Catalog) -> None:
    """Noise of half a unit is less than what rounding may add. Keys that are always asked for together are rounded as one."""
    two = f"SELECT region, count(*), ({TOTAL}) FROM {WITHIN} GROUP BY region"
    days = f"{WITHIN} AND birth_year BETWEEN 1921 AND 2009"
    many = f"SELECT birth_year, region, sex, count(*), (SELECT count(*) FROM {days}) FROM {days} GROUP BY 1, 2, 3"
    found = {
        sql: [all(agreeing(plan_harness.plan(sql, shop_catalog, dpproxy__epsilon=e))) for e in ("0.01", "0.05", "1", "10")]
        for sql in (two, many)
    }
    assert found == {two: [True, True, True, False], many: [True, True, False, False]}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_intervals_of_totals_and_parts(stage: Stage, mechanism: Mechanism) -> None:
    """As narrow as is said, never wider than by each alone; and the parts add up to their total, in the order of the arrays."""
    sql = f"SELECT region, {SUMS} GROUP BY region UNION ALL SELECT NULL, {SUMS} UNION ALL SELECT sex, {SUMS} GROUP BY sex"
    made = stage.plan(sql, mechanism)
    assert all(agreeing(made))
    exact = [stage.tables(m)[0] for m in made.measurements]

    def rows(noise: Seeded | None) -> list[tuple[str | None, tuple[float, ...]]]:
        arrays: list[object] = []
        for table, m in zip(exact, made.measurements, strict=True):
            arrays += [table.column(f"k{i}").to_pylist() for i in range(len(m.keys))]
            arrays.append(table.column("b0").to_numpy() + (noise.draw(m.bases[0], table.num_rows) if noise is not None else 0))
        return [(row[0], row[1:]) for row in stage.rows_of(made, arrays)]

    true, held, off, deviations = dict(rows(None)), [], [], dict[str | None, float]()
    assert true[None][0] == stage.true(f"SELECT sum(score) FROM {WITHIN}")
    for seed in range(16):
        answer = rows(Seeded(seed))
        assert [key for key, _ in answer] == ["east", "north", "south", None, "F", "M"]
        shown = {key: value for key, (value, *_) in answer}
        assert shown["east"] + shown["north"] + shown["south"] == shown[None] == shown["F"] + shown["M"]
        for key, (value, low, high, deviation) in answer:
            held.append(low <= true[key][0] <= high)
            off.append((value - true[key][0]) / deviation)
            deviations[key] = deviation
    assert np.mean(held) >= 0.9875 - 3.5 * math.sqrt(0.0125 * 0.9875 / len(held))
    assert np.std(off) == pytest.approx(1, abs=3 / math.sqrt(len(off)) + 0.05)
    for table, m in zip(exact, made.measurements, strict=True):
        for key in table.column("k0").to_pylist() if m.keys else [None]:
            assert deviations[key] < noise_error.deviation(m.bases[0])
