"""How many rows each group has in each step of size, guessed from noisy columns: by the step below, but for groups that differ.

Knows: noisy columns, one for each step, and the deviation of their noise. Must not know: exact values, plans. All of it is
post-processing; nothing here is charged, and nobody's promise rests on a guess being good.

The model. People of twice the size are about as those of the size below: of what is in step j of group g, the mean is a * x, x
being the guess in step j - 1, and one number a, the step's amplitude, is common to all groups. Groups vary about it by a
fraction `VARY` of it, and by as much as x itself is unknown. That is a Kalman filter over steps: where noise is small a group
keeps its own value, where it is large the group follows the others. Light and heavy people may choose differently all at
once, though - the heaviest share a favourite - and then one amplitude is wrong for most groups. So a group is unlike it with
a small probability, and then it is anywhere (a mixture; West 1984, "Outlier models and prior distributions"): its own value
is taken, and it says nothing of the others' amplitude. From then on it has a profile of its own, as it follows itself.

Amplitude and variation are those of the highest likelihood on a grid (`GRID`), since there may be several peaks - the largest
group fits one, twenty small ones fit the other - and then moved to the peak by least squares, each group by its weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
