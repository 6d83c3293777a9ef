"""Tables that are closed: who waits for a look, how often there is one, what is said of what it sees."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable

from structlog.testing import capture_logs

from dpproxy.answers.table_standing import EVERY, LATE, LOOKS, SHARE, ClaimStanding, Closure, Closures
from dpproxy.backends.base import BackendError
from dpproxy.errors import Refusal
from dpproxy.reuse.data_epoch import Named
from dpproxy.table_terms import TableName

ITEMS, ORDERS, PEOPLE = (TableName("public", name) for name in ("items", "orders", "people"))
BROKEN = {ORDERS: Closure("`orders.ref` is not unique", "`ref` is to be unique", "up to 501 rows share one value")}


class Engine:
    """What looks see, one after the other; the last stays. Each takes `seconds` of a clock of its own."""

    def __init__(self, *seen: Closures | BackendError | None, seconds: float = 0.0) -> None:
        self.seen, self.seconds, self.now, self.looks = list(seen), seconds, 0.0, 0
        self.version = "1"
        self.gate = asyncio.Event()
        self.gate.set()

    def clock(self) -> float:
        return self.now

    async def current(self, now: dt.datetime) -> str:
        if self.version == "away":
            raise BackendError("away")
        return self.version

    async def look(self) -> Closures | None:
        self.looks += 1
        await self.gate.wait()
        self.now += self.seconds
        found = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        if isinstance(found, BackendError):
            raise found
        return found

    def standing(self, epoch: bool = True) -> ClaimStanding:
        return ClaimStanding(self.look, {ORDERS}, self if epoch else Named("always"), "shop", clock=self.clock)


async def told(standing: ClaimStanding, *tables: TableName, asked: list[str] | None = None) -> str:
    """What a statement that reads these tables is told; empty where it goes on."""
    try:
        await standing.check(tables, lambda: (asked if asked is not None else []).append("anew"))
    except Refusal as refused:
        return f"{refused.sqlstate} {refused.message} {refused.hint}"
    return ""


async def passes(standing: ClaimStanding, times: Iterable[object]) -> None:
    for _ in times:
        assert await told(standing, ORDERS) == ""


async def test_a_broken_claim_closes_its_table_and_no_other() -> None:
    engine = Engine(BROKEN)
    standing = engine.standing()
    with capture_logs() as lines:
        refused = await told(standing, ITEMS, ORDERS)
        assert [await told(standing, table) for table in (ITEMS, PEOPLE)] == ["", ""]
    assert refused == (
        "55000 table orders is closed: `orders.ref` is not unique "
        "Nothing was charged. The table opens again once its data are right: `ref` is to be unique."
    )
    assert "501" not in refused, "how many is for the log"
    assert [(line["event"], line["table"], line["problem"]) for line in lines] == [
        ("table closed", "orders", "up to 501 rows share one value")
    ]


async def test_each_epoch_is_looked_at_before_anything_of_it_is_answered() -> None:
    engine = Engine({}, BROKEN, {})
    standing = engine.standing()
    await passes(standing, range(3))
    assert engine.looks == 1
    engine.version = "2"
    with capture_logs() as lines:
        assert "is closed" in await told(standing, ORDERS)
        assert "is closed" in await told(standing, ORDERS)
        assert engine.looks == 2
        engine.version = "3"
        await passes(standing, range(2))
    assert engine.looks == 3
    assert [line["event"] for line in lines] == ["table closed", "table open again"]


async def test_all_that_wait_share_a_look_and_may_leave() -> None:
    engine = Engine({})
    standing = engine.standing()
    engine.gate.clear()
    waiting = [asyncio.ensure_future(told(standing, ORDERS)) for _ in range(3)]
    while not engine.looks:
        await asyncio.sleep(0)
    waiting[0].cancel()
    assert await told(standing, PEOPLE) == "", "what rests on no such claim waits for nothing"
    engine.gate.set()
    assert await asyncio.gather(*waiting[1:]) == ["", ""]
    assert engine.looks == 1


async def test_without_an_epoch_it_is_looked_at_now_and_then() -> None:
    """Beside the statements; one that comes after a long time waits."""
    engine = Engine(BROKEN)
    standing = engine.standing(epoch=False)
    engine.now = EVERY
    await passes(standing, range(5))
    assert engine.looks == 0, "they were looked at when they were opened"
    engine.now = EVERY + 1
    await passes(standing, range(1))
    while engine.looks < 1 or standing._busy():
        await asyncio.sleep(0)
    assert "is closed" in await told(standing, ORDERS)
    late = Engine(BROKEN)
    standing = late.standing(epoch=False)
    late.now = LATE * EVERY + 1
    assert "is closed" in await told(standing, ORDERS)


async def test_looks_that_take_long_are_rare() -> None:
    engine = Engine({}, seconds=100.0)
    standing = engine.standing(epoch=False)
    engine.now = LATE * EVERY + 1
    await passes(standing, range(1))
    engine.now += SHARE * 100.0
    await passes(standing, range(3))
    assert engine.looks == 1
    engine.now += SHARE * 100.0 + 1
    await passes(standing, range(3))
    assert engine.looks == 2


async def test_what_cannot_be_looked_at_is_refused() -> None:
    engine = Engine(BackendError("away"), {})
    standing = engine.standing()
    with capture_logs() as lines:
        assert (await told(standing, ORDERS)).startswith("57P03 the data cannot be looked at")
    assert [(line["event"], line["error"]) for line in lines] == [("the data were not looked at", "away")]
    await passes(standing, range(1))
    engine.version = "away"
    assert (await told(standing, ORDERS)).startswith("57P03")


async def test_tables_that_are_others_are_opened_anew() -> None:
    """A key may be gone: whatever the tables are that a statement reads."""
    engine, asked = Engine(None), list[str]()
    standing = engine.standing()
    for table in (ORDERS, PEOPLE):
        assert (await told(standing, table, asked=asked)).startswith("40001 the tables of the database have changed")
    assert asked == ["anew", "anew"]


async def test_data_that_cannot_change_are_not_looked_at() -> None:
    assert await told(ClaimStanding(), ORDERS) == ""


async def test_what_is_under_way_ends_with_the_dataset() -> None:
    engine = Engine({})
    standing = engine.standing()
    engine.gate.clear()
    waiting = asyncio.ensure_future(told(standing, ORDERS))
    while not engine.looks:
        await asyncio.sleep(0)
    await standing.close()
    waiting.cancel()
    assert not standing._busy()


async def test_data_that_change_faster_than_looks_are_refused() -> None:
    """Else a statement would look for ever."""
    engine = Engine({})

    async def overtaken() -> Closures | None:
        engine.version = str(int(engine.version) + 1)
        return await engine.look()

    standing = ClaimStanding(overtaken, {ORDERS}, engine, "shop", clock=engine.clock)
    engine.version = "2"
    assert (await told(standing, ORDERS)).startswith("57P03 the data change faster than they can be looked at")
    assert engine.looks == LOOKS
