"""Where chance comes from: the one file that reaches the library's samplers and the operating system's generator.

Knows: OpenDP, `os.urandom`, our sampler. Must not know: plans, tables. Nothing below the door names a generator: mechanisms are
given a `Noise`, and a test holds that no other file of ours imports one.

The decision: OpenDP's own samplers are the default for noise on columns, since they are reviewed by more people than we are; our
exact sampler takes over for answers of thousands of cells, where it is ten times as fast (10**6 cells in about a second). The
library draws from its own cryptographic generator and takes no bits from outside, so a `Noise` is replaced as a whole where dice
are loaded (`OwnNoise` over given bits, in tests). Choices by score (quantiles, extremes, modes, the highest groups) are our own
mechanism in both, over the operating system's generator.

Traps of the library that this file closes (found by trying): `T=int` is 32 bits and raises on larger values, which
would be a data-dependent error: here it is `i64`, and values are held within +-2**62 first. Scale 0 is accepted and
adds nothing: here scales below MIN_SCALE raise. Its scale is a double: it is never below the plan's rational.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import opendp.prelude as dp

from dpproxy.mechanisms import sampler
from dpproxy.mechanisms.coins import Entropy
from dpproxy.mechanisms.noise import Int64, MechanismError, Noise, exact_loss, saturate
from dpproxy.privacy.noise_scale import MAX_SCALE, MIN_SCALE, MechanismName

dp.enable_features("contrib")

OWN_FROM = 2_000
"""Cells from which our sampler is used: there the library's 200,000 values a second cost 10 ms."""


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


def system_entropy(size: int) -> bytes:
    """Return `size` bytes of the operating system's generator."""
    return os.urandom(size)


class OpenDPNoise:
    """Noise comes from the library's exact discrete samplers over a cryptographic generator, in one call a column.

    The library draws for itself: it takes no bits from outside. Choices by score take the operating system's.
    """

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self._draw("laplace", scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self._draw("gaussian", scale, values)

    def entropy(self, size: int) -> bytes:
        return system_entropy(size)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        """State the loss by `map()` of the built measurement: doubles, rounded up by the library."""
        return _mapped(mechanism, scale, l0, linf)

    def _draw(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        if not values.size:
            return values
        return np.asarray(_measurement(mechanism, scale)(saturate(values)), dtype=np.int64)


class OwnNoise:
    """Our vectorised exact sampler over the bits that it is given: the same bits give the same answer, for every mechanism."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self._draw(sampler.laplace, scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self._draw(sampler.gaussian, scale, values)

    def entropy(self, size: int) -> bytes:
        return self._entropy(size)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return exact_loss(mechanism, scale, l0, linf)

    def _draw(self, draw: Callable[[Fraction, int, Entropy], Int64], scale: Fraction, values: Int64) -> Int64:
        _check(scale)
        return saturate(values) + draw(scale, values.size, self._entropy)


class DefaultNoise:
    """OpenDP for ordinary answers, our sampler from OWN_FROM cells on. Charges are checked against OpenDP always."""

    def __init__(self) -> None:
        self._library, self._own = OpenDPNoise(), OwnNoise(system_entropy)

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self._for(values).laplace(scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self._for(values).gaussian(scale, values)

    def entropy(self, size: int) -> bytes:
        return system_entropy(size)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return self._library.loss(mechanism, scale, l0, linf)

    def _for(self, values: Int64) -> Noise:
        return self._own if values.size >= OWN_FROM else self._library
