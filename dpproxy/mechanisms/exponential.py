"""Choosing a grid point by its score, exactly: quantiles, extremes, the most frequent value.

Knows: integers, scores, random bits. Must not know: tables, plans. All groups of an answer are worked on at once.

The mechanism is the exponential mechanism (McSherry & Talwar 2007): P(point) ~ exp(-eta * gap), gap = how far its score
is from the group's best. With eta = epsilon / (2 sensitivity), or epsilon / sensitivity where more data can only raise
scores, its loss lies in an interval of length epsilon (Dong, Durfee, Rogers 2020: `Loss.bounded_range`), which composes
four times better than an arbitrary epsilon-DP mechanism; that is why it is used and not permute-and-flip, whose error
is a little smaller. Points between two data values share a score: they are one *run* of the grid, so the work depends
on the data values there are, not on the size of the grid, and the full resolution is reached in one stage (two stages
at half the epsilon each would have a larger error: it grows with ln size / epsilon). Of millions of data values `thinned`
leaves those that can be chosen at all.

Sampling is by rejection over integers, no floating point: a run is proposed with weight length * 2**-y, y =
floor(eta * gap * log2 e), an upper bound of what it should have, and accepted by an exact coin, more often than not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpproxy.mechanisms.coins import Coin, Entropy, below, toss
from dpproxy.mechanisms.noise import Int64
from dpproxy.privacy.real_bounds import ln_bounds
from dpproxy.privacy.selection_ranks import extreme_rank

MAX_SIZE = 2**40
"""Points of a grid: lengths of runs, times a factor of the weights, stay within 64 bits."""

MAX_COUNT = 2**40
"""Counts are held here: beyond any table, and products with denominators stay within 64 bits."""

MAX_DENOMINATOR = 2**20
_WEIGHT_BITS = 40  # of proposals: tails that round up to 1 are then proposed next to never
_FAR = 2**12  # runs whose weight is below 2**-4096 of the best are all alike to a proposal; their coin is exact still


@dataclass(frozen=True)
class Counts:
    """These counts say how many contributions fall on each grid point, for groups 0..groups-1; ordered by (group, point),
    counts > 0."""

    group: Int64
    point: Int64
    count: Int64
    groups: int


@dataclass(frozen=True)
class Runs:
    """Stretches of the grid with one score each: `length` points from `start`, `gap` >= 0 below the group's best.

    Ordered by group; every group has at least one run with gap 0, and its runs cover the grid once.
    """

    group: Int64
    start: Int64
    length: Int64
    gap: Int64
    groups: int


def counts(group: Int64, point: Int64, count: Int64, groups: int) -> Counts:
    """Sort and merge rows (any order, repeats allowed); rows without contributions are left out."""
    order = np.lexsort((point, group))
    group, point, count = group[order], point[order], np.clip(count[order], 0, MAX_COUNT)
    first = np.flatnonzero(np.r_[True, (group[1:] != group[:-1]) | (point[1:] != point[:-1])][: group.size])
    merged = np.minimum(np.add.reduceat(count, first), MAX_COUNT) if first.size else count
    some = merged > 0
    return Counts(group[first][some], point[first][some], merged[some], groups)


@dataclass(frozen=True)
class _Ranks:
    """Runs with, for each, how many contributions lie below it (`less`), up to its end (`upto`), and in all."""

    group: Int64
    start: Int64
    length: Int64
    less: Int64
    upto: Int64
    total: Int64


def _ranks(data: Counts, size: int) -> _Ranks:
    """A group with m data points has m + 1 gaps around them: rows 2i are gaps, rows 2i + 1 points, of each group.

    Gaps of length zero are dropped. Counts are held at MAX_COUNT, which no sensitivity grows by.
    """
    ends = np.searchsorted(data.group, np.arange(data.groups + 1))  # where each group's data begin
    sums = np.r_[0, np.cumsum(data.count)]
    place = np.arange(data.group.size)
    total_of = sums[ends[1:]] - sums[ends[:-1]]
    # one gap before each data point, and one after the last of each group
    gap_group = np.r_[data.group, np.arange(data.groups)]
    gap_start = np.r_[_previous(data, ends) + 1, _last(data, ends) + 1]
    gap_end = np.r_[data.point, np.full(data.groups, size)]
    gap_less = np.r_[sums[place] - sums[ends[data.group]], total_of]
    group = np.r_[gap_group, data.group]
    start = np.r_[gap_start, data.point]
    length = np.r_[gap_end - gap_start, np.ones_like(data.point)]
    less = np.r_[gap_less, gap_less[: place.size]]
    upto = np.r_[gap_less, gap_less[: place.size] + data.count]
    keep = np.flatnonzero(length > 0)
    keep = keep[np.lexsort((start[keep], group[keep]))]
    held = (np.minimum(x[keep], MAX_COUNT) for x in (less, upto, total_of[group]))
    return _Ranks(group[keep], start[keep], length[keep], *held)


def _previous(data: Counts, ends: Int64) -> Int64:
    """The data point before each in its group; -1 for the first."""
    previous = np.roll(data.point, 1)
    firsts = ends[:-1][ends[:-1] < ends[1:]]
    previous[firsts] = -1
    return previous


def _last(data: Counts, ends: Int64) -> Int64:
    """The last data point of each group; -1 for groups without data."""
    last = np.full(data.groups, -1, dtype=np.int64)
    some = ends[:-1] < ends[1:]
    last[some] = data.point[ends[1:][some] - 1]
    return last


def _runs(group: Int64, start: Int64, length: Int64, misses: Int64, groups: int) -> Runs:
    """Runs from how far each misses (less is better)."""
    firsts = np.searchsorted(group, np.arange(groups))
    return Runs(group, start, length, misses - np.minimum.reduceat(misses, firsts)[group], groups)


def quantile_runs(data: Counts, size: int, fraction: Fraction, rank: int, offset: int = 0) -> Runs:
    """Say by how many ranks each point misses the quantile, in units of 1/denominator ranks.

    With fraction a/d, n contributions, L below a point and U up to it, PERCENTILE_DISC's value is the only point with
    d L < a n <= d U; a point misses by max(d L - a n + 1, a n - d U, 0). One contribution more moves this by at most
    max(a, d - a). Fractions 0 and 1 mean MIN and MAX: the `rank`-th lowest (highest) contribution, L < rank <= U, since
    with every point below the lowest as good as it, one of those would be chosen; one contribution moves it by 1.

    With an `offset` the rank aimed at is a n / d + offset, whose misses move by no more. It may be below 0, or beyond n: one more
    candidate, before the grid's first point or after its last, has all ranks beyond.
    """
    r = _ranks(data, size)
    if fraction == 0:
        over, under = r.less - (rank - 1), rank - r.upto
    elif fraction == 1:
        over, under = (r.total - r.upto) - (rank - 1), rank - (r.total - r.less)
    else:
        a, d = fraction.numerator, fraction.denominator
        aim = a * r.total + d * offset
        over, under = d * r.less - aim + 1, aim - d * r.upto
    misses = np.maximum(np.maximum(over, under), 0)
    if not offset:
        return _runs(r.group, r.start, r.length, misses, data.groups)
    ends = np.searchsorted(r.group, np.arange(data.groups), side="left" if offset < 0 else "right")
    total = r.total[ends - (offset > 0)] if ends.size else ends
    beyond = np.maximum(a * total + d * offset if offset < 0 else d * total - a * total - d * offset + 1, 0)
    start = np.insert(r.start, ends, -1 if offset < 0 else size)
    group, length = np.insert(r.group, ends, np.arange(data.groups)), np.insert(r.length, ends, 1)
    return _runs(group, start, length, np.insert(misses, ends, beyond), data.groups)


def score_step(fraction: Fraction) -> int:
    """Return the most that one contribution moves a score of `quantile_runs`."""
    return max(fraction.numerator, fraction.denominator - fraction.numerator)


def mode_runs(data: Counts, size: int) -> Runs:
    """Score each point by its count: one contribution more raises one score by 1 and lowers none."""
    r = _ranks(data, size)
    return _runs(r.group, r.start, r.length, r.less - r.upto, data.groups)


def quantile(
    data: Counts,
    size: int,
    fraction: Fraction,
    per_unit: int,
    epsilon: Fraction,
    entropy: Entropy,
    offset: int = 0,
) -> Int64:
    """Choose a grid point for each group, epsilon-DP per group when a unit has at most `per_unit` contributions there.

    Raises ValueError for sizes, fractions and offsets out of range.
    """
    if not (0 < size <= MAX_SIZE and 0 <= fraction <= 1 and fraction.denominator <= MAX_DENOMINATOR):
        raise ValueError("grid or fraction out of range")
    if offset and (fraction in (0, 1) or abs(offset) > MAX_COUNT):
        raise ValueError("offset out of range")
    eta = epsilon / (2 * per_unit * score_step(fraction))
    runs = quantile_runs(data, size, fraction, extreme_rank(size, per_unit, epsilon), offset)
    return np.clip(choose(runs, eta, entropy), 0, size - 1)


def mode(data: Counts, size: int, per_unit: int, epsilon: Fraction, entropy: Entropy) -> Int64:
    """Choose the point of (nearly) the highest count for each group; scores only grow with data, hence no factor 2.

    Raises ValueError for a size out of range.
    """
    if not 0 < size <= MAX_SIZE:
        raise ValueError("grid out of range")
    return choose(mode_runs(data, size), epsilon / per_unit, entropy)


def top(scores: Int64, k: int, eta: Fraction, absent: int | None, entropy: Entropy) -> Int64:
    """Choose the positions of (nearly) the k highest scores, highest first, each chosen by the exponential mechanism from the
    rest.

    Undeclared keys: `absent` is the score of "no further one" (`threshold.top_threshold`); when that is chosen the list
    ends. Each choice costs eta * (most that one unit raises any score), whatever the number of groups a unit reaches.
    """
    here = np.arange(scores.size, dtype=np.int64)
    if absent is not None:
        scores, here = np.r_[scores, absent].astype(np.int64), np.r_[here, -1].astype(np.int64)
    found: list[int] = []
    while len(found) < k and here.size:
        zeros, ones = np.zeros_like(here), np.ones_like(here)
        at = int(choose(Runs(zeros, np.arange(here.size), ones, scores.max() - scores, 1), eta, entropy)[0])
        if here[at] < 0:
            break
        found.append(int(here[at]))
        scores, here = np.delete(scores, at), np.delete(here, at)
    return np.array(found, dtype=np.int64)


def choose(runs: Runs, eta: Fraction, entropy: Entropy) -> Int64:
    """Choose one grid point for each group, P(point) ~ exp(-eta * gap of its run)."""
    made = proposals(runs, eta)
    firsts = np.searchsorted(runs.group, np.arange(runs.groups + 1))
    chosen = np.full(runs.groups, -1, dtype=np.int64)
    pending = np.arange(runs.groups)
    while pending.size:
        proposed = _propose(made.weight, firsts, pending, entropy)
        coins = (acceptance(runs, eta, made, run) for run in proposed.tolist())
        accepted = np.array([coin is None or toss(coin, entropy) for coin in coins], dtype=np.bool_)
        chosen[pending[accepted]] = proposed[accepted]
        pending = pending[~accepted]
    return runs.start[chosen] + below(runs.length[chosen], entropy)


@dataclass(frozen=True)
class Proposals:
    """weight of a run >= length * exp(-eta * gap) * 2**shift of its group; weights are at most 2**40."""

    weight: Int64
    shift: Int64


@lru_cache(maxsize=4096)
def _doublings(eta: Fraction) -> Fraction:
    """A lower bound of eta * log2(e)."""
    return eta / ln_bounds(Fraction(2))[1]


def proposals(runs: Runs, eta: Fraction) -> Proposals:
    """Return integer weights, at most twice what they stand for, but for those that round up to 1."""
    kappa = min(_doublings(eta), Fraction(_FAR))
    gap = np.minimum(runs.gap, int(_FAR / kappa) + 1)
    halvings = gap * int(kappa * 2**48) >> 48  # at most (2**12 + 2**12) * 2**48: within 62 bits
    firsts = np.searchsorted(runs.group, np.arange(runs.groups))
    top_bits = np.maximum.reduceat(_bit_length(runs.length) - halvings, firsts)
    most = int(np.diff(np.r_[firsts, runs.group.size]).max(initial=1))  # weights of a group add up within 62 bits
    shift = min(_WEIGHT_BITS, 62 - most.bit_length()) - top_bits
    by = shift[runs.group] - halvings
    weight = np.where(by >= 0, runs.length << np.clip(by, 0, 62), -(-runs.length >> np.clip(-by, 0, 62)))
    return Proposals(weight, shift)


def acceptance(runs: Runs, eta: Fraction, made: Proposals, run: int) -> Coin | None:
    """Return the coin that brings a proposed run from its weight down to what it stands for; None for certainty."""
    gap, shift = int(runs.gap[run]), int(made.shift[runs.group[run]])
    factor = Fraction(int(runs.length[run])) * Fraction(2) ** shift / int(made.weight[run])
    return None if gap == 0 and factor == 1 else Coin(eta * gap, factor=factor)


def _bit_length(values: Int64) -> Int64:
    """Of positive integers up to 2**40."""
    powers = np.left_shift(np.int64(1), np.arange(_WEIGHT_BITS + 2, dtype=np.int64))
    return np.searchsorted(powers, values, side="right").astype(np.int64)


def _propose(weight: Int64, firsts: Int64, pending: Int64, entropy: Entropy) -> Int64:
    """A run for each pending group, with probability proportional to its weight."""
    sums = np.r_[np.uint64(0), np.cumsum(weight.astype(np.uint64))]  # modulo 2**64: differences in a group are exact
    totals = (sums[firsts[pending + 1]] - sums[firsts[pending]]).astype(np.int64)
    drawn = below(totals, entropy).astype(np.uint64)
    low, high = firsts[pending], firsts[pending + 1] - 1
    base = sums[low]
    while (low < high).any():  # binary search in all groups at once: the first run whose end is beyond `drawn`
        middle = (low + high) >> 1
        beyond = sums[middle + 1] - base > drawn
        low, high = np.where(beyond, low, middle + 1), np.where(beyond, middle, high)
    return low
