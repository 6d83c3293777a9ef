"""The same question in the same session: asked of the facade once, answered as often as it is asked, until something happens."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from dpproxy.mechanisms.noise import Exact
from dpproxy.session.link import FacadeLink
from dpproxy.session.memo import MOST, ROWS, CachedReply, RepeatCache, ReplyRecorder
from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import ScriptedEngine, Stage
from tests.worlds.wire_client import Message, Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"
ANSWER = [("e", "1"), ('n"\\', "20"), (None, "300")]


class Counted:
    """What is said to the facade in the session of the only client."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        say = FacadeLink.say

        def counted(link: FacadeLink, data: bytes) -> None:
            self.count += 1
            say(link, data)

        monkeypatch.setattr(FacadeLink, "say", counted)

    async def ask(self, wire: Wire, sql: str) -> tuple[bool, list[Message]]:
        """Whether the facade was asked, and the answer."""
        before = self.count
        found = await wire.query(sql)
        return self.count > before, found


async def test_asked_once_and_answered_alike(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wire, counted, spent = await stage.connect(), Counted(stage, monkeypatch), stage.spent()
    _, first = await counted.ask(wire, PRIVATE)
    asked, second = await counted.ask(wire, PRIVATE)
    assert not asked
    assert (tags(second), rows(second)) == (tags(first), ANSWER) == (b"TDDDNCZ", rows(first))
    assert stage.spent() == spent + 200_000, "what is kept saves encoding, not charges"
    other = PRIVATE + " ORDER BY 1"
    await counted.ask(wire, other)
    assert [(await counted.ask(wire, sql))[0] for sql in (PRIVATE, other)] == [False, False]
    await wire.close()


@pytest.mark.parametrize(
    "between",
    [
        "SET dpproxy.epsilon = '0.2'",
        "SELECT 1",
        "BEGIN",
        "SET TimeZone = 'Asia/Tokyo'",
        "CREATE TEMP TABLE t (a int)",
        "DISCARD ALL",
    ],
)
async def test_anything_between_ends_it(stage: Stage, monkeypatch: pytest.MonkeyPatch, between: str) -> None:
    wire, counted = await stage.connect(), Counted(stage, monkeypatch)
    await wire.query(PRIVATE)
    await wire.query(between)
    assert (await counted.ask(wire, PRIVATE))[0]
    assert not (await counted.ask(wire, PRIVATE))[0], "and it is kept anew"
    await wire.close()


async def test_what_is_passed_on_at_a_glance_ends_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wire, counted = await stage.connect(), Counted(stage, monkeypatch)
    for sql in ("SELECT 1", "SELECT 1", PRIVATE, "SELECT 1"):
        await wire.query(sql)
    assert (await counted.ask(wire, PRIVATE))[0]
    await wire.close()


async def test_a_setting_is_noticed(stage: Stage) -> None:
    wire = await stage.connect()
    await wire.query(PRIVATE)
    await wire.query(PRIVATE)
    await wire.query("SET client_encoding = 'SJIS'")
    assert report(await wire.query(PRIVATE))["C"] == "0A000"
    await wire.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT region, count(*) AS n FROM people WHERE now() > '2020-01-01' GROUP BY 1",
        "SELECT region, count(*) AS n FROM people GROUP BY 1 HAVING set_config('dpproxy.epsilon', '0.2', false) > ''",
        f"EXPLAIN {PRIVATE}",
        f"COPY ({PRIVATE}) TO STDOUT",
    ],
)
async def test_what_is_not_steady_is_not_kept_and_ends_what_is(stage: Stage, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    wire, counted = await stage.connect(), Counted(stage, monkeypatch)
    await wire.query(PRIVATE)
    assert (await counted.ask(wire, sql))[0]
    assert (await counted.ask(wire, PRIVATE))[0]
    assert (await counted.ask(wire, sql))[0]
    await wire.close()


async def test_the_extended_protocol_ends_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wire, counted = await stage.connect(), Counted(stage, monkeypatch)
    await wire.query(PRIVATE)
    await wire.ask(front.parse("", PRIVATE), front.bind("", "", []), front.execute(""))
    asked, found = await counted.ask(wire, PRIVATE)
    assert asked
    assert rows(found) == ANSWER
    await wire.close()


async def test_in_a_transaction_and_in_a_failed_one(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wire, counted = await stage.connect(), Counted(stage, monkeypatch)
    await wire.query("BEGIN")
    await wire.query(PRIVATE)
    asked, found = await counted.ask(wire, PRIVATE)
    assert (asked, rows(found), found[-1][1]) == (False, ANSWER, b"T")
    refused = await wire.query("SELECT FORBIDDEN FROM people")
    assert (tags(refused), refused[-1][1]) == (b"EZ", b"E")
    assert report(await wire.query(PRIVATE))["C"] == "25P02"
    await wire.query("ROLLBACK")
    assert rows(await wire.query(PRIVATE)) == ANSWER
    await wire.close()


async def test_other_numbers_are_shown(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = await stage.connect()
    await wire.query(PRIVATE)

    async def other(_engine: ScriptedEngine, _queries: Sequence[str]) -> Exact:
        return Exact((pa.table({"k0": pa.array(["w"]), "b0": pa.array([7], pa.int64())}),))

    monkeypatch.setattr(ScriptedEngine, "run", other)
    assert rows(await wire.query(PRIVATE)) == [("w", "7")]
    assert rows(await wire.query(PRIVATE)) == [("w", "7")]
    monkeypatch.undo()
    assert rows(await wire.query(PRIVATE)) == ANSWER
    await wire.close()


async def test_little_is_kept(stage: Stage) -> None:
    private = object()
    many = ReplyRecorder()
    many.add(b"T", b"t")
    for _ in range(ROWS):
        many.add(b"D", b"row")
    many.add(b"C", b"done")
    assert many.kept(private, ()) is None  # type: ignore[arg-type]
    for tag in (b"", b"E", b"N", b"G"):
        odd = ReplyRecorder()
        odd.add(tag, b"x")
        odd.add(b"C", b"done")
        assert odd.kept(private, ()) is None  # type: ignore[arg-type]
    keeping, kept = RepeatCache(), CachedReply(private, (), b"", b"")  # type: ignore[arg-type]
    for i in range(MOST + 1):
        keeping.keep(str(i), kept, 5)
    assert (keeping.find("0", 5), keeping.find("1", 5)) == (None, kept)
    assert keeping.find("1", 6) is None
    assert keeping.find("1", 5) is None
