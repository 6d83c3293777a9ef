"""What is charged at once: durably charged, then measured to its end, then kept, whoever still waits for it.

Knows: the ledger, the engine, the mechanisms, stored answers. Must not know: protocols, the facade, plans: it is given
measurements whose values are all known, so that nothing it does needs the client. It runs as a task of the dataset (`paid`).

How it ends, and when, is told on the points of the time grid alone: what is stored, marked and let go of waits for one. A
measurement that fails is not tried again under its charge: asking twice for the price of once whether something fails would tell
more than was paid for. (A connection that is lost before it told anything is another matter: the backend reads again by
itself.) What was released before it failed is kept.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from dpproxy.answers.dataset import AnswerEntry, Asker, Dataset, Key, UntoldAnswer
from dpproxy.answers.statement_end import TIMEOUT, Ending, Grid, incident, internal, suspended_refusal
from dpproxy.backends.base import Runner, in_measuring_thread
from dpproxy.errors import AFTER_CHARGE, QUERY_CANCELED, Refusal
from dpproxy.ledger.ledger import BudgetExhausted, Charge, ChargeRequest, Suspended
from dpproxy.mechanisms.key_rounds import found_first
from dpproxy.mechanisms.noise import Released
from dpproxy.mechanisms.release import release
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.vector_loss import loss_together
from dpproxy.reuse.lookup import AnswerLookup
from dpproxy.reuse.matching import Asked, exposure
from dpproxy.reuse.store import Found

FAILED, STOPPED = "failed", "stopped"
"""Why what was charged is lost: the engine failed; the proxy, or its operator's limit, ended it."""


@dataclass(frozen=True)
class Asking:
    """Who asks, in which statement (`statement` is its hash). `limit`: seconds a round may take, the operator's; 0 is
    none."""

    dataset: Dataset
    asker: Asker
    statement: str
    lookup: AnswerLookup
    grid: Grid
    ending: Ending
    limit: float = 0.0

    def request(self, loss: Loss, dataset_loss: Loss) -> ChargeRequest:
        return ChargeRequest(
            id=str(uuid.uuid4()),
            dataset=self.dataset.policy.dataset,
            role=self.asker.role.name,
            user=self.asker.user.name,
            loss=loss,
            dataset_loss=dataset_loss,
            limits=self.dataset.limits(self.asker),
            statement=self.statement,
            at=dt.datetime.now(dt.UTC),
            policy=self.dataset.policy.digest,
        )


@dataclass(frozen=True)
class Work:
    """One measurement with its values written into it. `asked`: its name among stored answers; None where it has none.
    `first`: the query of the round before, where there is one; `after` writes the queries once its groups are found."""

    measurement: Measurement
    queries: Sequence[str]
    asked: Asked | None
    first: str | None = None
    after: Callable[[Sequence[int]], Sequence[str]] | None = None


class Round:
    """Charges and measures what can be charged at once. `released`: by the statement's numbers of measurements. `through`: all is
    done but keeping it. `entry`: its line in `dpproxy.answers`."""

    def __init__(
        self,
        asking: Asking,
        others: Mapping[int, tuple[Found, Measurement]],
        fresh: Mapping[int, Work],
        parts: int,
        paid: Collection[int] = (),
        ahead: Sequence[Measurement] = (),
    ) -> None:
        """Prepare a round. `others`: what other roles have seen, each with what would be measured; `parts`: measurements of the
        statement. `paid`: numbers of those that an earlier round was charged for; `ahead`: of later rounds, charged with this one
        since all are one vector (`privacy.vector_loss`)."""
        self.released: dict[int, Released] = {}
        self.through = False
        self.entry: AnswerEntry | None = None
        self._asking, self._others, self._fresh, self._parts = asking, others, fresh, parts
        self._paid, self._ahead = paid, ahead
        self._left: str | None = None  # why nobody waits
        self._kept = self._ended = False
        self._engine = AsyncExitStack()
        self._charging: Future[Charge] | None = None

    async def run(self, runner: Runner | None, held: AsyncExitStack) -> Loss:
        """Run the round; return what it cost. `held`: names that others wait for. Raises Refusal."""
        try:
            async with held:
                cost = await self._charge()
                await self._show_others()
                try:
                    await self._measure_all(runner)
                    self._kept = True
                except Refusal:
                    await self._to_point()
                    raise
                await self._to_point()
            return cost
        except asyncio.CancelledError:
            self._left = STOPPED
            raise
        finally:
            self._ended = True
            self._left = self._left or (None if self._kept else FAILED)
            self._tell_end()
            await self._engine.aclose()

    def leave(self, reason: str, engine: AsyncExitStack) -> bool:
        """Note that nobody waits any more, and why: what is not yet being charged is not charged. Return whether it goes on: then
        it closes `engine`."""
        if self._left is not None:
            return False
        self._left = reason
        if self._ended:
            self._tell_end()
            return False
        self._engine = engine
        if self._charging is not None and self.entry is None:
            self._charging.cancel()
        for key in self._nameless():
            self._asking.dataset.paid.expect(key)
        return True

    def _tell_end(self) -> None:
        """To the log, the metrics, `dpproxy.answers`; and to who waits for what has no name."""
        asking, reason = self._asking, self._left
        role = asking.asker.role.name
        if self.entry is not None:
            self.entry.outcome = "told" if reason is None else "kept" if self._kept else "lost"
            if reason is not None:
                asking.dataset.paid.left(asking.dataset.policy.dataset, role, reason, self._kept, asking.statement)
        for key, i in self._nameless().items() if reason is not None else ():
            released, now = self.released.get(i), dt.datetime.now(dt.UTC)
            asking.dataset.paid.keep(
                key, UntoldAnswer(self._fresh[i].measurement, released, now) if released is not None else None
            )

    def _nameless(self) -> dict[Key, int]:
        """What stored answers have no name for, or no place."""
        role = self._asking.asker.role.name
        return {(role, tuple(work.queries)): i for i, work in self._fresh.items() if work.asked is None}

    # the charge

    async def _charge(self) -> Loss:
        """Durable when this returns. Raises Refusal when a limit is reached or the ledger cannot be written."""
        asking = self._asking
        asking.ending.check()
        if self._left is not None:
            raise Refusal(QUERY_CANCELED, f"canceling statement due to {self._left}")
        whole, measured = self._losses()
        at, loss = dt.datetime.now(dt.UTC), ZERO
        if whole:
            try:
                self._charging = asking.dataset.ledger.submit(asking.request(whole, measured))
                charge = await asyncio.wrap_future(self._charging)
            except BudgetExhausted as refused:
                raise refused.refusal() from None
            except Suspended as suspended:
                raise suspended_refusal(suspended, asking.dataset.policy.dataset) from None
            except Exception as error:
                raise internal(error, statement=asking.statement) from error
            at, loss = charge.at, charge.loss
        self.entry = remembered(asking, self._parts, at, loss)
        asking.ending.charged(asking.grid, loss)
        return loss

    def _losses(self) -> tuple[Loss, Loss]:
        """What the role is charged, and what the dataset is."""
        fresh = [work.measurement for i, work in self._fresh.items() if i not in self._paid] + list(self._ahead)
        shown = {i: other for i, other in self._others.items() if i not in self._paid}
        measured = loss_together(fresh)
        exposed = [exposure(f.stored, m.loss) for f, m in shown.values() if f.stored is not None]
        if all(loss == m.loss for loss, (_, m) in zip(exposed, shown.values(), strict=True)):
            return loss_together([*(m for _, m in shown.values()), *fresh]), measured
        return total(exposed) + measured, measured

    async def _show_others(self) -> None:
        for i, (found, _) in self._others.items():
            if found.stored is not None:
                await self._asking.lookup.seen(found.stored)
            self.released[i] = found.released

    # the measurements

    async def _measure_all(self, runner: Runner | None) -> None:
        """Raises AFTER_CHARGE whatever fails, in the same words whatever the data; 57014 at the operator's limit."""
        asking = self._asking
        timeout = asyncio.timeout(asking.limit or None)
        try:
            async with timeout:
                for i, work in self._fresh.items():
                    if runner is None:
                        raise RuntimeError("no place was taken")
                    self.released[i] = await self._measured(work, runner)
        except Exception as error:
            if timeout.expired():
                raise Refusal(QUERY_CANCELED, f"canceling statement due to {TIMEOUT}", None, *AT_THE_LIMIT) from None
            incident(error, statement=asking.statement, after_charge=True)
            await asking.dataset.access.failed()
            raise replace(AFTER_CHARGE) from None

    async def _measured(self, work: Work, runner: Runner) -> Released:
        noise, queries, found = self._asking.dataset.noise, work.queries, None
        if work.first is not None and work.after is not None:
            before = await runner.run([work.first])
            found = await in_measuring_thread(lambda: found_first(work.measurement, before, noise))
            queries = work.after(found.numbers)
        exact = await runner.run(queries)
        return await in_measuring_thread(lambda: release(work.measurement, exact, noise, found))

    async def _to_point(self) -> None:
        """However it ended."""
        self.through = True
        await self._asking.grid.reached()
        for i, work in self._fresh.items():
            if work.asked is not None and i in self.released:
                await self._asking.lookup.keep(work.asked, work.measurement, self.released[i])


AT_THE_LIMIT = (
    "It took longer than the operator allows. The charge stands, and nothing is kept.",
    "Ask for less at once, or ask the operator for more time.",
)


def remembered(asking: Asking, parts: int, at: dt.datetime, loss: Loss) -> AnswerEntry:
    """Make an entry of `dpproxy.answers`, and return it. What only other roles had asked before looks as if it had been
    measured."""
    outcome = "running" if loss else "told"
    entry = AnswerEntry(asking.asker.role.name, at, loss.epsilon, loss.delta, parts, not loss, asking.statement, outcome)
    asking.dataset.note(entry)
    return entry


def total(losses: Iterable[Loss]) -> Loss:
    return sum(losses, ZERO)


def verdict(asking: Asking, charge: Loss) -> BudgetExhausted | None:
    """Return why a charge to all accounts would be refused; None if it would not. Raises LedgerError."""
    return asking.dataset.ledger.verdict(asking.request(charge, charge)) if charge else None
