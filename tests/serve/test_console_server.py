"""The pages are served in a thread, by HTTP and by TLS, and end with the proxy."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dpproxy.console.token_file import FILE
from dpproxy.serve.console_server import ConsoleServer, console_tls
from dpproxy.serve.options import ServingError
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
