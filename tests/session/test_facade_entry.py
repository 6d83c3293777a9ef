"""Entering the facade: a facade that is being restarted is tried again, one that refuses has the last word."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dpproxy.errors import ADMIN_SHUTDOWN, CANNOT_CONNECT_NOW, UNDEFINED_OBJECT
from dpproxy.facade.cluster import Endpoint
from dpproxy.limits.fair_share import Account
from dpproxy.session import facade_login
from dpproxy.session.facade_login import enter, new_secret
from dpproxy.session.link import FacadeLink, LinkLost
from dpproxy.wire import backend as back

pytestmark = pytest.mark.asyncio
OURS, THEIRS = (7, b"ours"), (12, b"hers")
WELCOME = back.authentication_ok() + back.backend_key_data(*THEIRS) + back.ready_for_query("I")
STARTING = back.error_response("FATAL", CANNOT_CONNECT_NOW, "the database system is starting up")
REFUSED = back.error_response("FATAL", UNDEFINED_OBJECT, "no such setting")


class Entrant:
    def __init__(self) -> None:
        self.account = Account("analyst")
        self.told = b""
        self.behind = False
        self.key = OURS
        self.link = FacadeLink(self)

    def tell(self, data: bytes) -> None:
        self.told += data

    write = tell

    def flush(self) -> None: ...
    def facade_slow(self, slow: bool) -> None: ...
    def link_lost(self) -> None: ...


async def entered(
    entrant: Entrant, folder: Path, answers: list[bytes | None], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, bytes]:
    """What comes of a facade that answers so, one connection after the other; None: it cannot be reached."""
    monkeypatch.setattr(facade_login, "AGAIN", 0)
    path, left = folder / "facade", answers.copy()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(left.pop(0) or b"")
        await writer.drain()
        if left:
            writer.close()

    def endpoint() -> Endpoint:
        if left[0] is None:
            left.pop(0)
            raise OSError
        return Endpoint(path=str(path))

    async with asyncio.timeout(60), await asyncio.start_unix_server(serve, path):
        try:
            return await enter(entrant, endpoint, "analyst@shop", "shop", {})
        finally:
            entrant.link.close()


async def test_a_facade_that_is_restarted_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entrant = Entrant()
    assert await entered(entrant, tmp_path, [None, STARTING, b"", WELCOME], monkeypatch) == THEIRS
    assert entrant.told == back.backend_key_data(*OURS) + back.ready_for_query("I"), "the client hears of one start alone"


@pytest.mark.parametrize(
    "said", [b"", back.error_response("FATAL", ADMIN_SHUTDOWN, "terminating connection")], ids=["dead", "ended"]
)
@pytest.mark.parametrize("size", range(len(WELCOME)))
async def test_a_facade_that_ends_within_its_greeting_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, said: bytes
) -> None:
    """Wherever the greeting is cut, and, between its messages, whether the facade says why: a role's server is made anew while
    others of the role log in."""
    between = size in (0, len(WELCOME) - 6, len(back.authentication_ok()))
    entrant = Entrant()
    answers = [WELCOME[:size] + (said if between else b""), WELCOME]
    assert await entered(entrant, tmp_path, list(answers), monkeypatch) == THEIRS
    assert entrant.told == back.backend_key_data(*OURS) + back.ready_for_query("I"), "the client hears of one start alone"


async def test_a_facade_that_ends_before_its_greeting_is_read_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the loop hears of the greeting and of the end in one turn, before whoever logs in goes on."""
    monkeypatch.setattr(facade_login, "AGAIN", 0)
    entrant, links = Entrant(), list[FacadeLink]()

    async def open_link(_facade: Endpoint, link: FacadeLink) -> None:
        links.append(link)
        link.connection_made(asyncio.Transport())
        monkeypatch.setattr(link, "say", lambda _data: None)

        def answered() -> None:
            link.data_received(WELCOME)
            if len(links) < 3:
                link.connection_lost(None)

        asyncio.get_running_loop().call_soon(answered)

    monkeypatch.setattr(facade_login, "open_link", open_link)
    async with asyncio.timeout(300):
        assert await enter(entrant, lambda: Endpoint(path="facade"), "analyst@shop", "shop", {}) == THEIRS
    assert len(links) == 3
    assert entrant.link is links[-1]
    assert entrant.told == back.backend_key_data(*OURS) + back.ready_for_query("I"), "the client hears of one start alone"


async def test_a_facade_that_refuses_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entrant = Entrant()
    with pytest.raises(LinkLost):
        await entered(entrant, tmp_path, [REFUSED, WELCOME], monkeypatch)
    assert entrant.told == REFUSED


@pytest.mark.parametrize(("minor", "size"), [(0, 4), (2, 32)])
async def test_secrets_are_as_long_as_the_protocol_says_and_each_another(minor: int, size: int) -> None:
    made = {new_secret(minor) for _ in range(50)}
    assert {len(each) for each in made} == {size}
    assert len(made) == 50
