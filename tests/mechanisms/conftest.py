"""What the tests of mechanisms share: measurements to release, exact probabilities, and a slow sampler as an oracle.

The oracle is Canonne, Kamath, Steinke 2020, algorithms 1 to 3, word for word over rationals; nothing of it is shared
with the product's samplers.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpproxy.mechanisms.noise import Exact, Int64, exact_loss
from dpproxy.privacy import noise_scale
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, Key, Measurement, Threshold
from dpproxy.sql.template import Template

ATTO = 10**18


class Dice:
    """Noise that always falls on the same side: every value moves by exactly `by`."""

    def __init__(self, by: int = 0) -> None:
        self.by = by

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return values + self.by

    gaussian = laplace

    def entropy(self, size: int) -> bytes:
        raise AssertionError("these dice have no bits")

    def loss(self, mechanism: noise_scale.MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return exact_loss(mechanism, scale, l0, linf)


class Tape:
    """An `Entropy` that gives the given bytes, one call an entry, and fails when a call asks for another number of them.

    `spent` says whether all were asked for: what a mechanism drew is then known to the bit.
    """

    def __init__(self, *calls: bytes) -> None:
        self._calls = list(calls)

    def __call__(self, size: int) -> bytes:
        assert self._calls, f"{size} bytes more than were recorded"
        found = self._calls.pop(0)
        assert len(found) == size, f"{size} bytes asked for, {len(found)} recorded"
        return found

    @property
    def spent(self) -> bool:
        return not self._calls


def seeded(seed: int) -> Callable[[int], bytes]:
    """An `Entropy` of pseudo-random bits: the same ones for the same seed."""
    return np.random.default_rng(seed).bytes


def words(*values: int) -> bytes:
    """The bits of one call for 32-bit words."""
    return np.array(values, dtype="<u4").tobytes()


def longs(*values: int) -> bytes:
    """The bits of one call for 64-bit words."""
    return np.array(values, dtype="<i8").tobytes()


def laplace_pmf(scale: float, x: int) -> float:
    return math.tanh(1 / (2 * scale)) * math.exp(-abs(x) / scale)


def gaussian_pmf(sigma: float, x: int) -> float:
    reach = int(12 * sigma) + 2
    total = math.fsum(math.exp(-(k * k) / (2 * sigma * sigma)) for k in range(-reach, reach + 1))
    return math.exp(-(x * x) / (2 * sigma * sigma)) / total


def p_value(samples: Sequence[int] | Int64, pmf: Callable[[int], float], reach: int) -> float:
    """Chi-square of samples against a symmetric pmf; cells of at least 20 expected, the rest lumped."""
    counts, total = Counter(np.asarray(samples).tolist()), len(samples)
    expected = {x: total * pmf(x) for x in range(-reach, reach + 1)}
    cells = [x for x, e in expected.items() if e >= 20]
    seen = [counts[x] for x in cells]
    want = [expected[x] for x in cells]
    rest = total - sum(want)
    if rest >= 5:
        seen.append(total - sum(seen))
        want.append(rest)
    statistic = math.fsum((s - w) ** 2 / w for s, w in zip(seen, want, strict=True))
    return float(stats.chi2.sf(statistic, len(want) - 1))


def _bernoulli_exp(x: Fraction, rng: random.Random) -> bool:
    while x > 1:
        if not _bernoulli_exp(Fraction(1), rng):
            return False
        x -= 1
    k = 1
    while rng.randrange(x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1


def oracle_laplace(scale: Fraction, rng: random.Random) -> int:
    s, t = scale.denominator, scale.numerator
    while True:
        u = rng.randrange(t)
        if not _bernoulli_exp(Fraction(u, t), rng):
            continue
        v = 0
        while _bernoulli_exp(Fraction(1), rng):
            v += 1
        y = (u + t * v) // s
        negative = rng.random() < 0.5
        if not (negative and y == 0):
            return -y if negative else y


def oracle_gaussian(sigma: Fraction, rng: random.Random) -> int:
    t = math.floor(sigma) + 1
    while True:
        y = oracle_laplace(Fraction(t), rng)
        if _bernoulli_exp((abs(y) - sigma * sigma / t) ** 2 / (2 * sigma * sigma), rng):
            return y


def laplace_basis(linf: int = 1, l0: int = 1, epsilon: int = 1_000_000) -> Basis:
    scale = noise_scale.laplace_scale(l0, linf, epsilon)
    loss = Loss.laplace_vector(l0, linf / scale, max(linf, 1))
    return Basis(f"linf {linf}", linf, Fraction(1), "laplace", scale, loss)


def gaussian_basis(linf: int = 1, l0: int = 1, epsilon: int = 1_000_000, delta: int = 10**12) -> Basis:
    (sigma,) = noise_scale.gaussian_sigmas([(l0, linf)], [1], epsilon, delta)
    return Basis(f"linf {linf}", linf, Fraction(1), "gaussian", sigma, Loss.gaussian(l0, linf, sigma, epsilon, delta))


def measurement(*bases: Basis, keys: int = 0, l0: int = 1, threshold: Threshold | None = None) -> Measurement:
    loss = Loss.delta_only(threshold.delta) if threshold else Loss(0)
    for basis in bases:
        loss += basis.loss
    return Measurement(
        queries=(Template("duckdb", ("SELECT",)),),
        keys=tuple(Key(f"key {i}", "text") for i in range(keys)),
        bases=bases,
        l0=l0,
        dense=threshold is None,
        threshold=threshold,
        loss=loss,
        canonical=None,
    )


def exact(keys: Sequence[Sequence[object]], bases: Sequence[Sequence[int]]) -> Exact:
    columns: dict[str, pa.Array] = {f"k{i}": pa.array(k) for i, k in enumerate(keys)}
    columns |= {f"b{i}": pa.array(b, pa.int64()) for i, b in enumerate(bases)}
    return Exact((pa.table(columns),))


@pytest.fixture(name="kit", scope="session")
def kit_fixture() -> SimpleNamespace:
    """The functions above, for test files that cannot import a conftest."""
    return SimpleNamespace(**{name: value for name, value in globals().items() if not name.startswith("__")})
