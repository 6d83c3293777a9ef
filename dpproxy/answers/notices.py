"""What is told beside an answer: what it cost, what is left, how exact it is.

Knows: plans, released numbers, accounts. Must not know: how the answer was made, exact values. It is all worked out from what was
released, and from the asker's own accounts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpproxy.answers.answer_parts import FEW
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.standings import AppliedBudget, left, standings
from dpproxy.backends.base import in_measuring_thread
from dpproxy.ledger.ledger import Standing, amounts
from dpproxy.mechanisms.exact_answers import Int64
from dpproxy.plan.measure.moving_constants import MOVING
from dpproxy.plan.model import Plan, Typical
from dpproxy.plan.report import cuts
from dpproxy.plan.report.endless import endless_told
from dpproxy.plan.report.left_out import left_out_told
from dpproxy.plan.report.typical_error import typical_errors_told
from dpproxy.privacy.loss import Loss

T = TypeVar("T")
Values = Mapping[int, tuple[Int64, ...]]
"""What was released of each measurement."""


async def of_values(plan: Plan, values: Values, said: Callable[[Sequence[Typical], Values], T]) -> T:
    """Return what `said` gives for released values; it runs in a thread where there are many groups."""
    groups = sum(len(column) for columns in values.values() for column in columns)
    if groups <= FEW:
        return said(plan.typical, values)
    return await in_measuring_thread(lambda: said(plan.typical, values))


@dataclass(frozen=True)
class Told:
    """Is a notice, and the part of it that says typical errors, and of what there is none (empty where it says nothing)."""

    text: str
    errors: str


NOTHING = Told("", "")


async def told_of(dataset: Dataset, asker: Asker, plan: Plan, values: Values, charged: Loss, free: int) -> Told:
    """Return what is told. `free`: measurements that cost nothing. Raises LedgerError."""
    name, held, lately = dataset.policy.dataset, dataset.applied_budgets(asker), dataset.recent_standing
    role, now = asker.role.name, asyncio.get_running_loop().time()
    if charged:
        lately.forget()
    known = lately.find(role, now)
    found = [known] if known is not None else await _standings(dataset, held if charged else held[:1])
    lately.keep(role, found[0], now)
    reached = dataset.warning_levels.notices(name, found, held) if charged else ()
    errors, *others = await _said(dataset, plan, values)
    errors = "; ".join(filter(None, (errors, endless_told(plan.endless))))
    return Told(note(charged, free, len(plan.measurements), found[0], (errors, *others, *reached)), errors)


async def _said(dataset: Dataset, plan: Plan, values: Values) -> tuple[str, ...]:
    """What the notice says of the answer itself: first of all its typical errors."""
    remembered = dataset.recent_notices
    texts = remembered.find(plan, values)
    if texts is None:
        unseen = "; ".join(plan.hidden)
        cut = cuts.cuts_told(plan.measured_cuts, values, plan.cuts)
        again = MOVING if plan.moving else ""
        out = left_out_told(plan.left_out, plan.unitless)
        texts = (await of_values(plan, values, typical_errors_told), cut, unseen, out, again)
        remembered.keep(plan, values, texts)
    return texts


async def _standings(dataset: Dataset, held: Sequence[AppliedBudget]) -> list[Standing]:
    """In a thread where the ledger has to be asked."""
    ledger, name = dataset.ledger, dataset.policy.dataset
    if ledger.at_hand(name):
        return standings(ledger, name, held)
    return await asyncio.to_thread(standings, ledger, name, held)


def note(charged: Loss, free: int, measurements: int, standing: Standing, more: Sequence[str] = ()) -> str:
    """Return what an answer cost and what is left of the role's budget, for people. `free`: of the measurements."""
    if not charged:
        cost = "reused, epsilon 0"
    else:
        some = f" ({free} of {measurements} measurements reused)" if free else ""
        cost = f"charged {amounts(charged.epsilon, charged.delta)}{some}"
    return "; ".join((cost, left(standing), *filter(None, more)))
