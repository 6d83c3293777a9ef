"""What a session gets for a question, and the one line that the operator's log gets for an answer."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from dpproxy.answers.answering import Answer
from dpproxy.answers.delivery import deliver
from dpproxy.answers.question import Needless
from tests.worlds.scripted import COST

from .shop_of_answers import COUNTS, REGIONS, ShopOfAnswers, spent

COUNT = "SELECT region, count(*) AS n FROM people"


async def test_an_answer_is_logged_once_and_nothing_of_it_is_data(world: ShopOfAnswers) -> None:
    with capture_logs() as logged:
        answer, error = await deliver(world.question(world.plan(COUNT)), ())
    assert (answer.literals, answer.charged, error) == ((REGIONS, COUNTS), COST, 1.0)
    (line,) = [entry for entry in logged if entry["event"] == "answered"]
    del line["log_level"]
    assert line == {
        "event": "answered",
        "dataset": "shop",
        "role": "analyst",
        "kind": "select",
        "statement": "hash",
        "measurements": 1,
        "epsilon": COST.epsilon,
        "reused": 0,
    }


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
    assert (spent(world.ledger), world.engine.asked, logged) == (0, [], [])


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
