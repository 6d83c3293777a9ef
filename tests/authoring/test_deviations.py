"""How far one answer is from another: by key, relative, keys not counted, what is missing off by all of it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpproxy.authoring.trials import Rows, deviation, missing

TRUE = [("a", 2024, 100), ("b", 2024, 200)]


@pytest.mark.parametrize(
    ("found", "off"),
    [
        ([("a", 2024, 110), ("b", 2024, 220)], 0.1),
        ([("b", 2024, 220), ("a", 2024, 110)], 0.1),  # in another order
        ([("a", 2024, Decimal(90)), ("b", 2024, 160.0)], 0.15),
        (TRUE, 0.0),
    ],
)
def test_cells_by_key(found: Rows, off: float) -> None:
    assert deviation(found, TRUE) == pytest.approx(off)


def test_a_missing_row_is_off_by_all_of_it() -> None:
    found = [("a", 2024, 101)]
    assert missing(found, TRUE) == 1
    assert deviation(found, TRUE) == pytest.approx((0.01 + 1) / 2)


def test_columns_that_another_answer_moves_count() -> None:
    """Of two numbers a row, one differs only in the other answer: it is no key."""
    other = [("a", 2025, 100), ("b", 2024, 200)]
    assert deviation(TRUE, TRUE, [other]) == 0
    assert deviation([("a", 2024, 110), ("b", 2024, 220)], TRUE, [other]) == pytest.approx(0.05)


def test_what_cannot_be_compared() -> None:
    assert deviation([], []) is None
    assert deviation([("a",)], [("a",)]) == 0
    assert deviation([(None, 3)], [(None, 0)]) == 0
