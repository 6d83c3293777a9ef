"""The turns of a server's sessions: who is in debt waits here, before its next message is worked on.

Knows: the clock, waiting. Must not know: messages. What `fair_share` decides is carried out, and counted for the operator.
Waiting is done in short pieces, since the others may stop working meanwhile.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from time import thread_time
from typing import Final

from dpproxy.limits.fair_share import QUANTUM, Account, FairShare
from dpproxy.limits.rota import Place, Rota

PIECE: Final = 0.1
"""Seconds after which somebody who waits looks whether there is still a reason."""
RELAYED: Final = 10e-6
"""Seconds of processor for a piece that is relayed: to measure each small one would take a part of that again."""
BYTE: Final = 1e-9
"""Seconds of processor for a byte of a client's: it is received, kept, cut and sent on."""
ENTRY: Final = 0.02
"""Seconds of processor for a connection: its start and end are two milliseconds of the proxy, and four of a server process that
may be gone before anybody looks what it took."""

Role = tuple[str, str]
"""Names of a dataset and a role of it."""


def beyond_flat(began: float) -> float:
    """Return the seconds of processor that this thread has taken since `began`, beyond what `RELAYED` puts down. Pieces may hold
    thousands of messages: what is not small, or not known, is measured."""
    return max(0.0, thread_time() - began - RELAYED)


class Turns:
    """Lets sessions take turns."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._delayed: dict[Role, tuple[int, float]] = {}
        self._clock = clock
        self._shares = FairShare()
        self._rota = Rota()

    def delayed(self) -> dict[Role, tuple[int, float]]:
        """Return turns that had to wait since the start, and the seconds they waited, by role."""
        return self._delayed.copy()

    def opened(self, role: Role, user: str = "") -> Account:
        account = self._shares.opened(role, self._clock(), user)
        account.fresh += ENTRY
        account.place = Place(self._rota, (role, user))
        return account

    def closed(self, account: Account) -> None:
        self._shares.closed(account, self._clock())

    def late(self, account: Account) -> bool:
        """Return whether a session has to wait before anything else is done for it."""
        asks = account.turn is not None or account.fresh + account.taken > QUANTUM
        return asks and self._shares.wait(account, self._clock()) > 0

    async def wait(self, account: Account, role: Role) -> None:
        """Wait for a session's turn."""
        began = self._clock()
        try:
            while (left := self._shares.wait(account, self._clock())) > 0:
                await asyncio.sleep(min(left, PIECE))
        finally:
            now = self._clock()
            self._shares.left(account, now)
            count, seconds = self._delayed.get(role, (0, 0.0))
            self._delayed[role] = count + 1, seconds + now - began

    def hurry(self, account: Account) -> None:
        """Let a session that waits have its turn at once: it is to leave."""
        if account.turn is not None:
            account.turn = -math.inf

    def works(self, account: Account, waited: float = 0.0) -> None:
        """Note that what a session asks for is begun, which arrived `waited` seconds ago."""
        now = self._clock()
        self._shares.works(account, now - waited, now)

    def rests(self, account: Account) -> None:
        """Note that a session has all its answers."""
        self._shares.rests(account, self._clock())

    def beside(self, account: Account, seconds: float) -> None:
        """Put processor time down to a session that another process took for it: it is no pause."""
        self._shares.beside(account, seconds, self._clock())

    def behind(self, account: Account) -> bool:
        """Return whether what is done for a session had better wait for what is done for others."""
        return self._shares.behind(account, self._clock())
