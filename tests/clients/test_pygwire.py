"""Everything the proxy emits to real drivers, read by pygwire, a codec and state machine of strangers.

A tap sits between driver and proxy. Both directions go through pygwire's decoders and its strict state machine of a
client; what it decoded, encoded again, must be the bytes that came.
"""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import asyncpg
import psycopg
import pytest
from pygwire import FrontendConnection, FrontendMessageDecoder
from pygwire import messages as pg

from dpproxy.facade.account import find_binaries

from .conftest import Town
from .test_psql import BY_REGION

PATIENCE = 20.0
"""Seconds in which a driver that has said goodbye is done."""


@dataclass
class Talk:
    """One connection, as pygwire understood it."""

    sent: list[pg.PGMessage] = field(default_factory=list)
    received: list[pg.PGMessage] = field(default_factory=list)
    raw: bytearray = field(default_factory=bytearray)
    """What the proxy sent."""

    @property
    def kinds(self) -> set[str]:
        return {type(message).__name__ for message in self.received}


class Tap:
    """Accepts connections for the proxy, one thread each. `talks` are complete when `close` has returned."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.talks: list[Talk] = []
        self.wrong: list[BaseException] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    @property
    def place(self) -> Town:
        return replace(self._town, port=self._listener.getsockname()[1])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self.talks.append(Talk())
                thread = threading.Thread(target=self._carry, args=(client, self.talks[-1]))
                self._threads.append(thread)
                thread.start()

    def _carry(self, client: socket.socket, talk: Talk) -> None:
        with client, socket.create_connection((self._town.host, self._town.port)) as server:
            try:
                carry(client, server, talk)
            except Exception as error:
                self.wrong.append(error)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in [self._accepting, *self._threads]:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def carry(client: socket.socket, server: socket.socket, talk: Talk) -> None:
    """Both ways until one ends."""
    connection, decoder = FrontendConnection(), FrontendMessageDecoder()
    while True:
        readable, _, _ = select.select([client, server], [], [], PATIENCE)
        for source in readable:
            data = source.recv(1 << 16)
            if not data:
                return
            if source is client:
                decoder.feed(data)
                decoder.phase = connection.phase
                for message in decoder:
                    connection.send(message)
                    talk.sent.append(message)
                    decoder.phase = connection.phase
                server.sendall(data)
            else:
                talk.raw += data
                talk.received += connection.receive(data)
                client.sendall(data)


@pytest.fixture
def tap(town: Town) -> Iterator[Tap]:
    tapped = Tap(town)
    try:
        yield tapped
    finally:
        tapped.close()
    assert not tapped.wrong, tapped.wrong
    for talk in tapped.talks:
        assert b"".join(message.to_wire() for message in talk.received) == bytes(talk.raw)


def heard(tap: Tap) -> set[str]:
    return set().union(*(talk.kinds for talk in tap.talks))


def test_simple_queries_copies_errors_and_notices(tap: Tap) -> None:
    with psycopg.connect(f"{tap.place.dsn} sslmode=disable", autocommit=True) as connection:
        connection.execute("SET dpproxy.reuse = off")
        connection.execute("SELECT 1; SELECT 2")
        connection.execute(BY_REGION)
        connection.execute("")
        with pytest.raises(psycopg.Error), connection.transaction():
            connection.execute("SELECT * FROM people")
        with connection.cursor() as cursor, cursor.copy(f"COPY ({BY_REGION}) TO STDOUT") as copy:
            assert len(list(copy.rows())) == 4
        connection.execute("CREATE TEMP TABLE mine (x int)")
        with connection.cursor() as cursor, cursor.copy("COPY mine FROM STDIN") as copy:
            copy.write_row((1,))
        with (
            pytest.raises(psycopg.errors.InvalidTextRepresentation),
            connection.cursor() as cursor,
            cursor.copy("COPY mine FROM STDIN") as copy,
        ):
            copy.write_row(("one",))
        with connection.pipeline():
            connection.execute("SELECT 1")
            connection.execute(BY_REGION)
    wanted = {"AuthenticationSASL", "AuthenticationSASLContinue", "AuthenticationSASLFinal", "AuthenticationOk", "BackendKeyData"}
    wanted |= {"ParameterStatus", "ReadyForQuery", "RowDescription", "DataRow", "CommandComplete", "EmptyQueryResponse"}
    wanted |= {
        "ErrorResponse",
        "NoticeResponse",
        "CopyOutResponse",
        "CopyInResponse",
        "CopyData",
        "CopyDone",
    }
    assert wanted <= heard(tap)


async def test_prepared_statements_and_portals(tap: Tap) -> None:
    place = tap.place
    address = {"host": place.host, "port": place.port, "user": place.user, "password": place.password}
    connection = await asyncpg.connect(**address, database=place.database, ssl=False, statement_cache_size=1)
    statement = await connection.prepare("SELECT region, count(*) FROM people WHERE income < $1 GROUP BY region")
    assert len(await statement.fetch(5000)) == 4
    async with connection.transaction():
        cursor = await connection.cursor(BY_REGION)
        assert [len(await cursor.fetch(n)) for n in (3, 3)] == [3, 1]
        await connection.fetch("SET LOCAL work_mem = '8MB'")
    for refused in ("SELECT * FROM people", "SELECT count(nothing) FROM people", "SELECT 1/0"):
        with pytest.raises(asyncpg.PostgresError):
            await connection.fetch(refused)
    assert len(await connection.fetch(BY_REGION)) == 4
    await connection.close()
    wanted = {"ParseComplete", "BindComplete", "ParameterDescription", "RowDescription", "NoData", "PortalSuspended"}
    assert wanted | {"CloseComplete", "ErrorResponse", "DataRow"} <= heard(tap)


def test_psql_with_the_newest_protocol(tap: Tap) -> None:
    script = f"{BY_REGION} \\bind \\g\n\\startpipeline\nSELECT 1 \\bind \\sendpipeline\n{BY_REGION} \\bind \\sendpipeline\n"
    script += f"\\endpipeline\nSELECT 1/0;\n\\set FETCH_COUNT 2\n{BY_REGION};\n\\copy ({BY_REGION}) TO STDOUT\n"
    command = [find_binaries().program("psql"), "-X", "-q", "-A", "-t", "max_protocol_version=latest"]
    environment = {**tap.place.environment, "PGSSLMODE": "disable"}
    found = subprocess.run(command, input=script, env=environment, capture_output=True, text=True, timeout=300)
    assert found.stdout.count("east") == 4, found.stderr
    (startup,) = (message for message in tap.talks[0].sent if isinstance(message, pg.StartupMessage))
    assert startup.protocol_version == (3 << 16) + 2
    assert len(next(m for m in tap.talks[0].received if isinstance(m, pg.BackendKeyData)).secret_key) == 32
