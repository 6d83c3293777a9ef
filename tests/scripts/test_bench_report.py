"""The report of accuracy, honesty and planning: what it takes for an error, for held and for moved; and that it can be made."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import bench_report
import pytest
from bench_report import STORED, Cell, Stored, cells, figures, measured, table

from tests.worlds.demo_shop import small_shop

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("stored", "now", "verdict"),
    [
        (Stored(2.0, 1.5), 2.9, "as stored"),
        (Stored(2.0, 1.5), 1.4, "as stored"),
        (Stored(2.0, 1.5), 3.1, "worse"),
        (Stored(2.0, 1.5), 1.3, "better"),
        (Stored(95.0, 2.0, absolute=True, high=False), 93.5, "as stored"),
        (Stored(95.0, 2.0, absolute=True, high=False), 92.0, "worse"),
        (Stored(95.0, 2.0, absolute=True, high=False), 98.0, "better"),
    ],
)
def test_a_figure_moved_or_did_not(stored: Stored, now: float, verdict: str) -> None:
    assert stored.verdict(now) == verdict


def test_what_moved_is_named_last() -> None:
    stored = {"error": Stored(2.0, 1.5), "width": Stored(1.0, 1.5), "gone": Stored(1.0, 1.5)}
    *_, last = table({"error": 9.0, "width": 1.0, "new": 1.0}, stored)
    assert last == "3 of 3 figures moved; error; new; gone (stored, and not measured)"


def test_numbers_are_compared_group_by_group() -> None:
    there, here = datetime(2024, 2, 1), datetime(2024, 2, 1, tzinfo=UTC)
    rows = [(here, 11, 9, None), ("b", 5, 6, 7), ("not in the data", 3, 0, 9), ("c", None, None, None)]
    assert list(cells(rows, [("b", 4), (there, 10), ("c", 1)])) == [Cell(11.0, 9.0, None, 10.0), Cell(5.0, 6.0, 7.0, 4.0)]


def test_errors_and_intervals() -> None:
    good, missed, open_, none = Cell(11, 9, 12, 10), Cell(30, 25, 35, 20), Cell(10, 8, None, 10), Cell(12, None, None, 10)
    assert [cell.held for cell in (good, missed, open_)] == [True, False, True]
    assert replace(good, value=0, true=0).error == 0
    found = figures({"all": [good, missed, open_, none]})
    assert found["median error, %: all"] == pytest.approx(15)
    assert found["median distance of the low end, %: all"] == pytest.approx(20)
    assert found["intervals that hold, %"] == pytest.approx(200 / 3)
    assert (found["cells with a low end, %"], found["cells with both ends, %"]) == (75, 50)


@pytest.mark.slow
def test_every_stored_figure_is_measured(tmp_path: Path) -> None:
    """Over a smaller shop, each question once. None of these figures need be as stored: that is the report's to say."""
    policy = Path(shutil.copy(ROOT / "policies" / "shop.yaml", tmp_path))
    small_shop(policy.with_name("shop.duckdb"))
    now = measured(policy, tmp_path / "state", answers=1)
    assert now.keys() == STORED.keys()
    planned = {name: figure for name, figure in now.items() if name.startswith(bench_report.PLANNED)}
    assert len(planned) > 5
    assert all(figure > 1000 for figure in planned.values()), "calls were counted"
    assert all(figure >= 0 for figure in now.values())
    assert re.match(r"\d+ of \d+ figures moved", list(table(now))[-1])
