"""The pages are served in a thread, by HTTP and by TLS, and end with the proxy."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dpproxy.console.tokens import FILE
from dpproxy.console.web import OF_ONE
from dpproxy.serve.console_server import ConsoleServer, console_tls
from dpproxy.serve.runtime import ServingError
from dpproxy.server.tls import TlsFiles
from tests.worlds.certificates import certificate
from tests.worlds.told_source import ToldSource


def test_pages_are_served_until_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = ConsoleServer(("127.0.0.1", 0), ToldSource(), tmp_path)
    address = capsys.readouterr().err.removeprefix("console on ").strip()
    try:
        with urllib.request.urlopen(f"{address}/budgets", timeout=60) as reply:
            assert reply.url.endswith("/login")
            assert b"dpproxy admin token" in reply.read()
            assert reply.headers["Server"] is None
        assert (tmp_path / FILE).exists()
        server.renew()
    finally:
        server.end()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}/login", timeout=60)


FORM = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\na="
)


@pytest.mark.parametrize("half", [b"", b"GET /login HTTP/1.1\r\nHost: local", FORM])
def test_half_requests_hold_no_place_that_somebody_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, half: bytes
) -> None:
    """However many there are, and what of a request they have sent: the first of them are ended."""
    server = ConsoleServer(("127.0.0.1", 0), ToldSource(), tmp_path)
    address = capsys.readouterr().err.removeprefix("console on ").strip()
    port = int(address.rpartition(":")[2])
    silent = []
    try:
        for _ in range(OF_ONE + 3):
            silent.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            silent[-1].sendall(half)
        for _ in range(3):
            with urllib.request.urlopen(f"{address}/login", timeout=60) as reply:
                assert reply.status == 200
        assert [one.recv(1) for one in silent[:3]] == [b"", b"", b""]
    finally:
        for one in silent:
            one.close()
        server.end()
    assert caplog.records == [], "a flood must not fill the log"


FORM_START = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
PIECES = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 3 + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [FORM_START + PIECES, b"GET /login HTTP/1.1\r\nHost: localhost\r\n" + PIECES, FORM_START + b"Content-Length: 65537\r\n\r\n"],
    ids=["a form in pieces", "a page asked for in pieces", "a long form"],
)
def test_a_body_that_no_form_has_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], sent: bytes) -> None:
    """Pieces of one byte, sent for a second, were minutes of work for the thread of the pages."""
    server = ConsoleServer(("127.0.0.1", 0), ToldSource(), tmp_path)
    port = int(capsys.readouterr().err.strip().rpartition(":")[2])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client, client.makefile("rb") as reply:
            client.sendall(sent)
            assert reply.readline() == b"HTTP/1.1 400 Bad Request\r\n"
            assert b"connection: close\r\n" in [line.lower() for line in reply]
    finally:
        server.end()


def test_an_address_in_use_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ServingError, match="cannot listen on"):
        ConsoleServer(("127.0.0.1", taken.getsockname()[1]), ToldSource(), tmp_path)


def test_what_is_encrypted() -> None:
    tls = TlsFiles(Path("c"), Path("k"))
    assert console_tls("127.0.0.1", tls, False) is None
    assert console_tls("10.0.0.1", tls, False) is tls
    assert console_tls("10.0.0.1", tls, True) is None


def test_elsewhere_pages_are_encrypted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tls = certificate(tmp_path, "localhost")
    server = ConsoleServer(("127.0.0.1", 0), ToldSource(), tmp_path, tls)
    address = capsys.readouterr().err.removeprefix("console on ").strip()
    try:
        context = ssl.create_default_context(cafile=str(tls.certificate))
        context.check_hostname = False
        with urllib.request.urlopen(f"{address}/login", timeout=60, context=context) as reply:
            assert "Secure" in reply.headers["Set-Cookie"]
        server.renew()
    finally:
        server.end()
