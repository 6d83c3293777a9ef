"""Answers of a client as events look at them: numbers by their place, and whatever is no number."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from dpproxy.audit.wire import as_outcome


def test_rows_are_named_by_what_is_no_number() -> None:
    rows = [[("region", "north"), ("n", 3), ("mean", Decimal("1.5"))], [("region", None), ("n", 4), ("mean", None)]]
    found = as_outcome(rows)
    assert found.numbers == {(("north",), "n"): 3.0, (("north",), "mean"): 1.5, ((), "n"): 4.0}
    columns, nulls = found.code  # type: ignore[misc]
    assert columns == ("region", "n", "mean")
    assert len(nulls) == 2


def test_arrays_days_and_no_rows() -> None:
    found = as_outcome([[("day", dt.date(2024, 1, 1)), ("q", [1.0, None, 3]), ("f", True)]])
    place = ("2024-01-01", "[1.0, None, 3]", "True")
    assert sorted(found.numbers.values()) == [1.0, 3.0]
    assert all(place[0] in str(p) for p in found.numbers)
    assert as_outcome([]).code == ((), ())
