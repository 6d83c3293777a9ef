"""Tables that cannot be read: seen after a failure, refused until a look sees them whole, and never by what failed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from dpproxy.answers import answering
from dpproxy.answers.table_standing import TableAccess
from dpproxy.backends.base import BackendError
from dpproxy.errors import AFTER_CHARGE, Refusal
from dpproxy.table_terms import TableName
from tests.worlds.scripted import COST, PEOPLE, SHOPS, catalog

from .shop_of_answers import ShopOfAnswers, spent


@dataclass
class Eyes:
    """Looks, and counts how often."""

    closed: dict[TableName, str] = field(default_factory=dict)
    failure: Exception | None = None
    looks: int = 0

    async def look(self) -> dict[TableName, str]:
        self.looks += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return dict(self.closed)


async def test_nobody_looks_while_nothing_fails() -> None:
    eyes = Eyes({PEOPLE: "gone"})
    access = TableAccess(eyes.look)
    await access.check([PEOPLE])
    assert eyes.looks == 0
    fixed = TableAccess()
    await fixed.failed()
    await fixed.check([PEOPLE])


async def test_it_is_closed_until_a_look_sees_it() -> None:
    eyes = Eyes({PEOPLE: "42P01 gone"})
    access = TableAccess(eyes.look)
    await access.failed()
    await access.check([SHOPS])
    assert eyes.looks == 1, "of another table nobody looks"
    refused = await asyncio.gather(*(access.check([PEOPLE, SHOPS]) for _ in range(5)), return_exceptions=True)
    assert [error.sqlstate for error in refused if isinstance(error, Refusal)] == ["55000"] * 5
    assert not any("42P01" in f"{error} {error.detail} {error.hint}" for error in refused if isinstance(error, Refusal))
    assert eyes.looks == 2, "who asks at once shares a look"
    eyes.closed.clear()
    await access.check([PEOPLE])
    await access.check([PEOPLE])
    assert eyes.looks == 3
    await access.close()


@pytest.mark.parametrize("failure", [BackendError("away"), KeyError("x")])
async def test_a_look_that_fails_changes_nothing(failure: Exception) -> None:
    eyes = Eyes(failure=failure)
    access = TableAccess(eyes.look)
    await access.failed()
    await access.check([PEOPLE])
    eyes.failure, eyes.closed = None, {PEOPLE: "gone"}
    await access.failed()
    eyes.failure = failure
    with pytest.raises(Refusal):
        await access.check([PEOPLE])


async def test_one_charge_is_lost_and_no_other(world: ShopOfAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own failure says nothing: what the look sees is what closes."""
    monkeypatch.setattr(answering, "named_tables", lambda *_: (catalog().tables[PEOPLE],))  # as real plans name it
    eyes = Eyes({PEOPLE: "gone"})
    world.dataset = replace(world.dataset, access=TableAccess(eyes.look))
    world.engine.failure = BackendError("row 4711 is bad")
    with pytest.raises(Refusal, match=AFTER_CHARGE.message):
        await world.ask()
    for i in range(3):
        with pytest.raises(Refusal, match="the data are not as the policy describes them"):
            await world.ask(f"SELECT region, count(*) AS n FROM people -- {i}")
    assert spent(world.ledger) == COST.epsilon
    eyes.closed.clear()
    with pytest.raises(Refusal, match=AFTER_CHARGE.message):
        await world.ask("SELECT region, count(*) AS n FROM people -- failing by its rows")
    world.engine.failure = None
    await world.ask()
    assert spent(world.ledger) == 3 * COST.epsilon
