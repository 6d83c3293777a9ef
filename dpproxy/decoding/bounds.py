"""How far off estimates from reports may be, and counts that agree with each other.

Knows: laws of claims, counts. Must not know: SQL, notices, how reports were decoded. An interval holds the true number of devices
among the reports that are there; it says nothing of devices that did not report. Three roads, by what is known of C:

- *score*: C is nearly normal, with a variance that is linear in the number f of devices; solving for f gives a quadratic.
- *exact*: few reports support anything, and C is Binomial(f, p) + Binomial(n - f, q): the f for which neither tail is too small.
- *sketches*: a score again, with the part of collisions in the variance.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from dpproxy.decoding.decoders import Int64
from dpproxy.local.claims import Law

Float64 = npt.NDArray[np.float64]

EXACT: Final = 20
"""Below this variance of C, a normal C is too coarse: the interval is then by exact tails."""

SMALL: Final = 4096
"""Exact tails are taken of a C up to this; a larger one has a variance of its own."""


def estimates(law: Law, supporting: Int64, reports: int) -> Float64:
    """Return the estimates of a law: how many devices have each candidate. They may be negative."""
    return np.asarray(float(law.slope) * supporting + float(law.offset) * reports, np.float64)


def bounds(law: Law, supporting: Int64, reports: int, squares: float, z: float) -> tuple[Int64, Int64]:
    """Return both ends, whole numbers from 0 to n, of an interval for each candidate.

    `squares` is F2, which laws without collisions do not need; `z` the normal quantile of one side.
    """
    if law.collision:
        return _within(*_sketched(law, supporting, reports, squares, z), reports)
    turned = law.p < law.q  # then what does not support, supports the more
    p, q = (float(1 - chance if turned else chance) for chance in (law.p, law.q))
    counts = reports - supporting if turned else supporting
    lower, upper = _within(*_score(p, q, counts, reports, z), reports)
    if reports * min(p * (1 - p), q * (1 - q)) < EXACT:
        tail = 1 - NormalDist().cdf(z)
        for value in np.unique(counts[counts <= SMALL]).tolist():
            chosen = counts == value
            lower[chosen], upper[chosen] = _tails(p, q, value, reports, tail)
    return lower, upper


def deviations(law: Law, supporting: Int64, reports: int, squares: float) -> Float64:
    """Return the standard deviation of each estimate, with the estimate in the place of the true count."""
    holders = np.clip(estimates(law, supporting, reports), 0, reports)
    variance = _fixed_variance(law, holders, reports, squares) + float(law.per_holder) * holders
    return np.sqrt(np.maximum(variance, 0))


def _fixed_variance(law: Law, holders: Float64, reports: int, squares: float) -> Float64:
    """The parts of the variance that come of all reports and of collisions."""
    shared = np.maximum(0, squares - holders**2 - (reports - holders))
    return np.asarray(float(law.per_report) * reports + float(law.collision) * shared, np.float64)


def consistent(raw: Float64, reports: int) -> Int64:
    """Return counts of a whole domain, none negative, that add up to the reports exactly: norm-sub, then largest remainders.

    One number is taken off all estimates such that what stays above 0 adds up, which is the projection onto the simplex (Wang et
    al. 2020). Ties of remainders go to the first.
    """
    if not raw.size:
        return np.zeros(0, np.int64)
    falling = np.sort(raw)[::-1]
    surplus = (np.cumsum(falling) - reports) / np.arange(1, raw.size + 1)
    taken = surplus[np.flatnonzero(falling > surplus)[-1]] if reports else falling[0]
    shares = np.maximum(raw - taken, 0)
    counts: Int64 = np.floor(shares).astype(np.int64)
    missing = reports - int(counts.sum())
    order = np.argsort(counts - shares, kind="stable")
    counts[order[: max(0, missing)]] += 1
    return counts


def _sketched(law: Law, supporting: Int64, reports: int, squares: float, z: float) -> tuple[Float64, Float64]:
    """The f with (estimate - f)^2 = z^2 (fixed + per_holder f), collisions taken at the estimate."""
    raw, bend = estimates(law, supporting, reports), z * z * float(law.per_holder)
    fixed = _fixed_variance(law, np.clip(raw, 0, reports), reports, squares)
    root: Float64 = np.sqrt(np.maximum(z * z * fixed + bend * raw + bend * bend / 4, 0))
    return raw + bend / 2 - root, raw + bend / 2 + root


def _score(p: float, q: float, supporting: Int64, reports: int, z: float) -> tuple[Float64, Float64]:
    """The f with (C - n q - f (p - q))^2 = z^2 (n q (1 - q) + f (p (1 - p) - q (1 - q)))."""
    gap, noise = p - q, q * (1 - q)
    bend = z * z * (p * (1 - p) - noise)
    centred = supporting - reports * q
    a, b, c = gap * gap, 2 * centred * gap + bend, centred**2 - z * z * reports * noise
    root: Float64 = np.sqrt(np.maximum(b * b - 4 * a * c, 0))
    return (b - root) / (2 * a), (b + root) / (2 * a)


def _within(low: Float64, high: Float64, reports: int) -> tuple[Int64, Int64]:
    """The whole numbers between two ends, from 0 to n; of none, the nearest one."""
    lower, upper = np.ceil(low - 1e-9), np.floor(high + 1e-9)
    lower, upper = np.minimum(lower, np.rint(high)), np.maximum(upper, np.rint(low))
    return np.clip(lower, 0, reports).astype(np.int64), np.clip(upper, 0, reports).astype(np.int64)


def _tails(p: float, q: float, supporting: int, reports: int, tail: float) -> tuple[int, int]:
    """The least and the greatest f under which neither C or more, nor C or less, is rarer than `tail`; p is above q."""
    every = range(reports + 1)
    lower = bisect_left(every, True, key=lambda f: 1 - _cumulative(f, p, reports - f, q, supporting - 1) > tail)
    upper = bisect_left(every, True, key=lambda f: _cumulative(f, p, reports - f, q, supporting) <= tail) - 1
    return min(lower, reports), max(upper, 0)


def _cumulative(f: int, p: float, rest: int, q: float, most: int) -> float:
    """The probability that Binomial(f, p) + Binomial(rest, q) is at most a number."""
    if most < 0:
        return 0.0
    return float(_masses(f, p, most) @ np.cumsum(_masses(rest, q, most))[::-1])


def _masses(n: int, p: float, most: int) -> Float64:
    """The probabilities of 0, 1, ... `most` of a binomial distribution."""
    i = np.arange(1, min(n, most) + 1)
    steps = np.log((n - i + 1) / i) + (math.log(p) - math.log1p(-p))
    masses = np.zeros(most + 1)
    masses[: i.size + 1] = np.exp(n * math.log1p(-p) + np.concatenate(([0.0], np.cumsum(steps))))
    return masses
