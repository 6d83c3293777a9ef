"""Windows on the UTC calendar; one more is a row of `dpproxy.budget_windows`, and nothing else."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy import budget_windows
from dpproxy.budget_windows import EPOCH, KINDS, WINDOWS, Window, end, start

moments = st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2200, 1, 1)).map(lambda t: t.replace(tzinfo=dt.UTC))


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("window", "begin", "finish"),
    [
        ("day", utc(2024, 2, 29), utc(2024, 3, 1)),
        ("week", utc(2024, 2, 26), utc(2024, 3, 4)),
        ("month", utc(2024, 2, 1), utc(2024, 3, 1)),
        ("quarter", utc(2024, 1, 1), utc(2024, 4, 1)),
        ("year", utc(2024, 1, 1), utc(2025, 1, 1)),
        ("never", EPOCH, None),
    ],
)
def test_leap_day(window: Window, begin: dt.datetime, finish: dt.datetime | None) -> None:
    at = utc(2024, 2, 29, 23, 59)
    assert (start(window, at), end(window, at)) == (begin, finish)


@given(moments, st.sampled_from(KINDS))
def test_windows_tile_time(at: dt.datetime, window: Window) -> None:
    begin, finish = start(window, at), end(window, at)
    assert begin <= at
    assert start(window, begin) == begin
    if finish is not None:
        assert at < finish
        assert start(window, finish) == finish
        assert start(window, finish - dt.timedelta(microseconds=1)) == begin


def test_other_zones_are_read_in_utc() -> None:
    at = dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert start("year", at) == utc(2023, 1, 1)


def test_every_window_has_a_row() -> None:
    assert get_args(Window) == KINDS
    assert KINDS[-1] == "never"


@pytest.mark.parametrize("window", KINDS)
def test_lengths_are_those_of_the_calendar(window: Window) -> None:
    """The longest window of four centuries, and how many begin in them."""
    rule, at = WINDOWS[window], utc(2001, 1, 1)
    lengths = []
    while rule.days is not None and at < utc(2401, 1, 1):
        finish = end(window, at)
        assert finish is not None
        lengths.append((finish - at).days)
        at = finish
    assert max(lengths, default=None) == rule.days
    assert len(lengths) / 400 == pytest.approx(rule.a_year, rel=1e-3)


def test_how_often_a_budget_is_spent_in_a_month() -> None:
    assert {window: rule.a_month for window, rule in WINDOWS.items()} == {
        "day": 31, "week": 5, "month": 1, "quarter": 1, "year": 1, "never": 1,
    }  # fmt: skip


INVENTED = """
    "fortnight": WindowRule(lambda m: m - dt.timedelta(days=(m.toordinal() - 1) % 14), 14, 365.25 / 14, "FORTNIGHTLY"),
"""
SCENE = """
import datetime as dt, sys, types
from pathlib import Path

name, source = "dpproxy.budget_windows", Path(sys.argv[1]).read_text()
module = types.ModuleType(name)
sys.modules[name] = module
import dpproxy
dpproxy.budget_windows = module
exec(source, module.__dict__)

from dpproxy.authoring.exposure import changes
from dpproxy.ledger.states import FIRST_KINDS, Account, State, decoded, encoded
from dpproxy.policy.reference import json_schema
from dpproxy.review.doubts import doubts
from dpproxy.sql.virtual_tables import VIRTUAL_TABLES
from tests.policy import good

text = good.GOOD.replace("every: month", "every: fortnight").replace("epsilon: 10,", "epsilon: 11,")
loaded, before = good.loaded(text), good.loaded()
assert loaded.policy.roles["analyst"].budget.every == "fortnight"
assert "fortnight" in json_schema()["$defs"]["budget"]["properties"]["every"]["enum"]
assert any("FORTNIGHTLY" in c.meaning for c in VIRTUAL_TABLES["estimate_remaining_dp_aggregates"].columns)
assert any("a fortnight" in change.what for change in changes(before.policy, loaded.policy))
assert any("epsilon 33" in p.what for p in doubts(loaded, None)), [p.what for p in doubts(loaded, None)]

at = dt.datetime(2024, 5, 30, 12, tzinfo=dt.UTC)
account = Account().on(at)
assert account.opening("fortnight").start.day == 27
state = State("ledger", 3, at, None, {("shop", "role", "analyst"): account}, 0, {})
assert decoded(encoded(state)) == state
old = encoded(state)
assert old.pop("windows") == list(module.KINDS)
for openings in old["accounts"][0][6:]:
    openings[:] = [each for each, kind in zip(openings, module.KINDS) if kind in FIRST_KINDS]
account = decoded(old).accounts["shop", "role", "analyst"]
assert len(account.openings) == len(module.KINDS)
assert account.opening("fortnight").start.day == 27
print("good")
"""


def test_an_invented_window_is_one_row(tmp_path: Path) -> None:
    """A policy with it is read, the schema offers it, messages name it, the ledger keeps it and reads checkpoints without it."""
    source = Path(budget_windows.__file__).read_text()
    assert source.count('"week", ') == 1
    assert source.count('    "month": ') == 1
    source = source.replace('"week", ', '"week", "fortnight", ').replace('    "month": ', f'{INVENTED.rstrip()}\n    "month": ')
    (tmp_path / "budget_windows.py").write_text(source)
    command = [sys.executable, "-c", SCENE, str(tmp_path / "budget_windows.py")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).resolve().parents[1])
    assert run.stdout == "good\n", run.stderr
