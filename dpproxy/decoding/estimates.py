"""What the devices of some reports said truly, as far as it can be told: estimates, their variances, their intervals.

Knows: laws of claims, decoded counts. Must not know: SQL, whose reports they are. Devices' true values are taken as they are, and
only what devices drew is random. Then an estimate is a sum of independent terms, one a report: slope c + offset, where c is what
the candidates that the report supports weigh together. Its variance is estimated by the sum of the squared terms, less the
squares of what they estimate: nothing need be known of the true values. Of one candidate these are 0 or 1, their own squares.

Numbers of devices of one claim have closer intervals (`decoding.bounds`). Whatever is added up of several claims, of plain
numbers, or over two columns has a normal one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpproxy.decoding import bounds
from dpproxy.decoding.decoders import Decodable, Int64, Tally, law, supporting, tally
from dpproxy.local.claims import Binary, Direct, Law, Levels, Plane, Unary
from dpproxy.local.laws import direct_law

Floats = npt.NDArray[np.float64]
Weights = Literal["own"] | tuple[int, ...]
"""`privacy.readings.Weights` of candidates that are known."""


@dataclass(frozen=True)
class Counted:
    """Numbers of devices among `reports`, of one claim: a law, and what supports the rows that are its own. `squares`: F2;
    `rest`: what is estimated is how many devices are left of all reports."""

    reports: int
    laws: tuple[tuple[Law, slice, Int64], ...]
    squares: float
    rest: bool = False


@dataclass(frozen=True)
class Found:
    """Estimates and their variances. `counted`: where they are numbers of devices of one claim; `most`: no true value is above
    it or below 0, None where nothing is known."""

    values: Floats
    variances: Floats
    counted: Counted | None = None
    most: int | None = None

    def all_but(self, total: int) -> Found:
        """Return what is left of a total that is known."""
        counted = replace(self.counted, rest=not self.counted.rest) if self.counted is not None else None
        return replace(self, values=total - self.values, counted=counted)

    def plus(self, other: Found) -> Found:
        """Add estimates of other reports of the same candidates."""
        most = None if self.most is None or other.most is None else self.most + other.most
        return Found(self.values + other.values, self.variances + other.variances, None, most)

    def ends(self, z: float) -> tuple[Floats, Floats]:
        """Return the ends that hold the true values, z standard errors away where these are normal."""
        if self.counted is not None:
            low, high = np.zeros(self.values.size), np.zeros(self.values.size)
            for one, rows, support in self.counted.laws:
                low[rows], high[rows] = bounds.bounds(one, support, self.counted.reports, self.counted.squares, z)
            return (self.counted.reports - high, self.counted.reports - low) if self.counted.rest else (low, high)
        half = z * np.sqrt(np.maximum(self.variances, 0))
        low, high = np.floor(self.values - half), np.ceil(self.values + half)
        return (low, high) if self.most is None else (np.clip(low, 0, self.most), np.clip(high, 0, self.most))


@dataclass(frozen=True)
class Cell:
    """What some reports say in one column, as integers; how devices drew them; the candidates as decoders number them."""

    claim: Decodable
    reports: Int64
    candidates: Int64

    @property
    def size(self) -> int:
        return self.candidates.size


def exact(total: int) -> Found:
    """Return a sum without noise as an estimate."""
    return Found(np.array([total], dtype=np.float64), np.zeros(1))


def noisy(total: int, reports: int, noise: Fraction | Literal["share"]) -> Found:
    """Return a sum over reports to each of which its device added noise of a variance. `share`: how many reports count, each by
    its own chance; the variance is largest where all chances are alike."""
    share = total / reports if reports else 0.0
    variance = reports * share * (1 - share) if noise == "share" else reports * float(noise)
    return Found(np.array([total], dtype=np.float64), np.array([variance]), None, reports if noise == "share" else None)


def single(cell: Cell, weights: Weights, amounts: Int64, squares: Int64, *, counts: bool, unlisted: int = 0) -> Found:
    """Estimate what the candidates' weights add up to over devices. `amounts`: what a device adds where it has a candidate of
    weight 1; `squares`: the squares of these; `unlisted`: what values weigh that are no candidates, which only sketches have.

    Each device has one value. So one weight may be taken off all candidates and given to all reports, which are known: the error
    of "all but x" is that of x.
    """
    added = tally(cell.claim, cell.reports, amounts)
    squared = added if counts else tally(cell.claim, cell.reports, squares)
    if weights == "own":
        return _of_each(cell, added, squared, counts=counts)
    each = np.array(weights, dtype=np.int64)
    common = unlisted if cell.claim.candidates is None else _common(each[: _known(cell).size], cell.claim)
    if not common:
        return _of_all(cell, each, added, squared, counts=counts)
    return _of_all(cell, common - each, added, squared, counts=counts).all_but(common * added.reports)


def _common(weights: Int64, claim: Decodable) -> int:
    """The weight that is best taken off all candidates: where the least is left to estimate. Where the estimates of all
    candidates always add up to the reports, none is better than another."""
    if not weights.size or isinstance(claim, Binary | Direct | Levels):
        return 0
    values, times = np.unique(np.append(weights, 0), return_counts=True)
    times[values == 0] -= 1
    left = [float(times @ (values - value).astype(np.float64) ** 2) for value in values]
    return int(values[int(np.argmin(left))])


def _of_each(cell: Cell, added: Tally, squared: Tally, *, counts: bool) -> Found:
    """The estimate of each candidate by itself."""
    known = _known(cell)
    support, n = supporting(added, known), added.reports
    values, variances = np.zeros(cell.size), np.zeros(cell.size)
    laws = tuple((one, rows, support[rows]) for one, rows in _laws(cell.claim, known.size))
    for one, rows, mine in laws:
        values[rows] = bounds.estimates(one, mine, n)
        if counts:
            variances[rows] = bounds.deviations(one, mine, n, added.squares) ** 2
        else:
            slope, offset = float(one.slope), float(one.offset)
            of_squares = supporting(squared, known[rows])
            terms = (slope**2 + 2 * slope * offset) * of_squares + offset**2 * squared.reports
            variances[rows] = terms - (slope * of_squares + offset * squared.reports)
    counted = Counted(n, laws, added.squares) if counts and known.size == cell.size else None
    return Found(values, variances, counted, n if counts else None)


def _of_all(cell: Cell, weights: Int64, added: Tally, squared: Tally, *, counts: bool) -> Found:
    """One estimate of all candidates that weigh anything."""
    places = np.flatnonzero(weights[: _known(cell).size])
    known, mine, n = cell.candidates[places], weights[places], added.reports
    slopes, offsets = _linear(cell.claim, places)
    support = supporting(added, known)
    shift, value = float(mine @ offsets), float(mine @ (slopes * support + offsets * n))
    most = n if counts else None
    if counts and places.size and isinstance(cell.claim, Binary | Direct):
        together = _together(cell.claim, places)
        if together is None:  # all values there are
            return Found(np.array([float(n)]), np.zeros(1), None, n)
        total = np.array([int(support.sum())])
        variance = bounds.deviations(together, total, n, 0.0) ** 2
        return Found(np.array([value]), variance, Counted(n, ((together, slice(None), total),), 0.0), most)
    if not places.size:
        return Found(np.zeros(1), np.zeros(1), None, most)
    if counts and places.size == 1 and mine[0] == 1:
        return _of_each(replace(cell, candidates=known), added, squared, counts=True)
    if isinstance(cell.claim, Unary):  # each bit of a vector is drawn by itself
        each = _of_each(replace(cell, candidates=known), added, squared, counts=counts)
        return Found(np.array([value]), np.array([mine.astype(np.float64) ** 2 @ each.variances]), None, most)
    if not isinstance(cell.claim, Binary | Direct | Levels | Plane):  # estimates of a sketch are not independent
        each = _of_each(replace(cell, candidates=known), added, squared, counts=counts)
        return Found(np.array([value]), np.array([float(abs(mine) @ np.sqrt(np.maximum(each.variances, 0))) ** 2]), None, most)
    numbers = np.arange(squared.cells.size)
    terms = float(slopes[0]) * _weighed(cell.claim, numbers, known, mine) + shift
    variance = np.array([squared.cells @ terms**2 - _sum_of_squares(cell, known, places, mine, value, squared, n)])
    return Found(np.array([value]), variance, None, most)


def _together(claim: Binary | Direct, places: Int64) -> Law | None:
    """The law of several values as one; None of all of them."""
    each = [law(claim, int(place)) for place in places]
    if len(each) == claim.candidates:
        return None
    q = sum((one.q for one in each), Fraction(0))
    return direct_law(q + each[0].p - each[0].q, q)


def _weighed(claim: Decodable, numbers: Int64, known: Int64, mine: Int64) -> Floats:
    """What the candidates that each report supports weigh together. Points of hyperplanes see each other."""
    if isinstance(claim, Plane):
        mutual = replace(claim, candidates=claim.points)
        return supporting(tally(mutual, known, mine), numbers).astype(np.float64)
    found = np.zeros(numbers.size)
    found[known] = mine
    return found


def _sum_of_squares(cell: Cell, known: Int64, places: Int64, mine: Int64, value: float, squared: Tally, n: int) -> float:
    """Of what the terms estimate. A number is rounded to a level at random: of it only the mean is known."""
    if isinstance(cell.claim, Levels):
        return value**2 / n if n else 0.0
    slopes, offsets = _linear(cell.claim, places)
    return float(mine**2 @ (slopes * supporting(squared, known) + offsets * squared.reports))


def joint(cells: Sequence[Cell], weights: Sequence[Weights | None], amounts: Int64, squares: Int64, *, counts: bool) -> Found:
    """Estimate over two independent columns: candidates of the first by those of the second, row by row."""
    sizes = [cell.size for cell in cells]
    of_each = [np.zeros(sizes, dtype=np.float64) for _ in (amounts, squares)]
    for table, added in zip(of_each, (amounts, squares), strict=True):
        np.add.at(table, (cells[0].reports, cells[1].reports), added)
    terms = [_terms(cell, weight) for cell, weight in zip(cells, weights, strict=True)]
    values = terms[0] @ of_each[0] @ terms[1].T
    true = [_terms(cell, _squared(weight)) for cell, weight in zip(cells, weights, strict=True)]
    variances = terms[0] ** 2 @ of_each[1] @ (terms[1] ** 2).T - true[0] @ of_each[1] @ true[1].T
    return Found(values.ravel(), variances.ravel(), None, int(amounts.sum()) if counts else None)


def _squared(weight: Weights | None) -> Weights | None:
    return tuple(w * w for w in weight) if isinstance(weight, tuple) else weight


def _terms(cell: Cell, weight: Weights | None) -> Floats:
    """What each report adds to each estimate."""
    if weight is None:
        return np.ones((1, cell.size))
    slopes, offsets = _linear(cell.claim, np.arange(cell.size))
    own: Floats = np.diag(slopes) + offsets[:, None]
    return own if weight == "own" else np.array([weight], dtype=np.float64) @ own


def _known(cell: Cell) -> Int64:
    """The candidates that a claim knows: of a list that has grown, the first."""
    return cell.candidates[: cell.claim.candidates]


def _laws(claim: Decodable, size: int) -> list[tuple[Law, slice]]:
    """Laws, and the candidates that each is of: of yes and no each has its own."""
    if isinstance(claim, Binary):
        return [(law(claim, place), slice(place, place + 1)) for place in range(size)]
    return [(law(claim, 1), slice(0, size))]


def _linear(claim: Decodable, places: Int64) -> tuple[Floats, Floats]:
    """Slope and offset of each candidate's estimate."""
    each = [law(claim, int(place)) for place in (places if isinstance(claim, Binary) else places[:1])]
    slopes, offsets = ([float(getattr(one, name)) for one in each] for name in ("slope", "offset"))
    return np.resize(slopes, places.size), np.resize(offsets, places.size)
