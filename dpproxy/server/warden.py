"""Looks several times a second what the sessions take of the facade's machine, and holds them to their quota.

Knows: the server's sessions and the processes behind them, where the facade keeps its files. Must not know: statements.
What has to be done is decided by `quota`; here it is found out and carried out. Where the system does not tell what
processes take (macOS), or the facade's server is somebody else's, there is no warden.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, Protocol

import structlog

from dpproxy.facade import usage
from dpproxy.limits.quota import Quota, Ration, Resource, Stop, Taken
from dpproxy.limits.session_limits import Progress, State
from dpproxy.session.client import ClientSession
from dpproxy.wire import backend as back

LOG = structlog.get_logger()

BUSY_PAUSE: Final = 0.1
"""Seconds between two looks while statements run: a process that writes a gigabyte a second is a tenth further."""
IDLE_PAUSE: Final = 0.25
TABLES_PAUSE: Final = 1.0
"""Seconds between two looks at temporary tables, which are in the folders of all databases."""
HINTS: Final = {
    Resource.MEMORY: "ask for less at once: shorter texts, smaller arrays, fewer rows",
    Resource.DISK: "sort and join fewer rows, close cursors that are held, drop temporary tables",
    Resource.SPACE: "sort and join fewer rows, close cursors that are held, drop temporary tables",
}


class Cluster(Protocol):
    """Is a server of the facade."""

    @property
    def data(self) -> Path:
        """Return the folder of its files."""
        ...

    async def owners(self) -> dict[int, int]:
        """Return server processes by the number of their temporary schema."""
        ...


class Warden:
    """Ends what takes too much. `clusters`: the servers of the facade, one for each role."""

    def __init__(
        self,
        quota: Quota,
        sessions: Callable[[], Collection[ClientSession]],
        clusters: Callable[[], Collection[Cluster]],
    ) -> None:
        self._sessions = sessions
        self._clusters = clusters
        self._ration = Ration[ClientSession](quota, os.cpu_count() or 1)
        self._queue = usage.Queue()
        self._seen: dict[ClientSession, tuple[Progress, usage.Usage]] = {}  # of those that do nothing since
        self._tables: Counter[int] = Counter()  # bytes of temporary tables, by process
        self._tables_at = 0.0

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            busy = False
            try:
                busy = await self._look()
            except Exception:  # whatever it is, the next look may do better; without any look nothing is bounded
                LOG.exception("what sessions take could not be looked at")
            await asyncio.sleep(BUSY_PAUSE if busy else IDLE_PAUSE)

    async def _look(self) -> bool:
        """Whether any statement runs."""
        clusters = self._clusters()
        if not clusters or not self._sessions():
            return False
        now = asyncio.get_running_loop().time()
        if now - self._tables_at >= TABLES_PAUSE:
            self._tables_at, self._tables = now, await self._temporary_tables(clusters)
        spilled = Counter[int]()
        for cluster in clusters:
            spilled.update(usage.spilled(cluster.data))
        taken = {session: self._taken(session, spilled) for session in self._sessions() if session.server_process}
        self._seen = {session: seen for session, seen in self._seen.items() if session in taken}
        for stop in self._ration.over(taken, min(usage.free(cluster.data) for cluster in clusters), now):
            self._carry_out(stop, clusters)
        self._queue.put(session.server_process for session in self._ration.last(taken, now))
        return any(each.busy for each in taken.values())

    async def _temporary_tables(self, clusters: Collection[Cluster]) -> Counter[int]:
        found = Counter[int]()
        for cluster in clusters:
            sizes = usage.temporary_tables(cluster.data)
            if sizes.total() < 1 << 20:  # the policy does not allow them, or they are small
                continue
            owners = await cluster.owners()
            found.update({owners[number]: size for number, size in sizes.items() if number in owners})
        return found

    def _taken(self, session: ClientSession, spilled: Counter[int]) -> Taken:
        """Who does nothing since the last look takes what was seen then."""
        progress, pid = session.progress, session.server_process
        seen = self._seen.get(session)
        if seen is not None and seen[0] == progress and progress[0] is not State.STATEMENT:
            found = seen[1]
        else:
            found = usage.taken(pid) or usage.Usage()
            session.worked_beside(found.seconds - (seen[1].seconds if seen is not None else 0.0))
            self._seen[session] = (progress, found)
        role = (session.dataset.policy.dataset, session.asker.role.name)
        disk = spilled[pid] + self._tables[pid]
        return Taken(role, progress, progress[0] is State.STATEMENT, found.memory, found.seconds, disk, session.behind)

    def _carry_out(self, stop: Stop[ClientSession], clusters: Collection[Cluster]) -> None:
        session, resource = stop.session, stop.resource
        asker = session.asker
        LOG.warning(
            "a session took too much",
            dataset=session.dataset.policy.dataset,
            role=asker.role.name,
            user=asker.user.name,
            resource=resource.name.lower(),
            ended=stop.end,
        )
        if stop.end:
            session.fatal(resource.sqlstate, f"{resource.message}: {stop.detail}")
            for cluster in clusters:  # in which of them is told by the process itself
                usage.terminate(session.server_process, cluster.data)
        else:
            session.overdrawn(back.error_response("ERROR", resource.sqlstate, resource.message, stop.detail, HINTS[resource]))
