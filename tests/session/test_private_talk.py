"""Questions of the proxy's own to the facade: how each begins and ends in either protocol, and what an error becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from dpproxy.answers.statement_end import StatementFailed
from dpproxy.session.link import Exchange
from dpproxy.session.private_talk import SCRATCH, PrivateTalk
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front


@dataclass
class Tracker:
    failed: bool = False
    status: str = "I"


@dataclass
class Link:
    """Answers what it is told to; `sent` holds the bytes and how many completions were awaited."""

    replies: Exchange = field(default_factory=Exchange)
    sent: list[tuple[bytes, int | None]] = field(default_factory=list)
    tracker: Tracker = field(default_factory=Tracker)

    async def exchange(self, data: bytes, completions: int | None) -> Exchange:
        self.sent.append((data, completions))
        return self.replies


def talk(extended: bool, link: Link) -> PrivateTalk:
    fake: Any = link
    return PrivateTalk(fake, extended)


async def test_a_question_ends_with_sync_or_is_one_of_several() -> None:
    simple, extended = Link(), Link()
    await talk(False, simple).ask(b"question", 3)
    await talk(True, extended).ask(b"question", 3)
    assert simple.sent == [(b"question" + front.SYNC, None)]
    assert extended.sent == [(b"question", 3)]


async def test_a_row_is_asked_for_under_a_name_of_its_own() -> None:
    rows = [(b"D", back.data_row([b"old"])), (b"D", back.data_row([b"1", None]))]
    link = Link(Exchange(rows))
    row, replies = await talk(True, link).ask_row("SELECT $1", (23,), (b"1",), (0,), before=b"before", completions=2)
    assert row == (b"1", None), "the last one: what was sent before may have rows of its own"
    assert replies is link.replies
    ((sent, completions),) = link.sent
    assert sent == b"before" + front.close("S", SCRATCH) + front.parse(SCRATCH, "SELECT $1", (23,)) + front.bind(
        SCRATCH, SCRATCH, (b"1",), (0,)
    ) + front.execute(SCRATCH) + front.close("P", SCRATCH)
    assert completions == 7


async def test_what_is_sent_along_is_behind_the_question() -> None:
    link = Link(Exchange([(b"D", back.data_row([b"1"]))]))
    await talk(False, link).ask_row("SELECT 1", behind=b"behind")
    assert link.sent[0][0].endswith(front.close("P", SCRATCH) + b"behind" + front.SYNC)


async def test_an_error_is_the_facades_and_names_no_portal_of_ours() -> None:
    said = f'invalid value for portal "{SCRATCH}" parameter $1'
    link = Link(Exchange(error=back.error_response("ERROR", "22P03", said)))
    with pytest.raises(StatementFailed) as failed:
        await talk(True, link).ask(b"question", 1)
    report = back.read_report(failed.value.raw[5:])
    assert report["M"] == "invalid value for unnamed portal parameter $1"
    assert int.from_bytes(failed.value.raw[1:5], "big") == len(failed.value.raw) - 1


@pytest.mark.parametrize(
    ("extended", "tracker", "asked"),
    [
        (False, Tracker(status="I"), 0),
        (False, Tracker(status="T"), 1),
        (False, Tracker(status="E"), 0),
        (True, Tracker(), 1),
        (True, Tracker(failed=True), 0),
    ],
)
async def test_a_refusal_aborts_what_an_error_would(extended: bool, tracker: Tracker, asked: int) -> None:
    link = Link(tracker=tracker)
    await talk(extended, link).fail()
    sync = b"" if extended else front.SYNC
    assert link.sent == [(front.parse(SCRATCH, "refused") + sync, 1 if extended else None)] * asked
