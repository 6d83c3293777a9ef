"""One answer: the charge, the measurements, the noise, and the released columns as array literals.

Knows: plans, the ledger, the engine, the mechanisms. Must not know: protocols, connections; what the facade has to
evaluate goes through a function it is given. The order is the product's promise: nothing reaches the backend before
its charge is durable, and after the charge every failure is one and the same message.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import traceback
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from dpproxy.budget.ledger import BudgetExhausted, Charge, ChargeRequest, Standing, amounts, charge_async
from dpproxy.errors import AFTER_CHARGE, INTERNAL_ERROR, QUERY_CANCELED, Refusal
from dpproxy.mechanisms.exact import Released
from dpproxy.mechanisms.release import release
from dpproxy.plan.model import Measurement, Plan
from dpproxy.session.arrays import array_literal, text_literal
from dpproxy.session.dataset import Answered, Asker, Dataset, limit
from dpproxy.session.virtual import virtual_columns

LOG = structlog.get_logger()

Literals = list[bytes | None]
Evaluate = Callable[[Sequence[int], Literals], Awaitable[list[str | None]]]
"""Indexes of `Plan.inputs` and the arrays so far -> their values, evaluated by the facade."""


class StatementFailed(Exception):
    """The facade refused: `raw` is its ErrorResponse, for the client as it is."""

    def __init__(self, raw: bytes) -> None:
        super().__init__("the facade refused the statement")
        self.raw = raw


@dataclass(frozen=True)
class Answer:
    """`literals[i]` is array i of the outer query. `notice`: what it cost, for people; None when it was free."""

    literals: tuple[bytes, ...]
    notice: str | None


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

    def __init__(self, dataset: Dataset, asker: Asker, plan: Plan, statement: str, evaluate: Evaluate) -> None:
        self._dataset = dataset
        self._asker = asker
        self._plan = plan
        self._statement = statement
        self._evaluate = evaluate
        self._literals: Literals = [None] * len(plan.arrays)
        self._inputs: list[str | None] = [None] * len(plan.inputs)
        self._known: set[int] = set()  # indexes of evaluated inputs
        self._released: set[int] = set()  # indexes of released measurements
        self._running: asyncio.Future[Released] | None = None
        self._cancelled: str | None = None  # why

    async def run(self, parameters: Sequence[str | None]) -> Answer:
        """`parameters`: text forms of the client's. Raises Refusal, StatementFailed, LinkLost, CancelledError."""
        began = asyncio.get_running_loop().time()
        await self._fill_virtual()
        await self._evaluate_ready()
        if not self._plan.measurements:
            return Answer(self._complete(), None)
        charge = await self._charge()
        for i, measurement in enumerate(self._plan.measurements):
            await self._evaluate_ready()
            await self._measure(i, measurement, parameters)
        await self._hold(began)
        return Answer(self._complete(), await self._note(charge))

    def cancel(self, reason: str) -> bool:
        """What would come next is not begun. True when the engine was at work, and stops."""
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

    async def _charge(self) -> Charge:
        """Durable when this returns. Raises Refusal when a limit is reached or the ledger cannot be written."""
        self._check_cancelled()
        request = ChargeRequest(
            id=str(uuid.uuid4()),
            dataset=self._dataset.policy.dataset,
            role=self._asker.role.name,
            user=self._asker.user.name,
            loss=self._plan.loss,
            dataset_loss=self._plan.loss,
            limits=self._dataset.limits(self._asker),
            statement=self._statement,
            at=dt.datetime.now(dt.UTC),
        )
        try:
            charge = await charge_async(self._dataset.ledger, request)
        except BudgetExhausted as exhausted:
            raise exhausted.refusal() from None
        except Exception as error:
            raise internal(error, statement=self._statement) from error
        loss, count = self._plan.loss, len(self._plan.measurements)
        entry = Answered(request.role, charge.at, loss.epsilon, loss.delta, count, False, self._statement)
        self._dataset.answered.append(entry)
        return charge

    async def _measure(self, index: int, measurement: Measurement, parameters: Sequence[str | None]) -> None:
        """Raises AFTER_CHARGE whatever fails, in the same words whatever the data; 57014 when cancelled."""
        self._check_cancelled()
        try:
            self._running = asyncio.ensure_future(self._measured(measurement, [*parameters, *self._inputs]))
            released = await self._running
            columns = (*released.keys, *released.values)
            for i, array in enumerate(self._plan.arrays):
                if array.measurement == index:
                    self._literals[i] = array_literal(columns[array.column])
        except asyncio.CancelledError:
            self._check_cancelled()
            raise
        except Exception as error:
            incident(error, statement=self._statement, after_charge=True)
            raise AFTER_CHARGE from None
        self._released.add(index)

    async def _measured(self, measurement: Measurement, values: Sequence[str | None]) -> Released:
        queries = [query.render(values, self._dataset.literal) for query in measurement.queries]
        exact = await self._dataset.backend.run(queries)
        return await asyncio.to_thread(release, measurement, exact, self._dataset.noise)

    async def _hold(self, began: float) -> None:
        """Answers leave on the policy's time grid, if it has one, so that their time says less."""
        quantum = self._dataset.policy.timing_quantum_ms
        if quantum:
            elapsed = asyncio.get_running_loop().time() - began
            await asyncio.sleep(-elapsed % (quantum / 1000))

    async def _note(self, charge: Charge) -> str | None:
        role = self._asker.role
        try:
            ask = self._dataset.ledger.standing  # in a thread, for the same reason
            standing = await asyncio.to_thread(ask, charge.dataset, "role", role.name, limit(role.budget), charge.at)
        except Exception as error:
            incident(error, statement=self._statement)
            return None
        return note(charge, standing)


def note(charge: Charge, standing: Standing) -> str:
    """What an answer cost and what is left, for people."""
    until = f" until {standing.resets:%Y-%m-%d}" if standing.resets else ""
    spent = amounts(charge.loss.epsilon, charge.loss.delta)
    left = amounts(standing.left_epsilon, standing.left_delta)
    return f"charged {spent}; role {charge.role} has {left} left{until}"
