"""The table of messages: total, as PostgreSQL's documentation has it, and walked through by whole conversations."""

from __future__ import annotations

from typing import Final

import pytest

from dpproxy.session.message_flow import COMPLETED, COMPLETIONS, HARMLESS, MESSAGES, State, Step, begins, step
from dpproxy.session.tracker import Tracker
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.framing import FrontendFramer
from dpproxy.wire.protocol import ProtocolError

ERROR: Final = back.error_response("ERROR", "42601", "syntax error")
READY: Final = back.ready_for_query("I")
COPY_IN: Final = b"G\0\0\0\7\0\0\0"
NOTHING: Final = b"I\0\0\0\4"

EVERY_TAG: Final = [bytes([code]) for code in range(256)]


def passes_the_framer(tag: bytes) -> bool:
    """Whether a client may send such a message at all, once it is logged in."""
    framer = FrontendFramer()
    framer.startup_done()
    framer.authenticated()
    framer.feed(tag + b"\0\0\0\4")
    try:
        return framer.next() is not None
    except ProtocolError:
        return False


def test_the_table_has_a_row_for_every_message_and_no_other() -> None:
    rows = [message.tag for message in MESSAGES]
    assert sorted(rows) == [tag for tag in EVERY_TAG if passes_the_framer(tag)]
    assert len({message.name for message in MESSAGES}) == len(rows)


@pytest.mark.parametrize("state", State)
def test_what_is_in_no_row_is_an_error(state: State) -> None:
    rows = {message.tag for message in MESSAGES}
    assert {step(state, tag) for tag in [*EVERY_TAG, b"", b"QQ"] if tag not in rows} == {Step.INVALID}
    assert not any(begins(tag) for tag in EVERY_TAG if tag not in rows)


def test_an_error_is_over_with_sync_alone() -> None:
    """ "reads and discards messages until a Sync is reached"; a client may still leave."""
    steps = {message.tag: step(State.FAILED, message.tag) for message in MESSAGES}
    assert {tag for tag, each in steps.items() if each is not Step.DISCARD} == {b"S", b"X", b"p"}
    assert (steps[b"S"], steps[b"X"]) == (Step.FORWARD, Step.LEAVE)


def test_copy_in_is_the_facades() -> None:
    """It ignores Flush and Sync, takes CopyData, CopyDone and CopyFail, and fails the copy at anything else."""
    assert {step(State.COPY_IN, message.tag) for message in MESSAGES} == {Step.FORWARD}


def test_only_what_has_a_text_or_names_one_is_examined() -> None:
    examined = {message.tag for message in MESSAGES if Step.EXAMINE in (message.ready, message.failed, message.copy_in)}
    assert examined == {b"Q", b"P", b"B", b"C"}
    assert HARMLESS.isdisjoint(examined)
    assert {message.tag for message in MESSAGES} - examined - HARMLESS == {b"F", b"X", b"p"}


def test_completions_are_those_of_the_documentation() -> None:
    """ParseComplete, BindComplete, CloseComplete; RowDescription or NoData; CommandComplete, PortalSuspended or
    EmptyQueryResponse. No tag completes two messages."""
    assert {m.name: m.completions for m in MESSAGES if m.completions} == {
        "Parse": b"1",
        "Bind": b"2",
        "Close": b"3",
        "Describe": b"Tn",
        "Execute": b"CsI",
    }
    assert len(COMPLETIONS) == sum(len(m.completions) for m in MESSAGES)
    assert {b"P", b"B", b"C", b"D", b"E"} == COMPLETED


CLIENT, FACADE = "client", "facade"
Line = tuple[str, bytes, Step | State]
"""Who speaks, what; then what the table does with the client's message, or where the conversation stands after the facade's."""

EXTENDED_ERROR: list[Line] = [
    (CLIENT, b"P", Step.EXAMINE),
    (CLIENT, b"B", Step.EXAMINE),
    (FACADE, back.parse_complete(), State.READY),
    (FACADE, ERROR, State.FAILED),
    (CLIENT, b"D", Step.DISCARD),
    (CLIENT, b"E", Step.DISCARD),
    (CLIENT, b"Q", Step.DISCARD),
    (CLIENT, b"P", Step.DISCARD),
    (CLIENT, b"H", Step.DISCARD),
    (CLIENT, b"S", Step.FORWARD),
    (CLIENT, b"P", Step.EXAMINE),  # pipelined behind Sync: it will be done
    (FACADE, READY, State.READY),
    (CLIENT, b"E", Step.FORWARD),
]
SIMPLE_ERROR: list[Line] = [
    (CLIENT, b"Q", Step.EXAMINE),
    (FACADE, ERROR, State.READY),  # ReadyForQuery is on its way: nothing is skipped
    (CLIENT, b"Q", Step.EXAMINE),
    (FACADE, READY, State.READY),
    (FACADE, NOTHING + READY, State.READY),
    (CLIENT, b"X", Step.LEAVE),
]
COPY: list[Line] = [
    (CLIENT, b"Q", Step.EXAMINE),
    (FACADE, COPY_IN, State.COPY_IN),
    (CLIENT, b"d", Step.FORWARD),
    (CLIENT, b"S", Step.FORWARD),  # ignored: no ReadyForQuery comes for it
    (CLIENT, b"H", Step.FORWARD),
    (CLIENT, b"c", Step.FORWARD),
    (FACADE, back.command_complete("COPY 1") + READY, State.READY),
    (CLIENT, b"B", Step.EXAMINE),
]
FAILED_COPY: list[Line] = [
    (CLIENT, b"P", Step.EXAMINE),
    (CLIENT, b"B", Step.EXAMINE),
    (CLIENT, b"E", Step.FORWARD),
    (FACADE, back.parse_complete() + back.bind_complete() + COPY_IN, State.COPY_IN),
    (CLIENT, b"d", Step.FORWARD),
    (FACADE, ERROR, State.FAILED),  # the copy is over: what the client still sends of it is discarded, and Sync is heard
    (CLIENT, b"d", Step.DISCARD),
    (CLIENT, b"f", Step.DISCARD),
    (CLIENT, b"P", Step.DISCARD),
    (CLIENT, b"S", Step.FORWARD),
    (FACADE, READY, State.READY),
]
LEFT_OVER_ROWS: list[Line] = [
    (CLIENT, b"Q", Step.EXAMINE),
    (FACADE, COPY_IN, State.COPY_IN),
    (CLIENT, b"d", Step.FORWARD),
    (FACADE, ERROR + READY, State.READY),
    (CLIENT, b"d", Step.FORWARD),
    (CLIENT, b"c", Step.FORWARD),
    (CLIENT, b"Q", Step.EXAMINE),
]
FUNCTION_CALL: list[Line] = [(CLIENT, b"F", Step.REFUSE), (CLIENT, b"Q", Step.EXAMINE), (FACADE, NOTHING + READY, State.READY)]


@pytest.mark.parametrize("talk", [EXTENDED_ERROR, SIMPLE_ERROR, COPY, FAILED_COPY, LEFT_OVER_ROWS, FUNCTION_CALL])
def test_conversations(talk: list[Line]) -> None:
    """What is forwarded or examined is told to the tracker, as the session does; what is refused or discarded is not."""
    tracker = Tracker()
    for number, (who, message, expected) in enumerate(talk):
        if who == FACADE:
            tracker.scan(message)
            assert tracker.state is expected, number
            continue
        done = step(tracker.state, message)
        assert done is expected, number
        if done in (Step.FORWARD, Step.EXAMINE):
            tracker.forward(message)
    assert tracker.outstanding >= 0


def test_every_builder_of_messages_is_in_the_table() -> None:
    """What the proxy itself sends a facade is of the same protocol."""
    sent = [front.query("x"), front.parse("", "x"), front.bind("", "", ()), front.execute(""), front.SYNC, front.FLUSH]
    assert all(step(State.READY, data[:1]) in (Step.EXAMINE, Step.FORWARD) for data in sent)
