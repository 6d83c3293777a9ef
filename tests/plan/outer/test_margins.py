"""Margins made to agree: least squares by the textbook, in whole numbers, with the variance and the intervals that are stated."""

from __future__ import annotations

import math
import re
from itertools import product

import duckdb
import numpy as np
import plan_harness
import pytest
from accuracy_stage import Seeded, Stage

from dpproxy.plan.outer.margins import Factor, consistent, rounding, variances
from dpproxy.plan.outer.released_source import ADJUSTED
from dpproxy.plan.outer.rollup import Level
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Mechanism
from dpproxy.privacy import noise_error

SIZES = {"k0": 3, "k1": 2, "k2": 4}
FAMILIES = {
    "cube of two": [("k0", "k1"), ("k0",), ("k1",), ()],
    "two apart": [("k0",), ("k1",)],
    "without the whole": [("k0", "k1"), ("k1", "k2"), ()],
    "cube of three": [s for n in range(4) for s in [("k0", "k1", "k2"), ("k0", "k2"), ("k1", "k2"), ("k0",), ("k2",), ()][n::4]],
}
Cells = dict[tuple[int | None, ...], int]


def table(keys: tuple[str, ...]) -> list[tuple[int | None, ...]]:
    """All cells; a NULL key is one like any other."""
    return [tuple(v or None for v in cell) for cell in product(*(range(SIZES[k]) for k in keys))]


def released(family: list[tuple[str, ...]], deviations: list[float], seed: int) -> tuple[list[Cells], list[Cells]]:
    """What is true of each set, and what noise makes of it."""
    rng, every = np.random.default_rng(seed), tuple(SIZES)
    whole = {cell: 50 + int(rng.integers(0, 90)) for cell in table(every)}
    true: list[Cells] = []
    for keys in family:
        places = [every.index(k) for k in keys]
        true.append({c: sum(v for cell, v in whole.items() if tuple(cell[p] for p in places) == c) for c in table(keys)})
    return true, [{c: v + round(rng.normal(0, d)) for c, v in t.items()} for t, d in zip(true, deviations, strict=True)]


def factors_of(family: list[tuple[str, ...]]) -> list[frozenset[Factor]]:
    return [frozenset((k,) for k in keys) for keys in family]


def adjusted(family: list[tuple[str, ...]], cells: list[Cells], deviations: list[float]) -> list[dict[object, tuple[int, float]]]:
    """What the SQL makes of them: value and variance of each cell."""
    levels = []
    for keys, level, deviation in zip(family, cells, deviations, strict=True):
        rows = ", ".join(f"({', '.join(['NULL::INT' if k is None else str(k) for k in c] + [str(v)])})" for c, v in level.items())
        levels.append(Level(f"(VALUES {rows}) AS t({', '.join([*keys, 'b0'])})", keys, (repr(deviation**2),)))
    ctes, names = consistent(levels, factors_of(family), ["b0"])
    found: list[dict[object, tuple[int, float]]] = []
    connection = duckdb.connect()
    ctes = ctes.replace("::numeric, 4)", "::DECIMAL(30, 6), 4)")
    for keys, name in zip(family, names, strict=True):
        rows = connection.execute(f"WITH {ctes} SELECT {', '.join([*keys, 'b0', 'w0'])} FROM {name}").fetchall()
        found.append({tuple(row[:-2]): (int(row[-2]), row[-1]) for row in rows})
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_it_is_least_squares_in_whole_numbers(name: str) -> None:
    family = FAMILIES[name]
    deviations = [5.0 + 3 * i for i in range(len(family))]
    _, cells = released(family, deviations, 4)
    every = tuple(SIZES)
    leaves, rows, values = table(every), [], []
    for keys, level, deviation in zip(family, cells, deviations, strict=True):
        places = [every.index(k) for k in keys]
        for cell, value in level.items():
            rows.append([float(tuple(leaf[p] for p in places) == cell) / deviation for leaf in leaves])
            values.append(value / deviation)
    design = np.array(rows)
    estimate, inverse = np.linalg.lstsq(design, np.array(values), rcond=None)[0], np.linalg.pinv(design.T @ design)
    found = adjusted(family, cells, deviations)
    sizes: dict[Factor, int] = {(k,): size for k, size in SIZES.items()}
    foretold = variances(factors_of(family), sizes, deviations)
    for keys, level, known in zip(family, found, foretold, strict=True):
        places = [every.index(k) for k in keys]
        for cell, (value, variance) in level.items():
            assert variance == pytest.approx(known, rel=1e-9)
            chosen = np.array([float(tuple(leaf[p] for p in places) == cell) for leaf in leaves])
            assert abs(value - chosen @ estimate) <= rounding(len(keys)) + 0.01
            assert variance == pytest.approx(chosen @ inverse @ chosen, rel=1e-6)
    for keys, level in zip(family, found, strict=True):
        for others, coarser in zip(family, found, strict=True):
            if set(others) < set(keys):
                kept = [keys.index(k) for k in others]
                for cell, (value, _) in coarser.items():
                    assert sum(v for c, (v, _) in level.items() if tuple(c[p] for p in kept) == cell) == value  # type: ignore[index]


# --- in answers

WITHIN = "customers WHERE region IN ('north', 'south', 'east') AND sex IN ('F', 'M') AND birth_year BETWEEN 1920 AND 2010"
ENDS = "dpproxy.low(sum(score)), dpproxy.high(sum(score)), dpproxy.stderr(sum(score))"


SETS = ["GROUPING SETS ((region), (sex), ())", "GROUPING SETS ((region), (sex), (birth_year), ())", "ROLLUP (birth_year, region)"]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sets", SETS)
def test_intervals_of_what_was_adjusted(stage: Stage, sets: str, mechanism: Mechanism) -> None:
    """As narrow as is said, and narrower than by each set alone; of few sets and many, of a chain too."""
    columns = "region, sex, birth_year, GROUPING(region, sex, birth_year)"
    if "birth_year" not in sets:
        columns = "region, sex, 0, GROUPING(region, sex)"
    made = stage.plan(f"SELECT {columns}, sum(score), {ENDS} FROM {WITHIN} GROUP BY {sets}", mechanism)
    assert ADJUSTED in str(made.explain)
    exact = [stage.tables(m)[0] for m in made.measurements]

    def rows(noise: Seeded | None) -> dict[tuple[object, ...], tuple[float, ...]]:
        arrays: list[object] = []
        for table_, m in zip(exact, made.measurements, strict=True):
            arrays += [table_.column(f"k{i}").to_pylist() for i in range(len(m.keys))]
            arrays.append(table_.column("b0").to_numpy() + (noise.draw(m.bases[0], table_.num_rows) if noise is not None else 0))
        return {row[:4]: row[4:] for row in stage.rows_of(made, arrays)}

    true, held, off, deviations = rows(None), [], [], dict[object, float]()
    for seed in range(12):
        for key, (value, low, high, deviation) in rows(Seeded(seed)).items():
            held.append(low <= true[key][0] <= high)
            off.append((value - true[key][0]) / deviation)
            deviations[key[3]] = deviation
    assert np.mean(held) >= 0.9875 - 3.5 * math.sqrt(0.0125 * 0.9875 / len(held))
    assert np.std(off) == pytest.approx(1, abs=3 / math.sqrt(len(off)) + 0.05)
    before = sorted(noise_error.deviation(m.bases[0]) for m in made.measurements)
    assert all(mine < own for mine, own in zip(sorted(deviations.values()), before, strict=True))


def test_explain_says_which_road_was_taken(shop_catalog: Catalog) -> None:
    def bounds(sql: str) -> set[str]:
        text = "\n".join(plan_harness.plan("EXPLAIN " + sql, shop_catalog).explain)
        return {found for found in re.findall(r"Bound: (.*)", text) if "grouping set" in found}

    assert bounds(f"SELECT region, sex, count(*) FROM {WITHIN} GROUP BY GROUPING SETS ((region), (sex), ())") == {ADJUSTED}
    everyone = "SELECT region, sex, count(*) FROM customers GROUP BY GROUPING SETS ((region), (sex), ())"
    assert bounds(everyone) == {ADJUSTED}, "rows in no group are cells that are not shown"
    cut = "SELECT status, paid, count(*) FROM orders WHERE status IN ('open', 'paid') AND paid IS NOT NULL "
    cut += "GROUP BY GROUPING SETS ((status), (paid), ())"
    assert bounds(cut) == {"each grouping set is measured by itself"}, "bounds cut more of one set than of another"
