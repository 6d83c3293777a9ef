"""asyncpg: binary throughout, prepares everything, introspects types, pages portals, resets pooled sessions."""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from .conftest import REGIONS, Town

BY_REGION = "SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY region"


async def connect(town: Town) -> Any:
    return await asyncpg.connect(
        host=town.host, port=town.port, user=town.user, password=town.password, database=town.database, ssl=False
    )


async def test_fetch_and_types(town: Town) -> None:
    connection = await connect(town)
    assert [tuple(r) for r in await connection.fetch(BY_REGION)] == REGIONS
    row = await connection.fetchrow(
        "SELECT avg(a) AS a, sum(s) AS s, max(region) AS r FROM "
        "(SELECT region, avg(height) AS a, sum(income) AS s FROM people GROUP BY region) AS _"
    )
    assert isinstance(row["a"], float)
    assert isinstance(row["s"], Decimal)
    assert row["r"] == "west"
    await connection.close()


@pytest.mark.parametrize(
    ("where", "value", "expected"),
    [
        ("income < $1", Decimal(2500), 500),
        ("height >= $1", 175.0, 500),
        ("region = $1", "east", 250),
        ("region = ANY($1)", ["east", "west"], 500),
        ("member = $1", True, 500),
        ("born < $1", dt.date(1950, 1, 21), 1),
        ("joined < $1", dt.datetime(2020, 1, 2), 3),
        ("region = $1", None, 0),
    ],
)
async def test_parameters(town: Town, where: str, value: object, expected: int) -> None:
    connection = await connect(town)
    assert abs(await connection.fetchval(f"SELECT count(*) FROM people WHERE {where}", value) - expected) <= 1
    await connection.close()


async def test_prepare_describes_without_spending(town: Town) -> None:
    connection = await connect(town)
    before = await connection.fetchval("SELECT epsilon_spent FROM dpproxy.budget")
    statement = await connection.prepare("SELECT region, count(*) AS n FROM people WHERE income < $1 GROUP BY region")
    assert [p.name for p in statement.get_parameters()] == ["numeric"]
    assert [(a.name, a.type.name) for a in statement.get_attributes()] == [("region", "text"), ("n", "int8")]
    assert await connection.fetchval("SELECT epsilon_spent FROM dpproxy.budget") == before
    for _ in range(3):
        assert len(await statement.fetch(Decimal(5000))) == 4
    await connection.close()


async def test_cursors_page(town: Town) -> None:
    connection = await connect(town)
    async with connection.transaction():
        got = [tuple(r) async for r in connection.cursor(BY_REGION, prefetch=2)]
        cursor = await connection.cursor(BY_REGION)
        got += [tuple(r) for r in await cursor.fetch(3)]
        await cursor.forward(1)
        assert await cursor.fetch(1) == []
    assert got == [*REGIONS, *REGIONS[:3]]
    await connection.close()


async def test_errors_leave_the_session_usable(town: Town) -> None:
    connection = await connect(town)
    with pytest.raises(asyncpg.UndefinedColumnError):
        await connection.fetch("SELECT nope FROM people")
    with pytest.raises(asyncpg.PostgresError):
        await connection.fetch("SELECT * FROM people")
    async with connection.transaction():
        with pytest.raises(asyncpg.PostgresError):
            async with connection.transaction():
                await connection.fetch("SELECT * FROM people")
        assert [tuple(r) for r in await connection.fetch(BY_REGION)] == REGIONS
    await connection.close()


async def test_a_pool_resets_its_sessions(town: Town) -> None:
    pool = await asyncpg.create_pool(
        host=town.host, port=town.port, user=town.user, password=town.password, database=town.database,
        ssl=False, min_size=1, max_size=3,
    )  # fmt: skip
    async with pool.acquire() as connection:
        await connection.execute("SET dpproxy.epsilon = 700")

    async def one() -> object:
        async with pool.acquire() as connection:
            assert await connection.fetchval("SHOW dpproxy.epsilon") == "1000"
            return [tuple(r) for r in await connection.fetch(BY_REGION)]

    assert await asyncio.gather(*[one() for _ in range(6)]) == [REGIONS] * 6
    await pool.close()


async def test_copy_from_query(town: Town) -> None:
    connection = await connect(town)
    chunks: list[bytes] = []

    async def write(data: bytes) -> None:
        chunks.append(data)

    await connection.copy_from_query(BY_REGION, output=write, format="csv")
    assert b"".join(chunks) == b"east,250\nnorth,250\nsouth,250\nwest,250\n"
    await connection.close()


async def test_timeout_cancels(town: Town) -> None:
    connection = await connect(town)
    with pytest.raises(asyncio.TimeoutError):
        await connection.fetch("SELECT pg_sleep(30)", timeout=0.3)
    assert [tuple(r) for r in await connection.fetch(BY_REGION)] == REGIONS
    await connection.close()


async def test_temp_tables_and_type_introspection(town: Town) -> None:
    connection = await connect(town)
    rows = await connection.fetch("SELECT ARRAY(SELECT n FROM (" + BY_REGION + ") AS x) AS counts, ROW(1, 'a') AS r")
    assert rows[0]["counts"] == [250] * 4
    assert await connection.fetchval("SELECT s FROM shops AS s WHERE id = 2") == (2, "b's", None)
    typed = await connection.fetchval("SELECT array_agg(r) FROM (SELECT region, count(*) FROM people GROUP BY region) AS r")
    assert sorted(typed) == REGIONS
    await connection.close()
