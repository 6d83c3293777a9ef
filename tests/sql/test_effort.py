"""Steps of planning: counted for one statement, cut off at the most there may be, and where somebody wants no more."""

from __future__ import annotations

import threading

import pytest

from dpproxy.errors import Refusal
from dpproxy.sql.effort import MOST, Stop, Stopped, counted, step, stoppable


def takes(*numbers: int) -> int:
    for number in numbers:
        step(number)
    return sum(numbers)


def test_steps_are_counted() -> None:
    assert counted(lambda: takes(1, 5, 7)) == (13, 13)
    assert counted(lambda: step()) == (None, 1)
    assert counted(lambda: None) == (None, 0)


def test_outside_of_planning_nothing_is() -> None:
    takes(MOST, MOST, MOST)
    assert counted(lambda: takes(2))[1] == 2


def test_the_last_step_is_the_most() -> None:
    assert counted(lambda: takes(MOST - 1, 1))[1] == MOST
    with pytest.raises(Refusal) as caught:
        counted(lambda: takes(MOST, 1))
    assert caught.value.sqlstate == "54001"
    assert counted(lambda: takes(MOST))[1] == MOST, "the next statement begins anew"


def test_no_second_try_goes_on() -> None:
    """What tries another way after a refusal does not hear of this one."""

    def work() -> None:
        try:
            step(MOST + 1)
        except Refusal:
            raise AssertionError("tried again") from None

    with pytest.raises(Refusal, match="too complex"):
        counted(work)


def test_one_statement_inside_another_is_counted_by_itself() -> None:
    inner: list[int] = []

    def outer() -> None:
        step(3)
        inner.append(counted(lambda: takes(4))[1])
        step(5)

    assert counted(outer)[1] == 8
    assert inner == [4]


def test_threads_do_not_count_for_each_other() -> None:
    found: list[int] = []

    def work() -> None:
        other = threading.Thread(target=lambda: found.append(counted(lambda: takes(10))[1]))
        step(1)
        other.start()
        other.join()

    assert counted(work)[1] == 1
    assert found == [10]


def test_planning_ends_at_the_next_step_when_asked() -> None:
    stop, done = Stop(), []

    def work() -> None:
        step()
        done.append("before")
        stop.ask()
        step()
        done.append("after")

    with pytest.raises(Stopped):
        stoppable(stop, lambda: counted(work))
    assert done == ["before"]
    assert counted(lambda: takes(1)) == (1, 1), "who asked meant that statement only"
    assert stoppable(Stop(), lambda: counted(lambda: takes(1))) == (1, 1)
