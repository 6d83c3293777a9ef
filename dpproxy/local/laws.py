"""Exact probabilities of randomisers, and what follows from them: epsilon, the debiasing formula, its variance.

Knows: rational numbers. Must not know: policies, SQL, arrays, chance. A device draws whole numbers, so that each probability is a
fraction; one that is computed from an epsilon is a fraction of 2^64, rounded to the private side. Epsilon is then computed back
from the fraction and rounded up: what is promised is what is drawn, and no floating point stands between the two.

For a candidate v let p be the probability that a report of v supports v, q that a report of another value does. With n
reports, of which C support v, the estimate of the number f of devices whose value is v is affine in C and n:

    estimate = slope C + offset n = (C - q n) / (p - q)
    variance = per_report n + per_holder f + collision max(0, F2 - f^2 - (n - f))

(Wang, Blocki, Li, Jha 2017). F2, the sum of the squares of all values' true counts, enters where values share cells of a hash
function: hash functions are fixed, so collisions are an error that no number of reports averages away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Decimal, localcontext
from fractions import Fraction
from math import isqrt
from typing import Any, Final, Protocol, TypeVar

UNIT: Final = 10**9
"""Parts of epsilon: computed ones are rounded up to these, declared ones down."""

MOST: Final = 30
"""The largest epsilon of a report: e^30 times the odds is no privacy, and beyond it 64 bits hold probabilities badly."""

_STEPS: Final = 2**64
_DIGITS: Final = 60
_MARGIN: Final = Fraction(1, 10**50)


class ClaimError(ValueError):
    """A claim that cannot be true or cannot be used. Its text is a sentence for the policy's author."""


@dataclass(frozen=True)
class Law:
    """One candidate's probabilities, and the coefficients of its estimate and of the estimate's variance."""

    p: Fraction
    q: Fraction
    slope: Fraction
    offset: Fraction
    per_report: Fraction
    per_holder: Fraction
    collision: Fraction
    least: int = 0
    """The least that one report adds to C, the most being 1."""

    @property
    def influence(self) -> Fraction:
        """How far one false report can move an estimate."""
        return max(abs(self.slope * c + self.offset) for c in (1, 0, self.least))

    def estimate(self, supporting: int, reports: int) -> Fraction:
        """Return the estimate of how many devices have the value."""
        return self.slope * supporting + self.offset * reports

    def variance(self, holders: Fraction, reports: int, squares: Fraction = Fraction(0)) -> Fraction:
        """Return the variance of an estimate, where so many devices have the value and `squares` is F2."""
        shared = max(Fraction(0), squares - holders**2 - (reports - holders))
        return self.per_report * reports + self.per_holder * holders + self.collision * shared


def direct_law(p: Fraction, q: Fraction, collision: Fraction = Fraction(0)) -> Law:
    """Return the law of reports that support or do not. Raises ClaimError where both are equally likely."""
    gap = p - q
    if gap == 0:
        raise ClaimError("a report that is as likely for every value tells nothing: the two probabilities are equal")
    noise, other = p * (1 - p), q * (1 - q)
    return Law(p, q, 1 / gap, -q / gap, other / gap**2, (noise - other) / gap**2, collision)


def log_ceiling(ratio: Fraction) -> Fraction:
    """Return ln of a ratio >= 1, rounded up to a part of `UNIT`.

    Decimal rounds both steps correctly; the margin is far above their errors.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        log = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
    return Fraction(-(-(Fraction(log) + (_MARGIN if ratio > 1 else 0)) * UNIT // 1), UNIT)


def exponential(exponent: Fraction) -> Fraction:
    """Return e^exponent to sixty digits."""
    with localcontext() as context:
        context.prec = _DIGITS
        return Fraction((Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())


class Private(Protocol):
    """Whatever has an epsilon."""

    @property
    def epsilon(self) -> Fraction:
        """The bound, rounded up."""
        ...


C = TypeVar("C", bound=Private)


def declared(epsilon: Fraction) -> Fraction:
    """Return an epsilon rounded down to a part of `UNIT`. Raises ClaimError outside (0, `MOST`]."""
    floor = Fraction(epsilon * UNIT // 1, UNIT)
    if not 0 < floor <= MOST:
        raise ClaimError(f"the epsilon of a report is above 0 and at most {MOST}")
    return floor


def settled(make: Callable[[Fraction], C], ideal: Fraction, epsilon: Fraction) -> C:
    """Return the claim whose probability is the greatest T / 2^64 that keeps to epsilon.

    `ideal` is the probability that the formula asks for: a larger one is a larger epsilon. Raises ClaimError where 64 bits do
    not hold it.
    """
    threshold = ideal * _STEPS // 1
    for lower in range(4):
        if not 0 < threshold - lower < _STEPS:
            break
        claim = make(Fraction(threshold - lower, _STEPS))
        if claim.epsilon <= epsilon:
            return claim
    raise ClaimError("no probability of 64 bits gives this epsilon")


def probability(value: Fraction, name: str) -> None:
    """Raises ClaimError where a probability is not strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ClaimError(f"{name} is a probability above 0 and below 1")


def whole_number(value: int, least: int, most: int, name: str) -> None:
    """Raises ClaimError where a number is out of its bounds."""
    if not least <= value <= most:
        raise ClaimError(f"{name} is a whole number from {least} to {most}")


class Mechanism:
    """What all claims have; also `candidates`, the number of values (None: open), `space`, and `epsilon`, rounded up."""

    @property
    def name(self) -> str:
        """The policy's word for the mechanism."""
        raise NotImplementedError

    @property
    def law(self) -> Law:
        """The law of a candidate; of `Binary`, of the value yes."""
        raise NotImplementedError

    @property
    def p(self) -> Fraction:
        """The probability that a device's report supports its own value."""
        return self.law.p

    @property
    def q(self) -> Fraction:
        """The probability that a device's report supports another value."""
        return self.law.q

    def document(self) -> dict[str, Any]:
        """The claim as a plain dict of texts and integers, for the mechanism's file; `claim_of` reads it."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        return {"by": self.name} | {name: str(v) if isinstance(v, Fraction) else v for name, v in values}


def odds(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """e^epsilon, and the epsilon that a claim must keep to."""
    bound = declared(epsilon)
    return exponential(bound), bound


def epsilon_of_two(one: Fraction, other: Fraction) -> Fraction:
    """The epsilon of reports of two probabilities."""
    return log_ceiling(max(one / other, other / one))


def check_range(low: Fraction, high: Fraction) -> None:
    if low >= high:
        raise ClaimError("the range's lower end is below its upper end")


def set_bits(width: int, own: Fraction, other: Fraction) -> int:
    """Bits that are set in an honest vector but with a chance below 1e-8: six standard deviations above the mean."""
    mean, variance = own + (width - 1) * other, own * (1 - own) + (width - 1) * other * (1 - other)
    return min(width, int(mean) + 6 * isqrt(int(variance) + 1) + 6)
