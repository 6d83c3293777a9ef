"""A round: charged, measured to its end, kept, whoever waits; and what it tells the others, whatever becomes of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.answers.charge_round import AT_THE_LIMIT, FAILED, Asking, Round, Work, total
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.statement_end import USER, Ending, Grid
from dpproxy.backends.base import BackendError
from dpproxy.errors import AFTER_CHARGE, Refusal
from dpproxy.ledger.ledger import Charge, ChargeRequest
from dpproxy.mechanisms.noise import Released
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import Measurement
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.reuse.lookup import AnswerLookup
from dpproxy.reuse.matching import Asked, StoredRelease
from dpproxy.reuse.store import Found
from dpproxy.sql.statements import split
from tests.worlds.scripted import COST, ScriptedEngine, policy, scripted_dataset, scripted_plan

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
RELEASED = Released((pa.array(["e"]),), (np.array([5], np.int64),), 1)


@dataclass(frozen=True)
class Marked(AnswerLookup):
    """A lookup that notes what is told of and kept."""

    told: list[StoredRelease] = field(default_factory=list)
    kept: list[Asked] = field(default_factory=list)

    async def seen(self, stored: StoredRelease) -> None:
        self.told.append(stored)

    async def keep(self, asked: Asked, measurement: Measurement, released: Released) -> None:
        self.kept.append(asked)


class Requests:
    """The ledger, with what it was asked."""

    def __init__(self, inner: SqliteLedger) -> None:
        self.inner, self.asked = inner, list[ChargeRequest]()

    def submit(self, request: ChargeRequest) -> Future[Charge]:
        self.asked.append(request)
        return self.inner.submit(request)


@dataclass
class World:
    engine: ScriptedEngine
    ledger: Requests
    dataset: Dataset
    lookup: Marked
    freed: list[str] = field(default_factory=list)

    def asking(self, limit: float = 0.0, ending: Ending | None = None) -> Asking:
        rules = self.dataset.policy
        asker = Asker(rules.users["ada"], rules.roles["analyst"])
        return Asking(self.dataset, asker, "hash", self.lookup, Grid(None), ending or Ending(), limit)

    async def run(self, made: Round) -> Loss:
        async with AsyncExitStack() as held:
            held.callback(self.freed.append, "names")
            return await made.run(self.engine, held.pop_all())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    ledger, engine = SqliteLedger(tmp_path / "ledger.sqlite"), ScriptedEngine()
    engine.gate.set()
    requests = Requests(ledger)
    dataset = scripted_dataset(engine, requests, policy())  # type: ignore[arg-type]
    yield World(engine, requests, dataset, Marked(None, "exact", "shop", "analyst", "duckdb", dataset.literal))
    ledger.close()


def measurement() -> Measurement:
    (statement,) = split("SELECT region, count(*) AS n FROM people", frozenset({"people"}))
    return scripted_plan(statement, policy().roles["analyst"], {"dpproxy.epsilon": "1"}, ()).measurements[0]


def work(asked: Asked | None = None) -> Work:
    return Work(measurement(), ["by region"], asked)


ASKED = Asked("rows", ("region",), ("n",), (Fraction(10),))


async def test_what_is_through_is_kept_and_its_names_are_free_then(world: World) -> None:
    made = Round(world.asking(), {}, {0: work(ASKED)}, 1)
    assert await world.run(made) == COST
    assert made.released[0].values[0].tolist() == [1, 20, 300]
    assert (world.lookup.kept, world.freed, made.through) == ([ASKED], ["names"], True)
    assert made.entry is not None
    assert (made.entry.outcome, made.entry.epsilon) == ("told", COST.epsilon)
    assert not world.dataset.paid.untold


async def test_what_others_have_seen_is_charged_to_the_role_alone(world: World) -> None:
    loss = Loss(3)
    stored = StoredRelease("shop", ASKED, RELEASED, loss, NOON, frozenset({"other"}), 7)
    made = Round(world.asking(), {0: (Found(RELEASED, stored, (NOON,)), measurement())}, {1: work()}, 2)
    await world.run(made)
    (request,) = world.ledger.asked
    assert (request.loss.epsilon, request.dataset_loss) == (2 * COST.epsilon, COST), "at the price it was told"
    assert (request.role, request.user, request.statement) == ("analyst", "ada", "hash")
    assert world.lookup.told == [stored]
    assert made.released[0] is RELEASED


async def test_what_an_earlier_round_was_charged_for_is_not_charged_again(world: World) -> None:
    made = Round(world.asking(), {}, {0: work()}, 2, ahead=[measurement()])
    assert await world.run(made) == COST + COST, "and what belongs to a later round is charged with this one"
    later = Round(world.asking(), {}, {1: work()}, 2, paid={1})
    assert await world.run(later) == ZERO
    assert len(world.ledger.asked) == 1
    assert later.released[1].values[0].tolist() == [1, 20, 300]


@pytest.mark.parametrize("failure", [BackendError("row 4711 is bad"), MemoryError()])
async def test_a_failure_after_the_charge(world: World, failure: Exception) -> None:
    world.engine.failure = failure
    made = Round(world.asking(), {}, {0: work(ASKED)}, 1)
    with pytest.raises(Refusal) as refused:
        await world.run(made)
    assert refused.value.message == AFTER_CHARGE.message
    assert made.entry is not None
    assert made.entry.outcome == "lost"
    assert (world.lookup.kept, world.freed) == ([], ["names"])
    assert world.dataset.paid.untold == {("analyst", FAILED, "lost"): 1}


async def test_what_was_released_before_the_failure_is_kept(world: World) -> None:
    other = Asked("others", (), ("n",), (Fraction(10),))

    class Tired(ScriptedEngine):
        async def run(self, queries: object) -> object:  # type: ignore[override]
            if world.engine.asked:
                raise BackendError("tired")
            return await world.engine.run(queries)  # type: ignore[arg-type]

    made = Round(world.asking(), {}, {0: work(ASKED), 1: work(other)}, 2)
    with pytest.raises(Refusal):
        await made.run(Tired(), AsyncExitStack())  # type: ignore[arg-type]
    assert (world.lookup.kept, set(made.released)) == ([ASKED], {0})


async def test_the_operators_limit_ends_it(world: World) -> None:
    world.engine.gate.clear()
    made = Round(world.asking(limit=1e-9), {}, {0: work()}, 1)
    with pytest.raises(Refusal, match="canceling statement due to statement timeout") as refused:
        await world.run(made)
    assert (refused.value.detail, refused.value.hint) == AT_THE_LIMIT
    assert world.engine.cancelled == 1


async def test_who_leaves_before_the_charge_is_not_charged(world: World) -> None:
    made, engine = Round(world.asking(), {}, {0: work()}, 1), AsyncExitStack()
    engine.callback(world.freed.append, "engine")
    assert made.leave(USER, engine), "it takes the place on the engine along"
    assert not made.leave(USER, engine)
    with pytest.raises(Refusal, match="canceling statement due to user request"):
        await world.run(made)
    assert (world.ledger.asked, world.freed) == ([], ["names", "engine"])


async def test_who_leaves_after_the_end_is_reported(world: World) -> None:
    made = Round(world.asking(), {}, {0: work()}, 1)
    await world.run(made)
    assert not made.leave(USER, AsyncExitStack())
    assert world.dataset.paid.untold == {("analyst", USER, "kept"): 1}
    kept = await world.dataset.paid.take(("analyst", ("by region",)), measurement())
    assert kept is not None
    assert kept.released is made.released[0]


async def test_a_statement_that_is_to_end_is_not_charged(world: World) -> None:
    ending = Ending()
    ending.ask(USER)
    with pytest.raises(Refusal, match=USER):
        await world.run(Round(world.asking(ending=ending), {}, {0: work()}, 1))
    assert world.ledger.asked == []


async def test_without_a_place_nothing_is_read(world: World) -> None:
    with pytest.raises(Refusal) as refused:
        await Round(world.asking(), {}, {0: work()}, 1).run(None, AsyncExitStack())
    assert refused.value.message == AFTER_CHARGE.message
    assert world.engine.asked == []


def test_losses_add_up() -> None:
    assert total([]) == ZERO
    assert total([COST, COST]) == COST + COST
