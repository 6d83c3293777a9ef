"""Whether more is answered than is paid for: the same question again and again, and many at once, against a budget for a few.

Knows: datasets, ledgers, questions. Must not know: the wire. This is the product's own way from a question to its answer
(`answers.answering`), with a ledger in a folder that is thrown away and no facade. However questions come, what was answered may
not cost more than the budget (Haeberlen, Pierce, Narayan 2011: budgets are a place of attacks like any other).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dpproxy.amounts import MICRO
from dpproxy.answers.answering import Answering
from dpproxy.answers.dataset import Asker, Dataset, words_of
from dpproxy.answers.plan_cache import plans_for
from dpproxy.answers.question import Literals, Question
from dpproxy.answers.statement_end import Ending
from dpproxy.audit.bench import AuditBench
from dpproxy.audit.subject import Statement
from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.ledger.ledger import Ledger
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.model import Plan
from dpproxy.policy.model import Budget, DuckDBBackend, Policy, User
from dpproxy.records.sqlite import SqliteLedger

PAID_FOR: Final = 5
"""Answers that the budget is for."""
TRIED: Final = 24

Wrapped = Callable[[Ledger], Ledger]


@dataclass(frozen=True)
class Spent:
    """How many answers there were, of how many that the budget is for: asked one after the other, and all at once."""

    epsilon: float
    paid_for: int
    in_turn: int
    at_once: int

    @property
    def overspent(self) -> bool:
        return max(self.in_turn, self.at_once) > self.paid_for


def accounting(bench: AuditBench, asked: Statement, wrapped: Wrapped) -> Spent:
    """Ask a statement more often than its budget is for. Raises Refusal where it is not answered at all."""
    plan = bench.bench.planned(asked.role, asked.sql, dict(asked.settings))
    if plan is None:
        raise ValueError("a statement over private rows is needed")
    return asyncio.run(_both(bench, asked, plan, wrapped))


async def _both(bench: AuditBench, asked: Statement, plan: Plan, wrapped: Wrapped) -> Spent:
    in_turn = await _answered(bench, asked, plan, wrapped, False)
    at_once = await _answered(bench, asked, plan, wrapped, True)
    return Spent(plan.loss.epsilon / MICRO, PAID_FOR, in_turn, at_once)


async def _answered(bench: AuditBench, asked: Statement, plan: Plan, wrapped: Wrapped, at_once: bool) -> int:
    with TemporaryDirectory(dir=bench.folder) as name:
        ledger = SqliteLedger(Path(name) / "ledger.sqlite")
        backend = DuckDB(DuckDBBackend(str(bench.whole)))
        try:
            policy = _small(bench.loaded.policy, asked.role, plan)
            plans = plans_for(policy, bench.bench.catalog, backend.dialect)
            words = words_of(plans.names)
            dataset = Dataset(policy, bench.bench.catalog, backend, wrapped(ledger), plans, DefaultNoise(), literal, words)
            role = policy.roles[asked.role]
            asker = Asker(User("audit", role.name, ""), role)
            tries = [_one(dataset, asker, plan) for _ in range(TRIED)]
            if at_once:
                return sum(await asyncio.gather(*tries))
            return sum([await one for one in tries])
        finally:
            await backend.close()
            ledger.close()


def _small(policy: Policy, role: str, plan: Plan) -> Policy:
    """The policy with a budget for a few answers, of which none is kept."""
    enough = Budget(PAID_FOR * plan.loss.epsilon, max(PAID_FOR * plan.loss.delta, 1), warn=())
    roles = {**policy.roles, role: replace(policy.roles[role], budget=enough)}
    return replace(policy, budget=replace(policy.budget, warn=()), roles=roles, reuse_seconds=None, timing_quantum_ms=None)


async def _one(dataset: Dataset, asker: Asker, plan: Plan) -> bool:
    async def evaluate(indexes: Sequence[int], literals: Literals) -> list[str | None]:
        return [None] * len(indexes)

    try:
        await Answering(Question(dataset, asker, plan, "audit", evaluate, Ending())).run(())
    except Refusal:
        return False
    return True
