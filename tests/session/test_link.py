"""The facade's side of a session, fed by hand: what nobody asked for keeps its place, and half of it is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from dpproxy.limits import turns
from dpproxy.limits.fair_share import Account
from dpproxy.session import link as link_module
from dpproxy.session.link import FacadeLink, LinkLost
from dpproxy.session.tracker import Tracker
from dpproxy.wire import backend as back
from dpproxy.wire.framing import PIECE, BackendFramer

pytestmark = pytest.mark.asyncio
STATUS = back.parameter_status("TimeZone", "UTC")
NOTICE = back.notice_response("NOTICE", "00000", "x")
ROW = back.data_row([b"x" * (2 * PIECE)])


class Client:
    def __init__(self) -> None:
        self.account = Account("analyst")
        self.told = b""
        self.sent = b""
        self.behind = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def tell(self, data: bytes) -> None:
        self.told += data

    def flush(self) -> None:
        self.sent, self.told = self.sent + self.told, b""

    def facade_slow(self, slow: bool) -> None: ...
    def link_lost(self) -> None: ...


async def test_a_status_never_comes_within_a_row() -> None:
    client = Client()
    link = FacadeLink(client)
    link.data_received(ROW[: PIECE + 100])
    _, first = await link.read()
    client.tell(first)
    link.data_received(ROW[PIECE + 100 :] + STATUS)
    _, rest = await link.read()
    client.tell(rest)
    link.data_received(back.ready_for_query("I"))
    assert (await link.read())[0] == b"Z"
    assert client.told == ROW + STATUS


@pytest.mark.parametrize("late", [STATUS, NOTICE])
async def test_half_a_message_is_waited_for_before_the_relay_goes_on(late: bytes) -> None:
    client = Client()
    link = FacadeLink(client)
    link.data_received(late[:7])
    releasing = asyncio.ensure_future(link.release())
    await asyncio.sleep(0)
    link.data_received(late[7:])
    await asyncio.wait_for(releasing, 300)
    assert client.sent == late
    link.data_received(NOTICE)
    assert client.sent == late + NOTICE


async def test_who_waits_hears_of_the_end() -> None:
    link = FacadeLink(Client())
    reading = asyncio.ensure_future(link.read())
    await asyncio.sleep(0)
    link.connection_lost(None)
    with pytest.raises(LinkLost):
        await reading
    with pytest.raises(LinkLost):
        await link.read()


CANCELED = back.error_response("ERROR", "57014", "canceling statement due to user request")
EXCUSE = back.error_response("ERROR", "53200", "out of memory", "the sessions of this role together take more than 1 MB")
BEFORE = back.data_row([b"57014", b"E" * 40])


async def relaying() -> tuple[Client, FacadeLink]:
    client = Client()
    link = FacadeLink(client)
    await link.release()
    return client, link


@pytest.mark.parametrize("before", [b"", BEFORE, BEFORE + BEFORE])
@pytest.mark.parametrize("cut", [0, 3, 20])
async def test_a_statement_that_took_too_much_ends_in_the_proxys_words(before: bytes, cut: int) -> None:
    """Also behind rows, whether or not a piece begins with a whole message."""
    client, link = await relaying()
    link.excuse = EXCUSE
    end = before + CANCELED + back.ready_for_query("I")
    cut = cut if before else 0
    link.data_received(end[:cut])
    link.data_received(end[cut:])
    assert client.sent == before + EXCUSE + back.ready_for_query("I")
    assert link.excuse is None


async def test_what_was_not_cancelled_after_all_needs_no_excuse() -> None:
    client, link = await relaying()
    link.excuse = EXCUSE
    link.data_received(BEFORE + back.ready_for_query("I"))
    link.data_received(CANCELED)
    assert client.sent == BEFORE + back.ready_for_query("I") + CANCELED
    link.excuse = EXCUSE
    other = back.error_response("ERROR", "22012", "division by zero")
    link.data_received(other)
    assert client.sent.endswith(other)


async def test_the_conductor_hears_the_same_words() -> None:
    link = FacadeLink(Client())
    link.excuse = EXCUSE
    link.data_received(CANCELED + back.ready_for_query("I"))
    assert await link.read() == (b"E", EXCUSE)
    assert link.excuse is None


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize(("replies", "measured"), [(1, False), (1_000, True)])
async def test_many_replies_in_one_piece_are_put_down_to_who_asked(
    monkeypatch: pytest.MonkeyPatch, captured: bool, replies: int, measured: bool
) -> None:
    """The clock goes on by a second whenever a piece is looked through; a small piece is put down without a look at it."""
    now = 0.0

    def looked(look: Callable[..., object]) -> Callable[..., object]:
        def longer(*given: object) -> object:
            nonlocal now
            now += 1.0
            return look(*given)

        return longer

    client = Client()
    link = FacadeLink(client)
    if not captured:
        await link.release()
    monkeypatch.setattr(Tracker, "scan", looked(Tracker.scan))
    monkeypatch.setattr(BackendFramer, "batch", looked(BackendFramer.batch))
    for module in (link_module, turns):
        monkeypatch.setattr(module, "thread_time", lambda: now)
    link.data_received(back.ready_for_query("I") * replies)
    assert now == 1.0
    assert client.account.fresh == pytest.approx(1.0 if measured else turns.RELAYED)


class Facade:
    """Is the transport to one: whether it is read."""

    def __init__(self) -> None:
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False


def flooded(monkeypatch: pytest.MonkeyPatch, client: Client) -> tuple[FacadeLink, Facade, list[tuple[float, Callable[[], None]]]]:
    """A link in relay whose clock goes on by 0.9 milliseconds for each portion: four are a turn, and what it has the loop do later."""
    link, facade, now, later = FacadeLink(client), Facade(), [0.0], list[tuple[float, Callable[[], None]]]()
    link.connection_made(cast(Any, facade))
    link._captured = False
    look = Tracker.scan

    def slow(tracker: Tracker, data: bytes) -> None:
        assert len(data) <= link_module.PORTION
        now[0] += 0.0009
        look(tracker, data)

    monkeypatch.setattr(Tracker, "scan", slow)
    for module in (link_module, turns):
        monkeypatch.setattr(module, "thread_time", lambda: now[0])
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda delay, do: (later.append((delay, do)), asyncio.Handle(do, (), loop))[1])
    return link, facade, later


@pytest.mark.parametrize("behind", [False, True])
async def test_many_replies_let_others_have_the_loop_between(monkeypatch: pytest.MonkeyPatch, behind: bool) -> None:
    """One read may hold forty thousand: for who is in debt, the next portions wait longer than the last ones took."""
    client = Client()
    client.behind = behind
    link, facade, later = flooded(monkeypatch, client)
    replies = back.ready_for_query("I") * 40_000
    link.data_received(replies)
    turns_taken = 1
    while later:
        delay, go_on = later.pop()
        assert not facade.reading
        assert delay == pytest.approx(link_module.SPARED * 0.0036 if behind else 0, rel=0.01)
        assert len(client.sent) <= turns_taken * 4 * link_module.PORTION
        go_on()
        turns_taken += 1
    assert facade.reading
    assert turns_taken == pytest.approx(len(replies) / link_module.PORTION / 4, abs=1)
    assert client.sent == replies
    assert link.tracker.readies == 40_000
    assert client.account.fresh == pytest.approx(len(replies) / link_module.PORTION * 0.0009, rel=0.03)


async def test_what_arrives_in_a_pause_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    link, _, later = flooded(monkeypatch, client)
    replies = back.ready_for_query("I") * 40_000
    link.data_received(replies)
    seen = len(client.sent)
    link.data_received(replies)
    assert (len(later), len(client.sent)) == (1, seen)
    while later:
        later.pop()[1]()
    assert client.sent == replies * 2


async def test_a_facade_that_ends_is_heard_to_its_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    link, _, later = flooded(monkeypatch, client)
    replies = back.ready_for_query("I") * 40_000
    link.data_received(replies)
    assert later
    monkeypatch.undo()
    link.connection_lost(None)
    assert client.sent == replies
