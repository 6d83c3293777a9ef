"""The comparison behind `scripts/accept --exact`: what it overlooks on purpose, and that it overlooks nothing else."""

from __future__ import annotations

import datetime as dt
import decimal
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "scripts" / "exact.py"


@pytest.fixture(scope="module")
def exact() -> ModuleType:
    spec = importlib.util.spec_from_file_location("exact", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["exact"] = module
    spec.loader.exec_module(module)
    return module


def said(exact: ModuleType, ours: list[Any], theirs: list[Any], empty: bool = False, lost: bool = False) -> bool:
    """Whether a difference was found."""
    return bool(exact.difference(ours, theirs, empty_groups=empty, lost_groups=lost))


def test_order_and_last_digits_do_not_matter(exact: ModuleType) -> None:
    ours, theirs = [("a", 1.0), ("b", 2.0), (None, 3.0)], [(None, 3.0), ("b", 2.0000001), ("a", 1.0)]
    assert not said(exact, ours, theirs)
    assert not said(exact, [(1.0001, "x"), (1.0, "y")], [(1.0001, "y"), (1.0, "x")])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([("a", 1.0)], [("a", 1.1)]),
        ([("a", 1.0)], [("b", 1.0)]),
        ([("a", None)], [("a", 0.0)]),
        ([("a",), ("a",)], [("a",)]),
        ([("a",)], [("a",), ("a",)]),
        ([("a", 1.0)], [("a",)]),
        ([(float("nan"),)], [(1.0,)]),
        ([("a", 0.0)], []),
        ([], [("a", 1.0)]),
    ],
)
def test_differences_are_found(exact: ModuleType, ours: list[Any], theirs: list[Any]) -> None:
    assert said(exact, ours, theirs)


def test_empty_and_lost_groups_are_overlooked_where_they_belong(exact: ModuleType) -> None:
    assert not said(exact, [("a", 1.0), ("b", 0.0)], [("a", 1.0)], empty=True)
    assert said(exact, [("a", 1.0), ("b", 2.0)], [("a", 1.0)], empty=True)
    assert not said(exact, [("a", 1.0)], [("a", 1.0), ("b", 1.0)], lost=True)
    assert said(exact, [("a", 2.0)], [("a", 1.0), ("b", 1.0)], lost=True)


def test_two_drivers_values_meet(exact: ModuleType) -> None:
    day = dt.date(2024, 1, 2)
    assert exact.plain(day) == exact.plain(dt.datetime(2024, 1, 2)) == exact.plain(dt.datetime(2024, 1, 2, tzinfo=dt.UTC))
    assert exact.plain(decimal.Decimal("1.50")) == exact.plain(1.5)
    assert exact.plain(True) is True
    assert exact.plain("x  ") == "x"
