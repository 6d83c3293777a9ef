"""One client after its login: what it sends goes to the facade as it is, unless it concerns a private table.

Knows: message boundaries, which words make a statement worth a second look. Must not know: SQL beyond those words,
plans. The hot path is `data_received`: one look at each message, one write for each piece read, no object a message.
The first message that needs the proxy itself starts the `Conductor`; until that has worked off its queue, everything
from the client waits in it, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import thread_time
from typing import Protocol

import structlog

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.statement_end import internal
from dpproxy.errors import ADMIN_SHUTDOWN, CANNOT_CONNECT_NOW, INTERNAL_ERROR
from dpproxy.facade.cluster import Endpoint
from dpproxy.facade.ddl import role_name
from dpproxy.limits.fair_share import QUANTUM
from dpproxy.limits.session_limits import Progress, SessionLimits, State
from dpproxy.limits.side_threads import breathe, metered
from dpproxy.limits.throttle import seconds_waited
from dpproxy.limits.turns import BYTE, RELAYED, Turns, beyond_flat
from dpproxy.session.concern import harmless
from dpproxy.session.conductor import Conductor
from dpproxy.session.facade_login import NOWHERE, Greeting, Key, Origin, cancel_at, enter, new_secret
from dpproxy.session.inflow import BufferPool, Half, Inflow, Message, Outflow
from dpproxy.session.link import FacadeLink, LinkLost
from dpproxy.session.memo import Memo
from dpproxy.session.sql_prepare import PreparedStatement
from dpproxy.session.tracker import Counts, glance
from dpproxy.sql.statements import Signal
from dpproxy.wire import backend as back
from dpproxy.wire.framing import FrontendFramer, Span
from dpproxy.wire.protocol import ProtocolError

LOG = structlog.get_logger()

CONNECT_TIMEOUT = 10.0  # seconds in which a facade that is being restarted may come back


class Site(Protocol):
    """What a session needs of the server."""

    def facade(self, dataset: Dataset, role: str) -> Endpoint:
        """Raises OSError while it is being started again."""
        ...

    @property
    def limits(self) -> SessionLimits: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def buffers(self) -> BufferPool: ...

    def memo(self, dataset: Dataset) -> Memo: ...

    def new_pid(self) -> int: ...

    async def reach(self, session: ClientSession, signal: Signal, number: int) -> bool:
        """Cancel or terminate another session of this one's role; return whether there is one of that number."""
        ...

    def opened(self, session: ClientSession) -> None: ...

    def closed(self, session: ClientSession) -> None: ...


class ClientSession(asyncio.Protocol):
    """Speaks with one client after its login. `key` is (pid, secret) for cancel requests. `private`: the client's prepared
    statements over private tables."""

    def __init__(
        self,
        site: Site,
        transport: asyncio.Transport,
        framer: FrontendFramer,
        asker: Asker,
        dataset: Dataset,
        greeting: Greeting,
        origin: Origin = NOWHERE,
    ) -> None:
        self.asker = asker
        self.origin = origin
        self.dataset = dataset
        self.memo = site.memo(dataset)
        self.account = site.turns.opened((dataset.policy.dataset, asker.role.name), asker.user.name)
        self.link = FacadeLink(self)
        self.private: dict[str, PreparedStatement] = {}
        self.key: Key = (0, b"")
        self.leaving: str | None = None  # why it begins nothing any more
        self.asking = ""  # the hash of the private statement in the making
        self.write: Callable[[bytes], None] = transport.write
        self._site = site
        self._transport = transport
        self._inflow = Inflow(framer, transport, site.buffers, asker.user.name, lambda: self.link.unsent)
        self.queue: Sequence[Message] = self._inflow.queue
        self._greeting = greeting
        self._facade_key: Key = (0, b"")
        self._endpoint = lambda: site.facade(self.dataset, asker.role.name)  # raises OSError while it is started again
        self._conductor = Conductor(self)
        self._worker: asyncio.Task[None] | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._taken = 0  # messages that the conductor has begun to work on
        self._busy = True
        self._plain = False  # what comes can be judged by itself: not busy, nothing private, no half message
        self._known: dict[bytes, Counts] = {}  # small pieces that concern nobody
        self._closing = False
        self._outflow = Outflow(transport.write)

    def move(self, newer: Dataset) -> None:
        """Belong to a dataset that differs from the former in its users only."""
        self.dataset, self.memo = newer, self._site.memo(newer)

    # the beginning

    def renew_key(self) -> None:
        self.key = (self._site.new_pid(), new_secret(self._greeting.minor))

    def begin(self) -> None:
        self.renew_key()
        self._site.opened(self)
        self._queue(*self._inflow.cut(b""))
        self._worker = asyncio.ensure_future(metered(self._open, self.account))

    async def _open(self) -> None:
        """Connect to the facade, pass its greeting on, and work off what the client sent early."""
        try:
            if self.late:
                await self.turn()
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await self._enter()
            await self.link.release()
            await self._conductor.run()
        except (TimeoutError, LinkLost):
            self.fatal(CANNOT_CONNECT_NOW, "the database system is starting up")
        except Exception as error:
            self.fatal(INTERNAL_ERROR, internal(error).message)
        finally:
            self._rest()

    async def _enter(self) -> None:
        """Connect to the facade. Raises LinkLost."""
        dataset, limit = self.dataset.policy.dataset, round(self._site.limits.statement * 1000)
        settings = {"statement_timeout": str(limit)} | dict(self._greeting.settings)  # the first in PostgreSQL's own words
        self._facade_key = await enter(self, self._endpoint, role_name(self.asker.role.name, dataset), dataset, settings)

    # the client's bytes

    def data_received(self, data: bytes) -> None:
        account = self.account
        account.fresh += RELAYED + BYTE * len(data)  # before any of it is looked at
        prompt = self._plain and account.turn is None and account.fresh + account.taken <= QUANTUM  # not `late`: no call to ask
        if prompt and (counts := self._known.get(data)) is not None:
            self.link.pass_on(data, counts)
            return
        began = thread_time()
        self._receive(data, prompt)
        took = beyond_flat(began)
        account.fresh += took
        if took > 0 and account.place is not None:
            account.place.took(took)

    def _receive(self, data: bytes, prompt: bool) -> None:
        if prompt and (counts := glance(self._known, data, self.memo.unconcerned)) is not None:
            self.link.pass_on(data, counts)
        elif self._busy:
            self._queue(*self._inflow.cut(data))
        elif self.late:
            self._take_over(*self._inflow.cut(data))
        elif self.account.place is None or self.account.place.passes():
            self._look(data)
        else:
            self._inflow.keep(data)
            self._take_over(b"", [], None)

    def _rest(self) -> None:
        self.flush()
        self._inflow.rest()
        self._site.turns.rests(self.account)
        self._ready()

    def _ready(self) -> None:
        """Nothing is in the making any more."""
        self._busy = False
        self._plain = not self._inflow.unfinished and not self.private and self.leaving is None

    def _look(self, data: bytes) -> None:
        """Message by message, up to the first that needs the proxy itself."""
        buffer, spans, error = self._inflow.cut(data)
        passed = harmless(self, buffer, spans, leaving=self.leaving is not None)
        for tag, _, _ in spans[:passed]:
            self.link.tracker.forward(tag)
        if passed < len(spans):
            if passed:
                self.link.write(buffer[: spans[passed][1]])
            self._take_over(buffer, spans[passed:], error)
            return
        if spans:
            end = spans[-1][2]
            self.link.write(buffer if end == len(buffer) else buffer[:end])
        if self._inflow.more:
            self._take_over(b"", [], None)
            return
        self._ready()
        self._inflow.settle()
        if error is not None:
            self.fatal(error.sqlstate, error.message)

    @property
    def words(self) -> tuple[bytes, ...]:
        return self.dataset.words

    def mentions(self, text: bytes) -> bool:
        """Whether a text holds a word for which it must be read."""
        return self.memo.mentions(text, self.dataset.words)

    async def searched(self, text: memoryview, words: tuple[bytes, ...]) -> bool:
        """Whether a long text holds one of the words."""
        return await self.memo.search(words).within(text)

    async def breathe(self) -> None:
        """Return to the loop if this session has had it for some milliseconds, and wait while the client does not read."""
        await breathe(self.account)
        await self.drained()

    def _take_over(self, buffer: bytes, spans: list[Span], error: ProtocolError | None) -> None:
        self._busy, self._plain = True, False
        self._queue(buffer, spans, error)
        self._work_off()

    def _work_off(self) -> None:
        self._site.turns.works(self.account, seconds_waited(self._transport))
        self._worker = asyncio.ensure_future(metered(self._work, self.account))

    async def _work(self) -> None:
        try:
            await self._conductor.run()
        except LinkLost:
            pass  # `link_lost` has said so
        except Exception as error:
            self.fatal(INTERNAL_ERROR, internal(error).message)
        finally:
            self._rest()

    def _queue(self, buffer: bytes, spans: list[Span], error: ProtocolError | None) -> None:
        self._inflow.put(buffer, spans)
        if error is not None:
            self.fatal(error.sqlstate, error.message)

    def refill(self) -> bool:
        """Cut what is whole and was not cut yet; return whether there is a next message."""
        while not self.queue and self._inflow.more:
            self._queue(*self._inflow.cut(b""))
        return bool(self.queue)

    def next(self) -> Message:
        """Take the next waiting message: its tag, and all of it."""
        self._taken += 1
        return self._inflow.take()

    @property
    def half(self) -> Half | None:
        """Return the unfinished message whose rest the client may send."""
        return self._inflow.half

    @property
    def progress(self) -> Progress:
        tracker = self.link.tracker
        if self._busy or not tracker.settled:
            state = State.STATEMENT
        else:
            state = State.IDLE if tracker.status == "I" and not tracker.sent else State.TRANSACTION
        return state, tracker.readies + self._taken, tracker.done

    @property
    def statement_limit(self) -> float:
        """Return the operator's, in seconds; 0 is none."""
        return self._site.limits.statement

    # its share of the processors

    @property
    def late(self) -> bool:
        """Return whether it has to wait for its turn: it has taken more than its share."""
        return self._site.turns.late(self.account)

    async def turn(self) -> None:
        """Wait for its turn."""
        await self._site.turns.wait(self.account, (self.dataset.policy.dataset, self.asker.role.name))

    def worked_beside(self, seconds: float) -> None:
        """Note processor time that the facade took for this session."""
        self._site.turns.beside(self.account, seconds)

    @property
    def behind(self) -> bool:
        """Return whether the facade had better work for others first."""
        return self._site.turns.behind(self.account)

    # to the client

    def tell(self, data: bytes) -> None:
        """Send something of an answer that the proxy puts together with what follows it."""
        self._outflow.tell(data)

    def flush(self) -> None:
        self._outflow.flush()

    async def drained(self) -> None:
        """Wait while the client does not read."""
        await self._outflow.drained()

    def pause_writing(self) -> None:
        self._outflow.slow(True)
        self.link.client_slow(True)

    def resume_writing(self) -> None:
        self._outflow.slow(False)
        self.link.client_slow(False)

    def facade_slow(self, slow: bool) -> None:
        self._inflow.facade_slow(slow)

    # the end

    def cancel(self, reason: str = "user request") -> asyncio.Future[None] | None:
        """Cancel what runs: a measurement here, or whatever runs on the facade; then the result is done once it has heard."""
        if not self._conductor.cancel(reason):
            told = cancel_at(self._endpoint, self._facade_key, CONNECT_TIMEOUT)
            self._cancelling = asyncio.ensure_future(told)
            return self._cancelling
        return None

    async def reach(self, signal: Signal, number: int) -> bool:
        """Cancel or terminate a session of the same role by a number that clients know it by; return whether there is one."""
        return await self._site.reach(self, signal, number)

    def end(self) -> None:
        """End the session, as PostgreSQL does on pg_terminate_backend."""
        self.fatal(ADMIN_SHUTDOWN, "terminating connection due to administrator command")

    @property
    def server_process(self) -> int:
        """Return the process of the facade that works for this session; 0 before there is one."""
        return self._facade_key[0]

    def overdrawn(self, error: bytes) -> None:
        """Cancel what runs on the facade; the client gets `error`."""
        self.link.excuse = error
        self._cancelling = asyncio.ensure_future(cancel_at(self._endpoint, self._facade_key, CONNECT_TIMEOUT))

    def fatal(self, sqlstate: str, text: str) -> None:
        """Say why the connection ends, and end it; nothing is said where it would be read as a part of the message before."""
        if not self._closing:
            self.flush()
            if self.link.between:
                self.write(back.error_response("FATAL", sqlstate, text))
            self.close()

    def leave(self, reason: str) -> None:
        """Begin nothing any more, and go once nothing runs: a transaction that waits for its client is nothing."""
        self.leaving, self._plain = reason, False
        self._site.turns.hurry(self.account)
        if self.progress[0] is not State.STATEMENT:
            self.fatal(ADMIN_SHUTDOWN, reason)

    def close(self) -> None:
        self._closing = True
        self._inflow.leave()
        self._transport.close()
        self.link.close()

    def link_lost(self) -> None:
        """End the session, since the facade has ended it: PostgreSQL has said why, unless it died."""
        if self.link.said_why:
            self.close()
            return
        if not self._closing:
            LOG.warning(
                "the facade ended a session without a word", dataset=self.dataset.policy.dataset, role=self.asker.role.name
            )
        self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._worker is not None:
            self._worker.cancel()
        self._outflow.slow(False)
        self.link.close()
        self._inflow.leave()
        self._site.turns.closed(self.account)
        self._site.closed(self)
