"""Hash functions of sketches: the same integers on a device, in numpy, and in the SQL of every engine.

Knows: integers, text. Must not know: sketches, probabilities. Function j of a seed is a polynomial of degree two over the field
of P = 2^31 - 1, then a remainder: any three texts are hashed independently over the seeds (Wegman, Carter 1981), which the
variance of a sketch rests on. All products stay below 2^62. Changing anything here changes what stored reports mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final

PRIME: Final = 2**31 - 1


def number(text: str) -> int:
    """Return the integer below `PRIME` that stands for a text: the first 32 bits of its SHA-256, as a remainder."""
    return int.from_bytes(sha256(text.encode()).digest()[:4]) % PRIME


def puzzle_piece(text: str) -> int:
    """Return eight bits that say which fragments belong to one text: bits of its SHA-256 that `number` does not use."""
    return sha256(text.encode()).digest()[4]


@dataclass(frozen=True)
class Polynomial:
    """x -> ((a x + b) x + c mod P) mod cells."""

    a: int
    b: int
    c: int
    cells: int

    def __call__(self, x: int) -> int:
        """Return the cell of the integer that stands for a text."""
        return (((self.a * x + self.b) % PRIME * x + self.c) % PRIME) % self.cells


@lru_cache(maxsize=65536)
def polynomial(seed: str, j: int, cells: int) -> Polynomial:
    """Return function j of a seed: its coefficients are 64 bits each of SHA-256 of `seed/j`, as remainders."""
    digest = sha256(f"{seed}/{j}".encode()).digest()
    a, b, c = (int.from_bytes(digest[8 * i : 8 * i + 8]) % PRIME for i in range(3))
    return Polynomial(a, b, c, cells)
