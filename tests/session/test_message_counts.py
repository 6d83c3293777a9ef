"""Pieces that concern nobody are counted as message by message; everything else is left to a closer look."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.session.tracker import REMEMBERED, SMALL, Counts, Tracker, counted, glance
from dpproxy.wire import frontend_build as front
from dpproxy.wire.framing import MOST

TEXT, PARSE = front.query("SELECT 1"), front.parse("s", "SELECT 1")
UNCONCERNED = {TEXT[5:], PARSE[5:]}
USUAL = [TEXT, PARSE, front.bind("", "s", ()), front.describe("S", "s"), front.execute(""), front.SYNC]


def standing(tracker: Tracker) -> tuple[int, int]:
    return tracker.outstanding, tracker.sent


@given(st.lists(st.sampled_from(USUAL), min_size=1))
def test_a_piece_counts_as_its_messages(messages: list[bytes]) -> None:
    counts = counted(b"".join(messages), UNCONCERNED)
    tags = b"".join(message[:1] for message in messages)
    if {*b"QS"} <= {*tags} or b"Q" in tags.lstrip(b"Q"):
        assert counts is None, "which of both was last, or what a Query stands behind, decides whether it is answered"
        return
    assert counts is not None
    one, other = Tracker(), Tracker()
    one.passed(counts)
    for message in messages:
        other.forward(message[:1])
    assert standing(one) == standing(other)


@pytest.mark.parametrize(
    "data",
    [
        front.query("SELECT 2"),
        TEXT + front.query("SELECT 2"),
        front.parse("t", "SELECT 1"),  # another text of Parse: names belong to it
        front.close("S", "s"),
        front.FLUSH,
        b"X\0\0\0\4",
        b"d\0\0\0\4",
        TEXT[:-1],
        TEXT + b"Q",
        TEXT + b"Q\0\0",
        b"S\0\0\0\3",
        b"S\0\0\0\0",
    ],
)
def test_what_has_to_be_looked_at(data: bytes) -> None:
    assert counted(data, UNCONCERNED) is None


def test_no_more_messages_are_counted_than_are_cut_at_once() -> None:
    assert counted(front.SYNC * (MOST - 1), UNCONCERNED) == (0, MOST - 1, 0)
    assert counted(front.SYNC * (MOST + 1), UNCONCERNED) is None


def test_an_empty_piece_is_nothing() -> None:
    assert counted(b"", UNCONCERNED) == (0, 0, 0)


def test_small_pieces_that_concern_nobody_are_remembered() -> None:
    known: dict[bytes, Counts] = {}
    assert glance(known, TEXT, UNCONCERNED) == counted(TEXT, UNCONCERNED)
    assert glance(known, front.query("SELECT 2"), UNCONCERNED) is None
    assert glance(known, TEXT * SMALL, UNCONCERNED) is not None
    assert set(known) == {TEXT}
    for number in range(REMEMBERED):
        text = front.query(str(number))
        glance(known, text, {text[5:]})
    assert 0 < len(known) <= REMEMBERED
