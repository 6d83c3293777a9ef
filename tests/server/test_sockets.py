"""A unix socket beside the port: found where libpq looks, without TLS, cleared away; and who stands in its way."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dpproxy.serve.launch import LaunchError, Proxy, launched
from dpproxy.server.connection_slots import BESIDE, LEAST_WAITING, local_socket, waiting_room
from tests.worlds.certificates import certificate
from tests.worlds.one_table import written
from tests.worlds.wire_client import PASSWORD

PORT = 6432


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module")
def proxy(folder: Path) -> Iterator[Proxy]:
    files = certificate(folder, "server")
    options = ("--unix-socket", str(folder), "--tls-cert", str(files.certificate), "--tls-key", str(files.key), "--require-tls")
    with launched([folder / "shop.yaml"], folder / "state", options=options) as running:
        yield running
    assert not path_of(folder, running.port).exists()


def path_of(folder: Path, port: int) -> Path:
    return folder / f".s.PGSQL.{port}"


def dsn(folder: Path, proxy: Proxy, password: str = PASSWORD) -> str:
    return f"host={folder} port={proxy.port} user=ada password='{password}' dbname=shop"


def test_local_clients_are_served_without_tls(folder: Path, proxy: Proxy) -> None:
    """As libpq wants it: over a unix socket it never encrypts, whatever `--require-tls` asks of others."""
    with psycopg.connect(dsn(folder, proxy)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match="over TLS only"):
        psycopg.connect(f"host={proxy.host} port={proxy.port} user=ada dbname=shop sslmode=disable")


def test_the_password_is_asked_for(folder: Path, proxy: Proxy) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(dsn(folder, proxy, "wrong"))


@pytest.mark.parametrize("first", [bytes([0, 0, 0, 8, 4, 210, 22, 47]), bytes([22, 3, 1, 0, 100])])
def test_encryption_is_not_offered(folder: Path, proxy: Proxy, first: bytes) -> None:
    """To an SSLRequest `N`; the beginning of a handshake is a packet of a wrong length, at which PostgreSQL closes."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(300)
        wire.connect(str(path_of(folder, proxy.port)))
        wire.sendall(first)
        assert wire.recv(1) == (b"N" if first[0] == 0 else b"")


def test_one_that_listens_is_let_be(folder: Path, tmp_path: Path) -> None:
    with local_socket(tmp_path, PORT), pytest.raises(OSError, match="in use"), local_socket(tmp_path, PORT):
        pass
    with local_socket(tmp_path, PORT):
        listen = f"127.0.0.1:{PORT}"
        options = ("--unix-socket", str(tmp_path))
        with (
            pytest.raises(LaunchError, match="cannot listen on"),
            launched([folder / "shop.yaml"], tmp_path, listen, None, options),
        ):
            pass


def test_what_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path_of(tmp_path, PORT)))
    with local_socket(tmp_path, PORT), socket.socket(socket.AF_UNIX) as wire:
        wire.connect(str(path_of(tmp_path, PORT)))
    assert not path_of(tmp_path, PORT).exists()


def test_no_other_file_is_removed(tmp_path: Path) -> None:
    path_of(tmp_path, PORT).write_text("precious")
    with pytest.raises(OSError, match="in use"), local_socket(tmp_path, PORT):
        pass
    assert path_of(tmp_path, PORT).read_text() == "precious"


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "expected"),
    [
        (65536, 65536, None, 1000),
        (1024, 65536, 2000 + BESIDE, 1000),
        (1024, resource.RLIM_INFINITY, 2000 + BESIDE, 1000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, 1000),
        (1024, 1500, 1500, 1500 - 1000 - BESIDE),
        (1024, 1024, 1024, LEAST_WAITING),
    ],
)
def test_as_many_wait_as_the_system_allows_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, asked: int | None, expected: int
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    assert waiting_room(500) == expected
    assert limits[1:] == ([] if asked is None else [(asked, hard)])
