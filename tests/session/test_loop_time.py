"""The loop's own time stands still while the loop waits for a processor; and so a loop that hardly runs is no pause of anybody."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from dpproxy.session.fair_share import BURST
from dpproxy.session.loop_time import BOOK, LoopTime
from dpproxy.session.turns import Turns


class Machine:
    """Lets the loop run for a part of the time, as its book says."""

    def __init__(self, book: Path, part: float) -> None:
        self.book, self.part = book, part
        self.now, self.waited = 1000.0, 50.0
        self.clock = LoopTime(str(book), lambda: self.now)
        self.go_on(0)

    def go_on(self, seconds: float) -> None:
        """The loop is busy for so long, or would be."""
        self.now += seconds
        self.waited += seconds * (1 - self.part)
        self.book.write_text(f"{round(seconds * self.part * 1e9)} {round(self.waited * 1e9)} 7\n")


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells nothing")
def test_waiting_for_a_processor_is_no_time(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "schedstat", 0.2)
    began = machine.clock()
    machine.go_on(10)
    assert machine.clock() - began == pytest.approx(2)
    machine.now += 10  # the loop has nothing to do
    assert machine.clock() - began == pytest.approx(12)


def test_it_never_goes_back(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "schedstat", 0.0)
    machine.clock()
    machine.now += 0.001  # it is not read again at once
    seen = machine.clock()
    machine.go_on(0.0015)
    machine.waited += 0.001
    machine.go_on(0)
    assert machine.clock() >= seen


def test_without_books_it_is_real_time(tmp_path: Path) -> None:
    for text in (None, "", "nothing to be seen"):
        book = tmp_path / "none"
        if text is not None:
            book.write_text(text)
        now = [5.0]
        clock = LoopTime(str(book), lambda now=now: now[0])  # type: ignore[misc]
        assert clock() == 5.0
        now[0] = 7.0
        assert clock() == 7.0


@pytest.mark.skipif(not Path(BOOK).exists(), reason="no such books here")
def test_of_this_machine_it_goes_on_with_the_work_that_is_done() -> None:
    clock = LoopTime()
    began, worked = clock(), time.thread_time()
    while time.thread_time() < worked + 0.02:
        pass
    assert clock() - began >= 0.015


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells nothing")
def test_who_asks_without_a_pause_is_in_debt_however_slow_the_loop_is(tmp_path: Path) -> None:
    """The loop gets a fifth of a processor: most of what looks like a pause is a wait for it."""
    machine = Machine(tmp_path / "schedstat", 0.2)
    turns = Turns(machine.clock)
    other, one = turns.opened(("shop", "other")), turns.opened(("shop", "one"))
    waits = False
    for _ in range(round(4 * BURST / 0.002)):
        turns.works(one)
        waits = waits or turns.late(one)
        one.fresh += 0.002
        other.fresh += 0.008
        turns.rests(one)
        machine.go_on((0.002 + 0.008) / machine.part)
        turns.rests(other)
    assert waits
    assert isinstance(Turns()._clock, LoopTime)
