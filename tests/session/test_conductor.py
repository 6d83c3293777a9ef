"""Messages in their order: what is pipelined, what waits, what is refused or no message at all."""

from __future__ import annotations

import asyncio

import pytest

from dpproxy.session import client, conductor
from dpproxy.session.conductor import LONGEST
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import FrontendMessage, decode_frontend
from dpproxy.wire.protocol import Frame
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import report, rows, tags

from .texts import GROUPS, PRIVATE

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_pipelines_keep_their_order(stage: Stage) -> None:
    """Relayed and private messages in one piece, and the piece cut anywhere."""
    wire = await stage.connect()
    one = front.parse("", "SELECT 1") + front.bind("", "", ()) + front.execute("")
    own = front.parse("", PRIVATE) + front.bind("", "", ()) + front.execute("")
    data = front.query("SELECT 5") + one + own + one + front.SYNC + front.query(PRIVATE) + front.query("SELECT 6")
    expected = b"TDCZ" + b"12DC" + b"1N2DDDC" + b"12DC" + b"Z" + b"TDDDNCZ" + b"TDCZ"
    wire.send(data)
    assert tags([m for _ in range(4) for m in await wire.until(b"Z")]) == expected
    for start in range(0, len(data), 7):
        wire.send(data[start : start + 7])
        await wire.writer.drain()
        await asyncio.sleep(0.001)
    assert tags([m for _ in range(4) for m in await wire.until(b"Z")]) == expected
    await wire.close()


async def test_messages_wait_behind_a_private_statement(stage: Stage) -> None:
    wire = await stage.connect()
    stage.engine.gate.clear()
    wire.send(front.query(PRIVATE), front.query("SELECT 1"))
    await asyncio.wait_for(stage.engine.started.wait(), 300)
    wire.send(front.query("SELECT 2"))
    await asyncio.sleep(0.05)
    stage.engine.gate.set()
    got = [await wire.until(b"Z") for _ in range(3)]
    assert [rows(m)[0][0] for m in got] == ["e", "1", "2"]
    await wire.close()


async def test_a_copy_in_passes_through(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.query("CREATE TEMP TABLE t (x int)")
    wire.send(front.query("COPY t FROM STDIN"))
    assert (await wire.read())[0] == b"G"
    wire.send(b"d\0\0\0\x06" + b"5\n", b"c\0\0\0\x04")
    assert tags(await wire.until(b"Z")) == b"CZ"
    assert rows(await wire.query("SELECT * FROM t")) == [("5",)]
    assert rows(await wire.query(PRIVATE)) == GROUPS
    await wire.close()


async def test_function_calls_and_unknown_messages(stage: Stage) -> None:
    wire = await stage.connect()
    wire.send(b"F\0\0\0\x08\0\0\0\0")
    messages = await wire.until(b"Z")
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "0A000")
    wire.send(b"?\0\0\0\x04")
    assert report(await wire.until(b"E"))["C"] == "08P01"
    with pytest.raises(EOFError):
        await wire.read()


async def test_invalid_utf8_in_a_private_statement(stage: Stage) -> None:
    wire = await stage.connect()
    text = PRIVATE.encode() + b" -- \xff\0"
    wire.send(b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
    messages = await wire.until(b"Z")
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "22021")
    assert rows(await wire.query(PRIVATE)) == GROUPS
    await wire.close()


async def test_a_pipeline_that_is_not_read_lets_others_have_the_loop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """With slices of no length each message of a pipeline is worked on in a turn of the loop of its own."""
    wire, turns = await stage.connect(), 0

    async def counted(*_: object) -> None:
        nonlocal turns
        turns += 1
        await asyncio.sleep(0)

    monkeypatch.setattr(client, "breathe", counted)
    await wire.ask(front.parse("own", PRIVATE))
    before = turns
    one = front.parse("", "SELECT 1 -- people") + front.bind("", "", ()) + front.execute("") + front.SYNC
    wire.send(one * 50)
    for _ in range(50):
        assert tags(await wire.until(b"Z")) == b"12DCZ"
    assert turns - before >= 200
    await wire.close()


@pytest.mark.parametrize("tag", [b"Q", b"P"])
async def test_a_text_too_long_to_be_taken_apart_is_refused_by_its_bytes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tag: bytes
) -> None:
    """It is neither decoded nor split. The next message is answered."""
    wire, before = await stage.connect(), stage.spent()
    read: list[bytes] = []

    def decoded(frame: Frame) -> FrontendMessage:
        read.append(frame.tag)
        return decode_frontend(frame)

    monkeypatch.setattr(conductor, "decode_frontend", decoded)
    text = PRIVATE + " " * LONGEST
    messages = await wire.query(text) if tag == b"Q" else await wire.ask(front.parse("", text))
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "54001")
    harmless = "SELECT 1" + " " * (2 << 20)
    assert tags(await wire.query(harmless)) == b"TDCZ"
    assert read == []
    assert rows(await wire.query(PRIVATE)) == GROUPS
    assert stage.spent() > before
    await wire.close()
