"""The protocol's finer rules, where a statement reads a private table and where the facade is asked alone."""

from __future__ import annotations

import asyncio
import gc
import os

import asyncpg
import pytest

from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data, read_parameter_status
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"
PUBLIC = "SELECT i FROM generate_series(1, 3) AS i"
PRICE = 100_000  # micro-epsilon of one answer


@pytest.mark.parametrize("sql", [PRIVATE, PUBLIC])
async def test_portals_live_as_long_as_their_transaction(stage: Stage, sql: str) -> None:
    """Paged over several Syncs, paid once; at its end a portal has no more rows, and after the transaction it is gone."""
    wire, before = await stage.connect(), stage.spent()
    await wire.query("BEGIN")
    note = b"N" if sql == PRIVATE else b""
    messages = await wire.ask(front.parse("s", sql), front.bind("p", "s", ()), front.execute("p", 1))
    assert tags(messages) == b"1" + note + b"2DsZ"
    assert tags(await wire.ask(front.execute("p", 1))) == b"DsZ"
    assert tags(await wire.ask(front.execute("p", 1), front.execute("p", 1))) == b"DsCZ"
    assert tags(await wire.ask(front.execute("p"))) == b"CZ", "no rows twice"
    assert report(await wire.ask(front.bind("p", "s", ())))["C"] == "42P03", "the name is taken"
    await wire.query("ROLLBACK")
    assert report(await wire.ask(front.execute("p")))["C"] == "34000"
    assert (stage.spent() - before) in ((PRICE, 2 * PRICE) if sql == PRIVATE else (0,))
    await wire.close()


async def test_close(stage: Stage) -> None:
    wire = await stage.connect()
    assert tags(await wire.ask(front.close("S", "no"), front.close("P", "no"))) == b"33Z"
    run = front.bind("p", "s", ()) + front.close("P", "p") + front.execute("p")
    messages = await wire.ask(front.parse("s", PRIVATE), run)
    assert (tags(messages), report(messages)["C"]) == (b"1N23EZ", "34000")
    assert tags(await wire.ask(front.close("S", "s"), front.close("S", "s"))) == b"33Z"
    assert report(await wire.ask(front.describe("S", "s")))["C"] == "26000"
    await wire.close()


async def test_empty_statements(stage: Stage) -> None:
    wire = await stage.connect()
    messages = await wire.ask(front.parse("", ""), front.describe("S", ""), front.bind("", "", ()), front.execute(""))
    assert tags(messages) == b"1tn2IZ"
    for text in (";", " -- nothing\n", "/* people */", ";;SELECT 1;;"):
        assert tags(await wire.query(text)) == (b"TDCZ" if "SELECT" in text else b"IZ")
    assert tags(await wire.ask(front.parse("", "/* people */"), front.bind("", "", ()), front.execute(""))) == b"12IZ"
    await wire.close()


async def test_several_statements_in_one_parse(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    for sql in ("SELECT 1; SELECT 2", f"SELECT 1; {PRIVATE}", f"{PRIVATE}; {PRIVATE}"):
        assert report(await wire.ask(front.parse("", sql)))["C"] == "42601"
    assert stage.spent() == before
    await wire.close()


@pytest.mark.parametrize(
    ("options", "start"), [("", b"e\t1\n"), (" (FORMAT csv)", b"e,1\n"), (" WITH BINARY", b"PGCOPY\n\xff\r\n\0")]
)
async def test_copy_to_stdout(stage: Stage, options: str, start: bytes) -> None:
    wire, before = await stage.connect(), stage.spent()
    sql = f"COPY ({PRIVATE}) TO STDOUT{options}"
    messages = await wire.query(sql)
    assert tags(messages).replace(b"d", b"") == b"HcNCZ"
    assert messages[1][1].startswith(start)
    messages = await wire.ask(front.parse("", sql), front.bind("", "", ()), front.describe("P", ""), front.execute(""))
    assert tags(messages).replace(b"d", b"") == b"1N2nHcCZ"
    assert stage.spent() - before == 2 * PRICE
    await wire.close()


async def test_notices_and_settings_are_told_in_their_place(stage: Stage) -> None:
    """Those of statements around a private one, which the proxy runs while it holds the facade's replies."""
    wire = await stage.connect()
    around = "SET application_name = 'one'", "DROP TABLE IF EXISTS pg_temp.nothing", "SET TimeZone = 'Asia/Tokyo'"
    messages = await wire.query("; ".join((around[0], PRIVATE, around[1], around[2])))
    assert tags(messages).replace(b"S", b"") == b"C" + b"TDDDNC" + b"NC" + b"C" + b"Z"
    told = dict(read_parameter_status(payload) for tag, payload in messages if tag == b"S")
    assert told == {"application_name": "one", "TimeZone": "Asia/Tokyo"}
    await wire.close()


async def test_cancel_takes_one_statement_of_several(stage: Stage) -> None:
    """What waits behind the cancelled one is answered, as with PostgreSQL."""
    wire, before = await stage.connect(), stage.spent()
    stage.engine.gate.clear()
    wire.send(front.query(PRIVATE), front.query("SELECT 5"), front.query(PRIVATE))
    await asyncio.wait_for(stage.engine.started.wait(), 300)
    pid, secret = read_backend_key_data(next(p for t, p in wire.startup if t == b"K"))
    other = await Wire.open(stage.port)
    other.send(front.cancel_request(pid, secret))
    messages = await wire.until(b"Z")
    stage.engine.gate.set()
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "57014")
    assert rows(await wire.until(b"Z")) == [("5",)]
    assert len(rows(await wire.until(b"Z"))) == 3
    assert stage.spent() - before == PRICE, "the cancelled one was paid for, and kept"
    await wire.close()


async def test_a_cancel_request_for_an_idle_session_does_nothing(stage: Stage) -> None:
    wire = await stage.connect()
    pid, secret = read_backend_key_data(next(p for t, p in wire.startup if t == b"K"))
    other = await Wire.open(stage.port)
    other.send(front.cancel_request(pid, secret))
    await other.reader.read()
    await asyncio.sleep(0.1)
    assert len(rows(await wire.query(PRIVATE))) == 3
    await wire.close()


async def test_one_large_result_does_not_hold_up_the_others(stage: Stage) -> None:
    large, small = await stage.connect(), await stage.connect()
    large.send(front.query("SELECT repeat('x', 1000) FROM generate_series(1, 300000)"))
    read = 0

    async def swallow() -> None:
        nonlocal read
        while (data := await large.reader.read(1 << 20)) and not data.endswith(b"Z\0\0\0\x05I"):
            read += len(data)

    reading = asyncio.ensure_future(swallow())
    for i in range(20):
        assert rows(await small.query("SELECT 1")) == [("1",)]
        assert len(rows(await small.query(PRIVATE))) == 3
        assert i or not reading.done(), "an answer came before the end of what takes far longer"
    assert read > 0, "they did run side by side"
    await asyncio.wait_for(reading, 300)
    assert read > 300_000_000 - (1 << 21)
    for wire in (large, small):
        await wire.close()


async def test_connections_leave_nothing_behind(stage: Stage) -> None:
    """However they end: politely, in the middle of a statement, before the login."""
    owner = await asyncpg.connect(host=os.path.dirname(stage.facade.socket), user="postgres", database="shop")
    alive = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop' AND pid <> pg_backend_pid()"

    async def cycle(i: int) -> None:
        if i % 10 == 9:
            (await Wire.open(stage.port)).writer.transport.abort()
            return
        wire = await stage.connect()
        if i % 3 == 0:
            assert len(rows(await wire.query(PRIVATE))) == 3
            wire.send(front.TERMINATE)
        elif i % 3 == 1:
            wire.send(front.query("SELECT pg_sleep(0.01)"), front.query(PRIVATE))
            wire.writer.transport.abort()
        await wire.close()

    async def standing() -> tuple[int, int, int, int, int]:
        for _ in range(15_000):
            if not await owner.fetchval(alive) and not stage.server._doors:
                break
            await asyncio.sleep(0.02)
        gc.collect()
        sessions, doors = len(stage.server._sessions), len(stage.server._doors)
        return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), sessions, doors, await owner.fetchval(alive)

    for i in range(30):
        await cycle(i)
    before = await standing()
    for i in range(90):
        await cycle(i)
    assert await standing() == before
    assert before[2:] == (0, 0, 0)
    await owner.close()
