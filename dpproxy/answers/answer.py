"""One answer: what is stored of it, the charge, the measurements, the noise, and the released columns as array literals.

Knows: plans, stored answers, the ledger, the engine, the mechanisms. Must not know: protocols, connections; what the
facade has to evaluate goes through a function it is given. The order is the product's promise: nothing reaches the
backend before its charge is durable, and after the charge every failure is one and the same message.

Stored answers, in this order:
1. what the role has seen is shown at no charge, and may decide what is asked next (staged measurements);
2. what only other roles have seen is charged to this role's accounts alone, at the price this role was told. It is
   told nothing else: that somebody asked before is not its business;
3. the rest is charged to all accounts and measured.
While 2 and 3 are under way nobody else asks for the same: they wait, and then find it stored.

Before the charge whatever can be foreseen to fail has failed: the statement was tried on the facade (`rehearse`), and there is
a place on the engine (`seats`). With the charge begins a round that belongs to the dataset (`paid`), not to who asked: it is
measured to its end and kept, and the client may stop waiting (`ending`). A measurement that needs another's answer is of a
later round, and is charged when that answer is there: so whatever is charged can be measured without the client.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import structlog

from dpproxy.answers import public_tables
from dpproxy.answers.array_literals import array_literal, text_literal
from dpproxy.answers.charge_round import (
    FAILED,
    Asking,
    Round,
    Work,
    remembered,
    total,
)
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.failures import incident, internal
from dpproxy.answers.matching import Asked, any_noise
from dpproxy.answers.notices import (
    FEW,
    Answer,
    of_values,
    told_of,
)
from dpproxy.answers.paid_measurements import LOST
from dpproxy.answers.preview import Preview, Source
from dpproxy.answers.reuse import AnswerLookup, Mode
from dpproxy.answers.standings import standings
from dpproxy.answers.statement_end import Ending
from dpproxy.answers.store import Found
from dpproxy.answers.time_grid import Grid
from dpproxy.answers.virtual_rows import virtual_columns
from dpproxy.backends.base import BackendError, Runner, in_measuring_thread
from dpproxy.budget.ledger import BudgetExhausted, Standing
from dpproxy.errors import (
    CANNOT_CONNECT_NOW,
    FEATURE_NOT_SUPPORTED,
    Refusal,
)
from dpproxy.mechanisms.exact_answers import Int64, Released
from dpproxy.plan.model import Plan
from dpproxy.plan.report.typical_error import errors_by_label, worst_error
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import Measurement
from dpproxy.sql.template import Param

LOG = structlog.get_logger()

Literals = list[bytes | None]
Evaluate = Callable[[Sequence[int], Literals], Awaitable[list[str | None]]]
"""Indexes of `Plan.inputs` and the arrays so far -> their values, evaluated by the facade."""
Rehearse = Callable[[], Awaitable[None]]
"""Tries the statement without its numbers. Raises what that raises."""


async def unrehearsed() -> None:
    """Of a statement that no facade gets."""


class Answering:
    """The making of one answer. `statement` is the hash that names the statement in logs and ledger."""

    def __init__(
        self,
        dataset: Dataset,
        asker: Asker,
        plan: Plan,
        statement: str,
        evaluate: Evaluate,
        mode: Mode = "exact",
        *,
        ending: Ending | None = None,
        rehearse: Rehearse = unrehearsed,
        limit: float = 0.0,
    ) -> None:
        """`limit`: seconds in which what is charged has to be measured; 0 is none."""
        self._dataset = dataset
        self._asker = asker
        self._plan = plan
        self._statement = statement
        self._evaluate = evaluate
        self._anew = mode == "off"
        self._mode: Mode = mode if dataset.reuse is not None else "off"
        self._literals: Literals = [None] * len(plan.arrays)
        self._parameters: Sequence[str | None] = ()
        self._inputs: list[str | None] = [None] * len(plan.inputs)
        self._known: set[int] = set()  # indexes of evaluated inputs
        self._released: set[int] = set()  # indexes of released measurements
        self._values: dict[int, tuple[Int64, ...]] = {}  # what was released of each
        self._free: dict[int, Source] = {}  # of these, where those that cost nothing are from
        self._ending = ending or Ending()
        self._rehearse: Rehearse | None = rehearse
        self._limit = limit
        self._grid = Grid(dataset.policy.timing_quantum_ms)
        self._engine = AsyncExitStack()  # the place on it, and the snapshot
        self._runner: Runner | None = None
        self._rounds: list[Round] = []

    async def run(self, parameters: Sequence[str | None]) -> Answer:
        """`parameters`: text forms of the client's. Raises Refusal, StatementFailed, LinkLost, CancelledError."""
        await self._prepare(parameters)
        if not self._plan.measurements:
            return Answer(self._complete(), None)
        try:
            charged = await self._settle()
        except BaseException as error:
            self._not_told(self._ending.reason or (LOST if isinstance(error, asyncio.CancelledError) else FAILED))
            raise
        finally:
            await self._engine.aclose()
        if not charged:
            remembered(self._asking, len(self._plan.measurements), dt.datetime.now(dt.UTC), ZERO)
            await self._grid.reached()
        return Answer(self._complete(), await self._note(charged), charged, len(self._free))

    def _not_told(self, reason: str) -> None:
        """What is charged and not yet through goes on, with the place it has; what is through is kept."""
        for made in self._rounds:
            if made.leave(reason, self._engine):
                self._engine = AsyncExitStack()

    async def error(self) -> float:
        """The largest typical error of the answer's aggregates."""
        return await of_values(self._plan, self._values, worst_error)

    async def preview(self, parameters: Sequence[str | None]) -> Preview:
        """What `run` would find stored, and charge. Raises as it does."""
        await self._prepare(parameters)
        if self._plan.measurements:
            await self._show_seen()
        charge = total(self._plan.measurements[i].loss for i in self._open())
        try:
            standings, refused = await asyncio.to_thread(self._foreseen, charge)
        except Exception as error:
            raise internal(error, statement=self._statement) from error
        return Preview(
            self._mode, self._free, charge, standings, refused, errors_by_label(self._plan.typical, await self._sizes())
        )

    async def _sizes(self) -> dict[int, tuple[Int64, ...]]:
        """What this role has seen of each measurement, however noisy: groups are about as large as they were then."""
        if not self._plan.measurements:
            return {}
        loose = {i: (any_noise(asked), m) for i, (asked, m) in self._wanted().items()}
        found = await self._lookup.find(loose)
        return self._values | {i: f.released.values for i, f in found.items() if f.seen(self._asker.role.name)}

    def _foreseen(self, charge: Loss) -> tuple[list[Standing], BudgetExhausted | None]:
        """Of the asker's own accounts. Raises LedgerError."""
        dataset, ledger = self._dataset, self._dataset.ledger
        own = [held for held in dataset.applied_budgets(self._asker) if held.scope != "dataset"]
        return standings(ledger, dataset.policy.dataset, own), self._verdict(charge)

    def _verdict(self, charge: Loss) -> BudgetExhausted | None:
        return self._dataset.ledger.verdict(self._asking.request(charge, charge)) if charge else None

    async def _prepare(self, parameters: Sequence[str | None]) -> None:
        self._parameters = parameters
        await self._fill_virtual()
        await self._evaluate_ready()
        names = (self._dataset.policy.dataset, self._asker.role.name)
        spelled = (self._dataset.backend.dialect, self._dataset.literal)
        reuse = self._dataset.reuse if self._plan.measurements else None
        self._lookup = await AnswerLookup.opened(reuse, self._mode, *names, *spelled)
        who = self._dataset, self._asker, self._statement
        self._asking = Asking(*who, self._lookup, self._grid, self._ending, self._limit)

    def _complete(self) -> tuple[bytes, ...]:
        complete = tuple(literal for literal in self._literals if literal is not None)
        if len(complete) != len(self._literals):
            raise internal(RuntimeError("an array of the outer query was not released"), statement=self._statement)
        return complete

    async def _fill_virtual(self) -> None:
        """In a thread: a ledger that several proxies share has to be asked. Raises Refusal."""
        tables = {a.virtual for a in self._plan.arrays if a.virtual is not None}
        try:
            columns = {t: await asyncio.to_thread(virtual_columns, t, self._dataset, self._asker) for t in tables}
        except Exception as error:
            raise internal(error, statement=self._statement) from error
        for i, array in enumerate(self._plan.arrays):
            if array.virtual is not None:
                self._literals[i] = text_literal(columns[array.virtual][array.column])

    async def _evaluate_ready(self) -> None:
        """Inputs whose measurements are all released, in one question to the facade."""
        ready = [
            i
            for i, given in enumerate(self._plan.inputs)
            if i not in self._known and self._released.issuperset(given.measurements)
        ]
        if ready:
            for i, value in zip(ready, await self._evaluate(ready, self._literals), strict=True):
                self._inputs[i] = value
            self._known.update(ready)

    # stored answers, the charge, the rest

    def _open(self) -> list[int]:
        """Measurements not yet released, in the order in which they must run."""
        return [i for i in range(len(self._plan.measurements)) if i not in self._released]

    async def _settle(self) -> Loss:
        """Release everything; returns what it cost."""
        spent, in_flight = ZERO, self._lookup.in_flight
        while True:
            await self._show_seen()
            if not self._open():
                return spent
            self._ending.check()
            await self._rehearsed()
            names = {asked.identity for asked, _ in self._wanted().values()}
            if busy := in_flight.busy(names):
                await self._ending.race(asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED))
                continue
            async with AsyncExitStack() as held:
                await held.enter_async_context(in_flight.held(names, lambda s: self._ending.race(asyncio.sleep(s))))
                shown, others = await self._show_seen()
                if not shown:
                    spent = spent + await self._pay(held, others)

    async def _rehearsed(self) -> None:
        """Once. Raises what the facade would raise; or Refusal where the whole statement, of all rounds, is not admitted."""
        if self._rehearse is None:
            return
        await public_tables.check(self._dataset, (self._plan.measurements[i] for i in self._open()))
        await self._rehearse()
        self._rehearse = None
        if any(self._needs(i) - self._known for i in self._open()):
            refused = await asyncio.to_thread(self._verdict, total(self._plan.measurements[i].loss for i in self._open()))
            if refused is not None:
                raise refused.refusal()

    def _wanted(self) -> dict[int, tuple[Asked, Measurement]]:
        """Open measurements whose values are all known, as they are looked for."""
        named = {i: (self._asked(i), self._plan.measurements[i]) for i in self._ready()}
        return {i: (asked, m) for i, (asked, m) in named.items() if asked is not None}

    def _ready(self) -> list[int]:
        """Open measurements whose values are all known."""
        return [i for i in self._open() if self._needs(i) <= self._known]

    def _asked(self, index: int) -> Asked | None:
        return self._lookup.asked(self._plan.measurements[index], [*self._parameters, *self._inputs])

    def _needs(self, index: int) -> set[int]:
        """The inputs a measurement has in it."""
        first = self._plan.parameters
        parts = (p for query in self._plan.measurements[index].queries for p in query.parts if isinstance(p, Param))
        return {p.index - first for p in parts if p.index >= first}

    async def _show_seen(self) -> tuple[bool, dict[int, Found]]:
        """Show what costs nothing, and what is asked because of it. Whether there was any; what else is stored."""
        shown = False
        while True:
            found = await self._lookup.find(self._wanted())
            seen = {i: f for i, f in found.items() if f.seen(self._asker.role.name)}
            if not seen:
                return shown, found
            for i, each in seen.items():
                self._free[i] = Source(each.made, each.stored is None)
                await self._show(i, each.released)
            await self._evaluate_ready()
            shown = True

    async def _show(self, index: int, released: Released) -> None:
        columns = (*released.keys, *released.values)

        def literals() -> dict[int, bytes]:
            own = ((i, array) for i, array in enumerate(self._plan.arrays) if array.measurement == index)
            return {i: array_literal(columns[array.column]) for i, array in own}

        made = literals() if released.rows <= FEW else await in_measuring_thread(literals)
        for i, literal in made.items():
            self._literals[i] = literal
        self._released.add(index)
        self._values[index] = released.values

    async def _pay(self, held: AsyncExitStack, others: Mapping[int, Found]) -> Loss:
        """A round: charge for what other roles have seen and for what can be measured now, then show both. Raises Refusal."""
        fresh = {i: self._work(i) for i in self._ready() if i not in others}
        if await self._show_untold(fresh):
            return ZERO
        if not fresh and not others:
            raise internal(RuntimeError("nothing can be measured next"), statement=self._statement)
        if fresh and self._runner is None:
            await self._ending.race(self._take_place())
        priced = {i: (found, self._plan.measurements[i].loss) for i, found in others.items()}
        made = Round(self._asking, priced, fresh, len(self._plan.measurements))
        self._rounds.append(made)
        paying = self._dataset.paid.start(made.run(self._runner, held.pop_all()))
        cost = await self._ending.outlasted(paying, lambda: made.through)
        for i, released in made.released.items():
            await self._show(i, released)
        await self._evaluate_ready()
        return cost

    def _work(self, index: int) -> Work:
        """Raises Refusal when a value, a parameter's say, cannot be spelled for the engine."""
        measurement, values = self._plan.measurements[index], [*self._parameters, *self._inputs]
        try:
            queries = [query.render(values, self._dataset.literal) for query in measurement.queries]
        except ValueError as error:
            raise Refusal(FEATURE_NOT_SUPPORTED, f"{error} over private tables") from None
        return Work(measurement, queries, self._asked(index))

    async def _show_untold(self, fresh: Mapping[int, Work]) -> bool:
        """What this role has paid for and not been told, where nothing is stored."""
        if self._anew:
            return False
        shown, paid = False, self._dataset.paid
        for i, work in fresh.items():
            key = (self._asker.role.name, tuple(work.queries))
            if work.asked is None and (kept := await self._ending.race(paid.take(key, work.measurement))) is not None:
                self._free[i] = Source((kept.made,), False)
                await self._show(i, kept.released)
                shown = True
        await self._evaluate_ready()
        return shown

    async def _take_place(self) -> None:
        """Raises Refusal when there is none, or no engine."""
        await self._engine.enter_async_context(self._dataset.seats.taken(self._asker.role.name))
        try:
            self._runner = await self._engine.enter_async_context(self._dataset.backend.snapshot())
        except BackendError as error:
            incident(error, statement=self._statement)
            raise replace(NO_ENGINE) from None

    # afterwards

    async def _note(self, charged: Loss) -> str | None:
        try:
            return await told_of(self._dataset, self._asker, self._plan, self._values, charged, len(self._free))
        except Exception as error:
            incident(error, statement=self._statement)
            return None


NO_ENGINE = Refusal(
    CANNOT_CONNECT_NOW,
    "the data backend cannot be reached",
    detail="Nothing was charged.",
    hint="Ask again later; the reason is in the proxy's log only.",
)
