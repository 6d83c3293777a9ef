"""Claims over numbers of a range: levels, which devices make, and two that are read from elsewhere.

Knows: exact probabilities. Must not know: floating point, chance. `Levels` is random rounding, then `Direct`; with two levels it
is the one bit of Duchi, Jordan, Wainwright 2018, which `Duchi` reads. `Laplace` reads Dwork, McSherry, Nissim, Smith 2006:
devices should not make such noise, whose floating point tells the number (Mironov 2012).
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
    check_range,
    declared,
    epsilon_of_two,
    odds,
    probability,
    settled,
    whole_number,
)
from dpproxy.local.listed import Direct
from dpproxy.local.spaces import Space


@dataclass(frozen=True)
class Levels(Mechanism):
    """A number of a range, rounded at random to one of equally spaced levels, then `Direct`. A report is the level's number."""

    low: Fraction
    high: Fraction
    levels: int
    keep: Fraction
    name: ClassVar[str] = "levels"

    def __post_init__(self) -> None:
        check_range(self.low, self.high)
        whole_number(self.levels, 2, 2**16, "the number of levels")
        Direct(self.levels, self.keep)

    @classmethod
    def within(cls, epsilon: Fraction, low: Fraction, high: Fraction, levels: int) -> Self:
        """A level is reported as `Direct` reports a value; `choice.levels` says how many levels are best."""
        return cls(low, high, levels, Direct.within(epsilon, levels).keep)

    @property
    def candidates(self) -> int:
        return self.levels

    @cached_property
    def direct(self) -> Direct:
        """The second step."""
        return Direct(self.levels, self.keep)

    @property
    def space(self) -> Space:
        return Space("integer", self.levels)

    @property
    def epsilon(self) -> Fraction:
        return self.direct.epsilon

    @property
    def law(self) -> Law:
        return self.direct.law

    @cached_property
    def numbers(self) -> tuple[Fraction, ...]:
        """The numbers that the levels stand for, lowest first."""
        return tuple(self.low + self.step * i for i in range(self.levels))

    @property
    def step(self) -> Fraction:
        """The distance of two levels."""
        return (self.high - self.low) / (self.levels - 1)

    @property
    def slope(self) -> Fraction:
        """How much one level more in a report adds to what it says of its device's number.

        The estimate of the mean is `centre` + `slope` M, where M is the mean of the levels reported; its variance is at most
        `slope`^2 times the variance of the levels reported, by the number of reports.
        """
        return self.step / (self.law.p - self.law.q)

    @property
    def centre(self) -> Fraction:
        """What a report of level 0 says of its device's number."""
        return self.low - self.slope * self.law.q * self.levels * (self.levels - 1) / 2


@dataclass(frozen=True)
class Laplace(Mechanism):
    """A number of a range with Laplace noise of a scale, as stored elsewhere: read, never made."""

    low: Fraction
    high: Fraction
    scale: Fraction
    name: ClassVar[str] = "laplace"
    candidates: ClassVar[None] = None
    space: ClassVar[Space] = Space("number")

    def __post_init__(self) -> None:
        check_range(self.low, self.high)
        if self.scale <= 0:
            raise ClaimError("the scale of Laplace noise is above 0")

    @classmethod
    def within(cls, epsilon: Fraction, low: Fraction, high: Fraction) -> Self:
        """Noise of scale (high - low) / epsilon."""
        return cls(low, high, (high - low) / declared(epsilon))

    @property
    def epsilon(self) -> Fraction:
        return Fraction(-(-(self.high - self.low) * 10**9 / self.scale // 1), 10**9)

    @property
    def variance(self) -> Fraction:
        """The variance of one report about its device's number: 2 scale^2."""
        return 2 * self.scale**2


@dataclass(frozen=True)
class Duchi(Mechanism):
    """The sign of a stored number, as made elsewhere: + with `plus` at the upper end, 1 - `plus` at the lower, linear between."""

    low: Fraction
    high: Fraction
    plus: Fraction
    name: ClassVar[str] = "duchi"
    candidates: ClassVar[None] = None
    space: ClassVar[Space] = Space("number")

    def __post_init__(self) -> None:
        check_range(self.low, self.high)
        probability(self.plus, "`plus`")
        if self.plus <= Fraction(1, 2):
            raise ClaimError("`plus` is above 1/2")

    @classmethod
    def within(cls, epsilon: Fraction, low: Fraction, high: Fraction) -> Self:
        """Plus with e / (1 + e) at the upper end."""
        e, bound = odds(epsilon)
        return settled(lambda t: cls(low, high, t), e / (1 + e), bound)

    @cached_property
    def epsilon(self) -> Fraction:
        return epsilon_of_two(self.plus, 1 - self.plus)

    @property
    def reach(self) -> Fraction:
        """How far a report of plus stands above the range's middle, so that the mean of reports is that of numbers."""
        return (self.high - self.low) / 2 / (2 * self.plus - 1)
