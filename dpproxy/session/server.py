"""The listening side: connections, their number, cancel keys, the facade behind them.

Knows: sockets, sessions, datasets by name. Must not know: statements. One server serves every dataset on one port; it
owns neither facade nor ledgers nor engines: who starts them stops them (`cli`).
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Mapping

from dpproxy.facade.facade import Endpoint
from dpproxy.session.client import ClientSession
from dpproxy.session.dataset import Dataset
from dpproxy.session.door import Door
from dpproxy.session.tls import Tls

CONNECTIONS = 500  # of all users together; the facade needs 1.4 MB for each
CONNECTIONS_PER_USER = 200
DRAIN_SECONDS = 30.0  # for statements that run when the server is told to stop; Odyssey gives 30, PgDog 60


class Server:
    """`facade` is asked at each connection: a facade that was rebuilt may have moved."""

    def __init__(
        self,
        datasets: Mapping[str, Dataset],
        facade: Callable[[], Endpoint],
        *,
        connections: int = CONNECTIONS,
        per_user: int = CONNECTIONS_PER_USER,
        tls: Tls | None = None,
        require_tls: bool = False,
    ) -> None:
        """`tls` may be exchanged while the server runs: handshakes that begin later use the new one."""
        self.tls = tls
        self.require_tls = require_tls
        self.secret = secrets.token_bytes(32)
        self._datasets = datasets
        self._facade = facade
        self._connections = connections
        self._per_user = per_user
        self._doors: set[Door] = set()
        self._sessions: dict[int, ClientSession] = {}
        self._users: Counter[str] = Counter()
        self._listener: asyncio.Server | None = None
        self._deadline = 0.0  # of `stop`, in the loop's time

    async def listen(self, host: str, port: int) -> int:
        """Accept connections; returns the port (0 asks for a free one). Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: Door(self), host, port, backlog=1024)
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self, drain: float = DRAIN_SECONDS) -> None:
        """No new connections; idle sessions are told to go, busy ones after `drain` seconds."""
        if self._listener is not None:
            self._listener.close()
        for door in list(self._doors):
            door.abort()
        self._deadline = asyncio.get_running_loop().time() + drain
        while self._sessions:
            over = asyncio.get_running_loop().time() >= self._deadline
            for session in list(self._sessions.values()):
                if over or session.idle:
                    session.fatal("57P01", "terminating connection due to administrator command")
            if over:
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(0)

    def hurry(self) -> None:
        """Who waits for `stop` has lost patience."""
        self._deadline = 0.0

    @property
    def facade(self) -> Endpoint:
        return self._facade()

    def dataset(self, name: str) -> Dataset | None:
        return self._datasets.get(name)

    def admit(self, user: str | None) -> bool:
        if user is None:
            return len(self._sessions) < self._connections and len(self._doors) <= 2 * self._connections
        return len(self._sessions) < self._connections and self._users[user] < self._per_user

    def entered(self, door: Door) -> None:
        self._doors.add(door)

    def left(self, door: Door) -> None:
        self._doors.discard(door)

    def opened(self, session: ClientSession) -> None:
        while session.key[0] in self._sessions:
            session.renew_key()
        self._sessions[session.key[0]] = session
        self._users[session.asker.user.name] += 1

    def closed(self, session: ClientSession) -> None:
        if self._sessions.pop(session.key[0], None) is not None:
            self._users[session.asker.user.name] -= 1

    def cancel(self, pid: int, secret: bytes) -> None:
        """Silent when the key is wrong, as in PostgreSQL."""
        session = self._sessions.get(pid)
        if session is not None and hmac.compare_digest(session.key[1], secret):
            session.cancel()
