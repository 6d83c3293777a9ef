"""A dataset on a scripted engine and a ledger in a file, to be asked questions without a session."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpproxy.answers.answering import Answer, Answering
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.question import Question
from dpproxy.answers.standings import limit
from dpproxy.answers.statement_end import Ending
from dpproxy.mechanisms.noise import Exact
from dpproxy.plan.model import Plan
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.sql.statements import split
from tests.worlds.scripted import ScriptedEngine, policy, scripted_plan

REGIONS, COUNTS = b'{"e","n\\"\\\\",NULL}', b"{1,20,300}"
STAGED = "SELECT region, count(*) AS n FROM people WHERE id > 'STAGED'"


@dataclass
class Watched(ScriptedEngine):
    """Notes what the ledger had charged when each measurement began."""

    ledger: SqliteLedger | None = None
    charged: list[int] = field(default_factory=list)

    async def run(self, queries: Sequence[str]) -> Exact:
        assert self.ledger is not None
        self.charged.append(spent(self.ledger))
        return await super().run(queries)


def spent(ledger: SqliteLedger) -> int:
    role = policy().roles["analyst"]
    return ledger.standing("shop", "role", "analyst", limit(role.budget), dt.datetime.now(dt.UTC)).lifetime_epsilon


@dataclass
class ShopOfAnswers:
    engine: Watched
    ledger: SqliteLedger
    dataset: Dataset
    evaluated: list[tuple[Sequence[int], list[bytes | None]]] = field(default_factory=list)

    def plan(self, sql: str) -> Plan:
        (statement,) = split(sql, frozenset({"people"}))
        return scripted_plan(statement, self.dataset.policy.roles["analyst"], {"dpproxy.epsilon": "1"}, ())

    def question(self, plan: Plan, ending: Ending | None = None, **more: object) -> Question:
        rules = self.dataset.policy
        asker = Asker(rules.users["ada"], rules.roles["analyst"])
        return Question(self.dataset, asker, plan, "hash", self.evaluate, ending or Ending(), **more)  # type: ignore[arg-type]

    def answering(self, plan: Plan, **more: object) -> Answering:
        return Answering(self.question(plan, **more))  # type: ignore[arg-type]

    async def evaluate(self, indexes: Sequence[int], literals: list[bytes | None]) -> list[str | None]:
        self.evaluated.append((tuple(indexes), list(literals)))
        return ["321"] * len(indexes)

    async def ask(self, sql: str = "SELECT region, count(*) AS n FROM people", **more: object) -> Answer:
        return await self.answering(self.plan(sql), **more).run(())
