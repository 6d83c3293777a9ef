"""Columns measured in steps of size, put together: how far up, and which groups the upper steps belong to.

Knows: noisy columns, their noise. Must not know: exact values, plans. Everything here is post-processing of noisy columns, one
for each step (`engines.norm_scaling`): row j times 2**j, added up, is the whole, and each step doubles the noise.

How far up: a step is taken while it is visibly more than noise (`SEEN`), one after the other; and up to any step that is
beyond doubt (`CERTAIN`). Taken by mistake it doubles the noise: one time in fifty for the next one, so that the expected
harm is bounded (4/50 + 16/2500 + ...), one in a million for one far up.

Which groups: where noise hides how a step is spread over groups, it is spread like the step below it, but for groups that visibly
differ (`mechanisms.step_profiles`). The first step is every group's own, always. What nobody can have less than nothing of is
put together so; of sums of both signs no profile says anything. Beyond the steps taken nothing is added, but for a group whose
own value there is beyond doubt.

All this is guesses about the data where nothing better is known; `raw` is without, and intervals are about `raw`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpproxy.mechanisms.exact_answers import Int64
from dpproxy.mechanisms.step_profiles import Float64, profiles

SEEN = 2.1
CERTAIN = 4.8
"""Standard deviations."""

MOST_CELLS = 200_000
"""Of noise to draw for one basis: of more groups than a twelfth of this the upper steps are put into the last one drawn."""

_HELD = 2**58  # of each upper step: all together, and the first, stay within 64 bits


@dataclass(frozen=True)
class Together:
    """Steps are added up to `value` and `raw` of each group, in the unit of the first step; `last`: the step up to which they
    go."""

    value: Int64
    raw: Int64
    last: int


def folded(columns: list[Int64]) -> list[Int64]:
    """Return exact columns, as many as noise shall be drawn for. A unit is in one of them either way, by no more than before."""
    count = max(1, min(len(columns), MOST_CELLS // max(columns[0].size, 1)))
    if count == len(columns):
        return columns
    rest = np.zeros_like(columns[0])
    for column in columns[count - 1 :]:
        rest = rest + np.clip(column, -_HELD, _HELD)
    return [*columns[: count - 1], rest]


def together(noisy: list[Int64], deviation: float, laplace: bool, signed: bool) -> Together:
    """Put together the noisy columns of all steps, each with noise of that standard deviation. `signed`: groups may have less
    than nothing."""
    matrix = np.array(noisy, dtype=np.float64)
    last = _last(matrix / deviation, laplace, signed)
    raw = noisy[0] + _added(matrix[1 : last + 1])
    if signed:
        return Together(raw.copy(), raw, last)
    found = profiles(matrix, deviation, laplace)
    shown = max(last, _reached([p.evidence for p in found]))
    rows = np.array([p.value if j <= shown else p.own for j, p in enumerate(found)])
    return Together(noisy[0] + _added(rows[1:]), raw, last)


def _added(upper: Float64) -> Int64:
    """Steps 1, 2, ... in the unit of the first."""
    return np.asarray(_whole(upper * 2.0 ** np.arange(1, len(upper) + 1)[:, None]).sum(axis=0))


def _whole(values: Float64) -> Int64:
    return np.clip(np.rint(values), -_HELD, _HELD).astype(np.int64)


def _last(units: Float64, laplace: bool, signed: bool) -> int:
    """The last step to take; `units` are values in deviations of their noise."""
    evidence = [_energy(row, laplace) for row in units] if signed else _sums(units, laplace).tolist()
    return _reached(evidence)


def _reached(evidence: list[float]) -> int:
    """The last step to take, by how many deviations each stands out."""
    last = 0
    while last + 1 < len(evidence) and evidence[last + 1] >= SEEN:
        last += 1
    return max([last, *(j for j, found in enumerate(evidence) if j and found >= CERTAIN)])


def _sums(units: Float64, laplace: bool) -> Float64:
    """The totals over groups, as deviations of normal noise: Laplace tails of few groups count for less."""
    groups = max(units.shape[1], 1)
    heavy = 1 + 0.7 / groups if laplace else 1.0  # of one group 8.1 deviations are as unlikely as 4.8 normal ones
    return np.asarray(units.sum(axis=1) / (math.sqrt(groups) * heavy))


def _energy(row: Float64, laplace: bool) -> float:
    """The same of the sum of squares: G + 2 sqrt(G t) + 2 t is passed by noise with probability e**-t at most (Laurent &
    Massart 2000); a normal variable passes z with about e**(-z**2 / 2). Squares of Laplace noise vary more."""
    size, square = row.size, float((row * row).sum())
    spread, tail = (2.5 * size, 6.0) if laplace else (float(size), 2.0)
    over = square - size
    if over <= 0:
        return 0.0
    root = (math.sqrt(4 * spread + 4 * tail * over) - 2 * math.sqrt(spread)) / (2 * tail)  # of tail t + 2 sqrt(spread t) = over
    return math.sqrt(2) * root
