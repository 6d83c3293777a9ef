"""Claims over open vocabularies: sketches by hash functions, and words found from fragments.

Knows: exact probabilities. Must not know: hash values, chance. Functions are few and fixed, so that values which share cells are
an error that stays; `Law.collision` measures it. Sources:

- `Hashed`: Wang, Blocki, Li, Jha 2017; with few functions Cormode, Maddock, Maple 2021.
- `CountMean`, `Hadamard`, `Sequence`: Apple's differential privacy team 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

from dpproxy.local.laws import (
    ClaimError,
    Law,
    Mechanism,
    declared,
    direct_law,
    epsilon_of_two,
    exponential,
    log_ceiling,
    odds,
    probability,
    set_bits,
    settled,
    whole_number,
)
from dpproxy.local.listed import Direct
from dpproxy.local.spaces import Space

CELLS = 2**24
"""The most cells of all hash functions of a sketch: each is an integer in memory when reports are decoded.

It also keeps the reports of `Sequence` below 2^59.
"""


@dataclass(frozen=True)
class _Sketch(Mechanism):
    """Hash functions of a seed, of which a device draws one and names it."""

    functions: int
    width: int
    seed: str
    keep: Fraction
    candidates: ClassVar[None] = None

    def __post_init__(self) -> None:
        whole_number(self.functions, 1, 2**20, "the number of hash functions")
        whole_number(self.width, 2, 2**20, "the cells of a hash function")
        whole_number(self.functions * self.width, 2, CELLS, "the number of all cells")
        probability(self.keep, "`keep`")
        if not self.keep > self.least:
            raise ClaimError("`keep` is greater than what chance alone keeps")

    @property
    def least(self) -> Fraction:
        """The probability above which a report tells something."""
        return Fraction(1, 2)

    @property
    def grown(self) -> Fraction:
        """m / (m - 1): what an estimate makes up for the values that share its cell."""
        return Fraction(self.width, self.width - 1)

    @property
    def collision(self) -> Fraction:
        """The coefficient of F2 in the variance."""
        return self.grown**2 * Fraction(self.width - 1, self.width**2) / self.functions


@dataclass(frozen=True)
class Hashed(_Sketch):
    """The cell of a drawn function, kept with probability `keep`, else one of its other cells."""

    name: ClassVar[str] = "flh"

    @classmethod
    def within(cls, epsilon: Fraction, functions: int, seed: str, width: int | None = None) -> Self:
        """Of g cells, by default the integer next to 1 + e: the true one with e / (e + g - 1)."""
        e, bound = odds(epsilon)
        cells = width or min(max(2, round(e) + 1), 2**20)
        return settled(lambda t: cls(functions, cells, seed, t), e / (e + cells - 1), bound)

    @property
    def least(self) -> Fraction:
        return Fraction(1, self.width)

    @cached_property
    def direct(self) -> Direct:
        """How a cell is reported."""
        return Direct(self.width, self.keep)

    @property
    def space(self) -> Space:
        return Space("integer", self.functions * self.width)

    @cached_property
    def epsilon(self) -> Fraction:
        return epsilon_of_two(self.keep, (1 - self.keep) / (self.width - 1))

    @cached_property
    def law(self) -> Law:
        return direct_law(self.keep, Fraction(1, self.width), Fraction(1, self.functions * (self.width - 1)))


@dataclass(frozen=True)
class CountMean(_Sketch):
    """A vector of bits with the value's cell set, each bit right with probability `keep`."""

    name: ClassVar[str] = "cms"

    @classmethod
    def within(cls, epsilon: Fraction, functions: int, width: int, seed: str) -> Self:
        """Each bit right with r / (1 + r), where r = e^(epsilon / 2)."""
        bound = declared(epsilon)
        root = exponential(bound / 2)
        return settled(lambda t: cls(functions, width, seed, t), root / (1 + root), bound)

    @property
    def space(self) -> Space:
        return Space("bits", self.functions * self.width, self.width, set_bits(self.width, self.keep, 1 - self.keep))

    @cached_property
    def epsilon(self) -> Fraction:
        return log_ceiling((self.keep / (1 - self.keep)) ** 2)

    @cached_property
    def law(self) -> Law:
        bit, m, grown = direct_law(self.keep, 1 - self.keep), self.width, self.grown
        shared = Fraction(m - 1, m * m)
        return Law(
            self.keep,
            1 - self.keep,
            grown * bit.slope,
            grown * (bit.offset - Fraction(1, m)),
            grown**2 * (bit.per_report + shared),
            -(grown**2) * shared,
            self.collision,
        )


@dataclass(frozen=True)
class Hadamard(_Sketch):
    """One sampled bit of the Hadamard transform of the value's cell, right with probability `keep`."""

    name: ClassVar[str] = "hcms"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width.bit_count() != 1:
            raise ClaimError("the cells of a hash function are a power of two: the Hadamard transform needs it")

    @classmethod
    def within(cls, epsilon: Fraction, functions: int, width: int, seed: str) -> Self:
        """The bit right with e / (1 + e)."""
        e, bound = odds(epsilon)
        return settled(lambda t: cls(functions, width, seed, t), e / (1 + e), bound)

    @property
    def space(self) -> Space:
        return Space("integer", 2 * self.functions * self.width)

    @cached_property
    def epsilon(self) -> Fraction:
        return epsilon_of_two(self.keep, 1 - self.keep)

    @cached_property
    def law(self) -> Law:
        m, grown, scale = self.width, self.grown, 1 / (2 * self.keep - 1)
        least = Fraction(1, m * m)
        return Law(
            self.keep,
            1 - self.keep,
            grown * scale,
            -grown / m,
            grown**2 * (scale**2 - least),
            -(grown**2) * (1 - least),
            self.collision,
            -1,
        )


@dataclass(frozen=True)
class Sequence(Mechanism):
    """A word of an open vocabulary: one drawn fragment with a puzzle piece, and the word itself, each by a `Hadamard` sketch.

    Fragments have two letters; a shorter word is filled with blanks. Words that a device cannot spell are not reported.
    """

    letters: str
    length: int
    functions: int
    width: int
    seed: str
    keep: Fraction
    name: ClassVar[str] = "sfp"
    candidates: ClassVar[None] = None

    def __post_init__(self) -> None:
        whole_number(self.length, 2, 32, "the length of words")
        if self.length % 2:
            raise ClaimError("the length of words is even: fragments have two letters")
        if not 2 <= len(self.letters) <= 256 or len({*self.letters, " "}) <= len(self.letters) or not self.letters.isprintable():
            raise ClaimError("`letters` are 2 to 256 different printable ones, without a blank")
        Hadamard(self.functions, self.width, self.seed, self.keep)

    @classmethod
    def within(cls, epsilon: Fraction, letters: str, length: int, functions: int, width: int, seed: str) -> Self:
        """Half of epsilon for the fragment, half for the word."""
        half = Hadamard.within(declared(epsilon) / 2, functions, width, seed)
        return cls(letters, length, functions, width, seed, half.keep)

    @property
    def positions(self) -> int:
        """The fragments of a word."""
        return self.length // 2

    @property
    def pieces(self) -> int:
        """Different fragments with their puzzle pieces; each is below the hash functions' field."""
        return (len(self.letters) + 1) ** 2 * 256

    @cached_property
    def fragment(self) -> Hadamard:
        """The sketch of a position's fragments."""
        return Hadamard(self.functions, self.width, f"{self.seed}/fragment", self.keep)

    @cached_property
    def word(self) -> Hadamard:
        """The sketch of words."""
        return Hadamard(self.functions, self.width, f"{self.seed}/word", self.keep)

    @property
    def space(self) -> Space:
        return Space("integer", self.positions * self.fragment.space.size * self.word.space.size)

    @property
    def epsilon(self) -> Fraction:
        return self.fragment.epsilon + self.word.epsilon

    @property
    def law(self) -> Law:
        return self.word.law

    def piece(self, word: str, position: int, puzzle: int) -> int:
        """Return the integer of a word's fragment at a position with its puzzle piece: blanks are letter 0."""
        alphabet = " " + self.letters
        one, other = (alphabet.index(letter) for letter in word.ljust(self.length)[2 * position : 2 * position + 2])
        return (one * len(alphabet) + other) * 256 + puzzle

    def report(self, position: int, fragment: int, word: int) -> int:
        """Return the one integer of a report's three parts."""
        return (position * self.fragment.space.size + fragment) * self.word.space.size + word
