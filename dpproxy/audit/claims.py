"""Claims about devices held against the reports that are stored: tests that honest reports hardly ever fail.

Knows: claims, counts of reports. Must not know: databases, policies. Nobody knows what devices' true values are, so a test asks
what holds for all of them: how likely each report is lies between two probabilities, whatever the value. Three kinds:

- *Bounds.* Of n reports those in a set are at least as many as Binomial(n, least) and at most Binomial(n, most). Sets are single
  reports, candidates, and the set that looks worst in one half of the reports and is counted in the other half.
- *Draws.* Which hash function a device draws does not depend on its value: each is as frequent as another, and reports agree in
  it as often as chance has it. Devices that repeat themselves agree more often.
- *Days.* Counts of different days differ at least as much as devices' own chance makes them.

Sums of independent draws with different probabilities have lighter tails than a binomial variable of their mean (Hoeffding 1956).
Where all values are equally frequent, reports look the same by every epsilon: then nothing can be refuted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from dpproxy.decoding.decoders import Int64, supporting, tally
from dpproxy.local.claims import (
    Binary,
    Claim,
    CountMean,
    Direct,
    Duchi,
    Hadamard,
    Hashed,
    Laplace,
    Levels,
    Plane,
    Sequence,
    Unary,
)
from dpproxy.local.planes import size

Floats = npt.NDArray[np.float64]

ALARM: Final = 1e-3
"""How often an audit refutes a claim that is true: of all its tests together."""

OFTEN: Final = 10
"""Reports that are expected in a day, for a cell to be compared between days."""

PHANTOMS: Final = 512
"""Points that stand for no value, of which so many are looked at."""

WIDEST: Final = 2048
"""Cells of which the covariance is computed in full."""


@dataclass(frozen=True)
class Check:
    """A test of one claim. `chance`: how often honest reports look at least as odd; `told`: what was counted, and what claims
    allow."""

    what: str
    chance: float
    told: str


@dataclass(frozen=True)
class Stored:
    """Reports of one claim as integers, `cells[i]` of report i; of laplace and duchi `signs`: how many lie below and above.

    `days`: the same by day, empty where no day is stored. `outside`: reports that are none of the claim's.
    """

    claim: Claim
    cells: Int64
    outside: int
    days: tuple[Int64, ...] = ()
    signs: tuple[int, int, int] = (0, 0, 0)
    fresh: bool = True


def checks(stored: Stored, dice: np.random.Generator) -> Iterator[Check]:
    """Yield the tests of a claim. `dice` divides reports into halves."""
    if stored.outside:
        yield Check("reports outside the claim", 0.0, f"{stored.outside:,} reports that no such device sends")
    match stored.claim:
        case Laplace() | Duchi():
            yield from _signs(stored.claim, *stored.signs)
        case Sequence():
            yield from _sequence(stored.claim, stored.cells)
        case Hadamard():
            yield from _hadamard(stored.claim, stored.cells, dice, "")
        case Hashed():
            yield from _hashed(stored.claim, stored.cells, dice)
        case CountMean() | Unary():
            yield from _vectors(stored, dice)
        case Binary() | Direct() | Levels() | Plane():
            yield from _direct(stored, dice)


# --- three kinds of tests


def _bound(what: str, counts: Int64 | int, of: int, least: Fraction | float, most: Fraction | float) -> Iterator[Check]:
    """Sets of reports, each with a probability between two: the fewest and the most of them."""
    each = np.atleast_1d(np.asarray(counts, dtype=np.int64))
    if not of or not each.size:
        return
    few, many = int(each.min()), int(each.max())
    below, above = _below(few, of, float(least)), _below(of - many, of, 1 - float(most))
    if below <= above:
        said = f"{few:,} of {of:,}, where {float(least) * of:,.0f} or more are to be expected"
    else:
        said = f"{many:,} of {of:,}, where {float(most) * of:,.0f} or fewer are to be expected"
    yield Check(what, min(1.0, 2 * each.size * min(below, above)), said)


def _below(count: int, of: int, p: float) -> float:
    """The probability that Binomial(of, p) is at most a number, and 1 for numbers that are not below the mean."""
    if count >= of * p:
        return 1.0
    if count < 0 or p >= 1:
        return 0.0
    first = math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
    first += count * math.log(p) + (of - count) * math.log1p(-p)
    k = np.arange(count, max(0, count - 40 * math.isqrt(of) - 40), -1, dtype=np.float64)
    ratios = np.exp(np.cumsum(np.log(k) + math.log1p(-p) - np.log(of - k + 1) - math.log(p)))
    return min(1.0, math.exp(first) * (1 + float(ratios.sum())))


def _agreeing(what: str, counts: Int64) -> Iterator[Check]:
    """Pairs of reports that agree in a uniform draw: more than chance has it. Of few in a cell they are Poisson, of many the sum
    of squares is chi-squared; the larger probability counts."""
    n, kinds = int(counts.sum()), counts.size
    if n < 2 or kinds < 2:
        return
    pairs, expected = float((counts * (counts - 1)).sum()) / 2, n * (n - 1) / 2 / kinds
    squares = (2 * pairs + n - n * n / kinds) * kinds / n
    rare = _chi_squared(2 * expected, 2 * max(pairs, 1.0))
    dense = 1 - _chi_squared(squares, kinds - 1)
    said = f"{pairs:,.0f} pairs of reports agree, where {expected:,.0f} are to be expected"
    yield Check(what, max(rare, dense), said)


def _alike(counts: tuple[Int64, ...], sizes: tuple[int, ...], least: float, most: float, *, apart: bool) -> Iterator[Check]:
    """Counts of days that differ less than devices' chance alone makes them: reports that were sent again.

    The variance of a cell is smallest where each day's devices have the same values. Then the sum of squares about the mean, by
    that variance, has as many degrees of freedom as there are days less one in each cell. `apart`: cells are drawn apart.
    """
    shown = [i for i, n in enumerate(sizes) if n]
    if len(shown) < 2 or most >= 1:
        return
    days, n = np.array([counts[i] for i in shown], dtype=np.float64), np.array([sizes[i] for i in shown], dtype=np.float64)
    shares = days.sum(axis=0) / n.sum()
    often = np.minimum(shares, 1 - shares) * n.min() >= OFTEN
    if not often.any():
        return
    holders = np.clip((shares[often] - least) / (most - least), 0, 1)
    variance = holders * most * (1 - most) + (1 - holders) * least * (1 - least)
    squares = ((days[:, often] / n[:, None] - shares[often]) ** 2 * n[:, None]).sum(axis=0)
    ratio = float((squares / variance).mean()) / (len(n) - 1)
    free = (len(n) - 1) * (float(holders.size) if apart else _independent(holders, variance, least, most))
    said = f"counts of {len(n)} days differ by {100 * ratio:.0f} % of what chance alone makes"
    yield Check("days that are too much alike", _chi_squared(ratio * free, free), said)


def _independent(holders: Floats, variance: Floats, least: float, most: float) -> float:
    """How many independent cells have the same spread as these (Satterthwaite)."""
    some = slice(0, WIDEST)
    held, spread = holders[some], np.sqrt(variance[some])
    both = held[:, None] + held[None, :]
    shared = -(both * least * most + np.maximum(0, 1 - both) * least * least)
    related = shared / np.outer(spread, spread)
    np.fill_diagonal(related, 1)
    return float(held.size**2 / (related**2).sum()) * holders.size / held.size


def _chi_squared(value: float, free: float) -> float:
    """The probability that a chi-squared variable is at most a value (Wilson, Hilferty 1931)."""
    if value <= 0 or free <= 0:
        return 0.0
    spread = 2 / (9 * free)
    return NormalDist().cdf(((value / free) ** (1 / 3) - 1 + spread) / math.sqrt(spread))


def _halves(cells: Int64, dice: np.random.Generator) -> tuple[Int64, Int64]:
    """Each report goes into one of two halves by a coin."""
    first: Int64 = dice.binomial(cells, 0.5).astype(np.int64)
    return first, cells - first


def _rarest(half: Int64, least: float) -> Int64:
    """The cells that are together farthest below what is to be expected of them, in standard errors."""
    order = np.argsort(half, kind="stable")
    n, sizes = float(half.sum()), np.arange(1, half.size + 1)
    share = np.minimum(least * sizes, 1 - 1e-12)
    far = (np.cumsum(half[order]) - n * share) / np.sqrt(n * share * (1 - share) + 1)
    chosen: Int64 = order[: int(np.argmin(far)) + 1]
    return chosen


# --- mechanisms


def limits(claim: Binary | Direct | Levels | Plane) -> tuple[float, float]:
    """Return the least and the greatest probability of one report, over all values."""
    match claim:
        case Binary():
            return float(min(claim.if_yes, claim.if_no)), float(max(claim.if_yes, claim.if_no))
        case Plane():
            return float((1 - claim.inside) / (claim.points - claim.plane)), float(claim.inside / claim.plane)
        case Direct() | Levels():
            return float(claim.q), float(claim.p)


def _direct(stored: Stored, dice: np.random.Generator) -> Iterator[Check]:
    claim, cells, n = stored.claim, stored.cells, int(stored.cells.sum())
    assert isinstance(claim, Binary | Direct | Levels | Plane)
    least, most = limits(claim)
    if isinstance(claim, Binary):
        yield from _bound("answers of yes", int(cells[1]), n, least, most)
    else:
        yield from _bound("reports of one kind", cells, n, least, most)
        yield from _rare(claim, cells, dice)
    if isinstance(claim, Plane):
        yield from _candidates(claim, cells)
    if stored.fresh:  # of yes or no the one is what the other leaves
        days = tuple(day[1:] if isinstance(claim, Binary) else day for day in stored.days)
        yield from _alike(days, tuple(int(day.sum()) for day in stored.days), least, most, apart=False)


def _rare(claim: Direct | Levels | Plane, cells: Int64, dice: np.random.Generator) -> Iterator[Check]:
    """The set of reports that is rarest in one half, counted in the other half."""
    least, most = limits(claim)
    first, second = _halves(cells, dice)
    chosen = _rarest(first, least)
    low, high = chosen.size * least, min(1.0, chosen.size * most)
    if isinstance(claim, Plane):  # whatever the value, some of the set lie in its hyperplane
        member = np.zeros(cells.size, np.int64)
        member[chosen] = 1
        met = supporting(tally(claim, np.arange(cells.size), member), np.arange(claim.candidates))
        low, high = (chosen.size * least + float(number) * (most - least) for number in (met.min(), met.max()))
    elif chosen.size < cells.size:
        low, high = chosen.size * least, chosen.size * least + (most - least)
    else:
        return
    yield from _bound("rare reports together", int(second[chosen].sum()), int(second.sum()), low, min(high, 1.0))


def _candidates(claim: Plane, cells: Int64) -> Iterator[Check]:
    """What supports each value, and points that stand for none: of these it is known how many reports support them."""
    n = int(cells.sum())
    tallied = tally(claim, np.arange(cells.size), cells)
    yield from _bound("support of one value", supporting(tallied, np.arange(claim.candidates)), n, claim.q, claim.p)
    free = np.arange(claim.candidates, min(claim.points, claim.candidates + PHANTOMS))
    if free.size:
        whole = replace(claim, candidates=claim.points)
        phantoms = supporting(tally(whole, np.arange(cells.size), cells), free)
        yield from _bound("support of what is no value", phantoms, n, claim.q, claim.q)
        yield from _scattered(claim, phantoms, n)


def _scattered(claim: Plane, phantoms: Int64, n: int) -> Iterator[Check]:
    """Support of points that stand for no value varies as that of independent reports does; reports sent again vary more."""
    q = float(claim.q)
    both = size(claim.base, claim.dimension - 2), claim.plane - size(claim.base, claim.dimension - 2)
    if n * q < OFTEN or not all(both) or phantoms.size < 2:
        return
    ratio = float(((phantoms - n * q) ** 2).mean()) / (n * q * (1 - q))
    free = phantoms.size / 2  # points see each other: half as many are independent, by simulation at least
    said = f"it varies {ratio:.2f} times as much as independent reports of this claim make it"
    yield Check("spread of what is no value", 1 - _chi_squared(ratio * free, free), said)


def _hadamard(claim: Hadamard, cells: Int64, dice: np.random.Generator, of: str) -> Iterator[Check]:
    """Functions and columns are drawn uniformly; in the first column of the matrix the bit is +1 whatever the value."""
    bits = cells.reshape(claim.functions, claim.width, 2)
    drawn, n = bits.sum(axis=2), int(cells.sum())
    yield from _bound(f"draws of a hash function{of}", drawn.sum(axis=1), n, 1 / claim.functions, 1 / claim.functions)
    yield from _bound(f"draws of a column{of}", drawn.sum(axis=0), n, 1 / claim.width, 1 / claim.width)
    yield from _agreeing(f"reports sent again{of}", drawn.ravel())
    first = bits[:, 0, :].sum(axis=0)
    yield from _bound(f"bits that are known{of}", int(first[1]), int(first.sum()), claim.keep, claim.keep)
    one, other = _halves(bits, dice)
    rarer = one[:, :, 1] < one[:, :, 0]
    counted = int(np.where(rarer, other[:, :, 1], other[:, :, 0]).sum())
    yield from _bound(f"rarer bits together{of}", counted, int(other.sum()), 1 - claim.keep, claim.keep)


def _sequence(claim: Sequence, cells: Int64) -> Iterator[Check]:
    """Reports by their three parts: the position, the fragment's report, the word's; `cells` are those of all three, apart."""
    fragments, words = claim.fragment.space.size, claim.word.space.size
    parts = np.split(cells, [claim.positions, claim.positions + fragments])
    dice = np.random.default_rng(0)
    yield from _bound("draws of a fragment", parts[0], int(parts[0].sum()), 1 / claim.positions, 1 / claim.positions)
    assert parts[2].size == words
    yield from _hadamard(claim.fragment, parts[1], dice, ", fragments")
    yield from _hadamard(claim.word, parts[2], dice, ", words")


def _hashed(claim: Hashed, cells: Int64, dice: np.random.Generator) -> Iterator[Check]:
    rows = cells.reshape(claim.functions, claim.width)
    drawn, n = rows.sum(axis=1), int(cells.sum())
    yield from _bound("draws of a hash function", drawn, n, 1 / claim.functions, 1 / claim.functions)
    yield from _agreeing("reports sent again", drawn)
    first, second = _halves(rows, dice)
    rarest = np.argsort(first, axis=1, kind="stable")[:, : claim.width // 2]
    counted = int(np.take_along_axis(second, rarest, axis=1).sum())
    least = rarest.shape[1] * (1 - claim.keep) / (claim.width - 1)
    yield from _bound("rare cells together", counted, int(second.sum()), least, 1.0)


def _vectors(stored: Stored, dice: np.random.Generator) -> Iterator[Check]:
    """Bits are drawn one by one: how many are set in all does not depend on values."""
    claim = stored.claim
    assert isinstance(claim, CountMean | Unary)
    own, other = (claim.keep, 1 - claim.keep) if isinstance(claim, CountMean) else (claim.own, claim.other)
    width, length = claim.space.width, claim.space.size
    bits, drawn = stored.cells[:length].reshape(-1, width), stored.cells[length:]
    n = int(drawn.sum())
    share = (own + (width - 1) * other) / width
    yield from _bound("bits that are set", int(bits.sum()), n * width, share, share)
    if len(drawn) > 1:
        yield from _bound("draws of a hash function", drawn, n, 1 / len(drawn), 1 / len(drawn))
        yield from _agreeing("reports sent again", drawn)
    else:
        yield from _bound("vectors with one bit", bits, n, other, own)
        if stored.fresh:
            days, sizes = tuple(d[:length] for d in stored.days), tuple(int(d[length:].sum()) for d in stored.days)
            yield from _alike(days, sizes, float(other), float(own), apart=True)
    first, second = _halves(bits, dice)
    rarest = np.argsort(first, axis=1, kind="stable")[:, : width // 2]
    counted = int(np.take_along_axis(second, rarest, axis=1).sum())
    yield from _bound("rare bits together", counted, n * rarest.shape[1], other / 2, min(1.0, float(own / 2)))


def _signs(claim: Laplace | Duchi, n: int, below: int, above: int) -> Iterator[Check]:
    """Numbers with noise: how many lie outside the range, of duchi how many are above its middle."""
    if isinstance(claim, Duchi):
        yield from _bound("reports above the middle", above, n, 1 - claim.plus, claim.plus)
        return
    least = math.exp(-float((claim.high - claim.low) / claim.scale)) / 2
    yield from _bound("reports below the range", below, n, least, 0.5)
    yield from _bound("reports above the range", above, n, least, 0.5)


def refuted(found: Mapping[str, tuple[Check, ...]]) -> dict[str, tuple[Check, ...]]:
    """Return the checks of each claim that honest reports would fail less often than `ALARM`, taken all together."""
    times = max(1, sum(map(len, found.values())))
    return {name: tuple(c for c in each if c.chance * times < ALARM) for name, each in found.items()}


def seen_from(stored: Stored, tests: int) -> float | None:
    """Return the least epsilon that would have been refuted in the place of the claim's, where some value is no device's; None
    where that is not known of a mechanism, or no epsilon would be."""
    claim, n = stored.claim, int(stored.cells.sum())
    if not isinstance(claim, Direct | Levels) or not n:
        return None
    d, q = stored.cells.size, float(claim.q)
    low, high = -1, math.floor(n * q)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if 2 * d * _below(middle, n, q) * tests < ALARM else (low, middle)
    other = low / n
    return math.log((1 - (d - 1) * other) / other) if other > 0 else None
