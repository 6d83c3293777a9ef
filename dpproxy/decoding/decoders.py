"""From stored reports to counts that support each candidate.

Knows: claims, integers. Must not know: SQL, tables, ledgers, who asks. Reports were randomised on devices, so that nothing here
adds noise and nothing is charged; what comes out is a function of reports. Counts are exact integers: `decode` gives C of a
candidate, which with the number of reports n makes the estimate `law.slope` C + `law.offset` n. Reports outside their space are
no reports: they count neither in C nor in n, and `Tally.outside` says how many there are.

Where values share cells of hash functions, an estimate's error has a part that stays the same from day to day. Its size follows
from F2, the sum of squared true counts, and `Tally.squares` estimates F2 from the sketch itself: so it holds for an open
vocabulary, of which no list of candidates knows all values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from dpproxy.local.claims import Binary, Claim, CountMean, Direct, Hadamard, Hashed, Law, Levels, Plane, Unary
from dpproxy.local.hashes import PRIME, polynomial
from dpproxy.local.planes import size

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]
Int32 = npt.NDArray[np.int32]
Decodable: TypeAlias = Binary | Direct | Unary | Plane | Hashed | CountMean | Hadamard | Levels
"""Claims whose reports support candidates; of numbers from elsewhere only sums are taken."""

CHUNK: Final = 2**16
"""Entries that are worked on at once, so that they stay in the processor's cache."""

LINES: Final = 3 * 10**7
"""Up to so many points of all candidates' hyperplanes they are added one by one; a Fourier transform takes over above."""

FEW: Final = 3
"""Candidates of which each costs less by itself than the transform of a whole sketch."""

KEPT: Final = 2**22
"""Entries of the most cells of candidates that are kept for the next plain group."""


class DecodingError(Exception):
    """There is a fault between plan and decoder. Its text is fixed and says nothing about data."""


@dataclass(frozen=True)
class Tally:
    """The reports of one plain group: how many there are of each, `outside` their space none."""

    claim: Decodable
    cells: Int64
    outside: int

    @cached_property
    def reports(self) -> int:
        """The number of reports, n."""
        first = self.claim.space.size if self.claim.space.form == "bits" else 0
        return int(self.cells[first:].sum())

    @cached_property
    def squares(self) -> float:
        """An estimate of F2, unbiased but for being cut at n; 0 where values share no cells."""
        match self.claim:
            case Hashed() | CountMean() | Hadamard():
                return _squares(self.claim, self)
            case _:
                return 0.0


def tally(claim: Decodable, reports: Int64, counts: Int64) -> Tally:
    """Return how often each report stands in a group; `counts[i]` of `reports[i]`, which may come again."""
    space = claim.space
    inside = (reports >= 0) & (reports < space.length)
    cells = np.zeros(space.length, np.int64)
    np.add.at(cells, reports[inside], counts[inside])
    cells.setflags(write=False)
    return Tally(claim, cells, int(counts[~inside].sum()))


def decode(claim: Decodable, reports: Int64, counts: Int64, candidates: Int64) -> Int64:
    """Return C of each candidate: a number of a list, or the integer that `hashes.number` makes of a text."""
    return supporting(tally(claim, reports, counts), candidates)


def supporting(tallied: Tally, candidates: Int64) -> Int64:
    """Return C of each candidate from a tally. Raises DecodingError for a candidate that is not one."""
    claim, cells = tallied.claim, tallied.cells
    if candidates.size and not (candidates.min() >= 0 and candidates.max() < (claim.candidates or PRIME)):
        raise DecodingError("a candidate is outside the claim's values")
    match claim:
        case Binary() | Direct() | Unary() | Levels():
            return cells[candidates]
        case Plane():
            return _on_planes(claim, cells, candidates)
        case Hashed() | CountMean():
            return _gathered(claim, cells[: claim.functions * claim.width].reshape(claim.functions, claim.width), candidates)
        case Hadamard() if candidates.size <= FEW:
            return _by_signs(claim, cells, candidates)
        case Hadamard():
            return _gathered(claim, transformed(claim, cells), candidates)
        case _:
            assert_never(claim)


def law(claim: Claim, candidate: int) -> Law:
    """Return the law of one candidate: that of all of them, but for the value no of `Binary`."""
    return claim.no if isinstance(claim, Binary) and candidate == 0 else claim.law


# Hyperplanes


def _digits(numbers: Int64, base: int, dimension: int) -> Int64:
    """The points of numbers, a row a point (`planes.point`)."""
    sizes = np.array([size(base, free) for free in range(dimension + 1)])
    free = np.searchsorted(sizes, numbers, side="right") - 1
    values: Int64 = (numbers - sizes[free] + base**free)[:, None] // base ** np.arange(dimension - 1, -1, -1) % base
    return values


def _on_planes(claim: Plane, cells: Int64, candidates: Int64) -> Int64:
    """For each candidate the reports in its hyperplane."""
    grid, total = claim.base**claim.dimension, float(cells.sum()) * claim.base
    if candidates.size * claim.plane > LINES and grid <= 2**24 and total < 2**44:
        return _by_transform(claim, cells, candidates)
    if candidates.size * claim.plane <= KEPT:
        return _sums(cells, _kept_points(claim.base, claim.dimension, candidates.tobytes()))
    step = max(1, 4 * CHUNK // claim.plane)
    lots = (candidates[i : i + step] for i in range(0, candidates.size, step))
    return np.concatenate([_sums(cells, points_of(claim.base, claim.dimension, lot)) for lot in lots])


def _sums(cells: Int64, places: Int64) -> Int64:
    """The sums of cells, row by row."""
    sums: Int64 = cells[places].sum(axis=1)
    return sums


@lru_cache(maxsize=2)
def _kept_points(base: int, dimension: int, candidates: bytes) -> Int64:
    """The points of candidates' hyperplanes, kept for the next plain group of the same statement."""
    return points_of(base, dimension, np.frombuffer(candidates, np.int64))


def points_of(base: int, dimension: int, candidates: Int64) -> Int64:
    """Return the points of candidates' hyperplanes, a row a candidate, each point as `planes.inside` makes it."""
    rest = _digits(np.arange(size(base, dimension - 1)), base, dimension - 1)
    centres, points = _digits(candidates, base, dimension), np.empty((candidates.size, len(rest)), np.int64)
    leading = np.argmax(centres != 0, axis=1)
    inverse = np.array([0, *(pow(i, -1, base) for i in range(1, base))])
    sizes = np.array([size(base, free) for free in range(dimension)])
    places = base ** np.arange(dimension - 1, -1, -1)
    for place in np.unique(leading):
        chosen = np.flatnonzero(leading == place)
        digit = -(np.delete(centres[chosen], place, axis=1) @ rest.T) % base
        before, behind = rest[:, :place], rest[:, place:]
        values = before @ places[:place] + behind @ places[place + 1 :] + digit * places[place]
        first = ~before.any(axis=1) & (digit != 0)  # the digit leads: the rest is scaled by its inverse
        scaled = (behind[None] * inverse[digit][..., None] % base) @ places[place + 1 :] + places[place]
        values = np.where(first, scaled, values)
        free = np.searchsorted(base ** np.arange(1, dimension), values, side="right")
        points[chosen] = values - base**free + sizes[free]
    return points


def _by_transform(claim: Plane, cells: Int64, candidates: Int64) -> Int64:
    """Many hyperplanes at once: the Fourier transform over all multiples of points is base C - n, a real number."""
    base, dimension = claim.base, claim.dimension
    places = base ** np.arange(dimension - 1, -1, -1)
    grid = np.zeros(base**dimension)
    for first in range(0, claim.points, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, claim.points))
        points = _digits(numbers, base, dimension)
        for scale in range(1, base):
            grid[points * scale % base @ places] = cells[numbers]
    waves = np.fft.rfftn(grid.reshape((base,) * dimension)).real
    points = _digits(candidates, base, dimension)
    points = np.where(points[:, -1:] > base // 2, -points % base, points)  # the half that is left out has the same numbers
    counts: Int64 = np.rint((waves[tuple(points.T)] + cells.sum()) / base).astype(np.int64)
    return counts


# Sketches


def _signs(claim: Hadamard, cells: Int64) -> Int64:
    """Sums of +1 and -1, a row a hash function, a column a column of the Hadamard matrix."""
    pairs = cells.reshape(claim.functions, claim.width, 2)
    signs: Int64 = pairs[..., 1] - pairs[..., 0]
    return signs


def transformed(claim: Hadamard, cells: Int64) -> Int64:
    """Return the sums of signs, each row times the Hadamard matrix: as many passes in place as the width has bits."""
    sums, half = _signs(claim, cells), 1
    while half < claim.width:
        pairs = sums.reshape(claim.functions, -1, 2, half)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        low += high
        high *= -2
        high += low
        half *= 2
    return sums


def _by_signs(claim: Hadamard, cells: Int64, candidates: Int64) -> Int64:
    """The same for few candidates: each one's row of the matrix, without transforming what nobody asks for."""
    signs, columns = _signs(claim, cells), np.arange(claim.width, dtype=np.int32)
    sums = np.zeros(candidates.size, np.int64)
    for i in range(candidates.size):
        cell = np.concatenate(list(_places(claim, candidates[i : i + 1]))) & (claim.width - 1)
        minus = (np.bitwise_count(columns & cell) & 1).astype(bool)
        sums[i] = signs.sum() - 2 * signs[minus].sum()
    return sums


def _gathered(claim: Hashed | CountMean | Hadamard, table: Int64, candidates: Int64) -> Int64:
    """The sum over all hash functions of what stands in each candidate's cell."""
    sums = np.zeros(candidates.size, np.int64)
    flat = table.reshape(-1)
    for place in _places(claim, candidates):
        sums += flat[place].sum(axis=0)
    return sums


def _places(claim: Hashed | CountMean | Hadamard, candidates: Int64) -> Iterator[Int32]:
    """The cells of candidates, a row a hash function, in lots of functions."""
    if claim.functions * candidates.size <= KEPT:
        yield _kept_places(claim, candidates.tobytes())
        return
    step = max(1, CHUNK // max(1, candidates.size))
    for first in range(0, claim.functions, step):
        yield places(claim, candidates, first, min(first + step, claim.functions))


@lru_cache(maxsize=2)
def _kept_places(claim: Hashed | CountMean | Hadamard, candidates: bytes) -> Int32:
    """All cells of candidates, kept for the next plain group of the same statement."""
    values = np.frombuffer(candidates, np.int64)
    step = max(1, CHUNK // max(1, values.size))
    lots = [places(claim, values, i, min(i + step, claim.functions)) for i in range(0, claim.functions, step)]
    return np.concatenate(lots)


def places(claim: Hashed | CountMean | Hadamard, candidates: Int64, first: int, end: int) -> Int32:
    """Return the cells of candidates by hash functions `first` to below `end`, counted over all functions.

    The polynomial of `hashes`, with remainders of the Mersenne prime by shifts.
    """
    a, b, c = _coefficients(claim.seed, claim.functions)[:, first:end, None]
    x = candidates.astype(np.uint64)
    value = _remainder(_remainder(a * x + b) * x + c)
    value -= PRIME * (value >= PRIME).astype(np.uint64)
    cells = (value & np.uint64(claim.width - 1)) if claim.width.bit_count() == 1 else value % np.uint64(claim.width)
    return (cells + np.arange(first, end, dtype=np.uint64)[:, None] * np.uint64(claim.width)).astype(np.int32)


@lru_cache(maxsize=8)
def _coefficients(seed: str, functions: int) -> UInt64:
    """The polynomials of all hash functions: three rows, a column a function."""
    rows = [(f.a, f.b, f.c) for f in (polynomial(seed, j, 1) for j in range(functions))]
    return np.array(rows, np.uint64).T


def _remainder(value: UInt64) -> UInt64:
    """A number of the same remainder, at most `PRIME` + 1."""
    value = (value & np.uint64(PRIME)) + (value >> np.uint64(31))
    return (value & np.uint64(PRIME)) + (value >> np.uint64(31))


def _squares(claim: Hashed | CountMean | Hadamard, tallied: Tally) -> float:
    """F2 from a sketch.

    Let X of a cell be the debiased count of reports there, such that one report adds 1 to its own cell and 0 to others in the
    mean, and `moment` in all to the sum of squares. Then the sum of X^2, less n (moment - 1), is the sum of squares of true
    counts of all cells in the mean. Two devices share a function with 1 / k, and then a cell for the same value, or with 1 / m.
    """
    n, k, m = tallied.reports, claim.functions, claim.width
    sums, moment = _cell_squares(claim, tallied.cells)
    pairs = sums - n * moment  # ordered pairs of devices that share a cell
    return min(max((k * pairs + n - n * n / m) / (1 - 1 / m), float(n > 0)), float(n) * n)


def _cell_squares(claim: Hashed | CountMean | Hadamard, cells: Int64) -> tuple[float, float]:
    """The sum of X^2 over all cells, and what one report adds to it in the mean."""
    m, p = claim.width, float(claim.keep)
    match claim:
        case Hadamard():
            scale = 1 / (2 * p - 1) ** 2
            return float(np.square(_signs(claim, cells), dtype=np.float64).sum()) * m * scale, m * scale
        case Hashed():
            q = (1 - p) / (m - 1)
            rows = cells.reshape(-1, m)
            reports = rows.sum(axis=1, keepdims=True)
            moment = ((1 - q) ** 2 + (m - 1) * q * q) / (p - q) ** 2
        case CountMean():
            q = 1 - p
            rows, reports = cells[: claim.space.size].reshape(-1, m), cells[claim.space.size :, None]
            moment = 1 + m * p * q / (p - q) ** 2
    return float(np.square((rows - q * reports) / (p - q)).sum()), moment
