"""Readings of reports: read, estimated and told, at no charge and without a line in the ledger.

Knows: plans, the engine's places, the second door (`mechanisms.reports`). Must not know: protocols, the facade, the ledger.
Devices have randomised what is read, so that nothing is spent. It is read before anything is charged for: a measurement may need
it. What was estimated of one epoch of the data is kept in memory, for speed alone; data that may change unnoticed are read anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import structlog

from dpproxy.answers import public_tables
from dpproxy.answers.answer_parts import AnswerParts
from dpproxy.answers.dataset import ReadingKey
from dpproxy.answers.public_tables import named_tables
from dpproxy.answers.question import Question
from dpproxy.answers.statement_end import incident
from dpproxy.answers.table_standing import NOT_THERE
from dpproxy.answers.unusable_values import no_literal
from dpproxy.backends.base import BackendError, Locked, Runner, Unreadable, in_measuring_thread
from dpproxy.errors import CANNOT_CONNECT_NOW, FEATURE_NOT_SUPPORTED, INTERNAL_ERROR, LOCK_NOT_AVAILABLE, Refusal
from dpproxy.facade.database import column_text
from dpproxy.mechanisms.noise import MechanismError, Released
from dpproxy.mechanisms.reports import Told, estimates
from dpproxy.plan.model import ReadingAccount
from dpproxy.plan.outer.report_weights import NotListed, settled
from dpproxy.plan.report.readings import notice
from dpproxy.policy.catalog import CatalogTable
from dpproxy.privacy.readings import Reading
from dpproxy.sql.template import NoLiteral

LOG = structlog.get_logger()

NO_ENGINE = Refusal(
    CANNOT_CONNECT_NOW, "the data backend cannot be reached", hint="Ask again later; the reason is in the proxy's log only."
)
LOADING = Refusal(LOCK_NOT_AVAILABLE, "the data are being loaded", hint="Ask again when the load has ended.")
NOT_WEIGHED = Refusal(
    FEATURE_NOT_SUPPORTED, "a condition on what devices randomised has parameters of a form that is not estimated",
    hint="Nothing was charged. Compare with a value of the column's type: x = $1.",
)  # fmt: skip
UNREAD = Refusal(INTERNAL_ERROR, "the reports cannot be read", hint="Nothing was charged. The reason is in the proxy's log only.")


async def engine_place(
    question: Question, tables: Sequence[CatalogTable], engine: AsyncExitStack, unreachable: Refusal, loading: Refusal
) -> Runner:
    """Take a place on the engine, which the stack `engine` gives back, and a snapshot of tables. Raises Refusal when there is no
    place, or no engine."""
    dataset = question.dataset
    await engine.enter_async_context(dataset.seats.taken(question.asker.role.name))
    try:
        return await engine.enter_async_context(dataset.backend.snapshot(tables))
    except BackendError as error:
        incident(error, statement=question.statement)
        raise replace(
            loading if isinstance(error, Locked) else NOT_THERE if isinstance(error, Unreadable) else unreachable
        ) from None


class Estimating:
    """Reads what a statement asks of reports. `notice`: what is said of what was read."""

    def __init__(self, question: Question, parts: AnswerParts) -> None:
        self._question, self._parts, self._plan = question, parts, question.plan
        self._engine = AsyncExitStack()
        self._runner: Runner | None = None
        self._said: list[str] = []

    @property
    def notice(self) -> str:
        return "; ".join(dict.fromkeys(self._said))

    async def run(self) -> None:
        """Show every reading that can be read by now: one may need the answer of a measurement. Raises Refusal, StatementFailed,
        LinkLost, CancelledError."""
        if not self._parts.unread():
            return
        q = self._question
        await public_tables.check(q.dataset, self._plan.readings)
        tables = named_tables(q.dataset.policy, q.dataset.catalog, self._plan.readings)
        await q.ending.race(q.dataset.access.check([table.name for table in tables]))
        self._runner = None
        async with AsyncExitStack() as self._engine:
            while waiting := self._parts.unread():
                for index in waiting:
                    released, told = await q.ending.race(self._read(index, tables))
                    await self._parts.show_reading(index, released)
                    self._said += notice(self._plan.accounts[index], told.reports, told.outside, _named(told), released.rows)
                    self._log(self._plan.accounts[index], released)
                await self._parts.evaluate_ready()

    async def _read(self, index: int, tables: Sequence[CatalogTable]) -> tuple[Released, Told]:
        dataset = self._question.dataset
        values, literal = self._parts.bound(), self._parts.spelled
        try:
            reading = settled(self._plan.readings[index], self._plan.weighings[index], values)
            queries = [query.render(values, literal) for query in reading.queries]
        except NoLiteral as error:
            raise no_literal(error, self._plan.parameters) from None
        except (NotListed, ValueError):
            raise replace(NOT_WEIGHED) from None
        key = self._key(reading, queries)
        known = dataset.recent_readings.find(key)
        if known is not None:
            return known
        if self._runner is None:
            self._runner = await engine_place(self._question, tables, self._engine, NO_ENGINE, LOADING)
        try:
            exact = await self._runner.run(queries)
            found = await in_measuring_thread(lambda: estimates(reading, exact))
        except (BackendError, MechanismError) as error:
            incident(error, statement=self._question.statement)
            raise replace(UNREAD) from None
        dataset.recent_readings.keep(key, found)
        return found

    def _key(self, reading: Reading, queries: list[str]) -> ReadingKey | None:
        """None where the data may change unnoticed, or the client wants nothing that is stored."""
        lookup, reuse = self._parts.lookup, self._question.dataset.reuse
        if reuse is None or reuse.max_age is not None or lookup.epoch is None or self._question.mode == "off":
            return None
        return lookup.epoch, tuple(queries), reading

    def _log(self, account: ReadingAccount, released: Released) -> None:
        q = self._question
        LOG.info(
            "estimate", dataset=q.dataset.policy.dataset, role=q.asker.role.name, user=q.asker.user.name, session=q.session,
            statement=q.statement, table=account.table, rows=released.rows,
        )  # fmt: skip


def _named(told: Told) -> tuple[int, list[tuple[str | None, ...]]]:
    """How many plain groups are not shown, and the keys of the first of them as texts."""
    texts = [column_text(column).to_pylist() for column in told.hidden]
    return told.few, list(zip(*texts, strict=True))
