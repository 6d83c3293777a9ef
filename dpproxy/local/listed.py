"""Claims over values that are known by number: yes or no, direct, unary, projective geometry.

Knows: exact probabilities. Must not know: which values the numbers stand for, chance. Sources:

- `Binary`: Warner 1965 and the 2 x 2 designs after him. `Direct`: Kairouz, Bonawitz, Ramage 2016.
- `Unary`: Wang, Blocki, Li, Jha 2017. `Plane`: Feldman, Nelson, Nguyen, Talwar 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, Self

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
from dpproxy.local.planes import is_prime, size
from dpproxy.local.spaces import Space

VALUES = 10**7
"""The most candidates of a mechanism that knows them by number."""


@dataclass(frozen=True)
class Binary(Mechanism):
    """Yes or no: a device whose value is yes reports yes with `if_yes`, another one with `if_no`."""

    if_yes: Fraction
    if_no: Fraction
    name: ClassVar[str] = "rr"
    candidates: ClassVar[int] = 2
    space: ClassVar[Space] = Space("boolean", 2)

    def __post_init__(self) -> None:
        probability(self.if_yes, "`if_yes`")
        probability(self.if_no, "`if_no`")
        direct_law(self.if_yes, self.if_no)

    @classmethod
    def within(cls, epsilon: Fraction) -> Self:
        """Warner's design: the truth with e / (1 + e), where e = e^epsilon."""
        e, bound = odds(epsilon)
        return settled(lambda t: cls(t, 1 - t), e / (1 + e), bound)

    @cached_property
    def epsilon(self) -> Fraction:
        one, other = self.if_yes, self.if_no
        return log_ceiling(max(one / other, other / one, (1 - one) / (1 - other), (1 - other) / (1 - one)))

    @cached_property
    def law(self) -> Law:
        return direct_law(self.if_yes, self.if_no)

    @cached_property
    def no(self) -> Law:
        """The law of the value no: reports of no support it."""
        return direct_law(1 - self.if_no, 1 - self.if_yes)


@dataclass(frozen=True)
class Direct(Mechanism):
    """One of `candidates` values: the truth with probability `keep`, else one of the others, uniformly."""

    candidates: int
    keep: Fraction
    name: ClassVar[str] = "krr"

    def __post_init__(self) -> None:
        whole_number(self.candidates, 2, VALUES, "the number of values")
        probability(self.keep, "`keep`")
        direct_law(self.keep, self.other)

    @classmethod
    def within(cls, epsilon: Fraction, candidates: int) -> Self:
        """The truth with e / (e + d - 1) of d values."""
        e, bound = odds(epsilon)
        return settled(lambda t: cls(candidates, t), e / (e + candidates - 1), bound)

    @property
    def other(self) -> Fraction:
        """The probability of one value that is not the truth."""
        return (1 - self.keep) / (self.candidates - 1)

    @property
    def space(self) -> Space:
        return Space("value", self.candidates)

    @cached_property
    def epsilon(self) -> Fraction:
        return epsilon_of_two(self.keep, self.other)

    @cached_property
    def law(self) -> Law:
        return direct_law(self.keep, self.other)


@dataclass(frozen=True)
class Unary(Mechanism):
    """A bit for each value: the true one's is set with probability `own`, each other one's with `other`."""

    by: Literal["sue", "oue"]
    candidates: int
    own: Fraction
    other: Fraction

    def __post_init__(self) -> None:
        whole_number(self.candidates, 2, 2**17, "the number of values")
        probability(self.own, "`own`")
        probability(self.other, "`other`")
        if self.own <= self.other:
            raise ClaimError("`own` is greater than `other`")

    @property
    def name(self) -> str:
        return self.by

    @classmethod
    def within(cls, epsilon: Fraction, candidates: int, by: Literal["sue", "oue"] = "oue") -> Self:
        """sue: both bits right with r / (1 + r), r = e^(epsilon / 2). oue: own 1/2, other 1 / (1 + e)."""
        bound = declared(epsilon)
        if by == "sue":
            root = exponential(bound / 2)
            return settled(lambda t: cls(by, candidates, t, 1 - t), root / (1 + root), bound)
        e = exponential(bound)
        return settled(lambda t: cls(by, candidates, Fraction(1, 2), 1 - t), e / (1 + e), bound)

    @property
    def space(self) -> Space:
        return Space("bits", self.candidates, self.candidates, set_bits(self.candidates, self.own, self.other))

    @cached_property
    def epsilon(self) -> Fraction:
        return log_ceiling(self.own * (1 - self.other) / (self.other * (1 - self.own)))

    @cached_property
    def law(self) -> Law:
        return direct_law(self.own, self.other)


@dataclass(frozen=True)
class Plane(Mechanism):
    """A point of a projective geometry: in the hyperplane of the value's point with probability `inside`, uniformly."""

    candidates: int
    base: int
    dimension: int
    inside: Fraction
    name: ClassVar[str] = "pgr"

    def __post_init__(self) -> None:
        whole_number(self.dimension, 2, 24, "the dimension")
        if not is_prime(self.base) or self.base**self.dimension > 2**48:
            raise ClaimError("the base is a prime, and its power by the dimension below 2^48")
        whole_number(self.candidates, 2, min(VALUES, self.points), "the number of values")
        probability(self.inside, "`inside`")
        direct_law(self.inside, self.shared)

    @classmethod
    def within(cls, epsilon: Fraction, candidates: int, base: int, dimension: int) -> Self:
        """A point of the hyperplane is e times as likely as another one."""
        e, bound = odds(epsilon)
        points, lines = size(base, dimension), size(base, dimension - 1)
        return settled(lambda t: cls(candidates, base, dimension, t), e * lines / (e * lines + points - lines), bound)

    @property
    def points(self) -> int:
        """Points of the geometry: the reports there are."""
        return size(self.base, self.dimension)

    @property
    def plane(self) -> int:
        """Points of one hyperplane."""
        return size(self.base, self.dimension - 1)

    @property
    def shared(self) -> Fraction:
        """The probability that the report of one value lies in the hyperplane of another one."""
        both = size(self.base, self.dimension - 2)
        return self.inside * both / self.plane + (1 - self.inside) * (self.plane - both) / (self.points - self.plane)

    @property
    def space(self) -> Space:
        return Space("integer", self.points)

    @cached_property
    def epsilon(self) -> Fraction:
        return epsilon_of_two(self.inside / self.plane, (1 - self.inside) / (self.points - self.plane))

    @cached_property
    def law(self) -> Law:
        return direct_law(self.inside, self.shared)
