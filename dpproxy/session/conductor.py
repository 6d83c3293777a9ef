"""Works off a client's messages in order while the proxy itself has to speak.

Knows: the order of messages, the table that says what becomes of each (`message_flow`). Must not know: SQL, plans, what either
query protocol answers: `SimpleQuery` and `ExtendedQuery` do, each in a file of its own.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from dpproxy.errors import FEATURE_NOT_SUPPORTED, PROTOCOL_VIOLATION, Refusal
from dpproxy.limits.side_threads import SideThreads
from dpproxy.session.concern import Concern, concern
from dpproxy.session.extended_query import ExtendedQuery
from dpproxy.session.message_flow import ANSWERED, Step, begins, step
from dpproxy.session.replies import Client, Replies
from dpproxy.session.simple_query import SimpleQuery
from dpproxy.session.statement_answers import StatementAnswers
from dpproxy.sql.guard import MAX_LENGTH, too_long
from dpproxy.wire.frontend import Bind, Close, FrontendMessage, Parse, Query, decode_frontend
from dpproxy.wire.protocol import Frame, ProtocolError

LONGEST: Final = 4 * MAX_LENGTH + 1024
"""Bytes of a message whose text may be short enough to be read: a character has four at most, a name and types some more."""


class Conductor:
    """Works off the messages of one session; `run` is not reentrant."""

    def __init__(self, client: Client) -> None:
        names = (f"dpproxy_{number}" for number in count(1))
        self._client = client
        self._aside = SideThreads(1)
        self._answers = StatementAnswers(client)
        self._replies = Replies(client)
        self._simple = SimpleQuery(client, self._replies, self._answers, names)
        self._extended = ExtendedQuery(client, self._replies, self._answers, names)

    def cancel(self, reason: str) -> bool:
        """End the statement in the making; return False when the facade may be at work for it, or for the client itself."""
        return self._answers.cancel(reason)

    async def run(self) -> None:
        """Work until the queue is empty. Raises LinkLost."""
        while self._client.queue or self._client.refill():
            await self._client.breathe()
            tag, raw = self._client.next()
            if not await self._turn(tag):
                continue
            if begins(tag) and await self._replies.left():
                return
            try:
                await self._handle(tag, raw)
            except ProtocolError as error:
                if error.fatal:
                    self._client.fatal(error.sqlstate, error.message)
                    return
                await self._replies.refuse(Refusal(error.sqlstate, error.message), simple=tag in (b"Q", b"F"))

    async def _turn(self, tag: bytes) -> bool:
        """Wait for the session's turn to be worked for: whatever a message is, somebody works for it, here and on the facade.
        Return False when it was a statement, which was ended meanwhile, and refused."""
        client = self._client
        what = step(client.link.tracker.state, tag)
        if what is Step.LEAVE or what is Step.INVALID or not client.late:
            return True
        client.flush()
        if what is not Step.EXAMINE or not begins(tag):
            await client.turn()
            return True
        try:
            with self._answers.endable() as ending:
                await ending.race(client.turn())
        except Refusal as refusal:
            await self._replies.refuse(refusal, simple=tag == b"Q")
            return False
        return True

    async def _handle(self, tag: bytes, raw: bytes) -> None:
        """What the table says. Raises ProtocolError, LinkLost."""
        if self._client.link.tracker.doubtful and tag in ANSWERED:
            await self._replies.ascertain()
        match step(self._client.link.tracker.state, tag):
            case Step.FORWARD:
                self._replies.forward(tag, raw)
            case Step.EXAMINE:
                await self._examine(tag, raw)
            case Step.DISCARD:
                pass
            case Step.REFUSE:
                await self._decoded(tag, raw)
                refusal = Refusal(FEATURE_NOT_SUPPORTED, "function calls by message are not supported")
                await self._replies.refuse(refusal, simple=True)
            case Step.LEAVE:
                self._client.close()
            case Step.INVALID:
                self._client.fatal(PROTOCOL_VIOLATION, f"invalid frontend message type {tag[0]}")

    async def _examine(self, tag: bytes, raw: bytes) -> None:
        """A message of no concern is passed on as it came, however long it is. Raises ProtocolError, LinkLost."""
        why = await concern(self._client, tag, raw)
        if why is Concern.NOTHING:
            self._replies.forward(tag, raw)
        elif why is Concern.TEXT and len(raw) > LONGEST:
            refusal = too_long()
            self._answers.not_answered(raw[5 : 5 + MAX_LENGTH].decode(errors="replace"), "other", refusal)
            await self._replies.refuse(refusal, simple=tag == b"Q")
        else:
            await self._answer(raw, await self._decoded(tag, raw), why)

    async def _decoded(self, tag: bytes, raw: bytes) -> FrontendMessage:
        """A message taken apart; a long one in a thread, where it is copied as well. Raises ProtocolError."""

        def decoded() -> FrontendMessage:
            return decode_frontend(Frame(tag, raw[5:], raw))

        return await self._aside.run(decoded) if len(raw) > MAX_LENGTH else decoded()

    async def _answer(self, raw: bytes, message: FrontendMessage, why: Concern) -> None:
        match message:
            case Query(sql=sql):
                await self._simple.query(raw, sql)
            case Parse():
                await self._extended.parse(raw, message, why is Concern.TEXT)
            case Bind():
                await self._extended.bind(raw, message)
            case Close():
                await self._extended.close(raw, message)
            case _:
                raise AssertionError("the table examines these four only")
