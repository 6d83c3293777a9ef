"""The order of the promise, on a scripted engine: nothing is measured before its charge is durable, and what is charged is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dpproxy.answers.answering import Answer
from dpproxy.answers.dataset import SIZE
from dpproxy.answers.delivery import preview
from dpproxy.answers.statement_end import ASK_AGAIN, USER, Ending
from dpproxy.backends.base import BackendError, Locked, Unreadable
from dpproxy.errors import AFTER_CHARGE, Refusal
from dpproxy.mechanisms.noise_sources import OpenDPNoise
from dpproxy.plan.model import Array, Plan, Typical
from dpproxy.policy.catalog import CatalogTable
from dpproxy.policy.model import Budget
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import Vector
from dpproxy.privacy.noise_scale import gaussian_sigmas
from dpproxy.privacy.vector_loss import loss_together, part_epsilon
from dpproxy.sql.statements import split
from dpproxy.sql.template import Template
from dpproxy.table_terms import TableName
from tests.worlds.scripted import COST, PEOPLE, SHOPS, policy, scripted_plan

from .shop_of_answers import COUNTS, REGIONS, STAGED, ShopOfAnswers, spent


async def test_the_charge_is_durable_before_anything_is_measured(world: ShopOfAnswers) -> None:
    answer = await world.ask()
    assert world.engine.charged == [COST.epsilon]
    assert (answer.literals, answer.charged, answer.reused) == ((REGIONS, COUNTS), COST, 0)
    assert answer.notice is not None
    assert answer.notice.startswith("charged epsilon 0.1; role analyst has epsilon 999.9 and delta 0.00000012 left")
    (entry,) = world.dataset.answered
    assert (entry.role, entry.epsilon, entry.measurements, entry.outcome) == ("analyst", COST.epsilon, 1, "told")


async def test_what_is_said_of_errors_stays_to_be_seen(world: ShopOfAnswers) -> None:
    plan = replace(world.plan("SELECT region, count(*) AS n FROM people"), typical=(Typical("n", "linear", 0, (0,), (1.0,)),))
    for _ in range(2):
        notice = (await world.answering(plan).run(())).notice
        assert notice is not None
        said = world.dataset.answered[-1].errors
        assert said is not None
        assert said.startswith("typical error ")
        assert notice.endswith(said)
    assert len(world.dataset.answered) == 2


async def test_a_staged_measurement_is_charged_when_the_value_in_it_is_known(world: ShopOfAnswers) -> None:
    answer = await world.ask(STAGED)
    assert world.engine.charged == [COST.epsilon, 2 * COST.epsilon]
    assert world.evaluated == [((0,), [REGIONS, COUNTS, None])]
    assert world.engine.asked[1].endswith("above 321::int8")
    assert answer.literals == (REGIONS, COUNTS, COUNTS)
    assert answer.charged == COST + COST


VECTOR = Vector(COST.epsilon, 10**10)
SIGMAS = gaussian_sigmas([(1, 1), (1, 1)], [1, 1], VECTOR.epsilon, VECTOR.delta)


def of_one_vector(plan: Plan) -> Plan:
    """The scripted plan of two measurements, their noise Gaussian and of one charge."""
    found = []
    for made, sigma in zip(plan.measurements, SIGMAS, strict=True):
        price = part_epsilon([((1, 1), sigma)], VECTOR)
        assert price is not None
        loss = Loss.gaussian(1, 1, sigma, price, VECTOR.delta)
        basis = replace(made.bases[0], mechanism="gaussian", scale=sigma, loss=loss)
        found.append(replace(made, bases=(basis,), loss=loss, vector=VECTOR))
    return replace(plan, measurements=tuple(found), loss=loss_together(found))


async def test_one_vector_is_charged_before_the_first_of_it_is_measured(world: ShopOfAnswers) -> None:
    """Staged: what the second measurement is depends on what the first released, what both cost does not."""
    world.dataset = replace(world.dataset, noise=OpenDPNoise())
    plan = of_one_vector(world.plan(STAGED))
    told = await preview(world.question(plan), ())
    answer = await world.answering(plan).run(())
    assert world.engine.charged == [COST.epsilon, COST.epsilon]
    assert (answer.charged.epsilon, answer.charged.conversion) == (COST.epsilon, VECTOR.delta)
    assert answer.charged == plan.loss == told.charge
    assert sum(m.loss.epsilon for m in plan.measurements) > 1.2 * COST.epsilon
    assert len(answer.literals) == 3


async def test_some_of_a_vector_costs_what_it_costs_alone(world: ShopOfAnswers) -> None:
    world.dataset = replace(world.dataset, noise=OpenDPNoise())
    plan = of_one_vector(world.plan(STAGED))
    alone = replace(plan, measurements=plan.measurements[:1], arrays=plan.arrays[:2], inputs=())
    answer = await world.answering(alone).run(())
    assert answer.charged == plan.measurements[0].loss
    assert COST.epsilon / 2 < answer.charged.epsilon < COST.epsilon


async def test_nothing_to_measure_costs_nothing_and_is_not_noted(world: ShopOfAnswers) -> None:
    virtual = Plan((), "SELECT 1", 0, (Array("text", None, 1, "tables"),), (), ZERO, ())
    assert await world.answering(virtual).run(()) == Answer((b'{"private","public"}',), None)
    assert (world.engine.asked, list(world.dataset.answered)) == ([], [])


async def test_a_preview_is_invented_told_and_noted(world: ShopOfAnswers) -> None:
    array = Array("text", None, 0, invented=(PEOPLE, "region"))
    answer = await world.answering(Plan((), "SELECT 1", 0, (array,), (), ZERO, (), preview="told")).run(())
    assert (answer.notice, answer.charged) == ("told", ZERO)
    assert (answer.literals[0] or b"").count(b",") == SIZE.units - 1
    (noted,) = world.dataset.answered
    assert (noted.epsilon, noted.measurements, noted.reused, noted.outcome) == (0, 0, False, "preview")
    assert (world.engine.asked, spent(world.ledger)) == ([], 0)


async def test_what_can_be_foreseen_to_fail_fails_before_the_charge(world: ShopOfAnswers) -> None:
    async def rehearse() -> None:
        raise Refusal("22012", "division by zero")

    with pytest.raises(Refusal, match="division by zero"):
        await world.ask(rehearse=rehearse)
    assert (world.engine.asked, spent(world.ledger)) == ([], 0)


async def test_a_whole_staged_statement_must_be_affordable_before_its_first_round(world: ShopOfAnswers) -> None:
    """Half of it would be charged for nothing."""
    rules = world.dataset.policy
    poor = replace(rules.roles["analyst"], budget=Budget(COST.epsilon * 3 // 2, 0))
    world.dataset = replace(world.dataset, policy=replace(rules, roles={"analyst": poor}))
    with pytest.raises(Refusal, match="your role does not cover this statement"):
        await world.ask(STAGED)
    assert (world.engine.asked, spent(world.ledger)) == ([], 0)
    assert (await world.ask()).charged == COST


@pytest.mark.parametrize(
    ("failure", "state", "says"),
    [
        (BackendError("connection refused to 10.0.0.7"), "57P03", "the data backend cannot be reached"),
        (Locked("55P03 canceling statement due to lock timeout"), "55P03", "the data are being loaded"),
        (Unreadable('42P01 relation "people" does not exist'), "55000", "the data are not as the policy describes them"),
    ],
)
async def test_an_engine_that_cannot_answer_is_met_before_the_charge(
    world: ShopOfAnswers, monkeypatch: pytest.MonkeyPatch, failure: BackendError, state: str, says: str
) -> None:
    asked = []

    def away(tables: Sequence[CatalogTable]) -> None:
        asked.append(tables)
        raise failure

    monkeypatch.setattr(world.engine, "snapshot", away)
    with pytest.raises(Refusal, match=says) as refused:
        await world.ask()
    assert refused.value.sqlstate == state
    assert refused.value.detail is not None
    assert refused.value.detail.endswith("Nothing was charged.")
    assert str(failure) not in refused.value.told
    assert spent(world.ledger) == 0
    assert len(asked) == 1


async def test_every_failure_after_the_charge_is_told_in_the_same_words(world: ShopOfAnswers) -> None:
    for failure in (BackendError("row 4711 is bad"), ValueError("4711"), OverflowError()):
        world.engine.failure = failure
        with pytest.raises(Refusal) as refused:
            await world.ask(f"SELECT region, count(*) AS n FROM people -- {failure!r}")
        assert (refused.value.message, refused.value.detail) == (AFTER_CHARGE.message, AFTER_CHARGE.detail)
        assert world.dataset.answered[-1].outcome == "lost"
    assert spent(world.ledger) == 3 * COST.epsilon


async def test_whoever_stops_waiting_may_have_the_answer_later_at_no_charge(world: ShopOfAnswers) -> None:
    world.engine.gate.clear()
    ending = Ending()
    asking = asyncio.ensure_future(world.ask(ending=ending))
    await world.engine.started.wait()
    ending.ask(USER)
    with pytest.raises(Refusal, match=USER) as refused:
        await asking
    assert refused.value.hint == ASK_AGAIN
    again = asyncio.ensure_future(world.ask())  # while it is still being measured
    world.engine.gate.set()
    answer = await again
    assert (answer.literals, answer.charged, answer.reused) == ((REGIONS, COUNTS), ZERO, 1)
    assert answer.notice is not None
    assert answer.notice.startswith("reused, epsilon 0")
    assert (len(world.engine.asked), spent(world.ledger)) == (1, COST.epsilon)
    assert [entry.outcome for entry in world.dataset.answered] == ["kept", "told"]


async def test_what_was_not_told_is_not_shown_where_answers_are_to_be_new(world: ShopOfAnswers) -> None:
    world.engine.gate.clear()
    ending = Ending()
    asking = asyncio.ensure_future(world.ask(ending=ending))
    await world.engine.started.wait()
    ending.ask(USER)
    with pytest.raises(Refusal):
        await asking
    world.engine.gate.set()
    await world.dataset.paid.finish(60)
    assert (await world.ask(mode="off")).charged == COST


async def test_a_preview_charges_nothing_and_says_what_would_be(world: ShopOfAnswers) -> None:
    told = await preview(world.question(world.plan(STAGED)), ())
    assert (told.charge, told.refused) == (COST + COST, None)
    assert [(s.scope, s.left_epsilon) for s in told.left] == [("role", policy().roles["analyst"].budget.epsilon)]
    assert (world.engine.asked, spent(world.ledger)) == ([], 0)


async def test_a_value_that_the_engine_cannot_take_is_refused_before_the_charge(world: ShopOfAnswers) -> None:
    def spelled(dialect: str, type_: str, value: str | None) -> str:
        raise ValueError("infinity has no spelling")

    world.dataset = replace(world.dataset, literal=spelled)
    (statement,) = split("SELECT region, count(*) AS n FROM people WHERE id < $1", frozenset({"people"}))
    plan = scripted_plan(statement, world.dataset.policy.roles["analyst"], {"dpproxy.epsilon": "1"}, ("int4",))
    with pytest.raises(Refusal, match="infinity has no spelling over private tables") as refused:
        await world.answering(plan).run(("1",))
    assert refused.value.hint == "Give another value for $1, or $1 another type."
    assert spent(world.ledger) == 0


async def test_a_public_table_that_has_changed_is_met_before_the_charge(
    world: ShopOfAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of it is in the plan: bounds, how many rows it has."""
    asked = list[str]()

    async def now(tables: Sequence[CatalogTable]) -> dict[TableName, str]:
        return {table.name: "new" for table in tables}

    monkeypatch.setattr(world.engine, "public_states", now)
    world.dataset = replace(world.dataset, publics={SHOPS: "old"}, outdated=lambda: asked.append("anew"))
    plan = world.plan("SELECT region, count(*) AS n FROM people")
    joined = Template("duckdb", ('SELECT count(*) FROM "main"."people" JOIN "main"."shops" ON true',))
    plan = replace(plan, measurements=tuple(replace(m, queries=(joined,)) for m in plan.measurements))
    with pytest.raises(Refusal, match="has changed and is being read again"):
        await world.answering(plan).run(())
    assert (asked, spent(world.ledger)) == (["anew"], 0)
