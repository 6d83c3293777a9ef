"""The listening side: connections, their number, cancel keys, the facade behind them.

Knows: sockets, sessions, datasets by name. Must not know: statements. One server serves every dataset on one port; it
owns neither facade nor ledgers nor engines: who starts them stops them (`serve.proxy`).
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Protocol

import structlog

from dpproxy.answers.dataset import Dataset
from dpproxy.errors import ADMIN_SHUTDOWN
from dpproxy.facade.cluster import Endpoint
from dpproxy.limits.session_limits import DRAIN_SECONDS, SessionLimits, State, Watch
from dpproxy.limits.throttle import Throttle
from dpproxy.limits.turns import Turns
from dpproxy.policy.model import Policy
from dpproxy.server.connection import Arrival
from dpproxy.server.connection_slots import BACKLOG, ConnectionSlots, OwnSlots
from dpproxy.server.login import Nobody
from dpproxy.server.tls import Handshakes, Tls
from dpproxy.session.client import ClientSession
from dpproxy.session.inflow import BufferPool, HalfMessages
from dpproxy.session.memo import Memo
from dpproxy.sql.statements import Signal
from dpproxy.telemetry.tallies import Tallies
from dpproxy.waiting_places import WaitingPlaces, network

# The connections of a server that are not logged in yet, and what is said of those that lose their place.
#
# Knows: `Arrival` by its address and how to end it, the places there are. Must not know: logins, sessions. How many may wait is
# twice what may be logged in: all of them may come at once, and as many strangers. One address has half of that at most, so
# that a pool, or a proxy for everybody, can fill the server at once. `waiting_places` says who gives way.


GAVE_WAY: Final = "gave way"
"""Outcome of a login, among the counts."""
QUIET: Final = 60.0
"""Seconds between two lines of the log: a flood must not fill the disk."""


class Waiting(Protocol):
    """A connection that is not logged in. `address`: empty for a unix socket."""

    @property
    def address(self) -> str: ...

    def abort(self) -> None: ...


class Arrivals:
    """Gives places to who arrives. `places`: of all together."""

    def __init__(self, places: int, tallies: Tallies, clock: Callable[[], float] = time.monotonic) -> None:
        self._places = WaitingPlaces[Waiting](places, max(1, places // 2))
        self._tallies, self._clock = tallies, clock
        self._closed = 0  # since the log was told
        self._told = -QUIET

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._places)

    def entered(self, arrival: Waiting) -> None:
        """Give a place to a newcomer; another connection may be ended for it."""
        gone = self._places.enter(arrival, network(arrival.address))
        if gone is not None:
            gone.abort()
            self._tally(gone)

    def heard(self, arrival: Waiting) -> None:
        """Note a step towards a login."""
        self._places.heard(arrival)

    def left(self, arrival: Waiting) -> None:
        """Note that a connection is logged in, or gone."""
        self._places.leave(arrival)

    def _tally(self, gone: Waiting) -> None:
        self._tallies.login("", GAVE_WAY)
        self._closed += 1
        now = self._clock()
        if now - self._told >= QUIET:
            LOG.warning("connections without a login gave way", address=gone.address, closed=self._closed)
            self._told, self._closed = now, 0


LOG = structlog.get_logger()
NUMBER_BITS = 7  # of a cancel key's 31: which of several processes made it; the rest tells its sessions apart
LEAVE = "terminating connection due to administrator command"


class Elsewhere(Protocol):
    """What a server needs of other processes on its port, by their numbers."""

    def cancel(self, number: int, pid: int, secret: bytes) -> asyncio.Future[None]:
        """Pass a cancel request on to the process whose key it is; done when what is cancelled has heard of it."""
        ...

    def reach(self, number: int, pid: int, signal: Signal, of: tuple[str, str]) -> asyncio.Future[None]:
        """Have another process signal one of its sessions, if it is of this dataset and role; done when it has."""
        ...


class Server:
    """Serves datasets on one port. `facade` is asked at each connection, for a dataset's role: it may be being started again."""

    def __init__(
        self,
        datasets: dict[str, Dataset],
        facade: Callable[[Dataset, str], Endpoint],
        *,
        limits: SessionLimits | None = None,
        tls: Tls | None = None,
        require_tls: bool = False,
        places: ConnectionSlots | None = None,
        waiting: int | None = None,
        number: int = 0,
        elsewhere: Elsewhere | None = None,
        secret: bytes | None = None,
        tallies: Tallies | None = None,
    ) -> None:
        """`tls` may be exchanged while the server runs: handshakes that begin later use the new one.

        Of several processes on one port each has its `number`, from 1, and passes the others' cancel requests to `elsewhere`.
        `waiting`: how many may be connected that are not logged in; None: twice as many as may be logged in.
        `secret`: what unknown users' salts are made of; it must outlive the server, and None is for tests. `tallies`: what counts
        logins.
        """
        self.tls = tls
        self.require_tls = require_tls
        self._secret = secret or secrets.token_bytes(32)
        self.limits = limits or SessionLimits()
        self.throttle = Throttle()
        self.tallies = tallies or Tallies()
        self.turns = Turns()
        self.buffers = BufferPool()
        self.handshakes = Handshakes()
        self._datasets = datasets
        self._memos: dict[str, tuple[Dataset, Memo]] = {}
        self._facade = facade
        self._arrivals = Arrivals(waiting or 2 * self.limits.connections, self.tallies)
        self._sessions: dict[int, ClientSession] = {}
        self._places = places or OwnSlots(self.limits.connections, self.limits.connections_per_user)
        self._number = number
        self._elsewhere = elsewhere
        self._nobody: tuple[list[Policy], Nobody] = ([], Nobody(self._secret, ()))
        self._listeners: list[asyncio.Server] = []
        self._watching: asyncio.Task[None] | None = None
        self._impatient = asyncio.Event()

    async def listen(self, host: str, port: int, *, shared: bool = False) -> int:
        """Accept connections; returns the port (0 asks for a free one). `shared`: with other processes. Raises OSError."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: Arrival(self), host, port, backlog=BACKLOG, reuse_port=shared or None)
        self._listeners.append(listener)
        self._watching = asyncio.ensure_future(self._watch())
        return int(listener.sockets[0].getsockname()[1])

    async def listen_locally(self, local: socket.socket) -> None:
        """Accept connections of this machine as well, in a socket that listens."""
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_unix_server(lambda: Arrival(self, local=True), sock=local, backlog=BACKLOG))

    async def _watch(self) -> None:
        watch, halves = Watch[ClientSession](self.limits), HalfMessages[ClientSession]()
        while True:
            await asyncio.sleep(watch.tick)
            now = asyncio.get_running_loop().time()
            watch.look(list(self._sessions.values()), now)
            halves.look(list(self._sessions.values()), now)

    async def stop(self, drain: float = DRAIN_SECONDS) -> None:
        """Take no new connections; idle sessions end, busy ones after `drain` seconds."""
        for listener in self._listeners:
            listener.close()
        for arrival in self._arrivals:
            arrival.abort()
        await self._send_away(self._sessions.values, drain)
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.sleep(0)

    def hurry(self) -> None:
        """End what `stop` or `exchange` wait for: whoever called them has lost patience."""
        self._impatient.set()

    @property
    def hurried(self) -> bool:
        return self._impatient.is_set()

    async def _send_away(self, who: Callable[[], Iterable[ClientSession]], drain: float) -> None:
        """Idle sessions at once, busy ones when they are done, all after `drain` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + drain
        while sessions := list(who()):
            over = self._impatient.is_set() or loop.time() >= deadline
            for session in sessions:
                if over or session.progress[0] is State.IDLE:
                    session.fatal(ADMIN_SHUTDOWN, LEAVE)
            if over:
                return
            await asyncio.sleep(0.02)

    # datasets while the server runs

    async def exchange(self, former: Dataset, drain: float) -> None:
        """Send away whoever is in a dataset that is not served any more: at once, in a transaction or not; a statement that runs
        may end within `drain` seconds, and nothing is begun after it."""

        def leaving() -> list[ClientSession]:
            return [s for s in self._sessions.values() if s.dataset is former]

        for session in leaving():
            session.leave(LEAVE)
        deadline = asyncio.get_running_loop().time() + drain
        while sessions := leaving():
            if self._impatient.is_set() or asyncio.get_running_loop().time() >= deadline:
                for session in sessions:
                    session.fatal(ADMIN_SHUTDOWN, LEAVE)
                return
            await asyncio.sleep(0.02)
            for session in sessions:
                session.leave(LEAVE)

    def move(self, former: Dataset, newer: Dataset, stay: Callable[[ClientSession], bool]) -> None:
        """Move sessions that may stay to the newer dataset, which differs in its users only."""
        for session in self._sessions.values():
            if session.dataset is former and stay(session):
                session.move(newer)

    def sessions(self) -> Collection[ClientSession]:
        """Return the sessions that are logged in."""
        return self._sessions.values()

    def occupancy(self) -> int:
        """Return sessions that are logged in."""
        return len(self._sessions)

    def arrivals(self) -> Collection[object]:
        """Return the connections that are not logged in."""
        return tuple(self._arrivals)

    # for arrivals and sessions

    def facade(self, dataset: Dataset, role: str) -> Endpoint:
        return self._facade(dataset, role)

    @property
    def nobody(self) -> Nobody:
        """Return who stands for unknown users; it is made once for each state of the policies."""
        policies = [dataset.policy for dataset in self._datasets.values()]
        known, nobody = self._nobody
        if len(policies) != len(known) or any(one is not other for one, other in zip(policies, known, strict=True)):
            nobody = Nobody(self._secret, policies)
            self._nobody = policies, nobody
        return nobody

    def dataset(self, name: str) -> Dataset | None:
        return self._datasets.get(name)

    def memo(self, dataset: Dataset) -> Memo:
        """Return what sessions of this dataset remember together; a dataset that is opened anew has a new one."""
        known, memo = self._memos.get(dataset.policy.dataset, (None, Memo()))
        if known is not dataset:
            memo = Memo()
            self._memos[dataset.policy.dataset] = dataset, memo
        return memo

    def room(self) -> bool:
        return self._places.room()

    def admit(self, user: str) -> bool:
        return self._places.take(user)

    def entered(self, arrival: Arrival) -> None:
        self._arrivals.entered(arrival)

    def stepped(self, arrival: Arrival) -> None:
        self._arrivals.heard(arrival)

    def left(self, arrival: Arrival) -> None:
        self._arrivals.left(arrival)

    def new_pid(self) -> int:
        """Return the number of a cancel key, with the process's own in its first bits."""
        if not self._number:
            return secrets.randbits(31)
        bits = 31 - NUMBER_BITS
        return self._number << bits | secrets.randbits(bits)

    def opened(self, session: ClientSession) -> None:
        """Note a session of a user who was admitted."""
        while session.key[0] in self._sessions:
            session.renew_key()
        self._sessions[session.key[0]] = session

    def closed(self, session: ClientSession) -> None:
        if self._sessions.pop(session.key[0], None) is not None:
            self._places.give(session.asker.user.name)
            since = session.origin.since
            LOG.info("session ended", session=session.key[0], seconds=round(time.time() - since, 3) if since else 0)

    async def reach(self, session: ClientSession, signal: Signal, number: int) -> bool:
        """Cancel or terminate a session of this one's role, by the number of its cancel key or of its facade's process. In this
        process it has heard of it when this returns, so that nothing is cancelled that it does afterwards."""
        mine = (session.dataset.policy.dataset, session.asker.role.name)
        found = self._of_role(mine, number)
        if found is not None:
            heard = _signalled(found, signal)
            if heard is not None:
                await asyncio.wait([heard])
            return True
        owner = number >> (31 - NUMBER_BITS)
        if self._elsewhere is None or owner <= 0 or owner == self._number:
            return False
        await self._elsewhere.reach(owner, number, signal, mine)
        return True

    def reached(self, of: tuple[str, str], signal: Signal, number: int) -> bool:
        """Cancel or terminate a session of a dataset's role in this process; return whether there is one of that number."""
        found = self._of_role(of, number)
        if found is not None:
            _signalled(found, signal)
        return found is not None

    def _of_role(self, of: tuple[str, str], number: int) -> ClientSession | None:
        role = [s for s in self._sessions.values() if (s.dataset.policy.dataset, s.asker.role.name) == of]
        found = next((s for s in role if s.key[0] == number), None)
        return found or next((s for s in role if s.server_process == number != 0), None)

    def cancel(self, pid: int, secret: bytes) -> asyncio.Future[None] | None:
        """Cancel what a session does; silently nothing when the key is wrong, as in PostgreSQL. The result, if any, is done when
        what is cancelled has heard of it."""
        owner = pid >> (31 - NUMBER_BITS)
        if self._number and owner != self._number:
            return self._elsewhere.cancel(owner, pid, secret) if self._elsewhere is not None and owner > 0 else None
        session = self._sessions.get(pid)
        if session is not None and hmac.compare_digest(session.key[1], secret):
            return session.cancel()
        return None


def _signalled(session: ClientSession, signal: Signal) -> asyncio.Future[None] | None:
    """Cancel or end what a session does. The result, if any, is done when its facade has heard of it."""
    if signal == "cancel":
        return session.cancel()
    session.end()
    return None
