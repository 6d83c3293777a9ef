"""Columns measured in steps of size, put together: how far up, and which groups the upper steps belong to.

Knows: noisy columns, their noise. Must not know: exact values, plans. Everything here is post-processing of noisy columns, one
for each step (`engines.norm_scaling`): row j times 2**j, added up, is the whole, and each step doubles the noise.

How far up: a step is taken while it is visibly more than noise (`SEEN`), one after the other; and up to any step that is
beyond doubt (`CERTAIN`). Taken by mistake it doubles the noise: one time in fifty for the next one, so that the expected
harm is bounded (4/50 + 16/2500 + ...), one in a million for one far up.

Which groups: where noise hides how a step is spread over groups, it is spread like the step below it, but for groups that visibly
differ (`mechanisms.step_columns`). The first step is every group's own, always. What nobody can have less than nothing of is
put together so; of sums of both signs no profile says anything. Beyond the steps taken nothing is added, but for a group whose
own value there is beyond doubt.

All this is guesses about the data where nothing better is known; `raw` is without, and intervals are about `raw`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpproxy.mechanisms.noise import Int64
from dpproxy.privacy.measurement import Basis
from dpproxy.privacy.noise_error import deviation

# How many rows each group has in each step of size, guessed from noisy columns: by the step below, but for groups that differ.
#
# Knows: noisy columns, one for each step, and the deviation of their noise. Must not know: exact values, plans. All of it is
# post-processing; nothing here is charged, and nobody's promise rests on a guess being good.
#
# The model. People of twice the size are about as those of the size below: of what is in step j of group g, the mean is a * x,
# x being the guess in step j - 1, and one number a, the step's amplitude, is common to all groups. Groups vary about it by a
# fraction `VARY` of it, and by as much as x itself is unknown. That is a Kalman filter over steps: where noise is small a group
# keeps its own value, where it is large the group follows the others. Light and heavy people may choose differently all at
# once, though - the heaviest share a favourite - and then one amplitude is wrong for most groups. So a group is unlike it with
# a small probability, and then it is anywhere (a mixture; West 1984, "Outlier models and prior distributions"): its own value
# is taken, and it says nothing of the others' amplitude. From then on it has a profile of its own, as it follows itself.
#
# Amplitude and variation are those of the highest likelihood on a grid (`GRID`), since there may be several peaks - the largest
# group fits one, twenty small ones fit the other - and then moved to the peak by least squares, each group by its weight.

Float64 = npt.NDArray[np.float64]

VARY = np.array([0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
"""By which fraction of what is expected groups vary: the candidates."""

PARAMETER = 1.0
"""How much likelier, in logarithms, groups must be with some variation than with none: what one parameter more gains of noise
alone (Akaike 1974). Simulated (docs/benchmarks.md), sums and counts by category are off by 0.57 and 0.78 %, with large users
unlike small ones by 2.2 and 3.2; without it by 0.63, 0.84, 2.3 and 3.4. Where groups vary by a tenth: 2.0 in place of 1.9."""

UNLIKE = 0.02
"""The probability that a group is unlike the step below, while the amplitude is sought: few groups of twenty are."""

CAUTIOUS = 0.01
"""A group's own value is taken if that is as likely still with this factor, halved from step to step: noise of one group is
taken for its value one time in 300,000 (4.6 deviations) in the second step, one in 10**9 in the twelfth, which weighs 2,048
times as much."""

RANGE = 6.0
"""Unlike groups may be as large as the largest one, and by so many deviations more."""

GRID, FINEST = 60, 2000
"""Candidates of the amplitude: so many, from one by which the group that grew most fits down to this part of it."""

MOST_GROUPS = 1000
"""The largest ones, by which the grid is searched: smaller ones say little of the amplitude."""

ROUNDS = 3
LEAST = 1e-3
"""Deviations that a group is taken to have at least in the step below, so that any may be found in the next."""


@dataclass(frozen=True)
class Profile:
    """What is guessed of a step: `value` of each group, `spread` its variance; `evidence`: by how many deviations all groups that
    are like the step below stand out from noise; `own`: the values of groups that are unlike it, 0 for others."""

    value: Float64
    spread: Float64
    evidence: float
    own: Float64


def profiles(noisy: Float64, deviation: float, laplace: bool) -> list[Profile]:
    """Return what is guessed of each step, a row of `noisy`, the first of which is as it is."""
    first = noisy[0]
    found = [Profile(first, np.full(first.size, deviation**2), math.inf, np.zeros(first.size))]
    for j, row in enumerate(noisy[1:], 1):
        found.append(_next(_Step(row, np.maximum(found[-1].value, LEAST * deviation), found[-1].spread, deviation, laplace), j))
    return found


@dataclass(frozen=True)
class _Step:
    """One step: noisy values, guesses of the step below and their variance, the deviation of the noise."""

    noisy: Float64
    below: Float64
    spread: Float64
    deviation: float
    laplace: bool

    def variance(self, amplitude: Float64 | float, vary: Float64 | float) -> Float64:
        """Return that of a group that is like the step below, noise included."""
        moved = self.spread + (vary * self.below) ** 2
        return np.asarray(self.deviation**2 + amplitude**2 * moved)

    def density(self, amplitude: Float64 | float, vary: Float64 | float) -> Float64:
        """Return the density of each group's noisy value where it is like the step below."""
        root = np.sqrt(self.variance(amplitude, vary))
        off = np.abs(self.noisy - amplitude * self.below) / root
        bell = np.exp(-math.sqrt(2) * off) / math.sqrt(2) if self.laplace else np.exp(-off * off / 2) / math.sqrt(2 * math.pi)
        return np.asarray((1 - UNLIKE) * bell / root)

    @property
    def anywhere(self) -> float:
        """Return the density of an unlike group, times its probability."""
        return UNLIKE / (max(float(self.noisy.max()), 0) + RANGE * self.deviation)

    def largest(self) -> _Step:
        """Return the step of `MOST_GROUPS` groups."""
        some = np.argsort(-self.below, kind="stable")[:MOST_GROUPS]
        return _Step(self.noisy[some], self.below[some], self.spread[some], self.deviation, self.laplace)


def _next(step: _Step, j: int) -> Profile:
    if not step.noisy.size:
        return Profile(step.noisy, step.spread, 0.0, step.noisy)
    amplitude, vary = _likeliest(step.largest())
    cautious = step.anywhere * CAUTIOUS * 0.5**j
    for _ in range(ROUNDS):
        weight, variance = _like(step, amplitude, vary, cautious), step.variance(amplitude, vary)
        whole = float((weight * step.below**2 / variance).sum())
        amplitude = max(float((weight * step.below * step.noisy / variance).sum()) / max(whole, 1e-300), 0.0)
    weight, noise = _like(step, amplitude, vary, cautious), step.deviation**2
    kept = 1 - noise / step.variance(amplitude, vary)
    like = amplitude * step.below + kept * (step.noisy - amplitude * step.below)
    value = weight * like + (1 - weight) * step.noisy
    spread = noise * (weight * kept + 1 - weight) + weight * (1 - weight) * (like - step.noisy) ** 2
    return Profile(value, spread, _evidence(step, weight), np.where(weight < 0.5, step.noisy, 0.0))


def _likeliest(step: _Step) -> tuple[float, float]:
    """The amplitude and the variation on the grid under which the noisy values are likeliest."""
    most = max(float((step.noisy / step.below).max()), 1e-6)
    even = max(float(step.noisy.sum()), 0.0) / float(step.below.sum())
    amplitudes = np.append(np.geomspace(most / FINEST, most, GRID), even)
    likelihood = np.log(step.density(amplitudes[:, None, None], VARY[None, :, None]) + step.anywhere).sum(axis=2)
    likelihood[:, VARY > 0] -= PARAMETER
    i, k = np.unravel_index(int(likelihood.argmax()), likelihood.shape)
    return float(amplitudes[i]), float(VARY[k])


def _like(step: _Step, amplitude: float, vary: float, anywhere: float) -> Float64:
    """The probability of each group to be like the step below."""
    density = step.density(amplitude, vary)
    return np.asarray(density / (density + anywhere))


def _evidence(step: _Step, weight: Float64) -> float:
    """How far the groups' sum is from nothing, each weighed by what is known of it below (where that is noise, alike)."""
    size = weight * (step.below + np.sqrt(step.spread))
    return float((size * step.noisy).sum() / (step.deviation * math.sqrt(float((size * size).sum()) + 1e-300)))


SEEN = 2.1
CERTAIN = 4.8
"""Standard deviations."""

MOST_CELLS = 200_000
"""Of noise to draw for one basis: of more groups than a twelfth of this the upper steps are put into the last one drawn."""

_HELD = 2**58  # of each upper step: all together, and the first, stay within 64 bits


@dataclass(frozen=True)
class Together:
    """Steps are added up to `value` and `raw` of each group, in the unit of the first step; `last`: the step up to which `raw`
    goes. `later`: what all later steps hold, as far as noise lets it be known: `raw` and `later` are about all rows."""

    value: Int64
    raw: Int64
    last: int
    later: Int64


def folded(columns: list[Int64]) -> list[Int64]:
    """Return exact columns, as many as noise shall be drawn for. A unit is in one of them either way, by no more than before."""
    count = max(1, min(len(columns), MOST_CELLS // max(columns[0].size, 1)))
    if count == len(columns):
        return columns
    rest = np.zeros_like(columns[0])
    for column in columns[count - 1 :]:
        rest = rest + np.clip(column, -_HELD, _HELD)
    return [*columns[: count - 1], rest]


@dataclass(frozen=True)
class Steps:
    """The noisy columns of all steps of a basis, each with noise of that standard deviation. `signed`: groups may have less than
    nothing. `whole`: how many steps there were before some were put into the last one (`folded`)."""

    noisy: list[Int64]
    deviation: float
    laplace: bool
    signed: bool
    whole: int


def steps_of(basis: Basis, noisy: list[Int64]) -> Steps:
    """Return the steps of a basis, of which so many noisy columns were drawn."""
    return Steps(noisy, deviation(basis) * basis.fine, basis.mechanism == "laplace", basis.signed, basis.steps)


def together(steps: Steps) -> Together:
    """Put the steps together."""
    matrix = np.array(steps.noisy, dtype=np.float64)
    last = _last(matrix / steps.deviation, steps.laplace, steps.signed)
    raw = steps.noisy[0] + _added(matrix[1 : last + 1])
    later = _later(steps, matrix, last)
    if steps.signed:
        return Together(raw.copy(), raw, last, later)
    found = profiles(matrix, steps.deviation, steps.laplace)
    shown = max(last, _reached([p.evidence for p in found]))
    rows = np.array([p.value if j <= shown else p.own for j, p in enumerate(found)])
    return Together(steps.noisy[0] + _added(rows[1:]), raw, last, later)


UNKNOWN = 2**60
"""`Together.later` where nothing is known of it."""


def _later(steps: Steps, matrix: Float64, last: int) -> Int64:
    """What steps beyond `last` hold, in the unit of the first. Where several are in one column, each of its numbers is taken for
    one of the very last step: of what is not negative there is no more. Of both signs nothing is known then."""
    kept, size = len(matrix), matrix.shape[1]
    powers = 2.0 ** np.array([*range(kept - 1), steps.whole - 1])
    if kept < steps.whole and steps.signed:
        return np.full(size, UNKNOWN, dtype=np.int64)
    later = (matrix * powers[:, None])[last + 1 :].sum(axis=0)
    if kept < steps.whole and last == kept - 1:  # it is taken, as if it were all of the least step in it
        later = later + matrix[last] * (powers[last] - 2.0**last)
    return np.asarray(np.clip(np.rint(later), -UNKNOWN, UNKNOWN).astype(np.int64))


def _added(upper: Float64) -> Int64:
    """Steps 1, 2, ... in the unit of the first."""
    return np.asarray(_whole(upper * 2.0 ** np.arange(1, len(upper) + 1)[:, None]).sum(axis=0))


def _whole(values: Float64) -> Int64:
    return np.clip(np.rint(values), -_HELD, _HELD).astype(np.int64)


def _last(units: Float64, laplace: bool, signed: bool) -> int:
    """The last step to take; `units` are values in deviations of their noise."""
    evidence = [_energy(row, laplace) for row in units] if signed else _sums(units, laplace).tolist()
    return _reached(evidence)


def _reached(evidence: list[float]) -> int:
    """The last step to take, by how many deviations each stands out."""
    last = 0
    while last + 1 < len(evidence) and evidence[last + 1] >= SEEN:
        last += 1
    return max([last, *(j for j, found in enumerate(evidence) if j and found >= CERTAIN)])


def _sums(units: Float64, laplace: bool) -> Float64:
    """The totals over groups, as deviations of normal noise: Laplace tails of few groups count for less."""
    groups = max(units.shape[1], 1)
    heavy = 1 + 0.7 / groups if laplace else 1.0  # of one group 8.1 deviations are as unlikely as 4.8 normal ones
    return np.asarray(units.sum(axis=1) / (math.sqrt(groups) * heavy))


def _energy(row: Float64, laplace: bool) -> float:
    """The same of the sum of squares: G + 2 sqrt(G t) + 2 t is passed by noise with probability e**-t at most (Laurent &
    Massart 2000); a normal variable passes z with about e**(-z**2 / 2). Squares of Laplace noise vary more."""
    size, square = row.size, float((row * row).sum())
    spread, tail = (2.5 * size, 6.0) if laplace else (float(size), 2.0)
    over = square - size
    if over <= 0:
        return 0.0
    root = (math.sqrt(4 * spread + 4 * tail * over) - 2 * math.sqrt(spread)) / (2 * tail)  # of tail t + 2 sqrt(spread t) = over
    return math.sqrt(2) * root
