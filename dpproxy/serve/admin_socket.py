"""The admin socket: operators' requests, one a line, in the state folder.

Knows: unix sockets, lines, who is at the other end. Must not know: what a request means. The socket has the rights of the state
folder's owner alone (0600): whoever can use it could as well stop the proxy and read its ledger. The system says which account
asks; nobody can claim another.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from dpproxy.answers.failures import incident
from dpproxy.operations.audit import account
from dpproxy.operations.client import address, answers, socket_name
from dpproxy.operations.requests import MOST, OperationError, Request, read

CarryOut = Callable[[Request, str, bool], Awaitable[Any]]
"""Takes a request, who asks, and whether another process passed it on; returns what JSON can hold. Raises OperationError."""
_PEER: Final = struct.Struct("3i")  # process, user, group: Linux's


class AdminSocket:
    """Listens in a state folder. `process`: the number of one of several, 0 of one."""

    def __init__(self, state: Path, process: int, carry_out: CarryOut) -> None:
        self._path = state / socket_name(process)
        self._carry_out = carry_out
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; what a process that was killed left behind is cleared. Raises OSError, also where another proxy listens."""
        if answers(self._path):
            raise OSError(errno.EADDRINUSE, "another proxy uses this folder")
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # from its first moment nobody else may connect
        try:
            with address(self._path) as short:
                listener.bind(short)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        self._server = await asyncio.start_unix_server(self._heard, sock=listener, limit=MOST)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Any number of requests, one after the other."""
        by = _peer(writer)
        with contextlib.suppress(OSError, ValueError, asyncio.LimitOverrunError):
            async for line in reader:
                writer.write(json.dumps(await self._reply(line, by)).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def _reply(self, line: bytes, by: str) -> dict[str, Any]:
        try:
            request, passed = read(line)
            return {"ok": await self._carry_out(request, by, passed)}
        except OperationError as error:
            return {"error": str(error)}
        except Exception as error:
            return {"error": f"internal error, incident {incident(error)}"}


def _peer(writer: asyncio.StreamWriter) -> str:
    """Whose account it is. Where the system does not tell, it is one of those that may use the socket."""
    option = getattr(socket, "SO_PEERCRED", None)
    door = writer.get_extra_info("socket")
    if option is None or door is None:
        return "operator"
    _, uid, _ = _PEER.unpack(door.getsockopt(socket.SOL_SOCKET, option, _PEER.size))
    return account(uid)
