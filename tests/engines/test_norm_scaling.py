"""Contributions scaled to a norm, run as SQL on numbers beyond what doubles hold: the norm is never more than claimed."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import duckdb
import pytest

from dpproxy.engines import norm_scaling
from dpproxy.tree.measured import Scaled

ROWS = 4
DATABASE = duckdb.connect()


WHOLE = replace(norm_scaling.COMMON, divided="({} // {})")


def contributions(part: Scaled, sums: list[int], words: norm_scaling.Words = norm_scaling.COMMON) -> tuple[list[int], int]:
    """What a unit with these sums in its groups adds to each; and the step it is in."""
    values = ", ".join(f"({t}::HUGEINT, 1)" for t in sums)
    text = f"WITH g(t0, n0) AS (VALUES {values}), m AS (SELECT {norm_scaling.norm(part)}::HUGEINT AS s0 FROM g), "
    text += f"w AS (SELECT *, {norm_scaling.step(part) or 1} AS m0 FROM m) "
    text += f"SELECT {norm_scaling.partial(part, words)}, m0 FROM g, w"
    found = DATABASE.execute(text).fetchall()
    return [x for x, _ in found], found[0][1]


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("bits", [20, 40, 52, 55, 59])
def test_the_norm_holds(norm: int, bits: int) -> None:
    """Near the ends of steps, where a rounding would tell."""
    rng = random.Random(bits * 4 + norm)
    for _ in range(40):
        largest = 2**bits // ROWS - rng.randrange(1, 2**12)
        fine = 2 ** (max(2**20 // (ROWS * largest), 1) - 1).bit_length()
        part = Scaled(0, "sum", norm, ROWS, largest, fine, 0, steps=12)
        step, groups = rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 3, 4])
        parts = split(rng, norm_scaling.STEPS * step, groups, norm)
        sums = [rng.choice([-1, 1]) * (part.bound * n // norm_scaling.STEPS + rng.randrange(-2, 60)) for n in parts]
        added, _ = contributions(part, sums)
        size = sum(map(abs, added)) if norm == 1 else sum(x * x for x in added)
        assert size <= (part.bound * fine) ** norm, (largest, sums, added)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("bits", [0, 7, 20, 32, 40, 52])
def test_whole_numbers_are_divided_as_doubles_are(norm: int, bits: int) -> None:
    """Those that doubles hold: the last are beyond, and divided as before."""
    rng, steps = random.Random(bits * 4 + norm), set()
    for _ in range(40):
        largest = 2**bits + rng.randrange(2**bits)
        part = Scaled(0, "sum", norm, ROWS, largest, 2 ** rng.choice([0, 4, 11] if bits < 40 else [0]), 0, steps=12)
        sums = [rng.randrange(-largest, largest + 1) * rng.choice([1, 30, 900, 40_000]) for _ in range(rng.choice([1, 3]))]
        as_doubles = contributions(part, sums)
        assert contributions(part, sums, WHOLE) == as_doubles, (largest, sums)
        steps.add(as_doubles[1])
    assert len(steps) > 4
    exact = Scaled(0, "sum", norm, ROWS, 2**38 // ROWS, 1, 0, steps=12)
    tells = [
        norm_scaling.partial(replace(exact, row=row), WHOLE) != norm_scaling.partial(replace(exact, row=row))
        for row in (2, 2**53)
    ]
    assert tells == [True, False]


def split(rng: random.Random, whole: int, groups: int, norm: int) -> list[int]:
    """Sizes of that norm together, or nearly."""
    if norm == 1:
        ends = sorted(rng.randrange(whole) for _ in range(groups - 1))
        return [b - a for a, b in zip([0, *ends], [*ends, whole], strict=True)]
    found, left = [], whole * whole
    for _ in range(groups - 1):
        found.append(rng.randrange(math.isqrt(left) + 1))
        left -= found[-1] ** 2
    return [*found, math.isqrt(left)]
