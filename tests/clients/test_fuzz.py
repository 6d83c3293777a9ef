"""Mutated statements and mutated messages through a proxy: whatever is sent, nothing fails inside, and nobody else notices.

XX000 is what PostgreSQL and dpproxy call a fault of their own. Long mode sends 20,000 statements and 100,000 messages.
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
from pathlib import Path

import pytest

from dpproxy.wire import frontend_build as front
from tests.clients.conftest import Town
from tests.sql.statement_mutants import alone, mutant
from tests.worlds.wire_client import Wire, report, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")
NO_TYPE = b"CXX000\0Mcache lookup failed for type"  # PostgreSQL's own answer to a parameter type that does not exist
SECONDS = 10.0  # of one statement, on a busy machine
MOST = 600 << 20  # bytes of the proxy's process, whatever was sent
STATEMENTS = (
    "SELECT region, count(*) AS n FROM people GROUP BY 1 ORDER BY 2 DESC LIMIT 3",
    "SELECT count(*) FROM people WHERE region <> 'e' AND region LIKE 'n%'",
    "WITH t AS (SELECT region FROM people) SELECT count(DISTINCT region) FROM t HAVING count(*) > 1",
    "SELECT count(*) FILTER (WHERE region IS NULL), CASE WHEN count(*) > 10 THEN 'many' ELSE 'few' END FROM people",
    "SELECT * FROM (SELECT region, count(*) AS n FROM people GROUP BY region) t WHERE n > 2 UNION ALL SELECT 'x', 1",
    "EXPLAIN SELECT region, count(*) FROM people GROUP BY region",
    "SELECT a.region FROM people a JOIN people b ON a.region = b.region",
    "SELECT relname, count(*) FROM pg_class GROUP BY 1; SELECT count(*) FROM people",
)
PRIVATE = front.parse("s", STATEMENTS[0]) + front.bind("p", "s", ()) + front.describe("P", "p") + front.execute("p")
STREAM = (
    front.query("SELECT 1") + PRIVATE + front.SYNC + front.parse("", "SELECT $1::int", (23,)) + front.bind("", "", (b"1",)) + front.execute("")
    + front.close("S", "s") + front.FLUSH + front.SYNC + front.query(STATEMENTS[1])
)  # fmt: skip
MESSAGES = 14  # in STREAM


async def connected(town: Town) -> Wire:
    wire = await Wire.open(town.port)
    await wire.login("ada", town.database, town.password)
    return wire


async def unharmed(town: Town) -> None:
    witness = await connected(town)
    assert rows(await witness.query("SELECT 1")) == [("1",)]
    await witness.close()


async def told(wire: Wire, sql: str) -> str:
    """The SQLSTATE of what comes of a statement; "" for none. Raises EOFError where the proxy hangs up."""
    wire.send(front.query(sql))
    messages = await asyncio.wait_for(wire.until(b"Z"), SECONDS)
    return str(report(messages).get("C", "")) if any(tag == b"E" for tag, _ in messages) else ""


def resident(town: Town) -> int:
    """Bytes of memory that the proxy's process has."""
    pages = Path(f"/proc/{town.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


async def statements(town: Town, count: int, seed: int) -> None:
    chance, wire, answered, sent = random.Random(seed), await connected(town), 0, 0
    while sent < count:
        sql = (
            mutant(chance, chance.choice(STATEMENTS))
            if chance.random() < 0.8
            else alone(chance).replace("FROM t", "FROM people t")
        )
        if "\0" in sql or "copy" in sql.lower():
            continue
        sent += 1
        began = time.monotonic()
        state = await told(wire, sql)
        assert not state.startswith("XX"), sql
        assert time.monotonic() - began < SECONDS, sql
        answered += not state
        if state[:2] == "25":  # a block that a mutant began
            await told(wire, "ROLLBACK")
    assert answered > count / 100
    await wire.close()
    await unharmed(town)


async def test_mutated_statements(town: Town) -> None:
    await statements(town, 60, 1)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
async def test_twenty_thousand_mutated_statements(town: Town, part: int) -> None:
    await statements(town, 1_000, 100 + part)
    assert resident(town) < MOST
    print(f"{resident(town) >> 20} MB")


async def heard(wire: Wire) -> bytes:
    """All that the proxy says until it hangs up, or is silent."""
    found = b""
    try:
        while data := await asyncio.wait_for(wire.reader.read(65536), 0.1):
            found += data
    except (TimeoutError, OSError):
        pass
    wire.writer.transport.abort()
    return found


def mutated(chance: random.Random) -> bytes:
    """The stream with some bytes changed, put in or left out."""
    data = bytearray(STREAM)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at:at] = chance.randbytes(chance.choice((1, 2, 5)))
            case 2:
                del data[at : at + chance.choice((1, 2, 5))]
            case _:
                data[at] ^= 1 << chance.randrange(8)
    return bytes(data)


async def messages(town: Town, count: int, seed: int) -> None:
    chance = random.Random(seed)

    async def one(data: bytes) -> None:
        wire = await connected(town)
        wire.send(data)
        said = await heard(wire)
        assert b"CXX" not in said.replace(NO_TYPE, b""), data

    for _ in range(count // MESSAGES // 10 + 1):
        await asyncio.gather(*(one(mutated(chance)) for _ in range(10)))
    await unharmed(town)


async def test_mutated_messages(town: Town) -> None:
    await messages(town, 400, 2)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
async def test_a_hundred_thousand_mutated_messages(town: Town, part: int) -> None:
    await messages(town, 10_000, 200 + part)
