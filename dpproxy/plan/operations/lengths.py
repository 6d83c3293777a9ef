"""How long the texts are that operations make: rules from the lengths of their operands, in characters.

Knows: constants, characters. Must not know: which operation uses which rule, bytes, engines. A length that nothing bounds is
`MOST`, and so is one that would be greater.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpproxy.plan.operations.operation import LengthRule, constant
from dpproxy.tree.expr import Expr

MOST = 10**12
PADDED = 1_000  # what lpad and rpad make at most
_FIELDS = {"Y": 7, "G": 7, "B": 9, "A": 9, "f": 6, "j": 3, "b": 3, "a": 3, "-": 3, **dict.fromkeys("ymdHIMSpuVWU%", 2)}
"""Characters that a field of a format prints at most: a month's name has nine, a year six digits and a sign."""
_UNKNOWN_FIELD = 64

Sizes = Sequence[int]
Args = Sequence[Expr]


def first(sizes: Sizes, _: Args) -> int:
    return sizes[0]


def largest(sizes: Sizes, _: Args) -> int:
    return max(sizes)


def total(sizes: Sizes, _: Args) -> int:
    return sum(sizes)


def fixed(size: int) -> LengthRule:
    return lambda *_: size


def up_to(place: int) -> LengthRule:
    """Of no more characters than the number at this place says, nor than the first operand has."""

    def rule(sizes: Sizes, args: Args) -> int:
        number = constant(args[place])
        return min(sizes[0], int(number)) if number.isdigit() else sizes[0]

    return rule


def padded(_: Sizes, args: Args) -> int:
    number = constant(args[1])
    return min(int(number), PADDED) if number.isdigit() else PADDED


def joined(sizes: Sizes, _: Args) -> int:
    """Return the length of texts with a mark between."""
    return sum(sizes[1:]) + sizes[0] * len(sizes)


def repeated(sizes: Sizes, args: Args) -> int:
    return sizes[0] * int(constant(args[1]))


def replaced(sizes: Sizes, _: Args) -> int:
    return sizes[0] * max(sizes[2], 1)


def matches_replaced(sizes: Sizes, args: Args) -> int:
    """Return the length where every character, and the ends, may become the replacement."""
    return (sizes[0] + 1) * (len(constant(args[2])) + 1)


def printed(_: Sizes, args: Args) -> int:
    """Return the longest text that a format of strftime prints."""
    form = constant(args[1])
    codes = re.findall("%.", form, re.DOTALL)
    return len(form) - 2 * len(codes) + sum(_FIELDS.get(code[1], _UNKNOWN_FIELD) for code in codes)
