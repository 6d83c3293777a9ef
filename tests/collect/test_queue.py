"""Of a day's events each is drawn with the same chance, a report waits a random while, and nothing is sent or charged twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dpproxy.collect.ledger import MICRO, Refusal
from dpproxy.collect.queue import AGAIN, CERTAIN, DAY
from tests.collect.device import REPORTS, Asked, Clock, event, queue_of, sent

EMOJI = Asked()
QUESTIONS = {"emoji": EMOJI}


@pytest.fixture
def clock() -> Clock:
    REPORTS.clear()
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dp.sqlite"


@pytest.mark.parametrize("per_day", [1, 2])
def test_each_event_of_a_day_is_drawn_with_the_same_chance(path: Path, clock: Clock, per_day: int) -> None:
    """Five events, 300 days: each is drawn in a share of per_day / 5 of them, within five standard deviations."""
    asked = Asked(per_day=per_day)
    _, queue = queue_of(path, clock, total=10_000, daily=per_day)
    for _ in range(300):
        for number in range(5):
            queue.saw(asked, event(str(number)))
        clock.next_day()
        queue.close_days({"emoji": asked})
    drawn = Counter(REPORTS)
    share = per_day / 5
    assert sum(drawn.values()) == 300 * per_day
    assert len(drawn) == 5
    assert all(abs(n - 300 * share) < 5 * (300 * share * (1 - share)) ** 0.5 for n in drawn.values())


def test_a_report_waits_for_a_moment_of_the_next_day(path: Path, clock: Clock) -> None:
    ledger, queue = queue_of(path, clock, total=1000, daily=50)
    for number in range(50):
        queue.saw(Asked(f"q{number}"), event("x"))
    clock.next_day()
    queue.close_days({f"q{number}": Asked(f"q{number}") for number in range(50)})
    with ledger.transaction() as db:
        waits = [due - clock.now for (due,) in db.execute("SELECT due FROM reports")]
    assert 0 <= min(waits) < DAY / 4
    assert DAY * 3 / 4 < max(waits) < DAY
    assert len(set(waits)) > 40


def test_nothing_is_made_before_the_day_is_over(path: Path, clock: Clock) -> None:
    ledger, queue = queue_of(path, clock)
    queue.saw(EMOJI, event("a"))
    queue.close_days(QUESTIONS)
    assert (ledger.charges(), REPORTS) == ([], [])
    clock.next_day(2)
    queue.close_days(QUESTIONS)
    clock.next_day()
    assert len(sent(queue, QUESTIONS)[0]) == 1
    assert sent(queue, QUESTIONS)[0] == []
    assert [c.epsilon for c in ledger.charges()] == [MICRO]


def test_what_is_not_charged_is_not_made(path: Path, clock: Clock) -> None:
    _, queue = queue_of(path, clock, total=2)
    refusals = []
    for _ in range(4):
        queue.saw(EMOJI, event("a"))
        clock.next_day()
        refusals += queue.close_days(QUESTIONS)
    assert refusals == [("emoji", Refusal.TOTAL)] * 2
    assert len(REPORTS) == 2


def test_a_clock_set_back_is_named_and_takes_nothing(path: Path, clock: Clock) -> None:
    _, queue = queue_of(path, clock)
    queue.saw(EMOJI, event("a"))
    clock.next_day(-1)
    assert queue.saw(EMOJI, event("b")) is Refusal.CLOCK
    assert queue.answer(EMOJI, event("b")) is Refusal.CLOCK
    assert queue.close_days(QUESTIONS) == [("emoji", Refusal.CLOCK)]
    clock.next_day(2)
    queue.close_days(QUESTIONS)
    clock.next_day(-1)  # a moment that is now more than a day off is drawn anew
    clock.now -= DAY
    queue.due()
    clock.now += DAY
    assert len(queue.due()) == 1


def test_a_remembered_value_is_charged_once_and_answered_alike(path: Path, clock: Clock) -> None:
    ledger, queue = queue_of(path, clock, daily=5)
    asked = Asked(memoised=True)
    reports = []
    for day, value in enumerate("aabab"):
        queue.saw(asked, event(value, plain=f"region{day}"))
        clock.next_day(2)
        queue.close_days({"emoji": asked})
        clock.next_day(2)
        reports += [(waiting.plain, waiting.report) for waiting in queue.due()]
        for waiting in queue.due():
            queue.gone(waiting)
    assert len(ledger.charges()) == len(REPORTS) == 2
    by_value = [report for _, report in reports]
    assert by_value[0] == by_value[1] == by_value[3] != by_value[2] == by_value[4]
    assert [plain for plain, _ in reports] == [f'["region{day}"]' for day in range(5)]


def test_an_answer_is_due_at_once_and_once(path: Path, clock: Clock) -> None:
    ledger, queue = queue_of(path, clock, daily=3)
    asked = Asked("ill", per_day=2)
    assert [queue.answer(asked, event(value)) for value in ("yes", "yes", "no", "maybe")] == [None, None, None, Refusal.QUESTION]
    assert len(sent(queue, {"ill": asked})[0]) == 2
    assert queue.answer(asked, event("yes")) is None
    assert sent(queue, {"ill": asked})[0] == []
    assert len(ledger.charges()) == 2


def test_a_report_that_may_have_arrived_is_sent_as_the_same_batch_or_not_at_all(path: Path, clock: Clock) -> None:
    _, queue = queue_of(path, clock)
    queue.answer(EMOJI, event("a"))
    queue.close_days(QUESTIONS)
    (first,) = queue.due()
    queue.trying(first)
    queue.later(first, unsure=True)
    assert queue.due() == []
    clock.now += AGAIN
    (second,) = queue.due()
    assert (second.batch, second.report, second.unsure) == (first.batch, first.report, clock.now - AGAIN)
    queue.trying(second)
    queue.later(second, unsure=False)
    clock.now += CERTAIN
    assert queue.due() == []
    clock.now += DAY
    assert queue.due() == []


def test_a_report_that_surely_did_not_arrive_waits_for_ever(path: Path, clock: Clock) -> None:
    _, queue = queue_of(path, clock)
    queue.answer(EMOJI, event("a"))
    queue.close_days(QUESTIONS)
    for _ in range(3):
        (waiting,) = queue.due()
        queue.trying(waiting)
        queue.later(waiting, unsure=False)
        clock.now += CERTAIN + DAY
    assert queue.due()[0].unsure is None


def test_an_update_of_the_app_makes_no_report_of_an_old_charge(path: Path, clock: Clock) -> None:
    ledger, queue = queue_of(path, clock)
    queue.answer(EMOJI, event("a"))
    queue.close_days({"emoji": Asked(claim="c2")})
    assert (queue.due(), REPORTS, len(ledger.charges())) == ([], [], 1)


def test_opting_out_deletes_all_but_the_charges(path: Path, clock: Clock) -> None:
    ledger, queue = queue_of(path, clock, daily=2)
    queue.saw(EMOJI, event("secret-event"))
    queue.answer(Asked("ill", "c2"), event("secret-answer"))
    assert b"secret" in path.read_bytes()
    queue.forget()
    clock.next_day(2)
    assert sent(queue, QUESTIONS) == ([], [])
    assert len(ledger.charges()) == 1
    ledger.close()
    assert b"secret" not in path.read_bytes()  # overwritten, not only forgotten


def test_a_report_leaves_no_value_behind(path: Path, clock: Clock) -> None:
    ledger, queue = queue_of(path, clock)
    queue.saw(EMOJI, event("secret-value"))
    clock.next_day()
    queue.close_days({"emoji": Silent()})
    ledger.close()
    assert b"secret" not in path.read_bytes()


class Silent(Asked):
    def report(self, value: str) -> str:
        return "[1]"
