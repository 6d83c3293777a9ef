"""A connection to the operators' pages waits at the door except while a whole request of it is worked on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from dpproxy.console.web import Door, Peer
from dpproxy.serve.console_server import protocol_at

PEER = ("10.0.0.1", 4711)
HEAD = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"


class Told(Door):
    """A door that notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def asked(self, peer: Peer) -> None:
        assert peer == PEER
        self.heard.append("asked")

    def answered(self, peer: Peer) -> None:
        assert peer == PEER
        self.heard.append("answered")

    def left(self, peer: Peer) -> None:
        assert peer == PEER
        self.heard.append("left")


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": PEER, "sockname": ("10.0.0.2", 80)})
        self.written = b""
        self.closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


async def page(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def impatient(scope: Any, receive: Any, send: Any) -> None:
    """Answers before the request is whole."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def told(app: Any, *pieces: bytes) -> list[str]:
    """What the door is told; `;` stands for what happens between two pieces."""
    door = Told()
    config = Config(app, http=protocol_at(door), log_config=None, lifespan="off")
    config.load()
    protocol: Any = config.http_protocol_class(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(Transport())
    for piece in pieces:
        protocol.data_received(piece)
        while protocol.tasks:
            before = list(door.heard), bytes(protocol.transport.written)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if (list(door.heard), bytes(protocol.transport.written)) == before:
                break
        door.heard.append(";")
    protocol.connection_lost(None)
    await asyncio.gather(*protocol.tasks)
    return door.heard


@pytest.mark.parametrize(
    ("pieces", "heard"),
    [
        ((b"GET / HT", b"TP/1.1\r\nHost: lo"), "; ; left"),
        ((b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"\r\n"), "; asked answered ; left"),
        ((HEAD, b"a=", b"b1"), "; ; asked answered ; left"),
        ((HEAD + b"a=b1", HEAD, b"a=b1"), "asked answered ; ; asked answered ; left"),
        ((HEAD + b"a=b1" + HEAD + b"a=b1",), "asked answered ; left"),  # from one to the next it does not wait
    ],
)
async def test_it_waits_until_a_request_is_whole(pieces: tuple[bytes, ...], heard: str) -> None:
    assert " ".join(await told(page, *pieces)) == heard


async def test_a_reply_to_half_a_request_ends_no_waiting() -> None:
    assert await told(impatient, HEAD, b"a=") == [";", ";", "left"]
