"""The randomisers that devices run: a value goes in, one report comes out, and nothing else of the value is kept.

Knows: claims, chance. Must not know: ledgers, networks, tables. Chance is whole numbers of the operating system: a coin of
probability a / b is a number below b that is below a, so that a report has exactly the probabilities that its claim says. All
chance comes in by a `Chance`, so that tests can enumerate it: what they prove is proved of this code. Whether charges are
durable before a value comes here is `ledger`'s.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence as List
from fractions import Fraction
from typing import Final, Protocol, TypeAlias

from dpproxy.local import planes
from dpproxy.local.claims import (
    Binary,
    Claim,
    CountMean,
    Direct,
    Duchi,
    Hadamard,
    Hashed,
    Laplace,
    Levels,
    Plane,
    Sequence,
    Unary,
)
from dpproxy.local.hashes import number, polynomial, puzzle_piece

Value: TypeAlias = bool | int | float | Fraction | str
"""What a device saw: yes or no; a value of a list, as text or by its number; a number; a text."""


class Unreportable(ValueError):
    """A value that the claim's mechanism cannot report. Its text does not tell the value."""


class Chance(Protocol):
    """All the chance that a randomiser has."""

    def coin(self, p: Fraction) -> bool:
        """Return true with probability p exactly, independent of all before."""
        ...

    def below(self, n: int) -> int:
        """Return a uniform whole number from 0 to below n, independent of all before."""
        ...


class SystemChance:
    """Chance of the operating system."""

    def coin(self, p: Fraction) -> bool:
        parts = p.denominator
        if parts & (parts - 1) == 0:
            return secrets.randbits(parts.bit_length() - 1) < p.numerator if parts > 1 else p.numerator > 0
        return secrets.randbelow(parts) < p.numerator

    def below(self, n: int) -> int:
        return secrets.randbelow(n)


SYSTEM: Final = SystemChance()


def reportable(claim: Claim, value: Value, values: List[str] = ()) -> bool:
    """Whether `randomised` takes a value, which is known before anything is charged."""
    match claim:
        case Binary():
            return isinstance(value, bool)
        case Direct() | Unary() | Plane():
            if isinstance(value, str):
                return value in values[: claim.candidates]
            return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < claim.candidates
        case Hashed() | CountMean() | Hadamard():
            return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
        case Levels():
            return isinstance(value, int | float | Fraction) and not isinstance(value, bool) and value == value
        case Sequence():
            return isinstance(value, str) and 0 < len(value) <= claim.length and set(value) <= set(claim.letters)
        case Laplace() | Duchi():
            return False


def randomised(claim: Claim, value: Value, values: List[str] = (), chance: Chance = SYSTEM) -> bool | int | str:
    """Return a report of a value, as `claim.space` says it is stored.

    `values` are the claim's candidates in their order: a text among them stands for its number, and `Direct` reports a text.
    Without them, values and reports of lists are numbers. Raises Unreportable for a value that is not the mechanism's.
    """
    if not reportable(claim, value, values):
        raise Unreportable(f"{claim.name} cannot report this value")
    match claim:
        case Binary():
            return chance.coin(claim.if_yes if value else claim.if_no)
        case Direct():
            report = _direct(claim, _place(value, values), chance)
            return values[report] if values else report
        case Unary():
            return claim.space.text(0, _bits(claim.candidates, _place(value, values), claim.own, claim.other, chance))
        case Plane():
            return _plane(claim, _place(value, values), chance)
        case Hashed() | CountMean() | Hadamard():
            return _sketched(claim, number(str(value)), chance)
        case Levels() if not isinstance(value, str):
            return _direct(claim.direct, _level(claim, value, chance), chance)
        case Sequence():
            return _sequence(claim, str(value), chance)
        case Levels() | Laplace() | Duchi():
            raise Unreportable(f"{claim.name} cannot report this value")


def _place(value: Value, values: List[str]) -> int:
    """The number of a value of a list."""
    return values.index(value) if isinstance(value, str) else int(value)


def _direct(claim: Direct, value: int, chance: Chance) -> int:
    """The number of a value, or of another one, uniformly."""
    if chance.coin(claim.keep):
        return value
    other = chance.below(claim.candidates - 1)
    return other + (other >= value)


def _bits(width: int, place: int, own: Fraction, other: Fraction, chance: Chance) -> int:
    """A vector of bits, each drawn by itself."""
    return sum(chance.coin(own if i == place else other) << i for i in range(width))


def _plane(claim: Plane, value: int, chance: Chance) -> int:
    """A point inside the value's hyperplane, or one outside."""
    if chance.coin(claim.inside):
        return planes.inside(value, chance.below(claim.plane), claim.base, claim.dimension)
    return planes.outside(value, chance.below(claim.points - claim.plane), claim.base, claim.dimension)


def _sketched(claim: Hashed | CountMean | Hadamard, x: int, chance: Chance) -> int | str:
    """A report by one drawn hash function of the integer that stands for a text."""
    if isinstance(claim, Hadamard):
        return _hadamard(claim, x, chance)
    j, cell = _cell(claim, x, chance)
    if isinstance(claim, Hashed):
        return j * claim.width + _direct(claim.direct, cell, chance)
    return claim.space.text(j, _bits(claim.width, cell, claim.keep, 1 - claim.keep, chance))


def _cell(claim: Hashed | CountMean | Hadamard, x: int, chance: Chance) -> tuple[int, int]:
    """A drawn hash function and its cell."""
    j = chance.below(claim.functions)
    return j, polynomial(claim.seed, j, claim.width)(x)


def _hadamard(claim: Hadamard, x: int, chance: Chance) -> int:
    """A drawn column of the cell's row of the Hadamard matrix, kept or turned; the last bit is set where it is +1."""
    (j, cell), column = _cell(claim, x, chance), chance.below(claim.width)
    plus = (column & cell).bit_count() % 2 == 0
    return (j * claim.width + column) * 2 + (plus if chance.coin(claim.keep) else not plus)


def _level(claim: Levels, value: float | Fraction, chance: Chance) -> int:
    """The level below a number, or the one above, such that the mean is the number; one outside the range is held in it."""
    inside = claim.low if value <= claim.low else claim.high if value >= claim.high else Fraction(value)
    steps = (inside - claim.low) / (claim.high - claim.low) * (claim.levels - 1)
    level = int(steps)
    return level + (steps > level and chance.coin(steps - level))


def _sequence(claim: Sequence, word: str, chance: Chance) -> int:
    """A drawn fragment with the word's puzzle piece, and the word, by a sketch each."""
    position = chance.below(claim.positions)
    piece = claim.piece(word, position, puzzle_piece(word))
    return claim.report(position, _hadamard(claim.fragment, piece, chance), _hadamard(claim.word, number(word), chance))
