"""How the PostgreSQL backend connects: passwords, TLS to the letter, and several hosts of which one is a standby."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.backends import postgres
from dpproxy.backends.base import BackendError
from dpproxy.backends.postgres import Postgres
from dpproxy.policy.load import load_text
from dpproxy.policy.model import PostgresBackend

WHO = "SELECT current_user::text AS u"


async def answer(dsn: str, password: str | None = None, query: str = WHO) -> dict[str, list[object]]:
    """One row, from a backend of its own."""
    backend = Postgres(PostgresBackend(dsn, password))
    try:
        return (await backend.run([query]))._open()[0].to_pydict()  # type: ignore[no-any-return]
    finally:
        await backend.close()


def openssl(*arguments: str | Path) -> None:
    try:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=300)
    except FileNotFoundError:
        pytest.skip("OPENSSL ABSENT: no certificates to test with")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ca.crt`, `other.crt`, and `server.crt` for `localhost` alone, which `ca` has signed."""
    place = tmp_path_factory.mktemp("certificates")
    for name in ("ca", "other"):
        new = ("-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}")
        openssl("req", "-x509", *new, "-keyout", place / f"{name}.key", "-out", place / f"{name}.crt")
    names = place / "names"
    names.write_text("subjectAltName=DNS:localhost")
    request = place / "server.csr"
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=db", "-keyout", place / "server.key", "-out", request)
    signer = ("-CA", place / "ca.crt", "-CAkey", place / "ca.key", "-CAcreateserial", "-extfile", names)
    openssl("x509", "-req", "-in", request, *signer, "-days", "30", "-out", place / "server.crt")
    return place


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("tls"), hba=["local all reader scram-sha-256"]) as running:
        with psycopg.connect(running.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE ROLE reader LOGIN PASSWORD 'right'")
        yield running


SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_FIELDS = b"SFATAL\0C28000\0Mno pg_hba.conf entry\0\0"
NOT_SO = b"E" + struct.pack("!i", 4 + len(_FIELDS)) + _FIELDS
"""What PostgreSQL says to who does not encrypt and should."""


@pytest.fixture(name="address")
async def address_fixture(server: Scratch, folder: Path) -> AsyncIterator[str]:
    """Of a door to the server, which the wheel builds without TLS: it does the server's part and insists on it."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if await reader.readexactly(8) == SSL_REQUEST:
                writer.write(b"S")
                await writer.start_tls(tls)
                inner, outer = await asyncio.open_unix_connection(str(server.home / ".s.PGSQL.5432"))
                await asyncio.gather(relay(reader, outer), relay(inner, writer))
            writer.write(NOT_SO)
        writer.close()

    door = await asyncio.start_server(serve, "127.0.0.1")
    yield f"postgresql://reader@HOST:{door.sockets[0].getsockname()[1]}/postgres"
    door.close()


async def test_verify_full(address: str, folder: Path) -> None:
    good = f"{address.replace('HOST', 'localhost')}?sslmode=verify-full&sslrootcert={folder / 'ca.crt'}"
    assert await answer(good, "right") == {"u": ["reader"]}


@pytest.mark.parametrize(
    ("host", "options", "password"),
    [
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=ca.crt", "right"),  # the certificate is of `localhost`
        ("localhost", "sslmode=verify-full&sslrootcert=other.crt", "right"),  # nobody known has signed it
        ("localhost", "sslmode=verify-ca&sslrootcert=other.crt", "right"),
        ("localhost", "sslmode=disable", "right"),  # the server insists
        ("localhost", "sslmode=verify-full&sslrootcert=ca.crt", "wrong"),
    ],
)
async def test_what_does_not_hold_is_no_connection(
    address: str, folder: Path, host: str, options: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: no retries, no fall back to less; and the message has no password in it."""
    monkeypatch.setattr(postgres, "TRIES", (0.0, 86400.0))  # a second try would never come
    with pytest.raises(BackendError) as caught:
        await answer(f"{address.replace('HOST', host)}?{options.replace('sslrootcert=', f'sslrootcert={folder}/')}", password)
    assert password not in str(caught.value)


POLICY = """
version: 1
dataset: town
backend: {{ postgres: "{dsn}", password: "{password}" }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 10, delta: 0, every: never }}
tables: {{ people: {{ unit: id, columns: {{ id: unit }} }} }}
roles: {{ analyst: {{ budget: {{ epsilon: 5, delta: 0 }}, query: {{ epsilon: 0.5, max_epsilon: 1 }} }} }}
users: {{}}
"""


@pytest.mark.parametrize("reference", ["${env:READER_PASSWORD}", "${file:secret}"])
async def test_the_password_is_elsewhere(address: str, folder: Path, tmp_path: Path, reference: str) -> None:
    (tmp_path / "secret").write_text("right\n")
    dsn = f"{address.replace('HOST', 'localhost')}?sslmode=verify-full&sslrootcert={folder / 'ca.crt'}"
    policy = load_text(POLICY.format(dsn=dsn, password=reference), "town", tmp_path, {"READER_PASSWORD": "right"})
    assert isinstance(policy.backend, PostgresBackend)
    assert "right" not in repr(policy)
    assert (await answer(policy.backend.dsn, policy.backend.password))["u"] == ["reader"]


# --- several hosts

IN_RECOVERY = "SELECT pg_is_in_recovery() AS r"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scratch, Scratch]]:
    """A primary, and a standby in recovery (of nobody: it has all the log there is)."""
    with contextlib.ExitStack() as stack:
        settings = {"wal_level": "replica", "max_connections": "100", "max_worker_processes": "8", "max_wal_senders": "10"}
        primary = stack.enter_context(scratch_server(tmp_path_factory.mktemp("primary"), settings=settings))
        signal = {"standby.signal": b""}
        standby = stack.enter_context(scratch_server(tmp_path_factory.mktemp("standby"), settings=settings, files=signal))
        yield primary, standby


@pytest.mark.parametrize(
    ("wanted", "expected"), [("any", False), ("primary", False), ("standby", True), ("prefer-standby", True)]
)
async def test_a_standby_is_chosen(pair: tuple[Scratch, Scratch], wanted: str, expected: bool) -> None:
    hosts = ",".join(str(server.home) for server in pair)
    dsn = f"postgresql://postgres@/postgres?host={hosts}&target_session_attrs={wanted}"
    assert await answer(dsn, query=IN_RECOVERY) == {"r": [expected]}


async def test_a_host_that_is_down_is_passed_over(pair: tuple[Scratch, Scratch], tmp_path: Path) -> None:
    """The order of hosts decides, the first that answers is taken; a standby that ends is replaced in the next call."""
    primary, standby = pair
    dead = f"postgresql://postgres@/postgres?host={tmp_path},{standby.home}"
    assert await answer(dead, query=IN_RECOVERY) == {"r": [True]}
    both = Postgres(PostgresBackend(f"postgresql://postgres@/postgres?host={standby.home},{primary.home}"))
    try:
        assert (await both.run([IN_RECOVERY]))._open()[0].to_pydict() == {"r": [True]}
        standby.wait(standby.server.stop())
        try:
            assert (await both.run([IN_RECOVERY]))._open()[0].to_pydict() == {"r": [False]}
        finally:
            standby.wait(standby.server.start())
    finally:
        await both.close()


async def test_a_standby_serves_everything(pair: tuple[Scratch, Scratch]) -> None:
    backend = Postgres(PostgresBackend(pair[1].dsn()))
    assert (await backend.introspect()).tables == {}
    assert await backend.violations(["SELECT 0"]) == (0,)
    await backend.close()
