"""Whatever a client sends, in whatever order: it is told what PostgreSQL tells it, and what is private is answered in its turn."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import pytest

from dpproxy.facade.ddl import role_name
from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Wire, rows, tags

from .texts import PRIVATE

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEQUENCES: Final = 200
TABLE: Final = "CREATE TEMP TABLE s (x int NOT NULL)"
BAD_ROW, GOOD_ROW = b"d\0\0\0\x06\x78\n", b"d\0\0\0\x065\n"
DONE: Final = b"c\0\0\0\4"
FAIL: Final = front.copy_fail("enough")
BIND, RUN = front.bind("", "", ()), front.execute("")
ONE: Final = front.parse("", "SELECT 1")
WRONG: Final = front.parse("", "SELEC")
COPY: Final = front.parse("", "COPY s FROM STDIN") + BIND + RUN
COPY_VIEW: Final = front.parse("", "COPY pg_tables FROM STDIN") + BIND + RUN
COPY_QUERY: Final = front.query("COPY s FROM STDIN")

ALONE: Final = (
    front.query("SELECT 1"),
    front.query("SELEC"),
    front.query(""),
    front.query("BEGIN"),
    front.query("SELECT 1; SELECT 1 / 0; SELECT 2"),
    front.query("SELECT 1; SELECT 2"),
    ONE,
    WRONG,
    ONE + BIND + RUN,
    BIND,
    front.execute("absent"),
    front.describe("P", ""),
    front.describe("S", "absent"),
    front.close("S", "absent"),
    front.parse("", "SELECT 1 / x FROM generate_series(1, 0, -1) AS x") + BIND + RUN,
    front.SYNC,
    front.SYNC,
    front.FLUSH,
    GOOD_ROW,
    DONE,
    FAIL,
)
"""What any state may be met with that does not begin a copy."""
DURING_COPY: Final = (GOOD_ROW, GOOD_ROW, BAD_ROW, front.SYNC, front.FLUSH)
"""What PostgreSQL does not end the connection for while it reads rows."""
END: Final = FAIL + front.SYNC + front.query("ROLLBACK")
"""Brings every conversation to its rest; PostgreSQL answers the first Query behind an open pipeline that a Query ended with an
internal error of its own (XX000, unexpected state STARTED)."""


def sequence(chance: random.Random) -> list[bytes]:
    """Messages of a client, well-formed each; the copy, which PostgreSQL lets no other message into, is brought to its end."""
    found: list[bytes] = [front.query("ROLLBACK")]
    for _ in range(chance.randint(1, 8)):
        if chance.random() < 0.25:
            found.append(chance.choice((COPY, COPY, COPY_VIEW, COPY_QUERY)))
            found += chance.choices(DURING_COPY, k=chance.randint(0, 4))
            found.append(chance.choice((DONE, FAIL)))
        else:
            found.append(chance.choice(ALONE))
    return found


def cut(chance: random.Random, messages: list[bytes]) -> list[bytes]:
    """Pieces as they are written one by one, each of a few messages."""
    pieces, left = [], list(messages)
    while left:
        size = chance.randint(1, len(left))
        pieces.append(b"".join(left[:size]))
        left = left[size:]
    return pieces


async def direct(stage: Stage) -> Wire:
    """A connection to the facade itself, as the proxy opens it."""
    endpoint = stage.facade.endpoint
    wire = Wire(*await asyncio.open_unix_connection(endpoint.path))
    wire.send(front.startup(role_name("analyst", "shop"), "shop", {}))
    await wire.until(b"Z")
    return wire


async def told(wire: Wire, pieces: list[bytes], last: str, heard: bool) -> tuple[bytes, list[tuple[str | None, ...]]]:
    """Tags of all that a client is told up to the answer of a last Query, without notices, and the rows of that. `heard`: each piece
    waits until the one before has failed, or has begun a copy."""
    found: list[tuple[bytes, bytes]] = []
    for number, piece in enumerate(pieces):
        if heard and number:
            found += await wire.until(b"E", b"G")
        wire.send(piece)
        await asyncio.sleep(0.001 * (len(piece) % 3))  # so that the facade is sometimes first, sometimes the client
    wire.send(END, front.query(last), front.query("SELECT 'over'"))
    async with asyncio.timeout(60):
        while rows(found[-3:])[-1:] != [("over",)] or found[-1][0] != b"Z":
            found.append(await wire.read())
    return tags(found).replace(b"N", b""), rows(found)[-4:-1]


SAME_ROWS: Final = """SELECT * FROM (VALUES ('e', 1), ('n"\\', 20), (NULL, 300)) AS v(region, n)"""


async def compared(stage: Stage, sequences: list[list[bytes]], heard: bool = False) -> None:
    """Each sequence is sent to both, on connections that stay the same, and what is told is compared."""
    wire, facade = await stage.connect(), await direct(stage)
    (session,) = stage.server.sessions()
    for each in (wire, facade):
        assert tags(await each.query(TABLE)) == b"CZ"
    try:
        for number, pieces in enumerate(sequences):
            expected = await told(facade, pieces, SAME_ROWS, heard)
            try:
                found = await told(wire, pieces, PRIVATE, heard)
            except TimeoutError:
                pytest.fail(f"sequence {number} hangs: {pieces}")
            assert found == expected, (number, pieces)
            tracker = session.link.tracker
            assert (tracker.settled, tracker.outstanding) == (True, 0), (number, pieces)
    finally:
        await wire.close()
        await facade.close()
        while stage.server.occupancy():
            await asyncio.sleep(0.001)


async def test_random_sequences_are_answered_as_postgresql_does(stage: Stage) -> None:
    chance = random.Random(15)
    await compared(stage, [cut(chance, sequence(chance)) for _ in range(SEQUENCES)])


KNOWN: Final = {
    "a Query within what has failed": [WRONG, front.query("SELECT 1")],
    "one that was sent before the error came": [WRONG + front.query("SELECT 1")],
    "a copy that fails, then Sync alone": [COPY, BAD_ROW, front.SYNC],
    "Sync before the rows, too": [COPY + front.SYNC, BAD_ROW, front.SYNC],
    "Sync between rows": [COPY + GOOD_ROW + front.SYNC + BAD_ROW + front.SYNC + GOOD_ROW + DONE],
    "Sync behind the bad row, before another": [COPY + BAD_ROW + front.SYNC + GOOD_ROW + front.SYNC + DONE],
    "a copy that fails before its first row": [COPY_VIEW + front.SYNC, DONE + front.SYNC],
    "a simple one, Sync between its rows": [COPY_QUERY, front.SYNC + BAD_ROW + front.SYNC + GOOD_ROW + DONE],
    "a Query behind a copy that fails": [COPY + BAD_ROW + DONE + front.query("SELECT 1")],
    "and Sync before it fails": [COPY + front.SYNC + BAD_ROW + DONE + front.query("SELECT 1")],
    "and Sync behind what fails": [COPY + BAD_ROW + front.SYNC + DONE + front.query("SELECT 1")],
    "an extended query behind a simple copy that fails": [
        COPY_QUERY + BAD_ROW + front.SYNC + DONE + BIND,
        front.query("SELECT 1") + ONE,
    ],
}


@pytest.mark.parametrize("pieces", KNOWN.values(), ids=KNOWN.keys())
async def test_what_was_counted_wrongly(stage: Stage, pieces: list[bytes]) -> None:
    await compared(stage, [pieces], heard=True)
