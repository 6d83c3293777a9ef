"""What this process knows of itself, gathered for operators: sessions, budgets, counts, whether its parts work.

Knows: the server, datasets, the ledger. Must not know: who asks, in which form it is shown. What the loop owns is looked at in
the loop; the ledger is asked in a thread. Whether the parts work is found out by using them: a connection to each facade, a
query that reads no table, a transaction that charges nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import dpproxy
from dpproxy.answers.dataset import Dataset
from dpproxy.answers.standings import AppliedBudget, applied_budgets, standings
from dpproxy.answers.statement_end import PLAIN
from dpproxy.facade.cluster import Endpoint
from dpproxy.ledger.journal import Journal
from dpproxy.ledger.ledger import LedgerError, Standing, warnings
from dpproxy.operations.pauses import Pauses
from dpproxy.operations.status import AccountStatus, Check, DatasetStatus, PolicyHistory, SessionStatus, Status
from dpproxy.server.server import Server
from dpproxy.session.client import ClientSession
from dpproxy.telemetry.log import Lines
from dpproxy.telemetry.tallies import Tallies

SECONDS: Final = 5.0
"""After which a part that has not answered does not work."""


@dataclass
class SelfReport:
    """Reports on one process. `files`: policy files by dataset; `number`: of several processes, 0 of one."""

    number: int
    datasets: Mapping[str, Dataset]
    server: Server
    ledger: Journal
    tallies: Tallies
    pauses: Pauses
    history: Mapping[Path, PolicyHistory]
    files: Callable[[], Mapping[str, Path]]
    stopping: Callable[[], bool]
    lines: Lines | None = None
    started: float = field(default_factory=time.time)

    async def status(self, checked: bool = False) -> Status:
        """Return all of it, without budgets while the ledger does not answer. `checked`: the parts are tried."""
        checks = await self.checks() if checked else ()
        return Status(
            self.number,
            os.getpid(),
            dpproxy.__version__,
            self.started,
            self.stopping(),
            memory(),
            tuple(self._session(session) for session in list(self.server.sessions())),
            tuple(self._dataset(name, file) for name, file in sorted(self.files().items())),
            await self._accounts(),
            checks,
            self.pauses.all(),
            self.tallies.counted(),
            tuple(
                (name, *labels, count)
                for name, dataset in sorted(self.datasets.items())
                for labels, count in sorted(dataset.paid.untold.items())
            ),
            tuple((*role, *waited) for role, waited in sorted(self.server.turns.delayed().items())),
            tuple(sorted(self.lines.counts.items())) if self.lines is not None else (),
        )

    def _session(self, session: ClientSession) -> SessionStatus:
        asker, origin = session.asker, session.origin
        who = (session.key[0], self.number, session.dataset.policy.dataset, asker.role.name, asker.user.name)
        return SessionStatus(*who, origin.address, origin.tls, origin.since, session.progress[0].value, session.asking)

    def _dataset(self, name: str, file: Path) -> DatasetStatus:
        dataset, history = self.datasets[name], self.history[file]
        policy = dataset.policy
        parts = (dataset.backend.dialect, history.loaded, history.problem, dataset.seats.each, dataset.paid.running)
        copy = dataset.accelerator.status if dataset.accelerator is not None else None
        copied = (copy.state, copy.bytes) if copy is not None else ("none", 0)
        extract = dataset.watch.moment.timestamp() if dataset.watch is not None else 0.0
        overtaken = dataset.watch is not None and dataset.watch.overtaken
        return DatasetStatus(name, str(file), policy.digest, *parts, *copied, extract, overtaken)

    async def _accounts(self) -> tuple[AccountStatus, ...]:
        found: list[AccountStatus] = []
        with contextlib.suppress(LedgerError, TimeoutError):
            async with asyncio.timeout(SECONDS):
                for _, dataset in sorted(self.datasets.items()):
                    found += await asyncio.to_thread(accounts, dataset)
        return tuple(found)

    # whether the parts work

    async def checks(self) -> tuple[Check, ...]:
        """Try every part at the same time."""
        tried = [
            part
            for name, dataset in sorted(self.datasets.items())
            for part in (
                *(_tried("facade", f"{name}/{role}", _facade(dataset, role)) for role in dataset.policy.roles),
                _tried("backend", name, dataset.backend.violations(["SELECT 0"])),
                _tried("ledger", name, asyncio.to_thread(self.ledger.lag, name, dt.datetime.now(dt.UTC))),
            )
        ]
        return tuple(await asyncio.gather(*tried))


async def _tried(part: str, subject: str, work: Awaitable[object]) -> Check:
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(SECONDS):
            await work
        return Check(part, subject, True, loop.time() - began)
    except Exception as error:  # whatever it is, the part does not work
        return Check(part, subject, False, loop.time() - began, _problem(error))


def _problem(error: Exception) -> str:
    """Why a part does not work. Texts of other classes may hold anything."""
    if isinstance(error, TimeoutError):
        return f"no answer within {SECONDS:g} seconds"
    return str(error) if isinstance(error, PLAIN) else type(error).__name__


async def _facade(dataset: Dataset, role: str) -> None:
    """Raises OSError."""
    where: Endpoint = dataset.endpoint(role)
    if where.path is not None:
        _, writer = await asyncio.open_unix_connection(where.path)
    else:
        _, writer = await asyncio.open_connection(where.host, where.port)
    writer.close()


# budgets


def accounts(dataset: Dataset) -> list[AccountStatus]:
    """Return where every budget of a dataset stands. Raises LedgerError."""
    policy = dataset.policy
    name, held = policy.dataset, applied_budgets(policy, policy.roles.values(), policy.users.values())
    found = standings(dataset.ledger, name, held)
    return [_account(name, standing, own) for standing, own in zip(found, held, strict=True)]


def _account(dataset: str, s: Standing, held: AppliedBudget) -> AccountStatus:
    return AccountStatus(
        dataset,
        s.scope,
        held.name,
        s.window,
        s.spent_epsilon,
        s.limit_epsilon,
        s.left_epsilon,
        s.spent_delta,
        s.limit_delta,
        s.lifetime_epsilon,
        s.charges,
        s.resets.timestamp() if s.resets is not None else None,
        max(warnings(s, held.budget.warn), default=0),
    )


def memory() -> int:
    """Return bytes of this process's memory that are in use now; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
