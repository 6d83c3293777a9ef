"""Messages that are wrong in one way each: the right SQLSTATE, then the end or the next message, and nobody else notices."""

from __future__ import annotations

import asyncio
import random
import time

import psutil
import pytest

from dpproxy.session.encodings import CODECS
from dpproxy.wire import frontend_build as front
from dpproxy.wire.framing import MAX_MESSAGE
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"
RUN = front.bind("", "", ()) + front.execute("")


def message(tag: bytes, payload: bytes) -> bytes:
    return tag + (len(payload) + 4).to_bytes(4, "big") + payload


async def unharmed(witness: Wire) -> None:
    assert rows(await witness.query("SELECT 1")) == [("1",)]
    await witness.close()


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, MAX_MESSAGE + 1, 2**31 - 1])
@pytest.mark.parametrize("tag", [b"Q", b"P", b"B", b"D", b"E", b"C", b"H", b"S", b"F", b"d", b"c", b"f", b"p", b"X", b"?", b"\0"])
async def test_wrong_lengths(stage: Stage, tag: bytes, length: int) -> None:
    """In order behind a good message, whose answer still comes."""
    wire = await stage.connect()
    wire.send(front.query("SELECT 1"))
    assert tags(await wire.until(b"Z")) == b"TDCZ"
    wire.send(tag + length.to_bytes(4, "big", signed=True))
    error = report(await wire.until(b"E"))
    assert (error["C"], error["S"]) == ("08P01", "FATAL")
    with pytest.raises(EOFError):
        await wire.read()


@pytest.mark.parametrize("tag", [b"D", b"E", b"C", b"H", b"S", b"X"])
async def test_small_messages_are_small(stage: Stage, tag: bytes) -> None:
    """A length above the cap is refused before its bytes are waited for."""
    wire = await stage.connect()
    wire.send(tag + (10_001).to_bytes(4, "big"))
    assert report(await wire.until(b"E"))["C"] == "08P01"


CASES = {
    "bind of nothing": (front.bind("", "no", ()), "26000"),
    "execute of nothing": (front.execute("no"), "34000"),
    "describe of no statement": (front.describe("S", "no"), "26000"),
    "describe of no portal": (front.describe("P", "no"), "34000"),
    "describe of neither": (message(b"D", b"?no\0"), "08P01"),
    "close of neither": (message(b"C", b"?no\0"), "08P01"),
    "execute before bind": (front.parse("", "SELECT 1") + front.execute(""), "34000"),
    "too few values": (front.parse("", "SELECT $1::int") + RUN, "08P01"),
    "too few values, private": (front.parse("", f"{PRIVATE} HAVING count(*) > $1") + RUN, "08P01"),
    "parse without an end": (message(b"P", b"name"), "08P01"),
    "parse without an end, private": (message(b"P", b"\0SELECT count(*) FROM people"), "08P01"),
    "more parameter types than sent": (message(b"P", b"\0SELECT 1\0\0\5"), "08P01"),
    "more behind the end": (message(b"P", b"\0SELECT count(*) FROM people\0\0\0more"), "08P01"),
    "bind with a format of its own": (
        front.parse("", "SELECT 1") + front.bind("", "", (), (), (7,)) + front.execute(""),
        "22023",
    ),
    "bind of a private one with it": (front.parse("", PRIVATE) + front.bind("", "", (), (), (7,)) + front.execute(""), "22023"),
    "not UTF-8": (message(b"P", b"\0SELECT '\xff'\0\0\0") + RUN, "22021"),
    "not UTF-8, private": (message(b"P", b"\0SELECT count(*) FROM people -- \xc3(\0\0\0") + RUN, "22021"),
    "half a surrogate, private": (message(b"P", b"\0SELECT count(*) FROM people -- \xed\xa0\x80\0\0\0") + RUN, "22021"),
    "a NUL within, private": (message(b"P", b"\0SELECT count(*)\0 FROM people\0\0\0") + RUN, "08P01"),
}


@pytest.mark.parametrize(("sent", "sqlstate"), CASES.values(), ids=CASES.keys())
async def test_wrong_messages_are_errors(stage: Stage, sent: bytes, sqlstate: str) -> None:
    """What follows is skipped to Sync; then the session goes on. Nothing is charged."""
    wire, before = await stage.connect(), stage.spent()
    messages = await wire.ask(sent, front.parse("x", "SELECT 1"), front.parse("y", PRIVATE), RUN)
    assert tags(messages).endswith(b"EZ")
    assert report(messages)["C"] == sqlstate
    assert rows(await wire.query("SELECT 2")) == [("2",)]
    assert stage.spent() == before
    await wire.close()


@pytest.mark.parametrize(
    "text", [b"SELECT 1\0 FROM people\0", b"SELECT 1\0;\0", b"SELECT 1", b"", b"SELECT count(*) FROM people"]
)
async def test_queries_without_their_one_end(stage: Stage, text: bytes) -> None:
    wire = await stage.connect()
    wire.send(message(b"Q", text))
    messages = await wire.until(b"Z")
    assert (tags(messages), report(messages)["C"]) == (b"EZ", "08P01")
    assert rows(await wire.query("SELECT 2")) == [("2",)]
    await wire.close()


@pytest.mark.parametrize("sent", [message(b"p", b"x\0"), front.startup("ada", "shop", {}), front.ssl_request()])
async def test_a_login_after_the_login_ends_the_session(stage: Stage, sent: bytes) -> None:
    wire, witness = await stage.connect(), await stage.connect()
    wire.send(sent)
    assert report(await wire.until(b"E"))["S"] == "FATAL"
    with pytest.raises(EOFError):
        await wire.read()
    await unharmed(witness)


async def test_copy_messages_out_of_place_are_ignored(stage: Stage) -> None:
    wire = await stage.connect()
    wire.send(message(b"d", b"5\n"), message(b"c", b""), message(b"f", b"no\0"), front.query(PRIVATE))
    assert tags(await wire.until(b"Z")) == b"TDDDNCZ"
    wire.send(front.SYNC, front.SYNC, front.FLUSH, front.query("SELECT 1"))
    assert tags([m for _ in range(3) for m in await wire.until(b"Z")]) == b"ZZTDCZ"
    await wire.close()


ENCODINGS = ["LATIN1", "LATIN9", "WIN1252", "WIN1251", "KOI8R", "EUC_JP", "EUC_KR", "SJIS", "BIG5", "GB18030", "UHC", "SQL_ASCII"]


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_other_encodings(stage: Stage, encoding: str) -> None:
    """PostgreSQL converts what it answers itself; a private answer is right or refused."""
    wire = await stage.connect()
    expected = (await wire.query(f"SELECT convert_to('¤é日本', '{encoding if encoding != 'SQL_ASCII' else 'UTF8'}')"))[0][0]
    assert expected in b"TE"
    assert tags(await wire.query(f"SET client_encoding = '{encoding}'")) == b"CSZ"
    assert rows(await wire.query("SELECT 'a'")) == [("a",)]
    messages = await wire.query(PRIVATE)
    if encoding in CODECS:
        assert rows(messages) == [("e", "1"), ('n"\\', "20"), (None, "300")]
        beyond = await wire.query(PRIVATE.replace("people", "people WHERE region <> 'é'"))
        assert tags(beyond) == b"EZ" or encoding == "SQL_ASCII"
    else:
        assert (report(messages)["C"], "UTF8" in report(messages)["M"]) == ("0A000", True)
    wire.send(message(b"Q", b"SELECT '\xe9\xa4\xff'\0"))
    assert (await wire.until(b"Z"))[-1][1] == b"I"
    assert tags(await wire.query("RESET client_encoding")) == b"CSZ"
    assert len(rows(await wire.query(PRIVATE))) == 3
    await wire.close()


async def first_packets(stage: Stage, count: int, seed: int) -> None:
    """Connections that begin with anything, twenty at a time; the proxy's memory does not follow their number."""
    chance, process = random.Random(seed), psutil.Process()
    before = process.memory_info().rss
    lengths = [b"", b"\0\0\0\x08", b"\0\0\x27\x10", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x16\x03\x01"]
    heads = [
        b"",
        b"\0\3\0\0",
        b"\0\3\0\2",
        b"\0\2\0\0",
        b"\x04\xd2\x16\x2f",
        b"\x04\xd2\x16\x2e",
        b"\x04\xd2\x16\x30",
        b"\0\3\xff\xff",
    ]

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
        writer.write(chance.choice(lengths) + chance.choice(heads) + chance.randbytes(chance.choice((0, 1, 3, 8, 50, 2000))))
        try:
            while await asyncio.wait_for(reader.read(65536), 0.05):
                pass
        except (TimeoutError, OSError):
            pass
        writer.transport.abort()

    for _ in range(count // 20):
        await asyncio.gather(*(one() for _ in range(20)))
    assert process.memory_info().rss - before < 100 << 20


async def test_random_first_packets(stage: Stage) -> None:
    witness = await stage.connect()
    await first_packets(stage, 400, 11)
    await unharmed(witness)


@pytest.mark.long
async def test_ten_thousand_random_first_packets(stage: Stage) -> None:
    witness = await stage.connect()
    await first_packets(stage, 10_000, 12)
    await unharmed(witness)


async def test_a_megabyte_byte_by_byte_is_read_once(stage: Stage) -> None:
    """A long message in very small pieces takes time in proportion to its bytes."""
    wire = await stage.connect()

    async def took(size: int) -> float:
        """Seconds of the processor; the least of three."""
        found = []
        for _ in range(3):
            data = front.query("SELECT length('" + "x" * size + "')")
            began = time.process_time()
            for start in range(0, len(data), 100):
                wire.send(data[start : start + 100])
                if start % 10_000 == 0:
                    await wire.writer.drain()
                    await asyncio.sleep(0)
            assert rows(await wire.until(b"Z")) == [(str(size),)]
            found.append(time.process_time() - began)
        return min(found)

    small, large = await took(150_000), await took(1_200_000)
    assert large < 3 * 8 * small, "eight times the bytes, not 64 times the work"
    await wire.close()
