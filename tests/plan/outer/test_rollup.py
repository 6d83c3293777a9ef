"""Levels of a ROLLUP made to add up: the nearest tree to what was released, in whole numbers, and with less noise."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import plan_harness
import pytest

from dpproxy.plan.outer.rollup import Level, chain, consistent
from dpproxy.policy.catalog import Catalog

DATABASE = duckdb.connect()
SIZES = (3, 4)  # regions, sexes in each
DEVIATIONS = (5.0, 8.0, 20.0)  # of the noise of the levels, the finest first


def adjusted(released: list[dict[tuple[int | None, ...], int]]) -> list[dict[tuple[int | None, ...], int]]:
    """What the SQL makes of three levels: (region, sex), (region), ()."""
    levels = []
    for number, (cells, deviation) in enumerate(zip(released, DEVIATIONS, strict=True)):
        keys = ("k0", "k1")[: 2 - number]
        rows = ", ".join(f"({', '.join(['NULL' if k is None else str(k) for k in key] + [str(v)])})" for key, v in cells.items())
        levels.append(Level(f"(VALUES {rows}) AS t({', '.join([*keys, 'b0'])})", keys, (repr(deviation**2),)))
    ctes, names = consistent(levels, ["b0"])
    found = []
    for number, name in enumerate(names):
        keys = ["k0", "k1"][: 2 - number]
        rows = DATABASE.execute(f"WITH {ctes} SELECT {', '.join([*keys, 'b0'])} FROM {name}").fetchall()
        found.append({tuple(row[:-1]): row[-1] for row in rows})
    return found


def released(rng: np.random.Generator) -> list[dict[tuple[int | None, ...], int]]:
    keys = [(r if r else None, s) for r in range(SIZES[0]) for s in range(SIZES[1])]  # a NULL key is one like any other
    true = {key: 100 + 7 * i for i, key in enumerate(keys)}
    levels = [dict(true), {}, {(): sum(true.values())}]
    for (r, _), v in true.items():
        levels[1][(r,)] = levels[1].get((r,), 0) + v
    return [{k: v + round(rng.normal(0, d)) for k, v in level.items()} for level, d in zip(levels, DEVIATIONS, strict=True)]


def least_squares(cells: list[dict[tuple[int | None, ...], int]]) -> dict[tuple[int | None, ...], float]:
    """The finest level by the textbook: weighted regression of all cells on the leaves."""
    leaves = list(cells[0])
    rows, values = [], []
    for level, deviation in zip(cells, DEVIATIONS, strict=True):
        for key, value in level.items():
            rows.append([float(leaf[: len(key)] == key) / deviation for leaf in leaves])
            values.append(value / deviation)
    found = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0]
    return dict(zip(leaves, found, strict=True))


def test_it_is_the_least_squares_tree_in_whole_numbers() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        cells = released(rng)
        fine, regions, total = adjusted(cells)
        wanted = least_squares(cells)
        assert all(abs(fine[key] - wanted[key]) <= 2 for key in wanted)
        assert all(float(v).is_integer() for level in (fine, regions, total) for v in level.values())
        for (region,), value in regions.items():
            assert sum(v for (r, _), v in fine.items() if r == region) == value
        assert sum(regions.values()) == total[()]


def test_every_level_has_less_noise_than_before() -> None:
    rng = np.random.default_rng(6)
    before: list[list[float]] = [[], [], []]
    after: list[list[float]] = [[], [], []]
    exact = {(r if r else None, s): 100 + 7 * (r * SIZES[1] + s) for r in range(SIZES[0]) for s in range(SIZES[1])}
    truths = [exact, {(r if r else None,): sum(v for (q, _), v in exact.items() if q == (r if r else None)) for r in range(3)},
              {(): sum(exact.values())}]  # fmt: skip
    for _ in range(60):
        cells = released(rng)
        for level, (old, new) in enumerate(zip(cells, adjusted(cells), strict=True)):
            before[level] += [v - truths[level][k] for k, v in old.items()]  # type: ignore[index]
            after[level] += [v - truths[level][k] for k, v in new.items()]  # type: ignore[index]
    for old, new in zip(before, after, strict=True):
        assert np.std(new) < np.std(old)
    assert np.std(after[2]) < 0.8 * np.std(before[2])


@pytest.mark.parametrize(
    ("sets", "order"),
    [
        ([(0, 1), (0,), ()], [0, 1, 2]),
        ([(), (0, 1), (1,)], [1, 2, 0]),
        ([(0, 1), (0,), (1,), ()], None),
        ([(0,), (1,)], None),
        ([(0,), (0,)], None),
        ([(0, 1)], None),
    ],
)
def test_chains(sets: list[tuple[int, ...]], order: list[int] | None) -> None:
    assert chain(sets) == order


def test_explain_says_which_road_was_taken(shop_catalog: Catalog) -> None:
    def bounds(sql: str) -> set[str]:
        text = "\n".join(plan_harness.plan("EXPLAIN " + sql, shop_catalog).explain)
        return {found for found in re.findall(r"Bound: (.*)", text) if "grouping set" in found}

    within = "customers WHERE region IN ('north', 'south') AND sex IN ('F', 'M') AND birth_year BETWEEN 1920 AND 2010"
    few = f"SELECT region, sex, count(*) FROM {within} GROUP BY ROLLUP (region, sex)"
    many = f"SELECT region, sex, birth_year, count(*) FROM {within} GROUP BY ROLLUP (region, sex, birth_year)"
    cube = f"SELECT region, birth_year, count(*) FROM {within} GROUP BY CUBE (region, birth_year)"
    everyone = "SELECT region, sex, count(*) FROM customers GROUP BY ROLLUP (region, sex)"
    assert bounds(few) == {"the other grouping sets are added up from the finest"}
    assert bounds(many) == {"each grouping set is measured by itself, then all are adjusted to add up (least squares)"}
    late = many.replace("BETWEEN 1920 AND 2010", "> 1920")
    assert bounds(late) == bounds(many), "years beyond the declared ones have a cell that is not shown"
    assert bounds(everyone) == bounds(few)
    cut = "SELECT status, count(*) FROM orders GROUP BY ROLLUP (status)"
    assert bounds(cut) == {"each grouping set is measured by itself"}, "what bounds cut of a group they may leave in the total"
    assert bounds(cube) == bounds(few), "every cell has less noise so"
