"""Which ranks the mechanisms on scores aim at, and how many draws share the epsilon of one column's selections.

Knows: sizes of grids, fractions, epsilon. Must not know: data, SQL, samplers. Ranks are whole contributions, rounded so that a
draw misses its aim no more often than stated. None of these numbers is part of the guarantee but `draws`, by which epsilon is
divided; the others decide only how useful an answer is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from dpproxy.privacy.real_bounds import ln_bounds


@lru_cache(maxsize=4096)
def extreme_rank(size: int, per_unit: int, epsilon: Fraction) -> int:
    """Return which order statistic MIN and MAX are: the t-th lowest contribution, t = ceil((ln size + 3) * 2 k / epsilon).

    All points below the lowest contribution miss rank t by t, so that together they weigh size * exp(-epsilon t /
    (2 k)) <= e**-3 of the right one: fewer than 1 answer in 20 lies outside the data. Smaller t would not be seen.
    """
    wanted = (ln_bounds(Fraction(size))[1] + 3) * 2 * per_unit / epsilon
    return max(1, math.ceil(wanted))


@lru_cache(maxsize=4096)
def end_rank(size: int, fraction: Fraction, per_unit: int, epsilon: Fraction, failure: Fraction) -> int:
    """Return how many ranks from a quantile an end of its interval aims, so that it is on the wrong side with probability
    `failure` at most, whatever the data.

    The fraction is a / d, scores are in d-ths of ranks (`exponential.quantile_runs`), eta is that of one draw. Some candidate has
    the rank that is aimed at, or lies beyond the grid; all on the other side of the quantile miss it by d * rank + 1 at least.
    There are at most `size` of these, so that together they weigh size * exp(-eta (d * rank + 1)) of the right one at most.
    """
    a, d = fraction.numerator, fraction.denominator
    misses = ln_bounds(size / failure)[1] * 2 * per_unit * max(a, d - a) / epsilon
    return max(1, math.ceil((misses - 1) / d))


def draws(fractions: Sequence[Fraction]) -> int:
    """Count the draws of equal epsilon that the quantiles of one column cost: MIN and MAX one each; of others, where they are
    three or more, one for each level of halving (`mechanisms.quantiles`); MODE, without fractions, one."""
    inner = len(set(fractions) - {0, 1})
    return max(1, len(set(fractions) & {0, 1}) + (inner if inner < 3 else inner.bit_length()))
