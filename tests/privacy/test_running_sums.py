"""Running sums: the matrix's longest column is what is charged for, decoding takes it back, and the errors are the papers'."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpproxy.privacy import running_sums
from dpproxy.privacy.running_sums import PARTS, Running

SHAPES = [(1, 1), (2, 2), (7, 3), (30, 30), (60, 7), (61, 1), (100, 99), (365, 365)]


def toeplitz(column: object, length: int) -> np.ndarray:
    first = np.array(column)
    return np.array([[first[t - s] if t >= s else 0 for s in range(length)] for t in range(length)])


def sums(length: int, width: int) -> np.ndarray:
    """The workload: sums of the last `width` groups."""
    return toeplitz([1.0 if k < width else 0.0 for k in range(length)], length)


@pytest.mark.parametrize(("length", "width"), SHAPES)
def test_the_series_is_a_root_of_the_sums(length: int, width: int) -> None:
    root = toeplitz(running_sums.series(length, width), length)
    assert root @ root == pytest.approx(sums(length, width), abs=1e-9)


@pytest.mark.parametrize(("length", "width"), SHAPES)
@pytest.mark.parametrize("within", [1, 3, 200_000])
def test_a_unit_changes_no_more_than_is_charged_for(length: int, width: int, within: int) -> None:
    """Whichever of the groups it is in: by the whole matrix, in integers of any size."""
    running = Running(0, length, width, within)
    matrix = toeplitz(running_sums.coefficients(length, width), length).astype(object) * within
    largest = max(sum(int(x) ** 2 for x in matrix[:, place]) for place in range(length))
    changed = running_sums.changed(running)
    assert (changed - 1) ** 2 < largest <= changed**2
    assert matrix[0, 0] == PARTS * within


@pytest.mark.parametrize(("length", "width"), SHAPES)
def test_decoding_gives_groups_back_and_errors_are_those_of_its_noise(length: int, width: int) -> None:
    matrix = toeplitz(running_sums.coefficients(length, width), length).astype(float)
    inverse = toeplitz(running_sums.decoder(length, width), length)
    assert inverse @ matrix == pytest.approx(np.eye(length), abs=1e-9)
    for cells in {1, min(7, length), width, length}:
        rows = np.sqrt(((sums(length, cells) @ inverse) ** 2).sum(axis=1))
        assert running_sums.spread(length, width, cells) == pytest.approx(max(rows))
        assert running_sums.spreads(length, width)[cells - 1] == pytest.approx(max(rows))
        assert running_sums.typical_spread(length, width, cells) == pytest.approx(math.sqrt(np.mean(rows**2)))
        assert running_sums.typical_cells(length, cells) == pytest.approx(sums(length, cells).sum(axis=1).mean())
    first = np.sqrt(((sums(length, length) @ inverse) ** 2).sum(axis=1))
    assert list(running_sums.spreads_from_start(length, width)) == pytest.approx(first)


@pytest.mark.parametrize(("length", "width", "gain"), [(30, 30, 2.55), (365, 365, 6.49), (365, 30, 2.31), (365, 7, 1.49)])
def test_the_last_sum_errs_less_than_groups_added_up(length: int, width: int, gain: float) -> None:
    """By what Fichtenberger, Henzinger and Upadhyay 2023 prove of totals: sqrt(n) over (1 + (ln(4n) + 0.58) / pi), or more."""
    noise = math.sqrt(running_sums.column_square(Running(0, length, width, 1))) * running_sums.spread(length, width, width)
    assert math.sqrt(width) / noise == pytest.approx(gain, abs=0.01)
    assert noise <= 1 + (math.log(4 * width) + 0.58) / math.pi
    assert running_sums.ratio(Running(0, length, width, 1), width) < 1


def test_what_is_no_run_is_refused() -> None:
    for running in (Running(0, 0, 1, 1), Running(0, 3, 0, 1)):
        with pytest.raises(ValueError, match="a run has a group"):
            running_sums.column_square(replace(running))
