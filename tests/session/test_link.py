"""The facade's side of a session, fed by hand: what nobody asked for keeps its place, and half of it is waited for."""

from __future__ import annotations

import asyncio

import pytest

from dpproxy.session.link import FacadeLink, LinkLost
from dpproxy.wire import backend as back
from dpproxy.wire.framing import PIECE

pytestmark = pytest.mark.asyncio
STATUS = back.parameter_status("TimeZone", "UTC")
NOTICE = back.notice_response("NOTICE", "00000", "x")
ROW = back.data_row([b"x" * (2 * PIECE)])


class Client:
    def __init__(self) -> None:
        self.told = b""
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    def tell(self, data: bytes) -> None:
        self.told += data

    def flush(self) -> None:
        self.sent, self.told = self.sent + self.told, b""

    def pause_client(self) -> None: ...
    def resume_client(self) -> None: ...
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
    await asyncio.wait_for(releasing, 5)
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
