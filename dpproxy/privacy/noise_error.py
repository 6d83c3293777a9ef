"""How far off noise may be: half-widths, deviations and excesses of a released number, from its basis alone.

Knows: scales, mechanisms, the normal distribution. Must not know: data, SQL. All of it follows from numbers that the plan fixed,
so telling it costs nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

from dpproxy.privacy import noise_tail, running_sums
from dpproxy.privacy.measurement import Basis

EACH = Fraction(1, 4)
"""The share of the failure that is left to each cell. An answer has several, and is read as a whole: with a quarter, at least
nine in ten of its cells hold about as often as is said (at 95 %: in 99 % of answers of one cell, 94 % of five, 99 % of ten)."""


def each(confidence: Fraction) -> Fraction:
    """Return the confidence at which the interval of each cell holds."""
    return 1 - EACH * (1 - confidence)


CHOSEN = Fraction(3, 4)
"""The share of the failure that is left to intervals of steps. A step that is about as large as what shows it
(`mechanisms.step_columns.SEEN`) is taken where its noise was high, which costs up to 3 % of coverage: with this share 95 % is 94
to 97 %, whatever the steps hold, and up to 98 where each holds nearly as much as the one below."""


def told_half(basis: Basis, confidence: Fraction, cells: int = 1) -> int:
    """Return the half-width of the stated interval, in grid units; of several steps, that of the first."""
    return half_width(basis, confidence if basis.steps == 1 else 1 - CHOSEN * (1 - confidence), cells)


def step_half(basis: Basis, confidence: Fraction, cells: int = 1) -> float:
    """Return the same of a basis of several steps in parts of a grid unit, not rounded up: it grows with every step."""
    confidence = 1 - CHOSEN * (1 - confidence)
    if cells == 1:
        return noise_tail.interval(basis.mechanism, basis.scale, confidence) / basis.fine
    return _summed(basis, confidence, cells)


GROWTH = "sqrt((power(4::float8, {} + 1) - 1) / 3)"


def step_growth(last: int) -> float:
    """Return the deviation of steps 0..last together, as a multiple of the first one's; each has twice the noise of the one
    before."""
    return math.sqrt((4 ** (last + 1) - 1) / 3)


def half_width(basis: Basis, confidence: Fraction, cells: int = 1) -> int:
    """Return the half-width, in grid units, of the interval that holds the noise with probability `confidence`.

    For one cell it is certified (`noise_tail.interval`); for a sum of several by Cornish & Fisher's
    expansion to the fourth cumulant (Laplace noise: excess kurtosis 3 / cells), rounded up.
    """
    if basis.running is not None:
        return math.ceil(normal_point(confidence) * deviation(basis, cells) + running_sums.ROUNDING)
    if cells == 1:
        half = noise_tail.interval(basis.mechanism, basis.scale, confidence)
        return half if basis.fine == 1 else math.ceil(Fraction(half, basis.fine) + Fraction(1, 2))  # and it is rounded
    return math.ceil(_summed(basis, confidence, cells))


def _summed(basis: Basis, confidence: Fraction, cells: int) -> float:
    z = normal_point(confidence)
    z += (z**3 - 3 * z) / 24 * excess(basis, cells)
    return z * deviation(basis, cells)


def normal_point(confidence: Fraction) -> float:
    """Return within how many standard deviations a normal variable lies with probability `confidence`."""
    return NormalDist().inv_cdf((1 + float(confidence)) / 2)


def excess(basis: Basis, cells: int = 1) -> float:
    """Return the excess kurtosis of the noise in a sum of cells: 3 of (continuous) Laplace noise, none of Gaussian."""
    return 3 / cells if basis.mechanism == "laplace" else 0.0


LEAST = 1e-30
"""The least deviation that is told, in grid units. That of an epsilon of hundreds is no float any more, and measurements that are
made to agree are weighed by one over its square."""


def deviation(basis: Basis, cells: int = 1) -> float:
    """Return the standard deviation of the noise, in grid units: of discrete Laplace noise sqrt(2 q) / (1 - q) with q =
    exp(-1/scale), never less than `LEAST`; of discrete Gaussian noise at most sigma."""
    scale = float(basis.scale)
    if basis.running is not None:  # cells that are not next to each other: their noise may all be the same
        return scale * running_sums.spread(basis.running.length, basis.running.width, 1) * cells
    if basis.mechanism == "gaussian":
        one = scale
    else:
        one = max(math.sqrt(2) * math.exp(-0.5 / scale) / -math.expm1(-1 / scale), LEAST)
    return one / basis.fine * math.sqrt(cells)


def sum_half_width(basis: Basis, confidence: Fraction) -> int:
    """Return the half-width, in grid units, of the noise in a sum that a basis with `running` is for."""
    assert basis.running is not None
    length, width = basis.running.length, basis.running.width
    deviation_ = float(basis.scale) * running_sums.spread(length, width, width)
    return math.ceil(normal_point(confidence) * deviation_ + running_sums.ROUNDING)


def sums_deviations(basis: Basis) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return, of a basis with `running`, the deviations of the noise in sums of 1, 2, ... groups that follow one another, in grid
    units, at the end of a run, where they are largest; and in those of the first 1, 2, ... groups."""
    assert basis.running is not None
    length, width, scale = basis.running.length, basis.running.width, float(basis.scale)
    anywhere, first = running_sums.spreads(length, width), running_sums.spreads_from_start(length, width)
    return tuple(scale * x for x in anywhere), tuple(scale * x for x in first)


def typical_sum(basis: Basis) -> tuple[float, float] | None:
    """Return how many groups are in a sum typically that a basis with `running` is for, and the deviation of its noise; None for
    others."""
    if basis.running is None:
        return None
    length, width = basis.running.length, basis.running.width
    return running_sums.typical_cells(length, width), float(basis.scale) * running_sums.typical_spread(length, width, width)
