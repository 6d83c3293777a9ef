"""How long budgets last: questions that are asked each day, charged to a book in memory as the ledger would charge them.

Knows: losses, the book's rules. Must not know: data, files, real time. An answer is kept as long as the policy says, and as
long as the data stay; asking again until then is free. Every question is asked by one user of its role.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dpproxy.amounts import MICRO
from dpproxy.answers.standings import limit
from dpproxy.ledger.book import Book
from dpproxy.ledger.entries import NO_HASH, Opened
from dpproxy.ledger.ledger import BudgetExhausted, ChargeRequest, Limits
from dpproxy.ledger.transaction import Transaction
from dpproxy.policy.model import Policy
from dpproxy.privacy.loss import Loss

BEGIN: Final = dt.datetime(2024, 1, 1, 9, tzinfo=dt.UTC)  # a day on which every kind of window opens
DAYS: Final = 366
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True)
class Habit:
    """A habit is a question with how often it is asked in a day."""

    role: str
    loss: Loss
    per_day: float
    statement: str


@dataclass(frozen=True)
class Spent:
    """What becomes of a budget. `by_day[i]`: epsilon spent in its window by the end of day i. `ends`: the first day on
    which it refuses a question, counted from 1; None when it lasts."""

    limit: float
    every: str
    by_day: tuple[float, ...]
    ends: int | None
    refused: int


def charges_a_day(policy: Policy, per_day: float, reloads_a_day: float) -> float:
    """Return how often a question that is asked `per_day` times is charged: once for each state of the data, and each time
    that its answer has become too old."""
    if policy.reuse_seconds == 0:
        return per_day
    kept = _DAY_SECONDS / policy.reuse_seconds if policy.reuse_seconds else 0.0
    return min(per_day, max(reloads_a_day, kept))


def spending(policy: Policy, habits: Sequence[Habit], reloads_a_day: float, days: int = DAYS) -> Mapping[str, Spent]:
    """Charge a year of questions; return what becomes of each role's budget by its name, and of the dataset's by ""."""
    tx = Transaction(Book(dt.timedelta(days=2 * DAYS)), NO_HASH)
    tx.append(Opened("simulation"))
    due = [0.0] * len(habits)
    roles = sorted({habit.role for habit in habits})
    spent: dict[str, list[float]] = {name: [] for name in ["", *roles]}
    ends: dict[str, int] = {}
    refused: dict[str, int] = dict.fromkeys(spent, 0)
    for day in range(days):
        at = BEGIN + dt.timedelta(days=day)
        for i, habit in enumerate(habits):
            rate = charges_a_day(policy, habit.per_day, reloads_a_day)
            due[i] += rate if day else max(rate, 1.0)  # all are asked on the first day
            while due[i] >= 1:
                due[i] -= 1
                blamed = _charge(tx, policy, habit, at)
                if blamed is not None:
                    refused[blamed] += 1
                    ends.setdefault(blamed, day + 1)
        for name in spent:
            spent[name].append(_standing(tx.book, policy, name, at))
    return {name: _told(policy, name, tuple(spent[name]), ends.get(name), refused[name]) for name in spent}


def _charge(tx: Transaction, policy: Policy, habit: Habit, at: dt.datetime) -> str | None:
    """Charge one question; return whose budget refuses it."""
    role = policy.roles[habit.role]
    limits = Limits(limit(role.budget), limit(policy.budget), None, role.query.max_epsilon)
    names = (str(uuid.uuid4()), policy.dataset, role.name, f"a user of {role.name}")
    try:
        tx.charge(ChargeRequest(*names, habit.loss, habit.loss, limits, habit.statement, at))
    except BudgetExhausted as refusal:
        return "" if refusal.which == "dataset" else role.name
    return None


def _standing(book: Book, policy: Policy, name: str, at: dt.datetime) -> float:
    if name:
        standing = book.standing((policy.dataset, "role", name), limit(policy.roles[name].budget), at)
    else:
        standing = book.standing((policy.dataset, "dataset", policy.dataset), limit(policy.budget), at)
    return standing.spent_epsilon / MICRO


def _told(policy: Policy, name: str, by_day: tuple[float, ...], ends: int | None, refused: int) -> Spent:
    budget = policy.roles[name].budget if name else policy.budget
    return Spent(budget.epsilon / MICRO, budget.every, by_day, ends, refused)
