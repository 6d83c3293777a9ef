"""A process whose askers cancel, time out, leave and lose their engine at random moments, through the real path but for the wire.

Arguments: a folder with `town.yaml`, the ledger (a path or a DSN), how many askers, statements of each, a seed. It prints what was told
(`told role chart`), what was charged and lost by the engine (`lost role chart`), and what was done to statements (`did cancel`).
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpproxy.answers.answering import Answering
from dpproxy.answers.dataset import Dataset
from dpproxy.answers.question import Question
from dpproxy.answers.statement_end import TIMEOUT, USER, Ending
from dpproxy.backends.base import Backend, BackendError, Runner
from dpproxy.errors import Refusal
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.catalog import CatalogTable
from dpproxy.policy.load import load_file
from dpproxy.reuse.store import AnswerStore
from dpproxy.serve.datasets import open_dataset

from .reuse_writer import NoFacade, asker_of, journal_of, nothing

CHARTS = 10
USERS = ("ada", "bob", "cy", "dee")
SLOWEST = 0.03
"""Seconds a measurement is held up before it runs; statements are disturbed within twice that."""
LOSSES = 0.1


class Unsteady:
    """The engine: slow at times, and lost at times, before it has told anything and after."""

    def __init__(self, inner: Backend, rng: random.Random) -> None:
        self._inner, self._rng = inner, rng

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @asynccontextmanager
    async def snapshot(self, tables: Sequence[CatalogTable]) -> AsyncIterator[Runner]:
        if self._rng.random() < LOSSES / 2:
            say("did away")
            raise BackendError("away")
        async with self._inner.snapshot(tables) as runner:
            yield _Unsteady(runner, self._rng)


class _Unsteady:
    def __init__(self, inner: Runner, rng: random.Random) -> None:
        self._inner, self._rng = inner, rng

    async def run(self, queries: Sequence[str]) -> Exact:
        await asyncio.sleep(self._rng.uniform(0, SLOWEST))
        if self._rng.random() < LOSSES:
            say("did loss")
            raise BackendError("lost")
        return await self._inner.run(queries)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def answered(dataset: Dataset, user: str, chart: int, ending: Ending | None = None, limit: float = 0.0) -> bool:
    """Whether it was at no charge. Raises Refusal."""
    asker = asker_of(dataset, user)
    (statement,) = dataset.plans.split(f"SELECT region, sum(income) FROM people WHERE income <> {chart} GROUP BY region")
    plan = dataset.plans.plan(statement, asker.role, {}, ())
    question = Question(dataset, asker, plan, f"chart {chart}", nothing, ending or Ending(), limit=limit)
    answer = await Answering(question).run(())
    return not answer.charged


async def ask(dataset: Dataset, rng: random.Random, chart: int) -> None:
    user, ending = rng.choice(USERS), Ending()
    asking = asyncio.ensure_future(answered(dataset, user, chart, ending, rng.choice((0.0, 0.0, SLOWEST / 2))))
    done = rng.choice(("nothing", "cancel", "timeout", "leave"))
    if done != "nothing":
        await asyncio.wait([asking], timeout=rng.uniform(0, 2 * SLOWEST))
    if not asking.done() and done != "nothing":
        say(f"did {done}")
        asking.cancel() if done == "leave" else ending.ask(USER if done == "cancel" else TIMEOUT)
    try:
        await asking
        say(f"told {asker_of(dataset, user).role.name} {chart}")
    except Refusal as refusal:
        if refusal.sqlstate not in ("57014", "58000", "57P03"):
            raise
    except asyncio.CancelledError:
        pass


async def work(dataset: Dataset, rng: random.Random, first: int, count: int) -> None:
    for _ in range(count):
        await ask(dataset, rng, first + rng.randrange(CHARTS))
        first += rng.random() < 0.3


async def opened(folder: Path, ledger: str) -> tuple[Dataset, AnswerStore, Any]:
    journal = journal_of(folder, ledger)
    answers = AnswerStore(folder / "answers.sqlite")
    dataset = await open_dataset(load_file(folder / "town.yaml"), NoFacade(), journal, answers)  # type: ignore[arg-type]
    return dataset, answers, journal


async def main(folder: Path, ledger: str, askers: int, count: int, seed: int) -> None:
    dataset, answers, journal = await opened(folder, ledger)
    rng, left = random.Random(seed), dataset.paid.left

    def lost(name: str, role: str, reason: str, kept: bool, statement: str) -> None:
        if not kept:
            say(f"lost {role} {statement.split()[1]}")
        left(name, role, reason, kept, statement)

    dataset.paid.left = lost  # type: ignore[method-assign]
    dataset = replace(dataset, backend=Unsteady(dataset.backend, rng))
    say("ready")
    await asyncio.gather(*(work(dataset, random.Random(100 * seed + i), 6 * seed, count) for i in range(askers)))
    await dataset.close(60)
    journal.close()
    answers.close()


if __name__ == "__main__":
    sys.stdout = sys.stderr  # what is logged is not what is told
    arguments = sys.argv[3:]
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], *map(int, arguments)))
