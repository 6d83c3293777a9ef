"""One of several serving processes: what it is told when it begins, and its end of the pipes between it and its watcher.

Knows: `serve.proxy`, two pipes. Must not know: how processes are started and watched (`serve.processes`), policies, statements.
It reads its options from standard input; after that a line there is a cancel request that reached another process, or that one
of its own was heard there, and its end means that the watcher is gone. On standard output it says when it is ready, which cancel
requests are another's (a key holds the number of its process), and which of another's it has heard. Both are pipes nobody
else has.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import pickle
import socket
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dpproxy.errors import OperatorError
from dpproxy.serve.neighbours import Member
from dpproxy.serve.proxy import serve
from dpproxy.serve.runtime import Options, run
from dpproxy.server.connection_slots import SharedSlots
from dpproxy.sql.statements import Signal
from dpproxy.telemetry.log import start_log

HEARD: Final = 10.0
"""Seconds a client waits for its cancel request to be heard by another process, which may be dying."""
NOTHING: Final = b"-"
"""In place of names of data: whatever is there is opened."""
_LENGTH: Final = struct.Struct("!I")


@dataclass(frozen=True)
class Membership:
    """A process's instructions when it begins. Descriptors: `places` of the file with the taken places, `local` of the socket.
    `states`: names of the data that are to be opened, by dataset."""

    number: int
    places: int
    local: int | None
    options: Options
    states: Mapping[str, str]


def encoded(states: Mapping[str, str]) -> str:
    """Write names of data, by dataset, as one word of a line."""
    return json.dumps(states, sort_keys=True).encode().hex()


def decoded(states: bytes) -> Mapping[str, str]:
    """Return names of data by dataset; none for `NOTHING`."""
    found: dict[str, str] = {} if states == NOTHING else json.loads(bytes.fromhex(states.decode()))
    return found


class Post:
    """Speaks at a process's end of its two pipes; it is a `serve.neighbours.Neighbours`."""

    def __init__(self, member: Membership) -> None:
        limits = member.options.limits
        self.number = member.number
        self.expected = member.states
        self.places = SharedSlots(member.places, limits.connections, limits.connections_per_user, member.number)
        self.local = None if member.local is None else socket.socket(fileno=member.local)
        self._listening: asyncio.Task[None] | None = None
        self._tickets = itertools.count()
        self._unheard: dict[int, asyncio.Future[None]] = {}
        os.set_blocking(sys.stdout.fileno(), False)

    def cancel(self, number: int, pid: int, secret: bytes) -> asyncio.Future[None]:
        """Done as well when nobody has said so for a while."""
        return self._ask(number, f"{pid} {secret.hex()}")

    def reach(self, number: int, pid: int, signal: Signal, of: tuple[str, str]) -> asyncio.Future[None]:
        """Done as well when nobody has said so for a while."""
        return self._ask(number, f"{pid} {signal} {' '.join(name.encode().hex() for name in of)}")

    def _ask(self, number: int, what: str) -> asyncio.Future[None]:
        loop, ticket = asyncio.get_running_loop(), next(self._tickets)
        heard = self._unheard[ticket] = loop.create_future()
        loop.call_later(HEARD, self._heard, ticket)
        self._say(f"cancel {number} {ticket} {what}\n")
        return heard

    def _heard(self, ticket: int) -> None:
        heard = self._unheard.pop(ticket, None)
        if heard is not None and not heard.done():
            heard.set_result(None)

    def _cancel(self, running: Member, sender: bytes, ticket: bytes, pid: int, secret: bytes) -> None:
        """What another process passed on. It gets word when the statement has been asked to end."""
        line = f"heard {sender.decode()} {ticket.decode()}\n"
        heard = running.cancel(pid, secret)
        if heard is None:
            self._say(line)
        else:
            heard.add_done_callback(lambda _: self._say(line))

    def _say(self, line: str) -> None:
        """Dropped when the pipe is full: then thousands of requests wait already. A line is short enough to go whole."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(sys.stdout.fileno(), line.encode())

    async def joined(self, running: Member) -> None:
        self._listening = asyncio.ensure_future(self._listen(running))
        self._say(f"ready {encoded(running.states())}\n")

    def reloaded(self, running: Member) -> None:
        self.expected = running.states()
        self._say(f"reloaded {encoded(self.expected)}\n")

    def outdated(self) -> None:
        self._say("outdated\n")

    def drain(self) -> None:
        self._say("drain\n")

    async def _listen(self, running: Member) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
        async for line in reader:
            match line.split():
                case [b"cancel", sender, ticket, pid, secret]:
                    self._cancel(running, sender, ticket, int(pid), bytes.fromhex(secret.decode()))
                case [b"cancel", sender, ticket, pid, (b"cancel" | b"terminate") as kind, dataset, role]:
                    of = (bytes.fromhex(dataset.decode()).decode(), bytes.fromhex(role.decode()).decode())
                    running.reach(int(pid), "cancel" if kind == b"cancel" else "terminate", of)
                    self._say(f"heard {sender.decode()} {ticket.decode()}\n")
                case [b"heard", ticket]:
                    self._heard(int(ticket))
                case [b"reload", states]:
                    self.expected = decoded(states)
                    running.reload()
        running.told_to_stop()


def packed(member: Membership) -> bytes:
    """Write what `told` reads."""
    content = pickle.dumps(member)
    return _LENGTH.pack(len(content)) + content


def told() -> Membership:
    """Read from our own watcher, and not a byte too far."""
    (size,) = _LENGTH.unpack(_exactly(_LENGTH.size))
    found = pickle.loads(_exactly(size))
    assert isinstance(found, Membership)
    return found


def _exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += (piece := os.read(sys.stdin.fileno(), size - len(data)))
        if not piece:
            sys.exit("dpproxy: the watcher is gone")
    return data


def main() -> None:
    member = told()
    lines = start_log(member.options.log_format, member.options.log_level, member.number)
    try:
        run(serve(member.options, Post(member), lines))
    except OperatorError as error:
        sys.exit(f"dpproxy: {error}")


if __name__ == "__main__":
    from dpproxy.serve import member_process  # pickled values are of this module's own name

    member_process.main()
