"""The tracker follows any conversation, however its bytes are cut."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.session.tracker import Tracker
from dpproxy.wire import backend as back
from tests.worlds.work import calls

from .message_model import run, sequence

SIMPLE = back.row_description([back.Field("x", 23)]) + back.data_row([b"Z" * 30]) + back.command_complete("SELECT 1")
READY = back.ready_for_query("I")
EXTENDED = back.parse_complete() + back.bind_complete() + back.data_row([None]) + back.command_complete("SELECT 1")


def feed(tracker: Tracker, data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        tracker.scan(data[start : start + size])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 1000])
def test_simple_queries(size: int) -> None:
    tracker = Tracker()
    tracker.forward(b"Q")
    tracker.forward(b"Q")
    feed(tracker, SIMPLE + back.ready_for_query("T"), size)
    assert (tracker.outstanding, tracker.status, tracker.settled) == (1, "T", False)
    feed(tracker, SIMPLE, size)
    assert not tracker.settled
    feed(tracker, back.ready_for_query("E"), size)
    assert (tracker.outstanding, tracker.status, tracker.settled) == (0, "E", True)


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_extended_without_sync_settles_by_counting(size: int) -> None:
    tracker = Tracker()
    for tag in (b"P", b"B", b"E"):
        tracker.forward(tag)
    feed(tracker, EXTENDED[:-3], size)
    assert not tracker.settled, "the last message is not through"
    feed(tracker, EXTENDED[-3:], size)
    assert tracker.settled
    tracker.forward(b"S")
    assert not tracker.settled
    feed(tracker, READY, size)
    assert tracker.settled


def test_an_error_settles_what_is_skipped() -> None:
    tracker = Tracker()
    for tag in (b"P", b"B", b"E"):
        tracker.forward(tag)
    tracker.scan(back.error_response("ERROR", "42601", "syntax error"))
    assert tracker.settled
    assert tracker.failed
    tracker.forward(b"S")
    tracker.scan(READY)
    assert tracker.settled
    assert not tracker.failed


def test_notices_and_statuses_do_not_count() -> None:
    tracker = Tracker()
    tracker.forward(b"D")
    tracker.scan(back.notice_response("NOTICE", "00000", "x") + back.parameter_status("a", "b"))
    assert not tracker.settled
    tracker.scan(back.parameter_description([23]) + back.no_data())
    assert tracker.settled


def test_sync_is_ignored_during_copy_in() -> None:
    """libpq sends Parse, Bind, Execute, Sync; the server ignores the Sync and waits for rows."""
    tracker = Tracker()
    for tag in (b"P", b"B", b"E", b"S"):
        tracker.forward(tag)
    tracker.scan(back.parse_complete() + back.bind_complete() + back.message(b"G", b"\0\0\0"))
    assert tracker.copy_in
    for tag in (b"d", b"S", b"c", b"S"):
        tracker.forward(tag)
    tracker.scan(back.command_complete("COPY 1") + READY)
    assert tracker.settled
    assert not tracker.copy_in


def test_copy_in_by_simple_query() -> None:
    tracker = Tracker()
    tracker.forward(b"Q")
    tracker.scan(back.message(b"G", b"\0\0\0"))
    for tag in (b"d", b"c"):
        tracker.forward(tag)
    assert not tracker.settled
    tracker.scan(back.command_complete("COPY 1") + READY)
    assert tracker.settled


def state(tracker: Tracker) -> tuple[object, ...]:
    names = ("outstanding", "sent", "done", "failed", "copy_in", "status", "readies", "settled", "between")
    return tuple(getattr(tracker, name) for name in names)


PIECES = (
    *(SIMPLE + READY, SIMPLE, READY, READY + READY, EXTENDED + back.ready_for_query("T"), EXTENDED),
    *(
        back.error_response("ERROR", "42601", "x") + back.ready_for_query("E"),
        back.message(b"G", b"\0\0\0"),
        READY[:3],
        READY[3:],
    ),
    *(back.data_row([READY]), back.data_row([READY])[:-1], READY[-1:], back.message(b"G", b"\0\0\0") + READY),
)


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["Q", "S", "BES", "d", ""])), max_size=30))
def test_remembered_pieces_mean_what_they_say(conversation: list[tuple[bytes, str]]) -> None:
    """Pieces that were seen before count as if they were read message by message, also where they only look alike."""
    quick, thorough = Tracker(), Tracker()
    for piece, sent in conversation * 2:
        thorough._known.clear()
        for tracker in (quick, thorough):
            for tag in sent:
                tracker.forward(tag.encode())
            tracker.scan(piece)
        assert state(quick) == state(thorough)


def test_memory_of_pieces_is_bounded() -> None:
    tracker = Tracker()
    for i in range(1000):
        tracker.scan(back.data_row([str(i).encode()]) + READY)
    tracker.scan(back.data_row([b"x" * 1000]) + READY)
    assert len(tracker._known) <= 64
    assert max(map(len, tracker._known)) <= 256


@pytest.mark.parametrize("count", [1500, pytest.param(200_000, marks=pytest.mark.long)])
def test_it_knows_what_is_to_come_or_says_that_it_does_not(count: int) -> None:
    """Against a model of PostgreSQL, messages in any order; Syncs stand among rows of copies that fail anywhere."""
    for seed in range(count):
        chance = random.Random(seed)
        messages = sequence(chance)
        assert run(messages, chance) == "", messages


def _failed_then_syncs(number: int) -> None:
    """A client asks for many ReadyForQuery at once, and each message wants to know whether one is to come."""
    tracker = Tracker()
    tracker.forward(b"P")
    tracker.scan(back.error_response("ERROR", "42601", "syntax error"))
    for _ in range(number):
        tracker.forward(b"S")
        tracker.forward(b"H")
    assert tracker.outstanding == number


def _ends_then_copies(number: int) -> None:
    """Ends of copies that never were stand before a Query of many copies."""
    tracker = Tracker()
    tracker.forward(b"Q")
    for _ in range(number):
        tracker.forward(b"c")
    tracker.forward(b"Q")
    tracker.scan(SIMPLE + READY)
    for _ in range(number):
        tracker.scan(b"G\0\0\0\7\0\0\0")
        tracker.forward(b"c")
    assert (tracker.outstanding, tracker.copy_in) == (1, False)
    tracker.scan(READY)
    assert tracker.settled


@pytest.mark.parametrize("conversation", [_failed_then_syncs, _ends_then_copies])
def test_what_is_outstanding_costs_nothing_again(conversation: Callable[[int], None]) -> None:
    """The work grows with the messages, not with their square."""
    few = calls(lambda: conversation(100), 1_000_000)
    assert calls(lambda: conversation(1000), 11 * few) > 5 * few
