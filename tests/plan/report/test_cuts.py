"""What is told of bounds after an answer: shares of noisy numbers, and bounds that nothing measures."""

from __future__ import annotations

import numpy as np
import pytest

from dpproxy.plan.model import Cut
from dpproxy.plan.report import cuts

ROWS, GROUPS = Cut(0, "customers", ("3 rows",)), Cut(2, "customers", ("2 groups",))
VALUES = {0: [np.array([200]), np.array([50])], 2: [np.array([200]), np.array([2])]}


@pytest.mark.parametrize(
    ("units", "beyond", "said"),
    [
        (100, -3, "about 0 %"),
        (100, 130, "about 100 %"),
        (0, 5, "an unknown share"),
        (-4, -2, "an unknown share"),
        (3000, 10, "about 0.33 %"),
    ],
)
def test_noisy_shares(units: int, beyond: int, said: str) -> None:
    told = cuts.share_cut(Cut(0, "customers", ("3 rows",)), [np.array([units]), np.array([beyond])])
    assert told.startswith(said)
    assert told.endswith("(3 rows)")


def test_what_is_measured_comes_first_and_each_once() -> None:
    said = "bounds cut about 25 % of customers (3 rows); bounds cut about 1 % of customers (2 groups); "
    assert cuts.cuts_told((ROWS, GROUPS, ROWS), VALUES, ("x", "y")) == f"{said}bounds that may have cut something: x, y"


def test_of_what_is_not_released_nothing_is_told() -> None:
    assert cuts.cuts_told((ROWS, GROUPS), {2: VALUES[2]}, ()) == "bounds cut about 1 % of customers (2 groups)"
    assert cuts.cuts_told((ROWS,), {}, ()) == ""
