"""The order of the promise: nothing reaches the backend before its charge is durable, and what is charged is measured and kept.

Knows: stored answers, the ledger, the engine's places. Must not know: protocols, connections; what the facade has to evaluate
goes through functions that a `Question` brings along. After the charge every failure is one and the same message.

Stored answers, in this order:
1. what the role has seen is shown at no charge, and may decide what is asked next (staged measurements);
2. what only other roles have seen is charged to this role's accounts alone, at the price this role was told. It is
   told nothing else: that somebody asked before is not its business;
3. the rest is charged to all accounts and measured.
While 2 and 3 are under way nobody else asks for the same: they wait, and then find it stored.

Before the charge whatever can be foreseen to fail has failed: the statement was tried on the facade (`Question.rehearse`), and
there is a place on the engine (`Seats`). With the charge begins a `Round`, which belongs to the dataset and not to who asked: it
is measured to its end and kept, and the client may stop waiting (`Ending`). A measurement that needs another's answer is of a
later round, and is charged when that answer is there: so whatever is charged can be measured without the client. But Gaussian
columns of several rounds are one vector, and its price is only true when it is charged before the first of them
(`privacy.vector_loss`): a client who leaves between two rounds of those has paid for both.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeVar

from dpproxy.answers import public_tables
from dpproxy.answers.answer_parts import FEW, AnswerParts, Source
from dpproxy.answers.charge_round import FAILED, Asking, Round, Work, remembered, verdict
from dpproxy.answers.dataset import LOST, AnswerEntry, Asker, Dataset
from dpproxy.answers.estimates import Estimating, engine_place
from dpproxy.answers.public_tables import named_tables
from dpproxy.answers.question import Question, Rehearse
from dpproxy.answers.standings import AppliedBudget, left, standings
from dpproxy.answers.statement_end import Grid, incident, internal
from dpproxy.answers.unusable_values import no_literal
from dpproxy.backends.base import Runner, in_measuring_thread
from dpproxy.errors import CANNOT_CONNECT_NOW, LOCK_NOT_AVAILABLE, Refusal
from dpproxy.ledger.ledger import Standing, amounts
from dpproxy.mechanisms.noise import Int64
from dpproxy.plan.intervals.ends import endless_told
from dpproxy.plan.measure.fingerprint import MOVING
from dpproxy.plan.model import Plan, Typical
from dpproxy.plan.report import omissions
from dpproxy.plan.report.omissions import left_out_told
from dpproxy.plan.report.typical_error import typical_errors_told, worst_error
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.vector_loss import loss_together
from dpproxy.reuse.store import Found
from dpproxy.sql.template import NoLiteral

# What is told beside an answer: what it cost, what is left, how exact it is.
#
# Knows: plans, released numbers, accounts. Must not know: how the answer was made, exact values. It is all worked out from what
# was released, and from the asker's own accounts.


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
    """A notice, and the part of it that says typical errors, and of what there is none (empty where it says nothing)."""

    text: str
    errors: str


NOTHING = Told("", "")


async def told_of(dataset: Dataset, asker: Asker, plan: Plan, values: Values, charged: Loss, free: int) -> Told:
    """Return the notice. `free`: measurements that cost nothing. Raises LedgerError."""
    name, held, lately = dataset.policy.dataset, dataset.applied_budgets(asker), dataset.recent_standing
    role, now = asker.role.name, asyncio.get_running_loop().time()
    if charged:
        lately.forget()
    known = lately.find(role, now)
    found = [known] if known is not None else await _standings(dataset, held if charged else held[:1])
    lately.keep(role, found[0], now)
    reached = dataset.warning_levels.notices(name, found, held) if charged else ()
    errors, *others = await _said(dataset, plan, values)
    errors = "; ".join(filter(None, (errors, endless_told(plan.endless), *plan.devices)))
    return Told(note(charged, free, len(plan.measurements), found[0], (errors, *others, *reached)), errors)


async def _said(dataset: Dataset, plan: Plan, values: Values) -> tuple[str, ...]:
    """What the notice says of the answer itself: first of all its typical errors."""
    remembered = dataset.recent_notices
    texts = remembered.find(plan, values)
    if texts is None:
        unseen = "; ".join(plan.hidden)
        cut = omissions.cuts_told(plan.measured_cuts, values, plan.cuts)
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


NO_ENGINE = Refusal(
    CANNOT_CONNECT_NOW,
    "the data backend cannot be reached",
    detail="Nothing was charged.",
    hint="Ask again later; the reason is in the proxy's log only.",
)
LOADING = Refusal(
    LOCK_NOT_AVAILABLE,
    "the data are being loaded",
    detail="Tables of the statement are locked by whoever loads them. Nothing was charged.",
    hint="Ask again when the load has ended.",
)


@dataclass(frozen=True)
class Answer:
    """An answer is the arrays of the outer query: `literals[i]` is array i. `notice`: what it cost, for people; None when
    nothing is measured and nothing invented. `charged`: what it cost; `reused`: how many measurements were answered at no
    charge; `rows`: of all released measurements."""

    literals: tuple[bytes, ...]
    notice: str | None
    charged: Loss = ZERO
    reused: int = 0
    rows: int = 0


class Answering:
    """Makes one answer, by one call of `run`."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._plan = question.plan
        self._ending = question.ending
        self._paid = question.dataset.paid
        self._rehearse: Rehearse | None = question.rehearse  # None: it was done
        self._grid = Grid(question.dataset.policy.timing_quantum_ms)
        self._engine = AsyncExitStack()  # the place on it, and the snapshot
        self._runner: Runner | None = None
        self._rounds: list[Round] = []
        self._prepaid: frozenset[int] = frozenset()  # charged for by a round before theirs

    async def run(self, parameters: Sequence[str | None]) -> Answer:
        """Return the answer. `parameters`: text forms of the client's.

        Raises Refusal, StatementFailed, LinkLost, CancelledError; and Needless where the statement will do nothing.
        """
        self._parts = parts = await AnswerParts.begun(self._question, parameters)
        q = self._question
        self._estimates = Estimating(q, parts)
        await self._estimates.run()
        if not self._plan.measurements:
            if self._plan.readings:
                q.dataset.note(AnswerEntry(q.asker.role.name, dt.datetime.now(dt.UTC), 0, 0, 0, False, q.statement, "told"))
                return Answer(parts.complete(), self._estimates.notice)
            if self._plan.preview:
                q.dataset.note(AnswerEntry(q.asker.role.name, dt.datetime.now(dt.UTC), 0, 0, 0, False, q.statement, "preview"))
            return Answer(parts.complete(), self._plan.preview or None)
        self._asking = Asking(q.dataset, q.asker, q.statement, parts.lookup, self._grid, q.ending, q.limit)
        try:
            charged = await self._settle()
        except BaseException as error:
            self._not_told(self._ending.reason or (LOST if isinstance(error, asyncio.CancelledError) else FAILED))
            raise
        finally:
            await self._engine.aclose()
        lines = [made.entry for made in self._rounds if made.entry is not None]
        if not charged:
            lines.append(remembered(self._asking, len(self._plan.measurements), dt.datetime.now(dt.UTC), ZERO))
            await self._grid.reached()
        told = await self._told(charged)
        for line in lines:
            line.errors = told.errors or None
        rows = sum(len(columns[0]) for columns in parts.values.values() if columns)
        return Answer(
            parts.complete(), "; ".join(filter(None, (told.text, self._estimates.notice))) or None, charged, len(parts.free), rows
        )

    def _not_told(self, reason: str) -> None:
        """What is charged and not yet through goes on, with the place it has; what is through is kept."""
        for made in self._rounds:
            if made.leave(reason, self._engine):
                self._engine = AsyncExitStack()

    async def error(self) -> float:
        """Return the largest typical error of the aggregates of what `run` has answered."""
        return await of_values(self._plan, self._parts.values, worst_error)

    async def _settle(self) -> Loss:
        """Release everything; return what it cost."""
        spent, in_flight, parts = ZERO, self._parts.lookup.in_flight, self._parts
        while True:
            await parts.show_seen()
            await self._estimates.run()
            if not parts.open():
                return spent
            self._ending.check()
            await self._rehearsed()
            names = {asked.identity for asked, _ in parts.wanted().values()}
            if busy := in_flight.busy(names):
                await self._ending.race(asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED))
                continue
            async with AsyncExitStack() as held:
                await held.enter_async_context(in_flight.held(names, lambda s: self._ending.race(asyncio.sleep(s))))
                shown, others = await parts.show_seen()
                if not shown:
                    spent = spent + await self._pay(held, others)

    async def _rehearsed(self) -> None:
        """Once. Raises what the facade would raise; or Refusal where the whole statement, of all rounds, is not admitted."""
        if self._rehearse is None:
            return
        still_open = [self._plan.measurements[i] for i in self._parts.open()]
        dataset = self._question.dataset
        await public_tables.check(dataset, still_open)
        read = [table.name for table in named_tables(dataset.policy, dataset.catalog, still_open)]
        await self._ending.race(dataset.access.check(read))
        await self._ending.race(dataset.claims.check(read, dataset.outdated))
        await self._rehearse()
        self._rehearse = None
        if self._parts.waiting():
            refused = await asyncio.to_thread(verdict, self._asking, loss_together(still_open))
            if refused is not None:
                raise refused.refusal()

    async def _pay(self, held: AsyncExitStack, others: Mapping[int, Found]) -> Loss:
        """A round: charge for what other roles have seen and for what can be measured now, then show both. Raises Refusal."""
        parts = self._parts
        fresh = {i: self._work(i) for i in parts.ready() if i not in others}
        if await self._show_untold(fresh):
            return ZERO
        if not fresh and not others:
            raise internal(RuntimeError("nothing can be measured next"), statement=self._question.statement)
        if fresh and self._runner is None:
            await self._ending.race(self._take_place())
        measurements, ahead = self._plan.measurements, self._ahead({*fresh, *others})
        priced = {i: (found, measurements[i]) for i, found in others.items()}
        made = Round(self._asking, priced, fresh, len(measurements), self._prepaid, [measurements[i] for i in ahead])
        self._prepaid = self._prepaid | ahead
        self._rounds.append(made)
        paying = self._paid.start(made.run(self._runner, held.pop_all()))
        cost = await self._ending.outlasted(paying, lambda: made.through)
        for i, released in made.released.items():
            await parts.show(i, released)
        await parts.evaluate_ready()
        return cost

    def _ahead(self, now: AbstractSet[int]) -> frozenset[int]:
        """Measurements of later rounds that are one vector with some that this round is charged for."""
        vectors = {i for i, m in enumerate(self._plan.measurements) if m.vector is not None and i not in self._prepaid}
        return frozenset(vectors.intersection(self._parts.open()) - now) if vectors & now else frozenset()

    def _work(self, index: int) -> Work:
        """Raises Refusal when a value, a parameter's say, cannot be spelled for the engine."""
        measurement, values = self._plan.measurements[index], self._parts.bound()
        literal, begun = self._parts.spelled, measurement.threshold.first if measurement.threshold is not None else None

        def after(found: Sequence[int] = ()) -> list[str]:
            return [query.render(values, literal, found) for query in measurement.queries]

        try:
            queries, first = after(), begun.query.render(values, literal) if begun is not None else None
        except NoLiteral as error:
            raise no_literal(error, self._plan.parameters) from None
        return Work(measurement, queries, self._parts.asked(index), first, after)

    async def _show_untold(self, fresh: Mapping[int, Work]) -> bool:
        """What this role has paid for and not been told, where nothing is stored."""
        if self._question.mode == "off":
            return False
        shown, role = False, self._question.asker.role.name
        for i, work in fresh.items():
            key = (role, tuple(work.queries))
            if work.asked is None and (kept := await self._ending.race(self._paid.take(key, work.measurement))) is not None:
                await self._parts.show(i, kept.released, Source((kept.made,), False))
                shown = True
        await self._parts.evaluate_ready()
        return shown

    async def _take_place(self) -> None:
        """Raises Refusal when there is none, or no engine."""
        dataset = self._question.dataset
        tables = named_tables(dataset.policy, dataset.catalog, self._plan.measurements)
        self._runner = await engine_place(self._question, tables, self._engine, NO_ENGINE, LOADING)

    async def _told(self, charged: Loss) -> Told:
        q, parts = self._question, self._parts
        try:
            return await told_of(q.dataset, q.asker, self._plan, parts.values, charged, len(parts.free))
        except Exception as error:
            incident(error, statement=q.statement)
            return NOTHING
