"""One answer: what is stored of it, the charge, the measurements, the noise, and the released columns as array literals.

Knows: plans, stored answers, the ledger, the engine, the mechanisms. Must not know: protocols, connections; what the
facade has to evaluate goes through a function it is given. The order is the product's promise: nothing reaches the
backend before its charge is durable, and after the charge every failure is one and the same message.

Stored answers, in this order:
1. what the role has seen is shown at no charge, and may decide what is asked next (staged measurements);
2. what only other roles have seen is charged to this role's accounts alone, at the price this role was told. It is
   told nothing else: that somebody asked before is not its business;
3. the rest is charged to all accounts and measured. Both charges are one transaction, unless a measurement depends on
   what 2 shows.
While 2 and 3 are under way nobody else asks for the same: they wait, and then find it stored.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import traceback
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog

from dpproxy.backends.base import Runner
from dpproxy.budget.answers import Found
from dpproxy.budget.asked import Asked, any_noise, exposure
from dpproxy.budget.ledger import BudgetExhausted, Charge, ChargeRequest, Standing, amounts, charge_async
from dpproxy.errors import AFTER_CHARGE, FEATURE_NOT_SUPPORTED, INTERNAL_ERROR, QUERY_CANCELED, Refusal
from dpproxy.mechanisms.exact import Int64, Released
from dpproxy.mechanisms.release import release
from dpproxy.plan import cuts
from dpproxy.plan.loss import ZERO, Loss
from dpproxy.plan.model import Measurement, Param, Plan, Typical
from dpproxy.plan.typical import errors, told, unseen_told, worst
from dpproxy.session.arrays import array_literal, text_literal
from dpproxy.session.dataset import Answered, Asker, Dataset
from dpproxy.session.grid import Grid
from dpproxy.session.preview import Preview, Source, left
from dpproxy.session.reuse import Mode, Shelf
from dpproxy.session.standings import Held, standings
from dpproxy.session.virtual import virtual_columns

LOG = structlog.get_logger()

FEW = 2000
"""Released numbers that are looked through at once; more of them in a thread, so that others do not wait."""

Literals = list[bytes | None]
T = TypeVar("T")
Evaluate = Callable[[Sequence[int], Literals], Awaitable[list[str | None]]]
"""Indexes of `Plan.inputs` and the arrays so far -> their values, evaluated by the facade."""


class StatementFailed(Exception):
    """The facade refused: `raw` is its ErrorResponse, for the client as it is."""

    def __init__(self, raw: bytes) -> None:
        super().__init__("the facade refused the statement")
        self.raw = raw


@dataclass(frozen=True)
class Answer:
    """`literals[i]` is array i of the outer query. `notice`: what it cost, for people; None when nothing is measured.
    `charged`: what it cost; `reused`: how many measurements were answered at no charge."""

    literals: tuple[bytes, ...]
    notice: str | None
    charged: Loss = ZERO
    reused: int = 0


def incident(error: BaseException, **context: object) -> str:
    """Log an unexpected error for the operator; returns the number by which a client may name it."""
    number = uuid.uuid4().hex[:12]
    trace = "".join(traceback.format_exception(error))  # as text: a logger's own rendering might show variables
    LOG.error("incident", incident=number, error=type(error).__name__, trace=trace, **context)
    return number


def internal(error: BaseException, **context: object) -> Refusal:
    """The one text a client gets for something that must not happen."""
    return Refusal(INTERNAL_ERROR, f"internal error, incident {incident(error, **context)}")


class Answering:
    """The making of one answer. `statement` is the hash that names the statement in logs and ledger."""

    def __init__(
        self, dataset: Dataset, asker: Asker, plan: Plan, statement: str, evaluate: Evaluate, mode: Mode = "exact"
    ) -> None:
        self._dataset = dataset
        self._asker = asker
        self._plan = plan
        self._statement = statement
        self._evaluate = evaluate
        self._mode: Mode = mode if dataset.reuse is not None else "off"
        self._literals: Literals = [None] * len(plan.arrays)
        self._parameters: Sequence[str | None] = ()
        self._inputs: list[str | None] = [None] * len(plan.inputs)
        self._known: set[int] = set()  # indexes of evaluated inputs
        self._released: set[int] = set()  # indexes of released measurements
        self._values: dict[int, tuple[Int64, ...]] = {}  # what was released of each
        self._free: dict[int, Source] = {}  # of these, where those that cost nothing are from
        self._running: asyncio.Future[Any] | None = None
        self._cancelled: str | None = None  # why
        self._grid = Grid(dataset.policy.timing_quantum_ms)
        self._charged = False  # from here on time depends on data
        self._on_point = False  # of the grid, and nothing was measured since
        self._unkept: list[tuple[Asked, Measurement, Released]] = []  # released, not yet stored

    async def run(self, parameters: Sequence[str | None]) -> Answer:
        """`parameters`: text forms of the client's. Raises Refusal, StatementFailed, LinkLost, CancelledError."""
        await self._prepare(parameters)
        if not self._plan.measurements:
            return Answer(self._complete(), None)
        charged = await self._settle()
        if not charged:
            self._remember(dt.datetime.now(dt.UTC), ZERO)
        if not self._on_point:
            await self._grid.reached()
        return Answer(self._complete(), await self._note(charged), charged, len(self._free))

    async def error(self) -> float:
        """The largest typical error of the answer's aggregates."""
        return await self._of_values(worst)

    async def _of_values(self, said: Callable[[Sequence[Typical], Mapping[int, tuple[Int64, ...]]], T]) -> T:
        """In a thread where there are many groups."""
        groups = sum(len(column) for columns in self._values.values() for column in columns)
        if groups <= FEW:
            return said(self._plan.typical, self._values)
        return await asyncio.to_thread(said, self._plan.typical, self._values)

    async def preview(self, parameters: Sequence[str | None]) -> Preview:
        """What `run` would find stored, and charge. Raises as it does."""
        await self._prepare(parameters)
        if self._plan.measurements:
            await self._show_seen()
        charge = _sum(self._plan.measurements[i].loss for i in self._open())
        try:
            standings, refused = await asyncio.to_thread(self._foreseen, charge)
        except Exception as error:
            raise internal(error, statement=self._statement) from error
        return Preview(self._mode, self._free, charge, standings, refused, errors(self._plan.typical, await self._sizes()))

    async def _sizes(self) -> dict[int, tuple[Int64, ...]]:
        """What this role has seen of each measurement, however noisy: groups are about as large as they were then."""
        if not self._plan.measurements:
            return {}
        loose = {i: (any_noise(asked), m) for i, (asked, m) in self._wanted().items()}
        found = await self._shelf.find(loose)
        return self._values | {i: f.released.values for i, f in found.items() if f.seen(self._asker.role.name)}

    def _foreseen(self, charge: Loss) -> tuple[list[Standing], BudgetExhausted | None]:
        """Of the asker's own accounts. Raises LedgerError."""
        dataset, ledger = self._dataset, self._dataset.ledger
        own = [held for held in dataset.held(self._asker) if held.scope != "dataset"]
        refused = ledger.verdict(self._request(charge, charge)) if charge else None
        return standings(ledger, dataset.policy.dataset, own), refused

    async def _prepare(self, parameters: Sequence[str | None]) -> None:
        self._parameters = parameters
        await self._fill_virtual()
        await self._evaluate_ready()
        if self._plan.measurements:
            names = (self._dataset.policy.dataset, self._asker.role.name)
            spelled = (self._dataset.backend.dialect, self._dataset.literal)
            self._shelf = await Shelf.opened(self._dataset.reuse, self._mode, *names, *spelled)

    def cancel(self, reason: str) -> bool:
        """What would come next is not begun. True when the engine was at work, and stops; or may be, and will (`grid`)."""
        if self._charged and self._grid:
            self._grid.then(lambda: self._stop(reason))
            return True
        return self._stop(reason)

    def _stop(self, reason: str) -> bool:
        self._cancelled = reason
        return self._running is not None and self._running.cancel()

    def _check_cancelled(self) -> None:
        if self._cancelled is not None:
            raise Refusal(QUERY_CANCELED, f"canceling statement due to {self._cancelled}")

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
        total, flights = ZERO, self._shelf.flights
        while True:
            await self._show_seen()
            if not self._open():
                return total
            names = {asked.identity for asked, _ in self._wanted().values()}
            if busy := flights.busy(names):
                await self._interruptible(asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED))
                continue
            async with flights.held(names, lambda seconds: self._interruptible(asyncio.sleep(seconds))):
                shown, others = await self._show_seen()
                if not shown and not self._depending(others):
                    return total + await self._show_paid(others, [i for i in self._open() if i not in others])
                if not shown:
                    total = total + await self._show_paid(others, ())

    def _wanted(self) -> dict[int, tuple[Asked, Measurement]]:
        """Open measurements whose values are all known, as they are looked for."""
        values = [*self._parameters, *self._inputs]
        ready = [i for i in self._open() if self._needs(i) <= self._known]
        named = {i: (self._shelf.asked(self._plan.measurements[i], values), self._plan.measurements[i]) for i in ready}
        return {i: (asked, m) for i, (asked, m) in named.items() if asked is not None}

    def _needs(self, index: int) -> set[int]:
        """The inputs a measurement has in it."""
        first = self._plan.parameters
        parts = (p for query in self._plan.measurements[index].queries for p in query.parts if isinstance(p, Param))
        return {p.index - first for p in parts if p.index >= first}

    def _depending(self, others: Collection[int]) -> bool:
        """Whether what is to be asked next depends on these stored answers and on nothing that must be measured."""
        open_ = self._open()
        behind = {i: {m for n in self._needs(i) for m in self._plan.inputs[n].measurements} - self._released for i in open_}
        return any(needed and needed <= set(others) for needed in behind.values())

    async def _show_seen(self) -> tuple[bool, dict[int, Found]]:
        """Show what costs nothing, and what is asked because of it. Whether there was any; what else is stored."""
        shown = False
        while True:
            found = await self._shelf.find(self._wanted())
            seen = {i: f for i, f in found.items() if f.seen(self._asker.role.name)}
            if not seen:
                return shown, found
            for i, each in seen.items():
                self._free[i] = Source(each.made, each.stored is None)
                self._show(i, each.released)
            await self._evaluate_ready()
            shown = True

    def _show(self, index: int, released: Released) -> None:
        columns = (*released.keys, *released.values)
        for i, array in enumerate(self._plan.arrays):
            if array.measurement == index:
                self._literals[i] = array_literal(columns[array.column])
        self._released.add(index)
        self._values[index] = released.values

    async def _show_paid(self, others: Mapping[int, Found], fresh: Sequence[int]) -> Loss:
        """Charge for what other roles have seen and for what is to be measured, then show both. Raises Refusal."""
        measurements = self._plan.measurements
        for i in fresh:
            if self._needs(i) <= self._known:
                self._check_values(i)
        exposed = _sum(exposure(f.stored, measurements[i].loss) for i, f in others.items() if f.stored is not None)
        measured = _sum(measurements[i].loss for i in fresh)
        charge = await self._charge(exposed + measured, measured)
        self._charged, self._on_point = True, False
        for i, found in others.items():
            if found.stored is not None:
                await self._shelf.seen(found.stored)
            self._show(i, found.released)
        try:
            await self._measure_all(fresh)
            await self._evaluate_ready()
        except Exception:
            await self._to_point()
            raise
        await self._to_point()
        return charge.loss

    async def _measure_all(self, fresh: Sequence[int]) -> None:
        backend = self._dataset.backend
        async with backend.snapshot() if len(fresh) > 1 else nullcontext(backend) as engine:
            for i in fresh:
                await self._evaluate_ready()
                await self._measure(i, engine)
                if not self._grid:
                    await self._keep()

    async def _to_point(self) -> None:
        """However it ended. Of a client that leaves before, nothing is stored: neither what is measured by then."""
        await self._grid.reached()
        await self._keep()
        self._on_point = True

    async def _keep(self) -> None:
        while self._unkept:
            await self._shelf.keep(*self._unkept.pop())

    def _check_values(self, index: int) -> None:
        """Raises Refusal when a value that is already known, a parameter's say, cannot be spelled for the engine."""
        try:
            self._queries(self._plan.measurements[index])
        except ValueError as error:
            raise Refusal(FEATURE_NOT_SUPPORTED, f"{error} over private tables") from None

    def _queries(self, measurement: Measurement) -> list[str]:
        """Raises ValueError."""
        values = [*self._parameters, *self._inputs]
        return [query.render(values, self._dataset.literal) for query in measurement.queries]

    async def _charge(self, loss: Loss, dataset_loss: Loss) -> Charge:
        """Durable when this returns. Raises Refusal when a limit is reached or the ledger cannot be written."""
        self._check_cancelled()
        try:
            charge = await charge_async(self._dataset.ledger, self._request(loss, dataset_loss))
        except BudgetExhausted as exhausted:
            raise exhausted.refusal() from None
        except Exception as error:
            raise internal(error, statement=self._statement) from error
        self._remember(charge.at, charge.loss)
        return charge

    def _request(self, loss: Loss, dataset_loss: Loss) -> ChargeRequest:
        return ChargeRequest(
            id=str(uuid.uuid4()),
            dataset=self._dataset.policy.dataset,
            role=self._asker.role.name,
            user=self._asker.user.name,
            loss=loss,
            dataset_loss=dataset_loss,
            limits=self._dataset.limits(self._asker),
            statement=self._statement,
            at=dt.datetime.now(dt.UTC),
        )

    def _remember(self, at: dt.datetime, loss: Loss) -> None:
        """For `dpproxy.answers`. What only other roles had asked before looks as if it had been measured."""
        role, count = self._asker.role.name, len(self._plan.measurements)
        entry = Answered(role, at, loss.epsilon, loss.delta, count, not loss, self._statement)
        self._dataset.note(entry)

    async def _interruptible(self, work: Awaitable[T]) -> T:
        """`work`, which a cancel request ends: then 57014 is raised."""
        running: asyncio.Future[T] = asyncio.ensure_future(work)
        self._running = running
        try:
            return await running
        except asyncio.CancelledError:
            self._check_cancelled()
            raise

    async def _measure(self, index: int, engine: Runner) -> None:
        """Raises AFTER_CHARGE whatever fails, in the same words whatever the data; 57014 when cancelled."""
        self._check_cancelled()
        measurement, values = self._plan.measurements[index], [*self._parameters, *self._inputs]
        try:
            released = await self._interruptible(self._measured(measurement, engine))
            asked = self._shelf.asked(measurement, values)
            if asked is not None:
                self._unkept.append((asked, measurement, released))
            self._show(index, released)
        except Refusal:
            raise
        except Exception as error:
            incident(error, statement=self._statement, after_charge=True)
            raise replace(AFTER_CHARGE) from None

    async def _measured(self, measurement: Measurement, engine: Runner) -> Released:
        exact = await engine.run(self._queries(measurement))
        return await asyncio.to_thread(release, measurement, exact, self._dataset.noise)

    # afterwards

    async def _note(self, charged: Loss) -> str | None:
        name, held, lately = self._dataset.policy.dataset, self._dataset.held(self._asker), self._dataset.lately
        role, now = self._asker.role.name, asyncio.get_running_loop().time()
        if charged:
            lately.forget()
        try:
            known = lately.find(role, now)
            found = [known] if known is not None else await self._standings(held if charged else held[:1])
            lately.keep(role, found[0], now)
            reached = self._dataset.warned.notices(name, found, held) if charged else ()
            said = await self._said()
        except Exception as error:
            incident(error, statement=self._statement)
            return None
        return note(charged, len(self._free), len(self._plan.measurements), found[0], (*said, *reached))

    async def _said(self) -> tuple[str, ...]:
        """What the notice says of the answer itself."""
        plan, remembered = self._plan, self._dataset.said
        texts = remembered.find(plan, self._values)
        if texts is None:
            unseen = unseen_told(plan.measurements, self._dataset.policy.unit_name)
            cut = cuts.told(plan.measured_cuts, self._values, plan.cuts)
            texts = (await self._of_values(told), cut, unseen)
            remembered.keep(plan, self._values, texts)
        return texts

    async def _standings(self, held: Sequence[Held]) -> list[Standing]:
        """In a thread where the ledger has to be asked, for the same reason as above."""
        ledger, name = self._dataset.ledger, self._dataset.policy.dataset
        if ledger.at_hand(name):
            return standings(ledger, name, held)
        return await asyncio.to_thread(standings, ledger, name, held)


def note(charged: Loss, free: int, measurements: int, standing: Standing, more: Sequence[str] = ()) -> str:
    """What an answer cost and what is left of the role's budget, for people. `free`: of the measurements."""
    if not charged:
        cost = "reused, epsilon 0"
    else:
        some = f" ({free} of {measurements} measurements reused)" if free else ""
        cost = f"charged {amounts(charged.epsilon, charged.delta)}{some}"
    return "; ".join((cost, left(standing), *filter(None, more)))


def _sum(losses: Iterable[Loss]) -> Loss:
    return sum(losses, ZERO)
