"""A morning of the simulated week: what happens is told in every place where operators look (`scripts/week --whole` has the rest)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("time_machine", reason="TIME MACHINE ABSENT: pip install time-machine")

from week import MORNING, Account, page, week
from week_events import EVENTS, Told
from week_load import QUESTIONS
from week_world import DATASETS, MONDAY, PASSWORDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_morning_is_told_in_every_place(tmp_path: Path) -> None:
    accounts = week(tmp_path, MORNING)
    assert [account.event.title for account in accounts] == [event.title for event in EVENTS if event.title in MORNING]
    assert {told.place for account in accounts for told, _ in account.told} == {
        "client", "log", "metrics", "ready", "status", "console", "audit",
    }  # fmt: skip
    written = page(accounts)
    for said in ("in doubt", "does not cover this statement", "Role planner of clinic is paused", "2 rows"):
        assert said in written


def test_the_week_is_in_order_and_tells_of_itself_in_many_places() -> None:
    times = [(event.day, event.hour) for event in EVENTS]
    assert times == sorted(times)
    assert times[0] == (0, MONDAY.hour)
    assert len({event.title for event in EVENTS}) == len(EVENTS)
    assert set(MORNING) <= {event.title for event in EVENTS}
    assert all(len({told.place for told in event.told}) >= 2 for event in EVENTS)
    assert QUESTIONS.keys() == DATASETS.keys() == PASSWORDS.keys()


def test_the_page_has_the_events_that_there_are() -> None:
    shown = re.findall(r"^## \w+ \d\d:\d\d: (.+)$", (ROOT / "docs" / "week.md").read_text(), re.M)
    assert [title.lower() for title in shown] == [event.title.lower() for event in EVENTS]


def test_a_page_quotes_what_was_said() -> None:
    long, short = (Told("log", "x"), "word " * 100), (Told("console", "y", "/steer"), "a | b `c`")
    written = page([Account(EVENTS[0], (), (long, short, (Told("ready", "z", gone=True), "")), "a.png")])
    assert "## Monday 08:00: the upgrade" in written
    assert "| console, /steer | `a ¦ b 'c'` |" in written
    assert "word ...` |" in written
    assert "| /ready | nothing more of it |" in written
    assert "(images/a.png)" in written
