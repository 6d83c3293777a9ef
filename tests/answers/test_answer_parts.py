"""What is open, ready and released: staged measurements become ready in rounds, and nothing of it costs anything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.answers.answer_parts import AnswerParts
from dpproxy.errors import Refusal
from dpproxy.mechanisms.noise import Released
from tests.worlds.scripted import COST

from .shop_of_answers import COUNTS, REGIONS, STAGED, ShopOfAnswers, spent


def released() -> Released:
    """As the scripted engine answers it."""
    return Released((pa.array(["e", 'n"\\', None]),), (np.array([1, 20, 300], np.int64),), 3)


async def test_a_measurement_waits_for_the_one_whose_value_it_needs(world: ShopOfAnswers) -> None:
    parts = await AnswerParts.begun(world.question(world.plan(STAGED)), ())
    assert (parts.open(), parts.ready(), parts.waiting()) == ([0, 1], [0], True)
    assert parts.bound() == [None]
    assert world.evaluated == []
    await parts.show(0, released())
    assert (parts.open(), parts.ready(), parts.waiting()) == ([1], [], True)
    await parts.evaluate_ready()
    assert (parts.open(), parts.ready(), parts.waiting()) == ([1], [1], False)
    assert parts.bound() == ["321"]
    assert world.evaluated == [((0,), [REGIONS, COUNTS, None])]
    await parts.evaluate_ready()
    assert len(world.evaluated) == 1, "once each"


async def test_what_is_missing_must_not_be_shown(world: ShopOfAnswers) -> None:
    parts = await AnswerParts.begun(world.question(world.plan(STAGED)), ())
    await parts.show(0, released())
    with pytest.raises(Refusal, match="internal error"):
        parts.complete()
    await parts.show(1, released())
    assert parts.complete() == (REGIONS, COUNTS, COUNTS)
    assert parts.free == {}


async def test_nothing_of_it_is_charged_or_measured(world: ShopOfAnswers) -> None:
    parts = await AnswerParts.begun(world.question(world.plan(STAGED)), ())
    assert await parts.show_seen() == (False, {})
    assert await parts.seen_values() == {}
    assert (spent(world.ledger), world.engine.asked) == (0, [])
    assert (await world.ask()).charged == COST


@pytest.mark.parametrize(("value", "left"), [(None, [1, 20]), ("e", [20, 300])])
async def test_errors_are_told_of_groups_that_are_shown(world: ShopOfAnswers, value: str | None, left: list[int]) -> None:
    plan = replace(world.plan(STAGED), unshown=(((0, value),), ()))
    parts = await AnswerParts.begun(world.question(plan), ())
    await parts.show(0, released())
    assert [column.tolist() for column in parts.values[0]] == [left]
