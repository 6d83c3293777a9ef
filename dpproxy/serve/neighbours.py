"""What processes that serve one port are to each other: the others as one of them sees them, and each as the others reach it.

Knows: names of what passes between them. Must not know: pipes, how a process serves. `serve.member_process` has the pipes,
`serve.proxy` is a process; neither needs the other to say what it wants of it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Protocol

from dpproxy.server.connection_slots import ConnectionSlots
from dpproxy.sql.statements import Signal


class Member(Protocol):
    """A process as the others reach it."""

    def states(self) -> Mapping[str, str]:
        """Return what names the data that are open, by dataset."""
        ...

    def reload(self) -> None:
        """Read policies and data again."""
        ...

    def told_to_stop(self) -> None: ...

    def cancel(self, pid: int, secret: bytes) -> asyncio.Future[None] | None:
        """Hear a cancel request that reached another process."""
        ...

    def reach(self, pid: int, signal: Signal, of: tuple[str, str]) -> None:
        """Signal a session of a dataset's role."""
        ...


class Neighbours(Protocol):
    """The other processes of the same port, as one of them sees them. `number` is its own, from 1."""

    @property
    def number(self) -> int: ...

    @property
    def places(self) -> ConnectionSlots: ...

    @property
    def local(self) -> socket.socket | None:
        """Return the unix socket that the processes share, which listens."""
        ...

    @property
    def expected(self) -> Mapping[str, str]:
        """The data that are to be opened, by dataset (`Backend.state`); of others what is there."""
        ...

    def reloaded(self, running: Member) -> None:
        """Say that this process has read policies and data again."""
        ...

    def outdated(self) -> None:
        """Have all processes read policies and data again."""
        ...

    def cancel(self, number: int, pid: int, secret: bytes) -> asyncio.Future[None]:
        """Pass a cancel request on to the process whose key it is; done when what is cancelled has heard of it."""
        ...

    def reach(self, number: int, pid: int, signal: Signal, of: tuple[str, str]) -> asyncio.Future[None]:
        """Have another process signal one of its sessions, if it is of this dataset and role; done when it has."""
        ...

    async def joined(self, running: Member) -> None:
        """Say that this process listens."""
        ...

    def drain(self) -> None:
        """Have all processes stop."""
        ...
