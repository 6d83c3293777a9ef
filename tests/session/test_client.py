"""A session and its connection: what is relayed, what ends it, and that one client does not hold up another."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Iterable

import asyncpg
import pytest

from dpproxy.session import client, concern
from dpproxy.session.inflow import BufferPool
from dpproxy.session.memo import Memo
from dpproxy.wire import frontend_build as front
from dpproxy.wire.framing import MOST, Batch, FrontendFramer
from tests.worlds.scripted import Stage
from tests.worlds.waiting import until
from tests.worlds.wire_client import Wire, report, rows, tags

from .texts import GROUPS, PRICE, PRIVATE

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_relay_costs_nothing(stage: Stage) -> None:
    wire, before = await stage.connect(), stage.spent()
    for sql in ("", "SELECT 1", "SELECT * FROM shops", "SELECT relname FROM pg_class WHERE relname = 'people'"):
        assert tags(await wire.query(sql))[-1:] == b"Z"
    assert tags(await wire.query("SET dpproxy.epsilon = 0.2; SHOW dpproxy.epsilon")) == b"CTDCZ"
    assert stage.spent() == before
    assert stage.engine.asked == []
    await wire.close()


async def test_oversized_messages_end_the_connection_only(stage: Stage) -> None:
    wire, other = await stage.connect(), await stage.connect()
    wire.send(b"Q\x7f\xff\xff\xff")
    assert report(await wire.until(b"E"))["C"] == "08P01"
    assert rows(await other.query("SELECT 1")) == [("1",)]
    await other.close()


async def test_a_slow_client_stops_the_facade_not_the_proxy(stage: Stage) -> None:
    """200 MB of rows for a client that does not read: the proxy must not hold them."""
    wire = await stage.connect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wire.reader._limit = 1 << 16
    wire.send(front.query("SELECT repeat('x', 1000) FROM generate_series(1, 200000)"))
    await asyncio.sleep(1.5)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kilobytes"
    wire.writer.transport.abort()


async def test_half_messages_are_held_as_far_as_there_is_room(stage: Stage) -> None:
    """Twelve sessions begin messages of 2 MB, and there is room for two of these; others do not notice. Each is whole in the end."""
    size, former = 2 << 20, stage.server.buffers
    stage.server.buffers = pool = BufferPool(5 << 20, 20 << 20)
    try:
        wires, whole = [await stage.connect() for _ in range(12)], front.query("SELECT 1 -- ".ljust(size))
        for wire in wires:
            wire.send(whole[:-1])
        await until(lambda: pool.held > size)
        other = await stage.connect()
        assert rows(await other.query("SELECT 2")) == [("2",)]
        assert pool.held <= 5 << 20
        assert sum(session.half is not None for session in stage.server.sessions()) <= 2
        for wire in wires:
            wire.send(whole[-1:])
        for wire in wires:
            assert tags(await wire.until(b"Z"))[-2:] == b"CZ"
            await wire.close()
        await until(lambda: pool.held == 0)
        await other.close()
    finally:
        stage.server.buffers = former


async def test_an_empty_text_and_a_lost_facade(stage: Stage) -> None:
    wire, own = await stage.connect(), await stage.connect()
    assert tags(await wire.query("")) == b"IZ"
    pid = (await wire.query("SELECT pg_backend_pid()"))[1][1][6:]
    os.kill(int(pid), signal.SIGTERM)
    assert report(await wire.until(b"E"))["C"] == "57P01"
    with pytest.raises(EOFError):
        await wire.read()
    assert rows(await own.query(PRIVATE)) == GROUPS
    await own.close()


async def test_a_client_that_leaves_is_finished_for(stage: Stage) -> None:
    wire, cancelled, before = await stage.connect(), stage.engine.cancelled, stage.spent()
    stage.engine.gate.clear()
    wire.send(front.query(PRIVATE))
    await asyncio.wait_for(stage.engine.started.wait(), 300)
    wire.writer.transport.abort()
    while stage.server.occupancy():
        await asyncio.sleep(0.01)
    stage.engine.gate.set()
    other = await stage.connect()
    assert rows(await other.query(PRIVATE)) == GROUPS
    assert (stage.engine.cancelled, stage.spent() - before) == (cancelled, PRICE)
    await other.close()


async def test_one_large_result_does_not_hold_up_the_others(stage: Stage) -> None:
    large, small = await stage.connect(), await stage.connect()
    large.send(front.query("SELECT repeat('x', 1000) FROM generate_series(1, 300000)"))
    read, begun = 0, asyncio.Event()

    async def swallow() -> None:
        nonlocal read
        while (data := await large.reader.read(1 << 20)) and not data.endswith(b"Z\0\0\0\x05I"):
            read += len(data)
            begun.set()

    reading = asyncio.ensure_future(swallow())
    await asyncio.wait_for(begun.wait(), 300)
    for i in range(20):
        assert rows(await small.query("SELECT 1")) == [("1",)]
        assert len(rows(await small.query(PRIVATE))) == 3
        assert i or not reading.done(), "an answer came before the end of what takes far longer"
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
            if not await owner.fetchval(alive) and not stage.server._arrivals:
                break
            await asyncio.sleep(0.02)
        gc.collect()
        sessions, doors = len(stage.server._sessions), len(stage.server._arrivals)
        return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), sessions, doors, await owner.fetchval(alive)

    for i in range(30):
        await cycle(i)
    before = await standing()
    for i in range(90):
        await cycle(i)
    after = await standing()
    assert after[1:] == before[1:]
    assert after[0] <= before[0], "files: fewer, where what other tests left in this process is collected meanwhile"
    assert before[2:] == (0, 0, 0)
    await owner.close()


async def test_however_many_messages_come_at_once_few_are_looked_at_in_one_turn(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read full of the smallest messages, and one full of texts that are all new: both in parts, all answered in order."""
    cut, looks, per_turn = FrontendFramer.batch, Memo.mentions, list[int]()
    sizes, made = list[int](), 0

    def counted_cut(self: FrontendFramer, data: bytes) -> Batch:
        batch = cut(self, data)
        sizes.append(len(batch.spans))
        return batch

    def counted_look(self: Memo, text: bytes, words: Iterable[bytes]) -> bool:
        nonlocal made
        made += 1
        return looks(self, text, words)

    look = client.ClientSession._look

    def counted_turn(self: client.ClientSession, data: bytes) -> None:
        before = made
        look(self, data)
        per_turn.append(made - before)

    wire = await stage.connect()
    monkeypatch.setattr(FrontendFramer, "batch", counted_cut)
    wire.send(b"H\0\0\0\x04" * 60_000 + front.query("SELECT 7"))
    assert rows(await wire.until(b"Z")) == [("7",)]
    assert max(sizes) == MOST
    assert sum(sizes) == 60_001
    monkeypatch.setattr(Memo, "mentions", counted_look)
    monkeypatch.setattr(client.ClientSession, "_look", counted_turn)
    monkeypatch.setattr(concern, "LOOKS", 2_000)
    wire.send(b"".join(front.query(f"SELECT {number} AS new") for number in range(900)))
    got = [rows(await wire.until(b"Z"))[0][0] for _ in range(900)]
    assert got == [str(number) for number in range(900)]
    assert 0 < max(per_turn) <= 2_000 // len(stage.dataset.words)
    await wire.close()
