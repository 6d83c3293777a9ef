"""Loaded dice: a source of noise that rolls the same for the same cell of any database, and notes what it was asked.

Knows: what the door asks of a source of noise. Must not know: plans, SQL. A record is made on one database and played again
on its neighbour (Re:cord-play: Cebere et al. 2026, arXiv 2602.17454): a cell gets its dice by the number of the call and the
name of its group, so that both databases roll alike although one may have a group more. `LOW` and `HIGH` roll what hides, or
shows, every group that has to pass a threshold; a threshold that does not follow them compares what has no noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

import numpy as np

from dpproxy.mechanisms.exact_answers import Int64
from dpproxy.mechanisms.noise import exact_loss, saturate
from dpproxy.privacy.noise_scale import MechanismName

EXTREME = 2**40
"""What `LOW` and `HIGH` roll: more than any invented count, less than what saturates."""


class Roll(Enum):
    """How dice are loaded."""

    FAIR = 0
    LOW = -1
    HIGH = 1


@dataclass(frozen=True)
class Call:
    """Is one column that was given noise: which, of which scale, the values before and after."""

    mechanism: MechanismName
    scale: Fraction
    values: Int64
    noisy: Int64


@dataclass
class Dice:
    """Is a `mechanisms.noise.Noise`. `groups`: the names of the cells in a table's rows; a call of several times as many cells
    rolls for each part of them. `reach`: the most that may be rolled where noise is held within a reach, whose calls are of
    zeros.
    """

    groups: Sequence[Hashable]
    roll: Roll = Roll.FAIR
    reach: int | None = None
    seed: int = 1
    calls: list[Call] = field(default_factory=list)
    drawn: int = 0

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self._noised("laplace", scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self._noised("gaussian", scale, values)

    def entropy(self, size: int) -> bytes:
        """Return the next bits of one fixed stream."""
        self.drawn += 1
        return hashlib.shake_128(f"{self.seed} {self.drawn}".encode()).digest(size)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return exact_loss(mechanism, scale, l0, linf)

    def _noised(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        noisy = saturate(values) + self._rolled(scale, values)
        self.calls.append(Call(mechanism, scale, values.copy(), noisy))
        return noisy

    def _rolled(self, scale: Fraction, values: Int64) -> Int64:
        number, most = len(self.calls), self._most(scale)
        if self.roll is not Roll.FAIR:
            return np.full(values.size, self.roll.value * most, dtype=np.int64)
        parts = values.size // len(self.groups) if self.groups else 0
        named = [(part, group) for part in range(parts) for group in self.groups]
        cells = named if len(named) == values.size else list(range(values.size))
        return np.array([_die(f"{self.seed} {number} {cell!r}", most) for cell in cells], dtype=np.int64)

    def _most(self, scale: Fraction) -> int:
        wide = max(3, int(3 * scale)) if self.roll is Roll.FAIR else EXTREME
        return wide if self.reach is None else min(wide, self.reach)


def _die(name: str, most: int) -> int:
    """A whole number from -most to most, always the same for a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little") % (2 * most + 1) - most
