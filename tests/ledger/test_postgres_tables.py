"""Tables of a ledger in PostgreSQL are made once, by however many proxies; a ledger made before a function existed gets it."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from dpproxy.records.postgres_tables import prepare

from .conftest import PostgresServer

MADE = "SELECT to_regclass('dpproxy_ledger.entries') IS NOT NULL AND to_regproc('dpproxy_ledger.held') IS NOT NULL"
STILL = "SELECT dpproxy_ledger.still($1, $2, $3, $4)"


@pytest.mark.parametrize("proxies", [1, 4])
def test_made_once_by_however_many(postgres: PostgresServer, proxies: int) -> None:
    async def work() -> Any:
        connections = [await asyncpg.connect(postgres.dsn) for _ in range(proxies)]
        await asyncio.gather(*map(prepare, connections))
        await connections[0].execute("INSERT INTO dpproxy_ledger.head VALUES ('shop', 3, '\\x03')")
        await prepare(connections[0])
        kept = await connections[0].fetchval("SELECT count(*) FROM dpproxy_ledger.head")
        made = await connections[0].fetchval(MADE)
        for connection in connections:
            await connection.close()
        return made, kept

    assert asyncio.run(work()) == (True, 1)


def test_an_older_ledger_gets_what_is_new(postgres: PostgresServer) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(postgres.dsn)
        await prepare(connection)
        await connection.execute("DROP FUNCTION dpproxy_ledger.still, dpproxy_ledger.held")
        await prepare(connection)
        await connection.execute("INSERT INTO dpproxy_ledger.head VALUES ('shop', 3, '\\x03')")
        await connection.fetchval(STILL, "shop", 3, b"\x03", None)
        for head in [
            ("town", 3, b"\x03", None),
            ("shop", 2, b"\x03", None),
            ("shop", 3, b"\x04", None),
            ("shop", 3, b"\x03", b"s"),
        ]:
            with pytest.raises(asyncpg.SerializationError):
                await connection.fetchval(STILL, *head)
        await connection.close()

    asyncio.run(work())


def test_a_record_that_is_held(postgres: PostgresServer) -> None:
    """First its head, which is made where there is none, then what is not known of it, and no more than asked for."""

    async def work() -> None:
        connection = await asyncpg.connect(postgres.dsn)
        await prepare(connection)
        held = "SELECT sequence, hash, seal, body FROM dpproxy_ledger.held($1, $2, $3)"
        assert [tuple(row) for row in await connection.fetch(held, "shop", 0, 9)] == [(0, bytes(32), None, None)]
        rows = [("shop", n, f"id {n}", f"body {n}", bytes([n])) for n in range(1, 6)]
        await connection.executemany("INSERT INTO dpproxy_ledger.entries VALUES ($1, $2, $3, $4, $5)", rows)
        await connection.execute("UPDATE dpproxy_ledger.head SET sequence = 5, hash = '\\x05', seal = '\\xff'")
        for known, most, last in [(0, 9, 5), (3, 9, 5), (1, 2, 3), (5, 9, 5)]:
            head, *found = map(tuple, await connection.fetch(held, "shop", known, most))
            assert head == (5, b"\x05", b"\xff", None)
            assert found == [(n, bytes([n]), None, f"body {n}") for n in range(known + 1, last + 1)]
        await connection.close()

    asyncio.run(work())
