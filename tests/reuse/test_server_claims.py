"""Claims of proxies on several machines: one makes what several ask for, and the dead claim nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from dpproxy.reuse.server_tables import ServerClaims
from dpproxy.reuse.tables import TablesAway
from tests.worlds.waiting import until

HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpproxy claims'"


@pytest_asyncio.fixture
async def pair(answers_server: str) -> AsyncIterator[tuple[ServerClaims, ServerClaims]]:
    claims = ServerClaims(answers_server), ServerClaims(answers_server)
    yield claims
    for each in claims:
        each.close()


def asked(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(query).fetchone()[0]  # type: ignore[index, call-overload]


async def test_all_names_or_none(pair: tuple[ServerClaims, ServerClaims], answers_server: str) -> None:
    one, other = pair
    assert await one.claim(["a", "b", "b"])
    assert not await one.claim(["b", "c"]), "a session is not held off from its own locks"
    assert not await other.claim(["c", "b"])
    assert await other.claim(["c"]), "nothing was kept of what could not be taken whole"
    one.drop(["a", "b"])
    assert await one.claim(["a"]), "in the order that was asked for"
    await until(lambda: asked(answers_server, HELD) == 2)
    assert await other.claim(["b"])


async def test_the_dead_claim_nothing(pair: tuple[ServerClaims, ServerClaims], answers_server: str) -> None:
    one, other = pair
    assert await one.claim(["a"])
    one.close()
    await until(lambda: asked(answers_server, HELD) == 0)
    assert await other.claim(["a"])


async def test_a_lost_session_claims_again_what_it_had(pair: tuple[ServerClaims, ServerClaims], answers_server: str) -> None:
    one, other = pair
    assert await one.claim(["a", "b"])
    asked(answers_server, CUT)
    await until(lambda: asked(answers_server, HELD) == 0)
    assert await one.claim(["c"])
    assert not await other.claim(["a"])
    one.drop(["a", "b", "c"])
    await until(lambda: asked(answers_server, HELD) == 0)


async def test_who_stops_waiting_claims_nothing(pair: tuple[ServerClaims, ServerClaims], answers_server: str) -> None:
    one, other = pair
    assert await one.claim(["x"])  # the connection is there
    claiming = asyncio.ensure_future(one.claim(["a", "b"]))
    await asyncio.sleep(0)
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    while not await other.claim(["a", "b"]):
        await until(lambda: asked(answers_server, HELD) == 1)
    assert asked(answers_server, HELD) == 3


async def test_no_server_no_claim() -> None:
    claims = ServerClaims("postgresql://postgres@127.0.0.1:1/postgres")
    for _ in (1, 2):
        with pytest.raises(TablesAway, match="the ledger's PostgreSQL"):
            await claims.claim(["a"])
