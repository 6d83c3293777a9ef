"""Bytes no client sends: the connection may end, the proxy may not, and nobody else notices."""

from __future__ import annotations

import asyncio
import random

import pytest

from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Wire, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def drain(wire: Wire) -> None:
    """Read until the proxy closes, or says no more."""
    try:
        while await asyncio.wait_for(wire.reader.read(65536), 0.05):
            pass
    except (TimeoutError, OSError):
        pass
    wire.writer.transport.abort()


async def test_random_first_packets(stage: Stage) -> None:
    witness = await stage.connect()
    chance = random.Random(7)
    for _ in range(40):
        wires = [await Wire.open(stage.port) for _ in range(10)]
        for wire in wires:
            wire.send(chance.randbytes(chance.choice((1, 3, 8, 50, 2000))))
        await asyncio.gather(*map(drain, wires))
    assert rows(await witness.query("SELECT 1")) == [("1",)]
    await witness.close()


async def test_random_bytes_after_login(stage: Stage) -> None:
    witness = await stage.connect()
    chance = random.Random(8)
    whole = front.parse("", "SELECT count(*) FROM people") + front.bind("", "", ()) + front.execute("") + front.SYNC
    for _ in range(15):
        wire = await stage.connect()
        data = bytearray(whole * 3)
        for _ in range(chance.randint(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        wire.send(bytes(data))
        await drain(wire)
    assert rows(await witness.query("SELECT 1")) == [("1",)]
    await witness.close()


async def test_half_a_message_harms_nobody(stage: Stage) -> None:
    wire, other = await stage.connect(), await stage.connect()
    wire.send(front.query("SELECT 1")[:-3])
    assert rows(await other.query("SELECT 2")) == [("2",)]
    wire.send(front.query("SELECT 1")[-3:])
    assert tags(await wire.until(b"Z")) == b"TDCZ"
    for opened in (wire, other):
        await opened.close()
