"""Forms of reports: what lies in a space, and which cells a report adds to."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dpproxy.local.claims import Unary
from dpproxy.local.spaces import Space

BITS = Space("bits", 24, 12, 7)


@pytest.mark.parametrize(
    ("space", "good", "bad"),
    [
        (Space("boolean", 2), [True, False], [0, 1, None, "true"]),
        (Space("integer", 10), [0, 9], [10, -1, True, 1.0, "1", None, 2**70]),
        (Space("value", 2), ["a", "b"], ["c", 0, None, ""]),
        (Space("number"), [0, -1.5, 10**30], [math.nan, math.inf, "1", True, None]),
        (
            BITS,
            ["0:0", "1:fff"[:3] + "0", "1:7f", "0:800"],
            ["2:0", "0:1000", "0:fff", "0:00", "00:1", "0:F", "0", "", None, 3, "0:", "-1:1", "0:\u0661"],
        ),
    ],
    ids=["boolean", "integer", "value", "number", "bits"],
)
def test_what_lies_in_a_space(space: Space, good: list[Any], bad: list[Any]) -> None:
    values = {"a": 0, "b": 1}
    assert [report for report in good if not space.holds(report, values)] == []
    assert [report for report in bad if space.holds(report, values)] == []


def test_cells_of_a_report() -> None:
    """Bits of hash function 1 come behind those of 0; behind all of them are counts of reports, one a function."""
    assert BITS.cells("0:5") == (0, 2, 24)
    assert BITS.cells("1:801") == (12, 23, 25)
    assert BITS.cells("1:0") == (25,)
    assert Space("integer", 10).cells(7) == (7,)
    assert Space("boolean", 2).cells(True) == (1,)
    for space, report in ((BITS, "2:1"), (Space("integer", 3), 3), (Space("number"), 1.0), (Space("value", 2), "a")):
        with pytest.raises(ValueError, match="outside its space"):
            space.cells(report)


def test_honest_vectors_are_hardly_ever_too_full() -> None:
    """The limit on set bits is above the mean by six standard deviations, and below all bits."""
    for epsilon, d in ((Fraction(1), 1000), (Fraction(4), 2600)):
        claim = Unary.within(epsilon, d)
        mean = float(claim.own + (d - 1) * claim.other)
        spread = math.sqrt(float((d - 1) * claim.other * (1 - claim.other)))
        assert mean + 6 * spread <= claim.space.most <= mean + 7.5 * spread + 6 < d
