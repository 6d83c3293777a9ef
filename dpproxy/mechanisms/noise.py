"""Sources of noise: what `release` asks for a vector of noisy integers.

Knows: integers, scales, samplers. Must not know: plans, tables. OpenDP is the default; our own exact sampler takes
over for answers of thousands of cells, where it is ten times as fast (10**6 cells in about a second).

Traps of the library that this file closes (found by trying): `T=int` is 32 bits and raises on larger values, which
would be a data-dependent error: here it is `i64`, and values are held within +-2**62 first. Scale 0 is accepted and
adds nothing: here scales below MIN_SCALE raise. Its scale is a double: it is never below the plan's rational.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import opendp.prelude as dp

from dpproxy.mechanisms import sampler
from dpproxy.mechanisms.exact_answers import Int64
from dpproxy.privacy.noise_scale import MAX_SCALE, MIN_SCALE, MechanismName

dp.enable_features("contrib")

LIMIT = 2**62
"""Values saturate here before noise, which is smaller than this in turn: sums stay within 64 bits."""

OWN_FROM = 2_000
"""Cells from which our sampler is used: there the library's 200,000 values a second cost 10 ms."""


ROUNDS = 256
"""Of drawing again: at the least reach, 1, half of the draws fall outside at scale 2, and 2**-256 is never."""


class MechanismError(Exception):
    """A fault between plan and mechanism. Its text is fixed and says nothing about data."""


class Noise(Protocol):
    """A source of noise. `loss` is what it states itself that a measurement costs, to be held against the charge."""

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        """`values` plus discrete Laplace noise of `scale` each."""
        ...

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        """`values` plus discrete Gaussian noise of sigma = `scale` each."""
        ...

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        """Epsilon (Laplace) or zCDP's rho (Gaussian) when one unit moves `l0` values by `linf` each."""
        ...


def exact_loss(mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
    """The same by the formulas alone: l1 / scale, l2**2 / (2 sigma**2)."""
    if mechanism == "laplace":
        return l0 * linf / scale
    return Fraction(l0 * linf * linf) / (2 * scale * scale)


def saturate(values: Int64) -> Int64:
    return np.clip(values, -LIMIT, LIMIT)


def truncated(noise: Noise, scale: Fraction, values: Int64, reach: int) -> Int64:
    """`values` plus discrete Laplace noise conditioned on |X| <= reach: what falls outside is drawn again.

    Raises MechanismError for a source that never falls within.
    """
    drawn = noise.laplace(scale, np.zeros_like(values))
    for _ in range(ROUNDS):
        outside = np.flatnonzero(np.abs(drawn) > reach)
        if not outside.size:
            return saturate(values) + drawn
        drawn[outside] = noise.laplace(scale, np.zeros(outside.size, dtype=np.int64))
    raise MechanismError("a source of noise never falls within its reach")


def _check(scale: Fraction) -> None:
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise MechanismError("the scale of the noise is out of range")


def _double(scale: Fraction) -> float:
    """The smallest double that is at least `scale`."""
    nearest = float(scale)
    return nearest if Fraction(nearest) >= scale else math.nextafter(nearest, math.inf)


@lru_cache(maxsize=1024)
def _measurement(mechanism: MechanismName, scale: Fraction) -> Any:
    """The library's measurement, built once per scale (building costs as much as 20 values)."""
    _check(scale)
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if mechanism == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=_double(scale))
    return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=_double(scale))


@lru_cache(maxsize=4096)
def _mapped(mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
    """What the measurement of that scale says of itself: the same each time it is asked, at the price of ten values of noise."""
    built = _measurement(mechanism, scale)
    if mechanism == "laplace":
        return Fraction(built.map(min(l0 * linf, 2**63 - 1)))
    return Fraction(built.map(math.nextafter(math.sqrt(l0 * linf * linf), math.inf)))


class OpenDPNoise:
    """The library's exact discrete samplers over a cryptographic generator; one call a column."""

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self._draw("laplace", scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self._draw("gaussian", scale, values)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        """By `map()` of the built measurement: doubles, rounded up by the library."""
        return _mapped(mechanism, scale, l0, linf)

    def _draw(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        if not values.size:
            return values
        return np.asarray(_measurement(mechanism, scale)(saturate(values)), dtype=np.int64)


class OwnNoise:
    """Our vectorised exact sampler over the operating system's generator."""

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self._draw(sampler.laplace, scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self._draw(sampler.gaussian, scale, values)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return exact_loss(mechanism, scale, l0, linf)

    def _draw(self, draw: Callable[[Fraction, int], Int64], scale: Fraction, values: Int64) -> Int64:
        _check(scale)
        return saturate(values) + draw(scale, values.size)


class DefaultNoise:
    """OpenDP for ordinary answers, our sampler from OWN_FROM cells on. Charges are checked against OpenDP always."""

    def __init__(self) -> None:
        self._library, self._own = OpenDPNoise(), OwnNoise()

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self._for(values).laplace(scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self._for(values).gaussian(scale, values)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return self._library.loss(mechanism, scale, l0, linf)

    def _for(self, values: Int64) -> Noise:
        return self._own if values.size >= OWN_FROM else self._library
