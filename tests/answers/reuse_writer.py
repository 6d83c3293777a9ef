"""A process to be killed: askers of two roles share charts, all through the real path but for the wire; prints who was shown what.

Arguments: a folder with `town.yaml`, the ledger (a path or a DSN), how many askers, a seed; and `shared` where stored answers are
beside the ledger. Each line is `role chart digest`, written
once the answer is complete: what a client could have seen. The charts asked for move on, so that some are new, some stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from dpproxy.answers.answering import Answering
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.question import Question
from dpproxy.answers.statement_end import Ending
from dpproxy.errors import Refusal
from dpproxy.facade.facade import Rooms
from dpproxy.ledger.journal import Journal
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import load_file
from dpproxy.policy.model import Policy
from dpproxy.records.place import place_of
from dpproxy.reuse.store import AnswerStore
from dpproxy.reuse.tables import Sealer
from dpproxy.serve.datasets import open_dataset

CHARTS = 12  # asked for at one time
USERS = ("ada", "bob", "cy", "dee")


class NoFacade:
    """These statements have nothing that a facade evaluates."""

    async def open(self, policy: Policy, catalog: Catalog, _: object) -> Rooms:
        return Rooms(policy, catalog, {}, frozenset())


def journal_of(folder: Path, ledger: str) -> Journal:
    """A path is taken from the folder: nothing is written where the process happens to be started."""
    return place_of(ledger if "://" in ledger else str(folder / ledger), folder).open(None)


async def nothing(_: Sequence[int], __: object) -> list[str | None]:
    raise AssertionError("nothing is to be evaluated")


def asker_of(dataset: Dataset, name: str) -> Asker:
    user = dataset.policy.users[name]
    return Asker(user, dataset.policy.roles[user.role])


async def ask(dataset: Dataset, asker: Asker, chart: int) -> str:
    """A digest of the answer. Raises Refusal."""
    (statement,) = dataset.plans.split(f"SELECT region, sum(income) FROM people WHERE income <> {chart} GROUP BY region")
    plan = dataset.plans.plan(statement, asker.role, {}, ())
    answer = await Answering(Question(dataset, asker, plan, f"chart {chart}", nothing, Ending())).run(())
    return hashlib.sha256(b"|".join(answer.literals)).hexdigest()[:16]


async def work(dataset: Dataset, rng: random.Random, first: int) -> None:
    while True:
        asker = asker_of(dataset, rng.choice(USERS))
        chart = first + rng.randrange(CHARTS)
        first += rng.random() < 0.3
        try:
            shown = await ask(dataset, asker, chart)
        except Refusal as refusal:
            if refusal.sqlstate != "53400":
                raise
            await asyncio.sleep(0.001)
            continue
        os.write(1, f"{asker.role.name} {chart} {shown}\n".encode())


async def main(folder: Path, ledger: str, askers: int, seed: int, *shared: str) -> None:
    journal = journal_of(folder, ledger)
    answers = AnswerStore(ledger, sealer=Sealer(b"k" * 32)) if shared else AnswerStore(folder / "answers.sqlite")
    dataset = await open_dataset(load_file(folder / "town.yaml"), NoFacade(), journal, answers)  # type: ignore[arg-type]
    os.write(1, b"ready\n")
    await asyncio.gather(*(work(dataset, random.Random(100 * seed + i), 40 * (seed // 4)) for i in range(askers)))


if __name__ == "__main__":
    sys.stdout = sys.stderr  # what is logged is not what is shown
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]))
