"""Sensitivities that specifications state, against the worst unit there is."""

from __future__ import annotations

import itertools
import math

import pytest
from small_expressions import column, ref

from dpproxy.plan.measure.specs import CONTRIBUTION_STEPS, PRECISION, BasisSpec, Bounding, SelectionSpec
from dpproxy.tree.expr import Expr

VALUE: Expr = ref(column(1))


def bounding(rows: int, l0: int = 1, norm: int = 0, kept: int | None = None) -> Bounding:
    return Bounding(rows, l0, True, True, None, (), norm, kept)


def of_mean(values: list[int], rows: int) -> int:
    """What a unit's rows add to the sum of a mean: rows beyond the bound weigh as many as it allows, rounded towards zero."""
    total = sum(values)
    return total if len(values) <= rows else int(math.copysign(abs(total) * rows // len(values), total))


@pytest.mark.parametrize(("lo", "hi"), [(0, 3), (-2, 1), (-3, -1)])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_no_unit_moves_a_sum_by_more(lo: int, hi: int, rows: int) -> None:
    spec = BasisSpec("sum", VALUE, None, "", lo, hi)
    units = [u for n in range(rows + 1) for u in itertools.product(range(lo, hi + 1), repeat=n)]
    assert max(abs(sum(u)) for u in units) == spec.linf(rows) == spec.sensitivity(bounding(rows))


@pytest.mark.parametrize(("lo", "hi"), [(0, 3), (-2, 1)])
@pytest.mark.parametrize("rows", [1, 2])
def test_nor_a_mean_however_many_rows_it_has(lo: int, hi: int, rows: int) -> None:
    spec = BasisSpec("sum", VALUE, None, "", lo, hi, mean=True)
    units = [list(u) for n in range(6) for u in itertools.product(range(lo, hi + 1), repeat=n)]
    assert max(abs(of_mean(u, rows)) for u in units) == spec.linf(rows)


@pytest.mark.parametrize("kind", ["units", "weight"])
def test_a_unit_is_one(kind: str) -> None:
    assert BasisSpec(kind, None, None, "").linf(9) == 1


def test_what_no_row_can_move_still_gets_noise() -> None:
    assert BasisSpec("sum", VALUE, None, "", 0, 0).sensitivity(bounding(3)) == 1


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("rows", [1, 3, 10])
def test_units_in_many_groups(norm: int, rows: int) -> None:
    """One in each of as many groups as rows: the l1 norm is their number, the l2 norm its root."""
    spread = bounding(rows, 1000, norm)
    spec = BasisSpec("units", None, None, "")
    fine = spec.fine(spread)
    whole = rows if norm == 1 else math.sqrt(rows)
    assert whole * fine <= spec.sensitivity(spread) <= whole * fine + 1
    assert spec.norm(bounding(rows)) == 0


@pytest.mark.parametrize("linf", [1, 7, 1000, PRECISION, 4 * PRECISION])
def test_scaled_parts_lose_a_millionth(linf: int) -> None:
    spec = BasisSpec("sum", VALUE, None, "", 0, linf)
    fine = spec.fine(bounding(1, 5, 2))
    assert fine & (fine - 1) == 0, "a power of two"
    assert fine * linf >= PRECISION or fine == 1 or linf >= PRECISION
    assert spec.sensitivity(bounding(1, 5, 2)) == linf * fine
    assert spec.fine(bounding(1)) == 1, "what is not scaled is whole"


def test_steps_are_of_whole_counts_and_sums() -> None:
    whole = bounding(10, 5, 1)
    stepped = {kind: BasisSpec(kind, VALUE, None, "").steps(whole) for kind in ("count", "sum", "units", "distinct", "weight")}
    assert stepped == {"count": CONTRIBUTION_STEPS, "sum": CONTRIBUTION_STEPS, "units": 1, "distinct": 1, "weight": 1}
    assert BasisSpec("sum", VALUE, None, "", mean=True).steps(whole) == 1
    assert BasisSpec("count", None, None, "").steps(bounding(10)) == 1


def test_groups_that_are_released_bound_the_reach() -> None:
    assert [bounding(1, 7, kept=k).reach for k in (None, 3, 9)] == [7, 3, 7]
    assert [bounding(1, l0, norm).spread for l0, norm in ((1, 1), (2, 1), (2, 0))] == [False, True, False]


def test_candidates_of_selections() -> None:
    from fractions import Fraction

    grid = SelectionSpec(VALUE, None, "", -3, 5, Fraction(1), (Fraction(1, 2), Fraction(1)))
    assert (grid.size, grid.columns) == (len(range(-3, 6)), 2)
    mode = SelectionSpec(VALUE, None, "", 0, 0, Fraction(1), (), ("a", "b", None))
    assert (mode.size, mode.columns) == (3, 1)


def picked(counts: tuple[int, ...], rows: int, each: int, norm: int) -> list[int]:
    """How many distinct values of a unit are counted in each of its groups (`measure.bounding`): first ones before second ones, for
    as long as the norm allows."""
    found, filled = [0] * len(counts), 0
    for turn in range(1, each + 1):
        for group, there in enumerate(counts):
            filled += (1 if norm == 1 else 2 * turn - 1) if there >= turn else 0
            if there >= turn and filled <= rows**norm:
                found[group] = turn
    return found


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("most", [None, 1, 2])
def test_no_unit_moves_distinct_values_by_more_than_their_norm(norm: int, rows: int, most: int | None) -> None:
    spec = BasisSpec("distinct", VALUE, None, "", most=most)
    for l0 in (2, 3, 4):
        each = spec.linf(rows)
        units = [picked(counts, rows, each, norm) for counts in itertools.product(range(6), repeat=l0)]
        worst = max(sum(n**norm for n in unit) ** (1 / norm) for unit in units)
        stated = spec.sensitivity(bounding(rows, l0, norm))
        assert worst <= stated + 1e-9
        assert stated < worst + 1, "rounded up, and no more"
        assert spec.fine(bounding(rows, l0, norm)) == spec.steps(bounding(rows, l0, norm)) == 1


@pytest.mark.parametrize("norm", [0, 1, 2])
@pytest.mark.parametrize(("lo", "hi"), [(0, 3), (-2, 1), (-1, 2), (-3, -1)])
def test_nor_their_sum_whichever_way_numbers_go(lo: int, hi: int, norm: int) -> None:
    """As many values in each group as the norm allows, each as far from 0 as it can be."""
    spec = BasisSpec("distinct_sum", VALUE, None, "", lo, hi)
    rows, l0 = 3, 2
    if norm:
        units = [picked(counts, rows, rows, norm) for counts in itertools.product(range(6), repeat=l0)]
        worst = max(sum(n**norm for n in unit) ** (1 / norm) for unit in units) * max(abs(lo), abs(hi))
    else:
        worst = max(abs(sum(u)) for n in range(rows + 1) for u in itertools.product(range(lo, hi + 1), repeat=n))
    assert worst - 1e-9 <= spec.sensitivity(bounding(rows, l0, norm)) < worst + max(abs(lo), abs(hi)) + 1


def test_a_heavy_unit_is_counted_in_as_many_groups_as_it_can() -> None:
    """In 36 months a value each: none is lost under `rows: 10`, where ten in all would leave 10."""
    assert sum(picked((1,) * 36, 10, 10, 2)) == 36
    assert sum(picked((3,) * 36, 10, 10, 2)) == 36 + 21
    assert sum(picked((1,) * 36, 10, 10, 1)) == 10
