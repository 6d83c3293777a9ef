"""A claim about devices, from the keys that describe its mechanism in a policy.

Knows: which keys each mechanism has, how probabilities are written. Must not know: tables, columns, data. What is wrong with a
value is recorded by the reader; what a mechanism cannot be is a ClaimError, which `policy.reports` words as a problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import exp
from typing import Final

from dpproxy.local import choice
from dpproxy.local.claims import (
    Binary,
    Claim,
    ClaimError,
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
from dpproxy.policy import scalars
from dpproxy.policy.columns import read_range
from dpproxy.policy.reader import Reader
from dpproxy.policy.tree import Node, Scalar

_FRACTION: Final = re.compile(r"[0-9]{1,18}/[0-9]{1,18}\Z", re.ASCII)
_LISTED: Final = ("values", "count")
_SKETCH: Final = ("values", "count", "k", "m", "seed", "keep")
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "auto": _LISTED,
    "rr": ("if_yes", "if_no"),
    "krr": (*_LISTED, "keep"),
    "sue": _LISTED,
    "oue": _LISTED,
    "pgr": (*_LISTED, "base", "dimension"),
    "flh": _SKETCH,
    "cms": _SKETCH,
    "hcms": _SKETCH,
    "levels": ("range", "levels", "keep"),
    "laplace": ("range", "scale"),
    "duchi": ("range",),
    "sfp": ("letters", "length", "k", "m", "seed", "keep"),
}
"""What each mechanism is described by, beside its epsilon."""
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("auto", "krr", "sue", "oue", "pgr"), ("values",)),
    "flh": ("k", "seed"),
    **dict.fromkeys(("cms", "hcms"), ("k", "m", "seed")),
    **dict.fromkeys(("levels", "laplace", "duchi"), ("range",)),
    "sfp": ("letters", "length", "k", "m", "seed"),
}
REMEDY: Final = {
    "rr": "write two probabilities between 0 and 1 that differ, as in `if_yes: 3/4, if_no: 1/4`",
    "hcms": "write a power of two for `m`, as in 1024",
    "sfp": "write a power of two for `m`, an even `length`, and fewer or different `letters`",
}


class NoEpsilonError(ClaimError):
    """A claim has neither an epsilon nor probabilities."""


@dataclass(frozen=True)
class WrittenClaim:
    """The keys of one claim as they are written."""

    reader: Reader
    keys: Mapping[str, Node]

    def integer(self, key: str, otherwise: int | None = None) -> int | None:
        return self.reader.integer(self.keys[key], key, 1, 2**31 - 1) if key in self.keys else otherwise

    def number(self, key: str) -> int:
        """A number that must be there. Raises ClaimError where it was none, which is said already."""
        found = self.integer(key)
        if found is None:
            raise ClaimError(f"`{key}` is a number")
        return found

    def text(self, key: str) -> str:
        found = self.reader.text(self.keys[key], key)
        if found is None:
            raise ClaimError(f"`{key}` is a text")
        return found

    def probability(self, key: str) -> Fraction | None:
        """A probability as a fraction or as a decimal number. Raises ClaimError for what is neither."""
        node = self.keys.get(key)
        if node is None:
            return None
        if isinstance(node, Scalar) and _FRACTION.match(node.text) and int(node.text.partition("/")[2]):
            return Fraction(node.text)
        amount = scalars.decimal(node) if isinstance(node, Scalar) else None
        if amount is None:
            raise ClaimError(f"`{key}` is a probability, as in 3/4 or 0.75")
        return Fraction(amount)

    def ends(self) -> tuple[Fraction, Fraction]:
        found = read_range(self.reader, self.keys["range"])
        if found is None or not isinstance(found[0], Decimal) or not isinstance(found[1], Decimal):
            raise ClaimError("the range of randomised numbers is two numbers")
        return Fraction(found[0]), Fraction(found[1])


def claim_of_keys(by: str, written: WrittenClaim, epsilon: Fraction | None, count: int) -> Claim:
    """Return the claim of a mechanism's keys. Raises ClaimError."""
    if by == "rr":
        yes, no = written.probability("if_yes"), written.probability("if_no")
        if (yes is None) != (no is None):
            raise ClaimError("rr has `if_yes` and `if_no`, or neither and an epsilon")
        return Binary(yes, no) if yes is not None and no is not None else Binary.within(_needed(epsilon))
    if by in ("auto", "krr", "sue", "oue", "pgr"):
        return _listed(by, written, epsilon, count)
    if by in ("levels", "laplace", "duchi"):
        return _numeric(by, written, epsilon)
    return _sketch(by, written, epsilon)


def _needed(epsilon: Fraction | None) -> Fraction:
    if epsilon is None:
        raise NoEpsilonError("nothing says what epsilon the column has")
    return epsilon


def _listed(by: str, written: WrittenClaim, epsilon: Fraction | None, count: int) -> Claim:
    keep = written.probability("keep")
    if keep is not None:
        return Direct(count, keep)
    epsilon = _needed(epsilon)
    if by == "auto":
        return choice.automatic(count, epsilon)
    if by == "krr":
        return Direct.within(epsilon, count)
    if by in ("sue", "oue"):
        return Unary.within(epsilon, count, "sue" if by == "sue" else "oue")
    base, dimension = written.integer("base"), written.integer("dimension")
    if base is None or dimension is None:
        if base is not None or dimension is not None:
            raise ClaimError("a geometry has a `base` and a `dimension`")
        _, base, dimension = min(choice.geometries(count, exp(epsilon)), default=(0.0, 0, 0))
    return Plane.within(epsilon, count, base, dimension)


def _numeric(by: str, written: WrittenClaim, epsilon: Fraction | None) -> Claim:
    low, high = written.ends()
    keep, levels = written.probability("keep"), written.integer("levels")
    if by == "levels" and keep is not None:
        return Levels(low, high, levels or 2, keep)
    if by == "levels":
        return Levels.within(_needed(epsilon), low, high, levels or choice.levels(_needed(epsilon)))
    if by == "duchi":
        return Duchi.within(_needed(epsilon), low, high)
    scale = written.reader.decimal(written.keys["scale"], "scale") if "scale" in written.keys else None
    return Laplace(low, high, Fraction(scale)) if scale is not None else Laplace.within(_needed(epsilon), low, high)


def _sketch(by: str, written: WrittenClaim, epsilon: Fraction | None) -> Claim:
    keep, functions, seed = written.probability("keep"), written.number("k"), written.text("seed")
    if by == "flh":
        cells = written.integer("m")
        if keep is None:
            return Hashed.within(_needed(epsilon), functions, seed, cells)
        return Hashed(functions, cells or 2, seed, keep)
    cells = written.number("m")
    if by == "cms":
        return CountMean(functions, cells, seed, keep) if keep else CountMean.within(_needed(epsilon), functions, cells, seed)
    if by == "hcms":
        return Hadamard(functions, cells, seed, keep) if keep else Hadamard.within(_needed(epsilon), functions, cells, seed)
    letters, length = written.text("letters"), written.number("length")
    if keep is not None:
        return Sequence(letters, length, functions, cells, seed, keep)
    return Sequence.within(_needed(epsilon), letters, length, functions, cells, seed)
