"""What the door asks of a source of noise, and what a source must keep to.

Knows: integers, scales. Must not know: plans, tables, generators, the library. The door and all mechanisms take chance from the
`Noise` they are given, and from nothing else, so that dice can be loaded for every one of them; what is behind it in production
is decided in `noise_sources`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Never, Protocol, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpproxy.privacy.noise_scale import MechanismName

# The two sides of the privacy boundary as types.
#
# `Exact` is what a backend returned for a measurement: true aggregates. It has no accessor, no repr of its values, no
# iteration, no comparison; only `dpproxy.mechanisms` may open it, through `_open` (a test enforces who calls it). `Released` is
# what a mechanism made of it: anything may be done with it. There is no function from `Exact` to a wire message. Keep it so.

Int64 = npt.NDArray[np.int64]


@final
class Exact:
    """This class holds the true results of a measurement's backend queries, one Arrow table a query. Closed on purpose."""

    __slots__ = ("__tables",)

    def __init__(self, tables: tuple[pa.Table, ...]) -> None:
        self.__tables = tables

    def _open(self) -> tuple[pa.Table, ...]:
        """For `dpproxy.mechanisms` alone."""
        return self.__tables

    def __repr__(self) -> str:
        return "<Exact>"

    def __reduce__(self) -> Never:
        raise TypeError("an Exact cannot leave the process")

    def __eq__(self, other: Never) -> Never:  # type: ignore[override]
        raise TypeError("an Exact cannot be compared")

    def __ne__(self, other: Never) -> Never:  # type: ignore[override]
        raise TypeError("an Exact cannot be compared")

    # None rather than a method that raises: to a type checker, too, an Exact is then not iterable and not hashable
    __iter__ = None
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> Never:
        raise TypeError("an Exact has no truth value")

    def __str__(self) -> Never:
        raise TypeError("an Exact cannot be printed")


@dataclass(frozen=True)
class FoundGroups:
    """Groups that a first round released (`mechanisms.key_rounds`): their keys, and the numbers that the backend gives them."""

    keys: tuple[pa.Array, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Released:
    """A private answer: one row a group. `keys[i]` and `values[j]` all have `rows` entries.

    `keys` are Arrow arrays in the order of `Measurement.keys`; `values` are int64 on the grid of
    `Measurement.bases`, then of `Measurement.selections`.
    """

    keys: tuple[pa.Array, ...]
    values: tuple[Int64, ...]
    rows: int


LIMIT = 2**62
"""Values saturate here before noise, which is smaller than this in turn: sums stay within 64 bits."""

ROUNDS = 256
"""Of drawing again: at the least reach, 1, half of the draws fall outside at scale 2, and 2**-256 is never."""


class MechanismError(Exception):
    """There is a fault between plan and mechanism. Its text is fixed and says nothing about data."""


class Noise(Protocol):
    """All the chance there is behind the door: noise for columns of counts and sums, bits for choices by score.

    A source of noise is given to `release.release` and handed on from there; no mechanism has another one.
    """

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        """Add discrete Laplace noise of `scale` to each value, all in grid units."""
        ...

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        """Add discrete Gaussian noise of sigma = `scale` to each value, all in grid units."""
        ...

    def entropy(self, size: int) -> bytes:
        """Return `size` random bytes, uniform, independent of all before: the `coins.Entropy` of mechanisms that choose by
        score."""
        ...

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        """State what noise of `scale` costs by the source's own account, to be held against the charge: epsilon (Laplace) or
        zCDP's rho (Gaussian) when one unit moves `l0` values by `linf` each."""
        ...


def exact_loss(mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
    """Return what noise costs by the formulas alone: l1 / scale (Dwork & Roth 2014), l2**2 / (2 sigma**2) (CKS 2020)."""
    if mechanism == "laplace":
        return l0 * linf / scale
    return Fraction(l0 * linf * linf) / (2 * scale * scale)


def saturate(values: Int64) -> Int64:
    """Hold values within +-`LIMIT`; holding two values brings them no further apart, so no sensitivity grows."""
    return np.clip(values, -LIMIT, LIMIT)


def truncated(noise: Noise, scale: Fraction, values: Int64, reach: int) -> Int64:
    """Add discrete Laplace noise conditioned on |X| <= reach to each value: what falls outside is drawn again.

    Raises MechanismError for a source that never falls within.
    """
    drawn = noise.laplace(scale, np.zeros_like(values))
    for _ in range(ROUNDS):
        outside = np.flatnonzero(np.abs(drawn) > reach)
        if not outside.size:
            return saturate(values) + drawn
        drawn[outside] = noise.laplace(scale, np.zeros(outside.size, dtype=np.int64))
    raise MechanismError("a source of noise never falls within its reach")
