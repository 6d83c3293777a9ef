"""What a client is told in the facade's place, while the facade's own replies are captured.

Knows: both protocols' replies, errors as PostgreSQL words them. Must not know: statements, plans, answers. A refusal has to leave
the facade in the state in which an error of its own would have left it (`PrivateTalk.fail`), so that both go on alike.

`Client` is the session as this file and those above it need it: they know no transport, no buffers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.errors import ADMIN_SHUTDOWN, SUCCESSFUL_COMPLETION, Refusal
from dpproxy.session.link import FacadeLink
from dpproxy.session.memo import Memo, ReplyRecorder
from dpproxy.session.message_flow import State
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.sql_prepare import PreparedStatement
from dpproxy.session.tracker import STATUSES
from dpproxy.sql.statements import Signal
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front

_SILENT: Final = frozenset((b"1", b"2", b"3", b"n", b"t"))
"""Replies to messages a client of the simple protocol did not send."""


class Client(Protocol):
    """A logged-in client as those who answer it need it. `key`: its session's number, and the secret by which it is
    cancelled. `asking`: the hash of the private statement in the making. `private`: its prepared statements over private
    tables; `leaving`: why it begins nothing any more."""

    asker: Asker
    dataset: Dataset
    key: tuple[int, bytes]
    memo: Memo
    link: FacadeLink
    private: dict[str, PreparedStatement]
    leaving: str | None
    asking: str

    @property
    def statement_limit(self) -> float:
        """Return the seconds that the operator gives a statement; 0 is no limit."""
        ...

    @property
    def late(self) -> bool:
        """Return whether it has to wait for its turn: it has taken more than its share."""
        ...

    async def turn(self) -> None:
        """Wait for its turn."""
        ...

    @property
    def queue(self) -> Sequence[object]:
        """Return messages that wait."""
        ...

    def refill(self) -> bool:
        """Cut more of what the client has sent; return whether there is a next message."""
        ...

    def next(self) -> tuple[bytes, bytes]:
        """Take the next waiting message: its tag, and all of it."""
        ...

    @property
    def words(self) -> tuple[bytes, ...]:
        """Return the words for which a text must be read."""
        ...

    def mentions(self, text: bytes) -> bool:
        """Return whether a text holds a word for which it must be read."""
        ...

    async def searched(self, text: memoryview, words: tuple[bytes, ...]) -> bool:
        """Return whether a long text holds one of the words."""
        ...

    async def breathe(self) -> None:
        """Let others have the loop after some milliseconds, and wait while the client does not read."""
        ...

    def tell(self, data: bytes) -> None:
        """Send something with what follows it."""
        ...

    def flush(self) -> None:
        """Send what was told so far."""
        ...

    async def drained(self) -> None:
        """Wait while the client does not read."""
        ...

    async def reach(self, signal: Signal, number: int) -> bool:
        """Cancel or terminate a session of the same role by a number that clients know it by; return whether there is one."""
        ...

    def close(self) -> None: ...

    def fatal(self, sqlstate: str, text: str) -> None:
        """Say why the session ends, and end it."""
        ...


class Replies:
    """Speaks to one client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def forward(self, tag: bytes, raw: bytes) -> None:
        """Pass a message of the client on; the facade replies to it by itself."""
        link = self._client.link
        link.tracker.forward(tag)
        link.write(raw)

    @asynccontextmanager
    async def captured(self, extended: bool) -> AsyncIterator[PrivateTalk]:
        """Capture the facade for a private conversation, once it has answered all before. Raises LinkLost."""
        link = self._client.link
        await link.capture()
        yield PrivateTalk(link, extended)
        self._client.flush()
        await link.release()

    async def ascertain(self) -> None:
        """Find out what the facade does with the next message. Raises LinkLost."""
        async with self.captured(extended=True):
            pass

    @property
    def discarding(self) -> bool:
        """Whether all is discarded up to Sync. It is known for certain once the facade is captured."""
        return self._client.link.tracker.state is State.FAILED

    async def refuse(self, refusal: Refusal, *, simple: bool) -> None:
        """Say an error in place of whatever a message asked for. `simple`: ReadyForQuery belongs to it."""
        async with self.captured(extended=not simple) as talk:
            if not self.discarding:
                await self.fail(refusal, talk)
                if simple:
                    self.ready()

    async def fail(self, refusal: Refusal, talk: PrivateTalk) -> None:
        """Say an error, and bring the facade into the state it would be in had it been the facade's own."""
        r = refusal  # its hint is part of what is told: tools that show no hints show it so, and psql once
        self._client.tell(back.error_response("ERROR", r.sqlstate, r.told, r.detail, position=r.position))
        await talk.fail()

    def ready(self) -> None:
        """End what a simple query is answered with."""
        self._client.tell(back.ready_for_query(self._client.link.tracker.status))

    def notify(self, notice: str | None) -> None:
        if notice is not None:
            self._client.tell(back.notice_response("NOTICE", SUCCESSFUL_COMPLETION, notice))

    async def left(self) -> bool:
        """Return whether the session is to leave: then it has gone, after all before it was answered."""
        reason = self._client.leaving
        if reason is None:
            return False
        await self._client.link.capture()
        self._client.fatal(ADMIN_SHUTDOWN, reason)
        return True

    async def stream(self, data: bytes, command: str, notice: str | None, recorder: ReplyRecorder | None = None) -> bool:
        """Send messages, and pass the replies on up to ReadyForQuery, which is held back. Return whether all went well.

        `command` replaces the command tag. `recorder` gets the replies too; with it, `data` changes nothing in the session.
        """
        client, link = self._client, self._client.link
        (link.write if recorder is None else link.say)(data)
        succeeded = True
        while True:
            if not link.ready:
                client.flush()
            tag, raw = await link.read()
            if tag == b"Z":
                link.tracker.status = STATUSES[raw[5]]
                return succeeded
            if tag in _SILENT:
                continue
            if tag == b"G":
                link.write(front.copy_fail("COPY FROM STDIN must be a query of its own"))
                continue
            if tag == b"C":
                self.notify(notice)
                raw = back.command_complete(command) if command else raw
            succeeded = succeeded and tag != b"E"
            if recorder is not None:
                recorder.add(tag, raw)
            client.tell(raw)
            await client.drained()
