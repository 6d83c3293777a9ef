"""A derived answer is what measuring would answer: generated pairs of questions, at an epsilon at which noise is nothing.

The first is measured, the second is asked with `dpproxy.reuse = derive` and then measured on the same data. By
`pytest -m long tests/answers/test_derived_pairs.py` 5,000 pairs.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from dpproxy.reuse.lookup import AnswerLookup, RecentAnswers
from dpproxy.reuse.matching import Asked
from tests.worlds.town import Client, Town, town

from .pairs import DATA, POLICY, Question, pair

pytestmark = pytest.mark.asyncio(loop_scope="module")

Cells = list[tuple[Any, ...]]

SEED, PAIRS = 12, 40
"""Of the pairs that are always tried: each looser rule below is noticed within the first ten of them."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("pairs"), DATA, POLICY) as made:
        yield made


@dataclass
class Trial:
    """`wrong`: both questions, and how derived and measured answers differ."""

    world: Town
    clients: dict[str, Client]
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def ask(self, question: Question, mode: str, epsilon: str, told: bool = False) -> Cells:
        client = self.clients[question.user]
        rows = f"SET dpproxy.rows = {question.rows}" if question.rows is not None else "RESET dpproxy.rows"
        await client.ask(f"SET dpproxy.reuse = {mode}; SET dpproxy.epsilon = {epsilon}; SET TimeZone = '{question.zone}'; {rows}")
        return await client.ask(question.sql(told), *((question.parameter,) if question.parameter is not None else ()))

    def forget(self) -> None:
        self.world.answers.forget("town")
        object.__setattr__(self.world.datasets["town"].reuse, "recent", RecentAnswers())

    async def compare(self, first: Question, second: Question) -> None:
        self.forget()
        try:
            await self.ask(first, "exact", "1e8")
            told = not any(a.startswith(("max", "stddev")) for a in second.aggs) and not second.rollup
            derived = await self.ask(second, "derive", "1e7", told)
        except psycopg.Error as error:
            if error.sqlstate in (None, "XX000"):
                raise
            self.seen[f"refused {error.sqlstate}"] += 1
            return
        free = "reused, epsilon 0" in "".join(self.clients[second.user].notices)
        self.seen["derived" if free else "measured"] += 1
        if not free:
            return
        measured = await self.ask(second, "off", "1e7")
        if difference := differs(second, derived, measured, told):
            self.wrong.append(f"{first.sql()}\n{second.sql()}\n{difference}")


def differs(question: Question, derived: Cells, measured: Cells, told: bool) -> str:
    width, step = len(question.keys), 3 if told else 1
    values = [(*row[:width], *row[width::step]) for row in derived]
    drawn = [width + i for i, agg in enumerate(question.aggs) if agg.startswith("max")]  # of an empty group any value is drawn
    values, measured = ([tuple(v for i, v in enumerate(row) if i not in drawn) for row in rows] for rows in (values, measured))
    if question.most is not None:  # of groups of one size any may be shown
        values, measured = [row[width:] for row in values], [row[width:] for row in measured]
    if not same(sorted(values, key=str), sorted(measured, key=str)):
        return f"derived {values}\nmeasured {measured}"
    for row in derived if told else ():
        for value, low, high in zip(row[width::3], row[width + 1 :: 3], row[width + 2 :: 3], strict=True):
            ends = (-math.inf if low is None else near(low), math.inf if high is None else near(high))  # NULL: an open end
            if value is not None and not ends[0] - 1e-3 <= near(value) <= ends[1] + 1e-3:
                return f"{value} is not within [{low}, {high}]"
    return ""


def same(one: Cells, other: Cells) -> bool:
    return len(one) == len(other) and all(
        len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True)) for a, b in zip(one, other, strict=True)
    )


def alike(x: Any, y: Any) -> bool:
    numbers = isinstance(x, int | float | Decimal) and isinstance(y, int | float | Decimal)
    return bool(near(x) == pytest.approx(near(y), rel=1e-4, abs=2e-2)) if numbers else x == y


def near(x: Any) -> float:
    return float(x)


async def trial(world: Town, seed: int, pairs: int, patient: bool = True) -> Trial:
    """Not `patient`: up to the first difference."""
    async with AsyncExitStack() as stack:
        clients = {u: await stack.enter_async_context(world.client(u)) for u in ("ada", "cy")}
        made, rng = Trial(world, clients), random.Random(seed)
        for _ in range(pairs):
            await made.compare(*pair(rng))
            if made.wrong and not patient:
                break
        return made


async def test_derived_answers_are_those_measured(world: Town) -> None:
    made = await trial(world, SEED, PAIRS)
    assert not made.wrong, "\n\n".join(made.wrong)
    assert made.seen["derived"] >= 10, made.seen


def all_rows_have_groups(made: Asked) -> Asked:
    """The rule there was: declared groups were taken to hold every row."""
    return replace(made, groups=tuple(replace(g, open=()) for g in made.groups))


def nothing_is_cut(made: Asked) -> Asked:
    """What was cut in each group was added up all the same."""
    return replace(made, groups=tuple(replace(g, held=True) for g in made.groups))


def groups_are_alike(made: Asked) -> Asked:
    return replace(made, groups=tuple(replace(g, source="", open=(), held=True) for g in made.groups), bound=0)


@pytest.mark.parametrize("planted", [all_rows_have_groups, nothing_is_cut, groups_are_alike])
async def test_a_looser_rule_is_noticed(world: Town, planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = AnswerLookup._asked
    monkeypatch.setattr(AnswerLookup, "_asked", lambda *arguments: planted(known(*arguments)))
    world.datasets["town"].reuse.named.clear()  # type: ignore[union-attr]
    made = await trial(world, SEED, PAIRS, patient=False)
    world.datasets["town"].reuse.named.clear()  # type: ignore[union-attr]
    assert made.wrong


@pytest.mark.long
async def test_five_thousand_pairs(world: Town) -> None:
    made = await trial(world, 2, 5000)
    print(dict(made.seen), len(made.wrong))
    assert not made.wrong, "\n\n".join(made.wrong)
    assert made.seen["derived"] >= 1000, made.seen
