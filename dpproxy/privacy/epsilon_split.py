"""How one statement's epsilon is divided over the columns it measures, and which noise they get.

Knows: how much each column's noise weighs in each output. Must not know: data, SQL. Any division is sound: the parts add up
to the whole, in integers. Floats only decide which division; it is deterministic, and depends on the plan alone.

An output's error is a function of several columns' noise (AVG: a centred sum and a count). To first order its variance
is the sum over columns of (weight / share)**2 for Laplace noise and weight**2 / share for Gaussian noise, where weight
is the relative error that the column's noise would bring at the whole budget. The division minimises the largest
output error, by multiplicative weights over outputs (Arora, Hazan, Kale 2012): for fixed importances the best shares
are proportional to a root of the weighted squares (Lagrange), then outputs that are worse off gain importance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dpproxy.policy.model import MICRO
from dpproxy.privacy.noise_scale import MechanismName, gaussian_rho

Row = tuple[tuple[int, float], ...]
"""Of one output: columns, and the relative standard error that each column's noise brings it, were the column alone."""

ROUNDS = 200
NEAR = 1.02
"""Of squared errors: a division within 1 % of the best possible one is as good."""

WORK = 100_000
"""Weights looked at, in all rounds together: an analyst's statement has tens of them, one of 600 aggregates 2,000."""

STEPS = 1000
"""Shares are rounded to thousandths, so that plans are stable and readable; the error changes by less than 1 %."""


@dataclass(frozen=True)
class Weights:
    """Hold the weights above 0 alone: an output is made of few columns, so that there are few weights however many outputs there
    are."""

    columns: int
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, columns: int, rows: Sequence[Mapping[int, float]]) -> Weights:
        """Make weights of one mapping an output. Raises ValueError for a column that there is not, and for no output."""
        if not rows or any(not 0 <= c < columns for row in rows for c in row):
            raise ValueError("at least one output, made of the columns there are")
        return cls(columns, tuple(tuple(sorted((c, float(w)) for c, w in row.items() if w)) for row in rows))

    @property
    def size(self) -> int:
        """Return the number of weights."""
        return sum(map(len, self.rows))


@dataclass(frozen=True)
class Allocation:
    """`parts` of the whole, positive integers that add up to it; `error`: the largest output error, in the unit of the
    weights, relative to a column alone with the whole."""

    parts: tuple[int, ...]
    error: float


@lru_cache(maxsize=1024)
def allocate(weights: Weights, whole: int, mechanism: MechanismName = "laplace") -> Allocation:
    """Divide `whole` (micro-epsilon, or any integer measure of rho for Gaussian noise) over the columns of `weights`.

    Columns that no output uses get the least share. Raises ValueError when `whole` is less than one a column, or
    there is no column.
    """
    if not weights.columns or whole < weights.columns:
        raise ValueError("a whole of at least one for each column, and at least one column")
    shares = _minimax(weights, mechanism)
    steps = [max(1, round(share * STEPS)) for share in shares]
    total = sum(steps)
    parts = [max(1, whole * step // total) for step in steps]
    largest = max(range(weights.columns), key=parts.__getitem__)
    parts[largest] += whole - sum(parts)
    return Allocation(tuple(parts), max(_error(row, [p / whole for p in parts], mechanism) for row in weights.rows))


def _error(row: Row, shares: Sequence[float], mechanism: MechanismName) -> float:
    power = 2 if mechanism == "laplace" else 1
    return math.sqrt(math.fsum(w * w / shares[c] ** power for c, w in row))


def rounds(weights: Weights) -> int:
    """A statement of very many weights is divided less finely, so that dividing takes time in proportion to what is asked."""
    return max(1, min(ROUNDS, WORK // max(weights.size, 1)))


@lru_cache(maxsize=1024)
def _minimax(weights: Weights, mechanism: MechanismName) -> tuple[float, ...]:
    """Shares that (nearly) minimise the largest error; the best found is kept.

    The weighted mean of the squared errors that shares were chosen for is a lower bound of every division's largest:
    when the two are within `NEAR`, there is no better one worth looking for.
    """
    importance = [1.0] * len(weights.rows)
    best, least = _shares(weights, importance, mechanism), math.inf
    for k in range(rounds(weights)):
        shares = _shares(weights, importance, mechanism)
        errors = [_error(row, shares, mechanism) for row in weights.rows]
        worst = max(errors)
        if worst < least:
            best, least = shares, worst
        bound = math.fsum(i * e * e for i, e in zip(importance, errors, strict=True)) / math.fsum(importance)
        if worst * worst <= bound * NEAR:
            break
        rate = 2.0 / math.sqrt(1 + k / 10)
        importance = [i * math.exp(rate * (e / worst - 1)) for i, e in zip(importance, errors, strict=True)]
    return tuple(best)


def _shares(weights: Weights, importance: Sequence[float], mechanism: MechanismName) -> list[float]:
    """For fixed importances: minimise sum_i a_i / s_i**2 (or a_i / s_i) with sum_i s_i = 1: s_i ~ a_i**(1/3) (1/2)."""
    root = 1 / 3 if mechanism == "laplace" else 1 / 2
    terms: list[list[float]] = [[] for _ in range(weights.columns)]
    for i, row in zip(importance, weights.rows, strict=True):
        for c, w in row:
            terms[c].append(i * w**2)
    loads = [math.fsum(of_column) ** root for of_column in terms]
    total = math.fsum(loads)
    if total == 0:
        return [1 / len(loads)] * len(loads)
    floor = total / STEPS  # an unused column still has to be divided by something
    held = [max(load, floor) for load in loads]
    whole = math.fsum(held)
    return [load / whole for load in held]


def deviations(weights: Weights, l0: int, epsilon_micro: int, delta_atto: int) -> tuple[float, float]:
    """Return the largest output error under Laplace and under Gaussian noise of the same (epsilon, delta).

    `weights` as in `allocate`, for noise of standard deviation 1 a column. Laplace: sqrt 2 * l0 / epsilon; Gaussian:
    sqrt(l0 / (2 rho)), infinite when delta is 0 or so small that no rho is proven.
    """
    laplace = math.sqrt(2) * l0 * MICRO / epsilon_micro * allocate(weights, epsilon_micro).error
    try:
        rho = float(gaussian_rho(epsilon_micro, delta_atto))
    except ValueError:
        return laplace, math.inf
    return laplace, math.sqrt(l0 / (2 * rho)) * allocate(weights, epsilon_micro, "gaussian").error


def better(weights: Weights, l0: int, epsilon_micro: int, delta_atto: int) -> MechanismName:
    """Choose for `mechanism: auto` the noise with the smaller largest error for the same charge; Laplace when equal."""
    laplace, gaussian = deviations(weights, l0, epsilon_micro, delta_atto)
    return "gaussian" if gaussian < laplace else "laplace"
