"""What a session gets for a question, and the one line that the operator's log gets for an answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from dpproxy.answers.answering import Answer
from dpproxy.answers.delivery import deliver
from dpproxy.answers.question import Needless
from dpproxy.errors import Refusal
from dpproxy.operations.pauses import Pause
from tests.worlds.scripted import COST

from .shop_of_answers import COUNTS, REGIONS, ShopOfAnswers, spent

COUNT = "SELECT region, count(*) AS n FROM people"


async def test_an_answer_is_logged_once_and_nothing_of_it_is_data(world: ShopOfAnswers) -> None:
    with capture_logs() as logged:
        answer, error = await deliver(world.question(world.plan(COUNT)), ())
    assert (answer.literals, answer.charged, error) == ((REGIONS, COUNTS), COST, 1.0)
    (line,) = [entry for entry in logged if entry["event"] == "statement"]
    assert line.pop("milliseconds") >= 0
    assert line == {
        "event": "statement",
        "log_level": "info",
        "verdict": "answered",
        "dataset": "shop",
        "role": "analyst",
        "user": "ada",
        "session": 0,
        "kind": "select",
        "statement": "hash",
        "policy": "",
        "measurements": 1,
        "reused": 0,
        "rows": 3,
        "epsilon": 0.1,
        "delta": 0.0,
        "saved": 0.0,
    }
    (event,) = world.dataset.tallies.recent
    assert (event.verdict, event.epsilon, event.rows) == ("answered", COST.epsilon, 3)


async def test_nothing_is_answered_to_a_role_that_is_paused(world: ShopOfAnswers) -> None:
    world.dataset.pauses.add(Pause("shop", "analyst", 0.0, "root", "a lost laptop"))
    for kind in ("select", "explain"):
        with pytest.raises(Refusal, match="role `analyst` is paused by the operator") as refused:
            await deliver(world.question(world.plan(COUNT), kind=kind), ())
        assert (refused.value.sqlstate, refused.value.detail) == ("55000", "Nothing was charged.")
    assert (spent(world.ledger), world.engine.asked) == (0, [])
    world.dataset.pauses.remove("shop", "analyst")
    await deliver(world.question(world.plan(COUNT)), ())


async def test_times_are_told_on_the_policys_grid(world: ShopOfAnswers) -> None:
    world.dataset = replace(world.dataset, policy=replace(world.dataset.policy, timing_quantum_ms=20))
    await deliver(world.question(world.plan(COUNT)), ())
    (event,) = world.dataset.tallies.recent
    assert event.milliseconds % 20 == 0
    assert event.milliseconds > 0


async def test_whoever_wants_no_notices_gets_none(world: ShopOfAnswers) -> None:
    told, _ = await deliver(world.question(world.plan(COUNT)), ())
    quiet, _ = await deliver(world.question(world.plan(COUNT)), (), quiet=True)
    assert told.notice is not None
    assert (quiet.notice, quiet.literals) == (None, told.literals)


async def test_explain_is_one_array_of_lines_and_costs_nothing(world: ShopOfAnswers) -> None:
    with capture_logs() as logged:
        answer, error = await deliver(world.question(world.plan(COUNT), kind="explain"), ())
    assert (len(answer.literals), answer.notice, error) == (1, None, 1.0)
    assert b"Charge now: epsilon 0.1" in (answer.literals[0] or b"")
    assert (spent(world.ledger), world.engine.asked) == (0, [])
    ((entry),) = logged
    assert (entry["verdict"], entry["log_level"], entry["epsilon"]) == ("explained", "debug", 0.0)


class Extracted:
    """Data that are an extract of those of a moment in May."""

    moment = dt.datetime(2024, 5, 15, 12, 30, 1, 999, dt.UTC)

    async def outdated(self) -> bool:
        return False

    def start(self, changed: Callable[[], None]) -> None: ...

    async def close(self) -> None: ...


async def test_explain_says_of_which_moment_an_extract_is(world: ShopOfAnswers) -> None:
    answer, _ = await deliver(world.question(world.plan(COUNT), kind="explain"), ())
    assert b"extract" not in (answer.literals[0] or b"")
    world.dataset = replace(world.dataset, watch=Extracted())
    answer, _ = await deliver(world.question(world.plan(COUNT), kind="explain"), ())
    assert b"Data: an extract of the database as it was at 2024-05-15 12:30:01 UTC" in (answer.literals[0] or b"")


async def test_what_does_nothing_needs_no_answer(world: ShopOfAnswers) -> None:
    async def exists() -> None:
        raise Needless

    answer, _ = await deliver(world.question(world.plan(COUNT), rehearse=exists), ())
    assert answer == Answer((b"{}", b"{}"), None)
    assert (spent(world.ledger), world.engine.asked) == (0, [])


@pytest.mark.parametrize("aimed", [False, True])
async def test_the_error_is_computed_where_it_is_asked_for(
    world: ShopOfAnswers, aimed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def error(_: object) -> float:
        return 0.25

    monkeypatch.setattr("dpproxy.answers.answering.Answering.error", error)
    _, told = await deliver(world.question(world.plan(COUNT)), (), aimed=aimed)
    assert told == (0.25 if aimed else 1.0)
