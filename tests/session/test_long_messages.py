"""Each kind of message at its longest: however much a client sends at once, each turn of the loop does little of it.

What is done between two returns to the loop is counted in function calls, C's included, which are as many on every machine. What a
single call does with many bytes is not seen so: `test_concern` and `test_word_search` say where long texts are looked through.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from dpproxy.policy.model import PARAMETER_BYTES
from dpproxy.session.link import FacadeLink
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import message
from dpproxy.wire.framing import MAX_MESSAGE
from tests.worlds.town import POLICY, Town, town
from tests.worlds.wire_client import Wire, report, tags
from tests.worlds.work import calls_by_turn

pytestmark = pytest.mark.asyncio(loop_scope="module")

MOST_CALLS = 40_000
"""In one turn: a thousand messages that are cut and looked at take half of them, five milliseconds at most without a profile."""
MANY = 65_535
"""Of what the protocol counts in two bytes."""
END = "the end of it"
COUNT = "SELECT count(*) FROM people WHERE income = ANY ($1::int[])"
MADE = "string_to_array(repeat('7,', 20000000) || '7', ',')::int[]"
LIST = b"{" + b",".join(b"%d" % number for number in range(PARAMETER_BYTES // 8)) + b"}"
BINARY = struct.pack("!IIIII", 1, 0, 23, 80_000, 1) + struct.pack("!II", 4, 7) * 80_000


@dataclass(frozen=True)
class Flood:
    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name


CUBE = "SELECT region, sex, income > 1, income > 2, income > 3, count(*), avg(income) FROM people GROUP BY CUBE (1, 2, 3, 4, 5)"
LEVELS = "WITH RECURSIVE r AS (SELECT id, 1 AS n FROM people UNION ALL SELECT id, n + 1 FROM r WHERE n < 10) "
REFUSED = "SELECT string_agg(region, '') FROM people"  # until its constants are known, as far as is known
OFTEN = f"WITH c AS (SELECT {'||'.join('7' * 100)} AS v) {REFUSED}, c WHERE region IN ({', '.join(['c.v'] * 900)})"
MANY_CONSTANTS = f"{REFUSED} WHERE income IN ({', '.join(f'{i} + 1' for i in range(900))})"
FLOODS = (
    Flood("a short text of many groups", front.query(f"EXPLAIN {CUBE}")),
    Flood("a short text of many levels", front.query(f"EXPLAIN {LEVELS} SELECT n, count(*) FROM r GROUP BY 1")),
    Flood("a constant that stands in many places", front.query(OFTEN)),
    Flood("many constants", front.query(MANY_CONSTANTS)),
    Flood("a text of no concern", front.query("SELECT 1" + " " * (MAX_MESSAGE - 100))),
    Flood("a text that names a table", front.query("SELECT count(*) FROM people" + " " * (MAX_MESSAGE - 100))),
    Flood("a long text that is planned", front.query("SELECT count(*) FROM people" + " " * 60_000)),
    Flood("Parse of no concern", front.parse("", "SELECT 1" + " " * (MAX_MESSAGE - 100)) + front.SYNC),
    Flood("Parse with every type there is room for", front.parse("", COUNT, (23,) * MANY) + front.SYNC),
    Flood(
        "Bind with as many values as can be",
        front.parse("p", COUNT) + front.bind("", "p", [b"1"] * MANY) + front.execute("") + front.SYNC,
    ),
    Flood(
        "EXPLAIN of the longest list",
        front.parse("e", f"EXPLAIN {COUNT}") + front.bind("", "e", [LIST]) + front.execute("") + front.SYNC,
    ),
    Flood("a list that is measured", front.parse("m", COUNT) + front.bind("", "m", [LIST]) + front.execute("") + front.SYNC),
    Flood("a binary list", front.parse("b", COUNT) + front.bind("", "b", [BINARY], [1]) + front.execute("") + front.SYNC),
    Flood(
        "a list beyond all bounds",
        front.parse("l", COUNT) + front.bind("", "l", [b"{1" + b",1" * (4 << 20) + b"}"]) + front.execute("") + front.SYNC,
    ),
    Flood("the smallest messages", front.SYNC * 60_000),
    Flood("a pipeline", (front.parse("", "SELECT 1") + front.bind("", "", ()) + front.execute("") + front.SYNC) * 5_000),
    Flood("texts that are all new", b"".join(front.query(f"SELECT {number}") for number in range(3_000))),
    Flood("rows of a copy", front.query("COPY t FROM STDIN") + message(b"d", b"1\n") * 50_000 + message(b"c", b"")),
    Flood("a long row of a copy", front.query("COPY u FROM STDIN") + message(b"d", b"x" * 8_000_000 + b"\n") + message(b"c", b"")),
    Flood("many small rows", front.query("SELECT i FROM generate_series(1, 100000) AS i")),
    Flood("a long row", front.query("SELECT repeat('x', 50000000)")),
    Flood("a list that the facade makes", front.query(f"SELECT count(*) FROM people WHERE income = ANY ({MADE})")),
    Flood("a list that EXECUTE makes", front.query(f"PREPARE x AS {COUNT}") + front.query(f"EXECUTE x({MADE})")),
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    policy = POLICY.replace("  analyst:\n", "  analyst:\n    temp_tables: true\n")
    async with town(tmp_path_factory.mktemp("town"), policy=policy) as made:
        yield made


async def answered(wire: Wire) -> None:
    """Read whatever comes up to the end mark, without looking at it."""
    tail = b""
    while END.encode() not in tail:
        data = await asyncio.wait_for(wire.reader.read(1 << 20), 300)
        assert data, "the proxy has closed"
        tail = (tail + data)[-(len(data) + 100) :]


@pytest.mark.parametrize("flood", FLOODS, ids=str)
async def test_no_message_keeps_the_loop(world: Town, flood: Flood) -> None:
    wire = await Wire.open(world.port)
    await wire.login("ada", "town", "x")
    wire.send(front.query(f"CREATE TEMP TABLE t (x int); CREATE TEMP TABLE u (x text); SELECT '{END}'"))
    await answered(wire)
    with calls_by_turn() as turns:
        wire.send(flood.data, front.query(f"SELECT '{END}'"))
        await answered(wire)
    await wire.close()
    worst, whose = max(turns)
    assert worst < MOST_CALLS, whose


@pytest.mark.parametrize("sql", [f"SELECT count(*) FROM people WHERE income = ANY ({MADE})", f"EXECUTE listed({MADE})"])
async def test_a_list_that_the_facade_makes_is_as_long_as_one_that_is_sent(world: Town, sql: str) -> None:
    """Of a longer one no more is sent to the proxy than shows that it is too long; nothing is charged."""
    wire, spent = await Wire.open(world.port), world.spent()
    await wire.login("ada", "town", "x")
    await wire.query(f"PREPARE listed AS {COUNT}")
    sizes: list[int] = []
    collect = FacadeLink._collect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FacadeLink, "_collect", lambda link, data: (sizes.append(len(data)), collect(link, data)))
        said = report(await wire.query(sql))
    assert said["C"] == "54001"
    assert "more than 1,048,576 bytes" in said["M"]
    assert PARAMETER_BYTES < sum(sizes) < 2 * PARAMETER_BYTES
    assert world.spent() == spent
    short = sql.replace("20000000", "200")
    assert tags(await wire.query(short))[-2:] == b"CZ"
    await wire.close()


@pytest.mark.parametrize("name", ["dpproxy.epsilon", "dpproxy.notices", "dpproxy.accuracy"])
async def test_a_setting_is_sent_no_further_than_it_is_looked_at(world: Town, name: str) -> None:
    """The facade keeps a setting of any length, and each private statement asks for it. Nothing is charged."""
    wire, spent = await Wire.open(world.port), world.spent()
    await wire.login("ada", "town", "x")
    await wire.query(f"SELECT pg_catalog.set_config('{name}', repeat('1', 100000000), false) IS NULL")
    sizes: list[int] = []
    collect = FacadeLink._collect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FacadeLink, "_collect", lambda link, data: (sizes.append(len(data)), collect(link, data)))
        said = report(await wire.query("SELECT count(*) FROM people"))
    assert (said["C"], name in said["M"]) == ("22023", True)
    assert sum(sizes) < 20_000
    assert world.spent() == spent
    await wire.query(f"RESET {name}")
    assert tags(await wire.query("SELECT count(*) FROM people"))[-2:] == b"CZ"
    await wire.close()
