"""How far noise moves a statistic of moments - a variance, a correlation, a slope - at the values that were released.

Knows: the formulas of `plan.measure.moments`, over released columns as arrays. Must not know: exact values, SQL. The spread is to
first order: the root of the sum over columns of the squared half difference that one standard deviation of a column's noise
makes. The outer query computes the same where it is asked for a standard error; a test compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpproxy.plan.measure import moments
from dpproxy.plan.measure.durations import DAY

Float64 = npt.NDArray[np.float64]

AVERAGE, TOTAL = "seconds of avg", "seconds of sum"
"""Of differences of timestamps, which are days and seconds (`plan.measure.durations`)."""

_PAIR = ("n", "y", "x", "yx", "yy", "xx")


def known(statistic: str) -> bool:
    """Tell whether this file has a formula for it."""
    return statistic in moments.SINGLE or statistic in moments.PAIRED or statistic in (AVERAGE, TOTAL)


def columns(statistic: str) -> tuple[str, ...]:
    """Name the columns of a statistic, in order: n rows, sums of y, x, products, squares; days d and seconds s."""
    if statistic in (AVERAGE, TOTAL):
        return ("n", "d", "s") if statistic == AVERAGE else ("d", "s")
    return ("n", "x", "xx") if statistic in moments.SINGLE else tuple(_PAIR[i] for i in moments.used(statistic))


def spread(statistic: str, totals: Sequence[Float64], deviations: Sequence[float], centers: Sequence[float]) -> Float64:
    """Return the standard deviation of each group's value; infinite where there is no value."""
    squares = np.zeros_like(totals[0])
    for i, deviation in enumerate(deviations):
        up, down = ([*totals[:i], totals[i] + sign * deviation, *totals[i + 1 :]] for sign in (1, -1))
        with np.errstate(all="ignore"):
            squares = squares + ((value(statistic, up, centers) - value(statistic, down, centers)) / 2) ** 2
    return np.nan_to_num(np.sqrt(squares), nan=np.inf)


def value(statistic: str, totals: Sequence[Float64], centers: Sequence[float]) -> Float64:
    """Return the statistic of each group. `centers`: what is subtracted from each row's part of a column before it is summed."""
    names = columns(statistic)
    total = dict(zip(names, totals, strict=True))
    n = np.maximum(total.pop("n", np.ones(1)), 1)
    mean = {name: column / n for name, column in total.items()}
    with np.errstate(all="ignore"):
        return np.asarray(_formula(statistic, _Moments(n, mean, dict(zip(names, centers, strict=True)))), dtype=np.float64)


@dataclass(frozen=True)
class _Moments:
    """Numbers of rows, means of what was summed, what was subtracted before."""

    n: Float64
    mean: Mapping[str, Float64]
    center: Mapping[str, float]

    def middle(self, name: str) -> Float64:
        return self.mean[name] + self.center[name]

    def variance(self, name: str) -> Float64:
        return np.maximum(self.middle(name * 2) - self.mean[name] ** 2, 0)

    @property
    def covariance(self) -> Float64:
        return self.mean["yx"] - self.mean["y"] * self.mean["x"]

    @property
    def sampled(self) -> Float64:
        return self.n / np.maximum(self.n - 1, 1)

    @property
    def correlation(self) -> Float64:
        return self.covariance / np.sqrt(self.variance("y") * self.variance("x"))

    @property
    def slope(self) -> Float64:
        return self.covariance / self.variance("x")


def _formula(statistic: str, m: _Moments) -> Float64:
    if statistic in moments.SINGLE:
        found = m.variance("x") * (1 if statistic.endswith("_pop") else m.sampled)
        return np.sqrt(found) if statistic.startswith("stddev") else found
    formulas: dict[str, Callable[[], Float64]] = {
        AVERAGE: lambda: m.middle("d") * DAY + m.middle("s"),
        TOTAL: lambda: m.middle("d") * DAY + m.middle("s"),
        "regr_count": lambda: m.n,
        "regr_avgx": lambda: m.middle("x"),
        "regr_avgy": lambda: m.middle("y"),
        "regr_sxx": lambda: m.n * m.variance("x"),
        "regr_syy": lambda: m.n * m.variance("y"),
        "regr_sxy": lambda: m.n * m.covariance,
        "covar_pop": lambda: m.covariance,
        "covar_samp": lambda: m.covariance * m.sampled,
        "corr": lambda: m.correlation,
        "regr_r2": lambda: m.correlation**2,
        "regr_slope": lambda: m.slope,
        "regr_intercept": lambda: m.middle("y") - m.slope * m.middle("x"),
    }
    return formulas[statistic]()
