"""How much each column's noise matters to each output, before any data is seen: a nominal group stands for all.

Knows: bounds of values, the formulas' derivatives. Must not know: data; nothing here decides privacy, only how a statement's
epsilon is divided (`privacy.epsilon_split`). A factor of two in a weight changes the largest error by a few percent.

The nominal group: `n` units with as many rows each as half the row bound, values evenly spread over their bounds. A
weight is the relative error of an output, in units of 1/n, when a column's noise is as large as its own sensitivity:
|d output / d column| * sensitivity / |output|. `finish` multiplies by what all columns of a measurement share (L0, how
many groups there are).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Widths = frozenset[tuple[str, int]]
Kind = Literal["linear", "mean", "total", "derived", "selected"]

FILTERED = 2.0
"""A FILTER is taken to keep half of the rows: what it leaves is half as large, its noise is not."""

THRESHOLD = 3.0
"""Groups below a threshold are missing, not inexact: a group at the threshold (about 14 scales of noise, 10 standard
deviations) should not be much better known than within 30 %."""

WEIGHED_THRESHOLD = 0.9
"""The same of weights, a quarter of a group's units: at the threshold (6 deviations of the weights) counts are within 15 %."""

FIRST = 10
"""Per cent of what the weights of a threshold have that are the first of two rounds' (`mechanisms.key_rounds`). Simulated over
60,000 users with 25 rows each, log-uniform over 4,900 groups, and a count: 486 of these are found in one round, 650 with a tenth
in the first of two, 647 with a fifth, 652 in three rounds; with 3 rows each 333 (of 1,096), 390, 379 and 371."""

QUANTILE = 2.0
"""The median of n evenly spread values misses by as many ranks as a count errs, and each is 2/n of its value."""

END = 1.0
"""The ends of a quantile's interval: the value itself keeps half of the epsilon that it shares with both."""

EXTREME = 4.0
"""MIN and MAX are order statistics of a rank that grows with the grid (`selection_ranks.extreme_rank`): by their rank alone
they would take ten times a count's share, which would spoil every other output of the query."""

MODE = 1.0

TOP = 1.0
"""k choices at epsilon / k err about as much as noise for k groups at epsilon."""

VARIANCE = (0.7, 1.5, 1.5)
"""Count, centred sum, centred squares, at half-width 1, mean 1/4 off the middle, variance 1/3."""

DEVIATION = (0.35, 0.75, 0.75)

COVARIANCE = (0.4, 1.0, 1.0, 3.0)
"""Count, sums of y and x, products: of a correlation, relative to 1 (a covariance of 1/3); means 1/4 off the middle."""

SQUARES = 0.75
"""Of y and x each, in a correlation: half of a variance's; twice that in a slope, which divides by one variance."""


@dataclass(frozen=True)
class Output:
    """An output is an aggregate as it is released: `label` as the analyst wrote it.

    `bases`: indexes of its measurement's columns, in its formula's order, with one weight each; or `selection`, the index
    of its selection, with one weight. `kind`: a basis times a constant; a ratio of
    two; a sum from the two of its mean; any other formula; a selection. `statistic` names such a formula of moments.
    `low`, `high`: the widths without which an end of its interval is not known, below (`g`) or above (`h`) a column.
    `devices`: what devices have added to its error, for people.
    """

    label: str
    kind: Kind
    weights: tuple[float, ...]
    bases: tuple[int, ...] = ()
    selection: int | None = None
    statistic: str = ""
    low: Widths = frozenset()
    high: Widths = frozenset()
    devices: str = ""


def row_factor(rows: int) -> float:
    """Sensitivity of a column of `rows` rows a unit, relative to what a nominal unit adds to it: k / ((k + 1) / 2)."""
    return 2 * rows / (rows + 1)


def typical(lo: int, hi: int) -> Fraction:
    """Return the mean absolute value of a number evenly spread over lo..hi; at least a hundredth of the larger end."""
    if lo >= 0 or hi <= 0:
        found = Fraction(abs(lo + hi), 2)
    else:
        found = Fraction(lo * lo + hi * hi, 2 * (hi - lo))
    return max(found, Fraction(max(abs(lo), abs(hi)), 100), Fraction(1, 100))


def total(lo: int, hi: int) -> float:
    """Weigh a SUM of values in lo..hi."""
    return float(max(abs(lo), abs(hi)) / typical(lo, hi))


def quotient(lo: int, hi: int, center: int) -> tuple[float, float]:
    """Weigh an AVG's count and its sum about a centre at an end of lo..hi, or in it."""
    usual, own = typical(lo, hi), typical(lo - center, hi - center)
    return float(own / usual), float(max(hi - center, center - lo) / usual)


def mean(lo: int, hi: int) -> tuple[float, float]:
    """Weigh an AVG's count and centred sum: a group's average lies a quarter of the width off the middle."""
    half = Fraction(hi - lo, 2)
    usual = typical(lo, hi)
    return float(half / 2 / usual), float(half / usual)
