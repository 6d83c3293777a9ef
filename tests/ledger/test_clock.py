"""Clocks that jump: what a steady clock notices, and how windows open again after one ran ahead."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy import budget_windows as windows
from dpproxy.amounts import MICRO
from dpproxy.ledger.book import TOLERANCE, Book
from dpproxy.ledger.entries import Checkpoint, ClockWrong, Opened
from dpproxy.ledger.journal import since_boot
from dpproxy.ledger.ledger import BudgetExhausted, Charge, LedgerError, Limits, charge
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss
from dpproxy.records.sqlite import SqliteLedger

from .conftest import NOON, OpenLedger

MakeRequest = Callable[..., Any]
DAY, HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)
MONTHLY = Limits(Limit(3 * MICRO, window="month"), Limit(10**15))


class Ticks:
    """A steady clock that a test winds."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def pass_by(self, time: dt.timedelta) -> None:
        self.seconds += time.total_seconds()


def test_a_steady_clock_goes_on() -> None:
    before = since_boot()
    assert since_boot() >= before > 0


def test_a_jump_while_the_proxy_runs_is_refused(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ticks = Ticks()
    ledger = open_ledger(boot=ticks)
    charge(ledger, request_of(at=NOON))
    with pytest.raises(LedgerError, match=r"ran ahead by 1 day, 0:00:00 since"):
        charge(ledger, request_of(at=NOON + DAY - dt.timedelta(seconds=20)))
    with pytest.raises(LedgerError, match="ran ahead"):
        ledger.verdict(request_of(at=NOON + DAY))
    ticks.pass_by(DAY)
    assert charge(ledger, request_of(at=NOON + DAY + TOLERANCE)).at == NOON + DAY + TOLERANCE
    assert ledger.verdict(request_of(at=NOON + DAY + TOLERANCE)) is None


def test_time_that_passed_by_a_steady_clock_is_no_jump(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    """However long nobody asked."""
    ticks = Ticks()
    ledger = open_ledger(boot=ticks)
    charge(ledger, request_of(at=NOON))
    ticks.pass_by(500 * DAY)
    assert charge(ledger, request_of(at=NOON + 500 * DAY)).at == NOON + 500 * DAY


def test_after_a_restart_a_month_may_have_passed(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger(boot=Ticks())
    charge(ledger, request_of(at=NOON))
    ledger.close()
    ledger = open_ledger(boot=Ticks())
    with pytest.raises(LedgerError, match="36 days"):
        charge(ledger, request_of(at=NOON + 36 * DAY))
    charge(ledger, request_of(at=NOON + 35 * DAY))


def test_the_operators_word_moves_a_steady_clock_too(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger(boot=Ticks())
    charge(ledger, request_of(at=NOON))
    ledger.accept_clock("shop", NOON + 90 * DAY, "the machine was paused")
    assert charge(ledger, request_of(at=NOON + 90 * DAY + HOUR)).at == NOON + 90 * DAY + HOUR


def test_windows_open_again_and_every_charge_stays(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    """The finding: one charge at +399 days, and days 1 to 398 were refused."""
    ledger = open_ledger(max_jump_days=400)
    charge(ledger, request_of(at=NOON, limits=MONTHLY))
    charge(ledger, request_of(at=NOON + 399 * DAY, limits=MONTHLY))
    charge(ledger, request_of(at=NOON + HOUR, limits=MONTHLY))  # stamped with the time it was
    later = NOON + 40 * DAY
    ledger.set_clock_back("shop", NOON + 2 * HOUR, "the clock was wrong")
    with pytest.raises(BudgetExhausted):
        charge(ledger, request_of(at=NOON + 2 * HOUR, limits=MONTHLY))
    assert charge(ledger, request_of(at=later, limits=MONTHLY)).at == later
    standing = ledger.standing("shop", "role", "analyst", Limit(10 * MICRO, window="year"), later)
    assert standing.spent_epsilon == standing.lifetime_epsilon == 4 * MICRO
    with pytest.raises(LedgerError, match="not ahead"):
        ledger.set_clock_back("shop", later, "again")


def test_what_was_closed_by_a_repair_stays_closed(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger(max_jump_days=400)
    charge(ledger, request_of(at=NOON, limits=MONTHLY))
    ledger.exhaust("shop", NOON + 300 * DAY, "lost")
    ledger.set_clock_back("shop", NOON + HOUR, "the clock was wrong")
    with pytest.raises(BudgetExhausted):
        charge(ledger, request_of(at=NOON + 2 * HOUR, limits=MONTHLY))


def test_a_record_that_was_set_back_is_whole(tmp_path: Path, request_of: MakeRequest) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path, max_jump_days=400)
    charge(ledger, request_of(at=NOON + 300 * DAY))
    ledger.set_clock_back("shop", NOON, "wrong")
    charge(ledger, request_of(at=NOON + DAY))
    ledger.close()
    ledger = SqliteLedger(path)
    assert charge(ledger, request_of(at=NOON + 2 * DAY)).sequence == 5
    ledger.close()


def test_the_log_is_told_once_that_the_record_is_ahead(
    open_ledger: OpenLedger, request_of: MakeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = open_ledger()
    charge(ledger, request_of(at=NOON + DAY))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            charge(ledger, request_of(at=NOON))
    assert [r.getMessage().count("--wrong") for r in caplog.records] == [1]


Step = tuple[str, int]
steps = st.lists(st.tuples(st.sampled_from(["charge", "wait", "jump"]), st.integers(1, 40 * 24)), max_size=14)


@given(steps, st.integers(0, 100 * 24), steps)
@settings(max_examples=300, deadline=None)
def test_no_window_has_more_left_than_real_time_would_give(before: list[Step], wrong: int, after: list[Step]) -> None:
    """Charges in real time, under a clock that runs ahead by jumps and is then set right: in no window, of those that hold
    the moment, is less spent than was really spent in it."""
    real, ahead, spent, book = NOON, dt.timedelta(), list[dt.datetime](), Book(1000 * DAY)
    book.apply(1, Opened("x", schema=3))

    def run(steps: list[Step]) -> None:
        nonlocal real, ahead
        for what, hours in steps:
            if what == "charge":
                at = max(book.clock or real, real + ahead)
                book.apply(book.sequence + 1, Charge("", 0, "shop", "r", "u", Loss(MICRO), Loss(MICRO), "h", at))
                spent.append(real)
            elif what == "wait":
                real += hours * HOUR
            else:
                ahead += hours * HOUR

    run(before)
    ahead += wrong * HOUR
    run([("charge", 1), *before])
    if book.clock is not None and book.clock > real:
        book.apply(book.sequence + 1, ClockWrong(real, "it was"))
    ahead = dt.timedelta()
    run([(what, hours) for what, hours in after if what != "jump"])
    again = Book(1000 * DAY)
    again.restore(7, Checkpoint(book.checkpoint().state))
    for window in windows.KINDS:
        truth = sum(at >= windows.start(window, real) for at in spent)
        for one in (book, again):
            standing = one.standing(("shop", "role", "r"), Limit(10**12, window=window), real)
            assert truth * MICRO <= standing.spent_epsilon <= len(spent) * MICRO
