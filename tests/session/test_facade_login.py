"""The proxy's own login: SCRAM against a server that knows the password, and nothing said to one that does not."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from dpproxy.facade.cluster import Endpoint
from dpproxy.session.facade_login import SCRAM, FacadeLogin, cancel_at
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import decode_sasl_initial, decode_sasl_response
from dpproxy.wire.protocol import Frame, ProtocolError
from dpproxy.wire.scram import ScramServer, make_verifier, mock_verifier


def frame(message: bytes) -> Frame:
    return Frame(message[:1], message[5:], message)


def payload(message: bytes) -> bytes:
    return message[5:]


def server_of(stored: str) -> ScramServer:
    return ScramServer(make_verifier(stored), user="analyst@shop", mock=mock_verifier(b"", b""))


def exchange(login: FacadeLogin, stored: str) -> bytes:
    """What the login says at the end."""
    server = server_of(stored)
    first = decode_sasl_initial(frame(login.answer(payload(back.authentication_sasl([SCRAM])))))
    challenge = server.first(first.mechanism, first.data)
    answer = decode_sasl_response(frame(login.answer(payload(back.authentication_sasl_continue(challenge)))))
    return login.answer(payload(back.authentication_sasl_final(server.final(answer.data))))


def test_both_prove_that_they_know_the_password() -> None:
    login = FacadeLogin("analyst@shop", "secret")
    assert exchange(login, "secret") == b""
    assert login.answer(payload(back.authentication_ok())) == b""


def test_another_password_is_no_proof() -> None:
    with pytest.raises(ProtocolError):
        exchange(FacadeLogin("analyst@shop", "secret"), "other")


def test_an_impostor_who_accepts_everything_is_found_out() -> None:
    login = FacadeLogin("analyst@shop", "secret")
    server = server_of("secret")
    first = decode_sasl_initial(frame(login.answer(payload(back.authentication_sasl([SCRAM])))))
    login.answer(payload(back.authentication_sasl_continue(server.first(first.mechanism, first.data))))
    with pytest.raises(ProtocolError, match="the facade's login failed"):
        login.answer(payload(back.authentication_sasl_final(b"v=AAAA")))


CLEARTEXT, MD5 = struct.pack("!I", 3), struct.pack("!I", 5) + b"salt"


@pytest.mark.parametrize("asked", [CLEARTEXT, MD5, payload(back.authentication_sasl(["SCRAM-SHA-1"]))])
def test_a_password_is_never_sent_in_the_clear(asked: bytes) -> None:
    with pytest.raises(ProtocolError, match="a login that is not supported") as error:
        FacadeLogin("analyst@shop", "secret").answer(asked)
    assert error.value.fatal


def test_without_a_password_nothing_is_proved() -> None:
    login = FacadeLogin("analyst@shop", None)
    with pytest.raises(ProtocolError, match="not supported"):
        login.answer(payload(back.authentication_sasl([SCRAM])))
    with pytest.raises(ProtocolError, match="not supported"):
        login.answer(payload(back.authentication_sasl_continue(b"r=x")))
    assert login.answer(payload(back.authentication_ok())) == b""


async def test_a_cancel_request_is_over_when_the_server_has_closed(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readexactly(16))
        writer.close()

    path = str(tmp_path / "socket")
    async with await asyncio.start_unix_server(serve, path):
        await cancel_at(lambda: Endpoint(path=path), (7, b"abcd"), 300)
    assert heard == [front.cancel_request(7, b"abcd")]


async def test_a_cancel_request_to_nobody_is_nobodys_error(tmp_path: Path) -> None:
    def starting() -> Endpoint:
        raise ConnectionRefusedError

    await cancel_at(lambda: Endpoint(path=str(tmp_path / "nothing")), (7, b"abcd"), 300)
    await cancel_at(starting, (7, b"abcd"), 300)


async def test_a_server_that_does_not_close_is_not_waited_for_forever(tmp_path: Path) -> None:
    heard, done = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(16)
        heard.set()
        await done.wait()
        writer.close()

    path = str(tmp_path / "socket")
    async with await asyncio.start_unix_server(serve, path):
        await cancel_at(lambda: Endpoint(path=path), (7, b"abcd"), 0.01)
        done.set()
