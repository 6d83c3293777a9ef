"""Looks several times a second what the sessions take of the facade's machine, and holds them to their quota.

Knows: the server's sessions and the processes behind them, the facade's servers and whose they are. Must not know:
statements. What has to be done is decided by `quota`; here it is found out and carried out. Where the system does not tell
what processes take (macOS), or the facade's server is somebody else's, there is no warden.

Every server is asked by itself, in a task of its own, what it keeps on disk: one that does not answer, or is being made anew,
must not blind the warden to the others.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Hashable
from pathlib import Path
from typing import Final, Protocol, cast

import structlog

from dpproxy.facade import usage
from dpproxy.facade.cluster import Held
from dpproxy.limits.quota import Quota, Ration, Renewal, Resource, Stop, Taken
from dpproxy.limits.session_limits import Progress, State
from dpproxy.session.client import ClientSession
from dpproxy.wire import backend as back

LOG = structlog.get_logger()

BUSY_PAUSE: Final = 0.1
"""Seconds between two looks while statements run: a process that writes a gigabyte a second is a tenth further."""
IDLE_PAUSE: Final = 0.25
FILES_PAUSE: Final = 1.0
"""Seconds between two looks at all files of a server, of which there are hundreds."""
HINTS: Final = {
    Resource.MEMORY: "ask for less at once: shorter texts, smaller arrays, fewer rows",
    Resource.DISK: "sort and join fewer rows, close cursors that are held, drop temporary tables",
    Resource.SPACE: "sort and join fewer rows, close cursors that are held, drop temporary tables",
}
LEFT: Final = ", most of it what temporary tables left in the catalog of their server, which is made anew: connect again"


class Cluster(Protocol):
    """A server of the facade."""

    @property
    def data(self) -> Path:
        """Return the folder of its files."""
        ...

    @property
    def restarting(self) -> bool:
        """Return whether it is being started again, or made anew: its files are not what they were, or will not be."""
        ...

    async def held(self) -> Held:
        """Return what it keeps on disk, sorts excepted."""
        ...

    def make_anew(self) -> None:
        """End its sessions and make its files anew."""
        ...


Role = tuple[str, str]
"""A dataset and one of its roles."""


class Warden:
    """Ends what takes too much. `clusters`: the servers of the facade with their roles; no two roles share one."""

    def __init__(
        self,
        quota: Quota,
        sessions: Callable[[], Collection[ClientSession]],
        clusters: Callable[[], Collection[tuple[Role, Cluster]]],
    ) -> None:
        self._sessions = sessions
        self._clusters = clusters
        self._ration = Ration[ClientSession](quota, os.cpu_count() or 1)
        self._queue = usage.Queue()
        self._seen: dict[ClientSession, tuple[Progress, usage.Usage]] = {}  # of those that do nothing since
        self._held: dict[Cluster, Held] = {}
        self._asked: dict[Cluster, asyncio.Task[None]] = {}
        self._used: set[Cluster] = set()  # that had sessions when they were last asked
        self._anew: set[Cluster] = set()  # that are being started again or made anew
        self._asked_at = 0.0

    async def watch(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                busy = False
                try:
                    busy = self._look(asyncio.get_running_loop().time())
                except Exception:  # whatever it is, the next look may do better; without any look nothing is bounded
                    LOG.exception("what sessions take could not be looked at")
                await asyncio.sleep(BUSY_PAUSE if busy else IDLE_PAUSE)
        finally:
            for task in self._asked.values():
                task.cancel()

    def _look(self, now: float) -> bool:
        """Whether any statement runs."""
        clusters, sessions = self._clusters(), self._sessions()
        due = now - self._asked_at >= FILES_PAUSE
        if not clusters or not (sessions or due):
            return False
        self._forget({cluster for _, cluster in clusters})
        if due:
            self._asked_at = now
            self._ask(clusters, {_role(session) for session in sessions})
        spilled, tables, grown, returning = Counter[int](), Counter[int](), Counter[Hashable](), 0
        for of, cluster in clusters:
            spilled.update(usage.spilled(cluster.data))
            held = self._held.get(cluster, Held())
            tables.update(held.tables)
            if cluster in self._anew:
                returning += held.grown
            else:
                grown[of] += held.grown
        files = spilled + tables
        taken = {session: self._taken(session, files[session.server_process]) for session in sessions if session.server_process}
        self._seen = {session: seen for session, seen in self._seen.items() if session in taken}
        homes = {cluster.data.parent for _, cluster in clusters}  # where `data` itself is not while it is made anew
        free = min((usage.free(home) for home in homes if home.exists()), default=sys.maxsize) + returning
        orders = self._ration.over(taken, grown, free, now)
        for stop in orders.stops:
            self._carry_out(stop)
        for renewal in orders.renewals:
            self._renew(renewal, grown[renewal.role])
        self._queue.put(session.server_process for session in self._ration.last(taken, now))
        return any(each.busy for each in taken.values())

    # what servers keep

    def _forget(self, there: set[Cluster]) -> None:
        """What was known of servers that are no more, or have new files since."""
        renewed = {cluster for cluster in self._anew if not cluster.restarting}
        for cluster in self._held.keys() - there | renewed:
            self._held.pop(cluster, None)
            if cluster in self._asked:
                self._asked.pop(cluster).cancel()
        self._used &= there
        self._anew = {cluster for cluster in there if cluster.restarting}

    def _ask(self, clusters: Collection[tuple[Role, Cluster]], roles: set[Role]) -> None:
        """Ask servers what they keep: what nobody uses does not grow."""
        for role, cluster in clusters:
            if cluster in self._asked and not self._asked[cluster].done():
                continue
            used = role in roles or cluster in self._anew
            if used or cluster in self._used or cluster not in self._held:
                self._asked[cluster] = asyncio.ensure_future(self._answer(cluster))
                (self._used.add if used else self._used.discard)(cluster)

    async def _answer(self, cluster: Cluster) -> None:
        try:
            self._held[cluster] = await cluster.held()
        except Exception:  # as above
            LOG.exception("what sessions take could not be looked at")

    def _renew(self, renewal: Renewal, grown: int) -> None:
        resource = renewal.resource
        dataset, role = cast("Role", renewal.role)
        sessions = [s for s in self._sessions() if _role(s) == renewal.role and s.server_process]  # who enters can wait
        LOG.warning(
            "a role's server took too much",
            dataset=dataset,
            role=role,
            resource=resource.name.lower(),
            megabytes=grown >> 20,
            sessions=len(sessions),
        )
        for session in sessions:
            session.fatal(resource.sqlstate, f"{resource.message}: {renewal.detail}{LEFT}")
        for of, cluster in self._clusters():
            if of == renewal.role:
                cluster.make_anew()
                self._anew.add(cluster)

    # what sessions take

    def _taken(self, session: ClientSession, disk: int) -> Taken:
        """Who does nothing since the last look takes what was seen then."""
        progress, pid = session.progress, session.server_process
        seen = self._seen.get(session)
        if seen is not None and seen[0] == progress and progress[0] is not State.STATEMENT:
            found = seen[1]
        else:
            found = usage.taken(pid) or usage.Usage()
            session.worked_beside(found.seconds - (seen[1].seconds if seen is not None else 0.0))
            self._seen[session] = (progress, found)
        return Taken(_role(session), progress, progress[0] is State.STATEMENT, found.memory, found.seconds, disk, session.behind)

    def _carry_out(self, stop: Stop[ClientSession]) -> None:
        session, resource = stop.session, stop.resource
        dataset, role = _role(session)
        LOG.warning(
            "a session took too much",
            dataset=dataset,
            role=role,
            user=session.asker.user.name,
            resource=resource.name.lower(),
            ended=stop.end,
        )
        if stop.end:
            session.fatal(resource.sqlstate, f"{resource.message}: {stop.detail}")
            for _, cluster in self._clusters():  # in which of them is told by the process itself
                usage.terminate(session.server_process, cluster.data)
        else:
            session.overdrawn(back.error_response("ERROR", resource.sqlstate, resource.message, stop.detail, HINTS[resource]))


def _role(session: ClientSession) -> Role:
    return session.dataset.policy.dataset, session.asker.role.name
