"""A client's bytes on their way in: cut into messages, queued, counted, and not read while there is no room for more.

Knows: the framer, the transport, the pool of buffers, how much the facade has not taken yet. Must not know: what messages say,
who works on them. Four places hold a client's bytes: an unfinished message, messages that wait, the one that is being worked on,
and what the facade does not read. All four count, since a client can fill each of them; and there is one decision whether the
client is read (`settle`), of whatever speaks against it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from dpproxy.errors import IDLE_SESSION_TIMEOUT
from dpproxy.wire.framing import MAX_MESSAGE, MOST, Batch, FrontendFramer, Span

# How many bytes of clients' messages a server holds: by user and in all, and who waits until there is room.
#
# Knows: numbers, users' names, who holds how much. Must not know: sockets, messages. A client may send a message of 16 MB, may
# have sent most of it and stop, and may do so in each of its sessions: a cap on one message bounds nothing. What a session
# holds at all times (`FREE`) is not counted, so that ordinary statements never wait.
#
# Theory. Room is taken for a whole message when its header is known, not as its bytes come: of two messages that each have half
# of the room that both need, neither would ever be whole. Who finds no room waits and is not read from, in the order of coming;
# a message that has its room can always be completed, and then gives it back. Whole messages count even where there was no room
# for them: they are worked off without more of it. What a session has of a message that it may not go on with does not count,
# or sessions that wait could fill the room and wait for each other; that is one piece read from the socket at most.


FREE: Final = 64 * 1024
"""Bytes that each session may hold uncounted: nearly every statement, and the pipelines of drivers."""
OF_USER: Final = 2 * (MAX_MESSAGE + 1)
"""Bytes for all sessions of a user: two of the longest messages, so that one that is slow does not stop the next."""
OF_ALL: Final = 4 * OF_USER
"""Bytes for all users: 128 MB, so that one user can take a quarter."""


class Holder(Protocol):
    """A session. `user`: whose it is."""

    @property
    def user(self) -> str: ...

    def granted(self) -> None:
        """There is room now for what it waited for."""
        ...


class BufferPool:
    """Who may hold how much."""

    def __init__(self, of_user: int = OF_USER, of_all: int = OF_ALL) -> None:
        self._of_user, self._of_all = of_user, of_all
        self._held: dict[Holder, int] = {}
        self._users: Counter[str] = Counter()
        self._all = 0
        self._waiting: dict[Holder, int] = {}

    @property
    def held(self) -> int:
        """Return the bytes for which room is taken."""
        return self._all

    def hold(self, holder: Holder, whole: int, want: int) -> bool:
        """Take room for `want` bytes, of which `whole` are of messages that are whole, instead of what was taken before.
        False: it has room for these alone, waits for the rest, and will be told."""
        whole, want = max(0, whole - FREE), max(0, want - FREE)
        before = self._held.get(holder, 0)
        if want <= before:
            self._waiting.pop(holder, None)
            self._take(holder, want)
        else:
            self._waiting[holder] = want  # who waits already keeps the place in the order
            self._take(holder, whole)
        self._serve(holder)
        return holder not in self._waiting

    def leave(self, holder: Holder) -> None:
        """Give everything back."""
        self._waiting.pop(holder, None)
        self._take(holder, 0)
        self._serve()

    def _take(self, holder: Holder, size: int) -> None:
        more = size - self._held.get(holder, 0)
        self._all += more
        self._users[holder.user] += more
        if size:
            self._held[holder] = size
        else:
            self._held.pop(holder, None)
        if not self._users[holder.user]:
            del self._users[holder.user]

    def _serve(self, asking: Holder | None = None) -> None:
        """Give room in the order of asking. Who waits for other sessions of the same user holds up nobody else."""
        full: set[str] = set()
        for holder, want in list(self._waiting.items()):
            if holder.user in full:
                continue
            more = want - self._held.get(holder, 0)
            if self._users[holder.user] + more > self._of_user:
                full.add(holder.user)
            elif self._all + more > self._of_all:
                break
            else:
                del self._waiting[holder]
                self._take(holder, want)
                if holder is not asking:
                    holder.granted()


QUEUE_LIMIT: Final = 1 << 20
"""Bytes a client may have waiting behind a private statement before it is not read any more."""

Message = tuple[bytes, bytes]
"""Tag, and all of it."""


class Half(NamedTuple):
    """An unfinished message of a client that is read from. `number`: how many were whole before it; `size`: bytes when it is
    whole."""

    number: int
    pending: int
    size: int


class Inflow:
    """One client's bytes. `queue`: messages that wait."""

    def __init__(
        self, framer: FrontendFramer, transport: asyncio.Transport, pool: BufferPool, user: str, unsent: Callable[[], int]
    ) -> None:
        """`unsent`: bytes that the facade has not taken yet."""
        self.queue: deque[Message] = deque()
        self.user = user
        self._framer, self._transport, self._pool, self._unsent = framer, transport, pool, unsent
        self._whole = 0  # messages
        self._queued = 0  # bytes that wait
        self._working = 0  # bytes of the message that is being worked on
        self._slow = False  # the facade
        self._short = False  # of room in the pool
        self._counted = False  # more than what is free
        self._reads = True
        self._left = False

    def cut(self, data: bytes) -> Batch:
        """Return the messages that are whole with these bytes; they are to be `put`, or passed on and `settle` called. While many
        wait, no more are cut: a message of five bytes takes a hundred of memory, which nobody counts."""
        if data and len(self.queue) >= MOST:
            self.keep(data)
            return Batch(b"", [], None)
        batch = self._framer.batch(data)
        self._whole += len(batch.spans)
        return batch

    def keep(self, data: bytes) -> None:
        """Leave bytes to be cut later."""
        self._framer.keep(data)

    @property
    def unfinished(self) -> bool:
        """Return whether a message has begun that is not whole."""
        return self._framer.pending > 0

    @property
    def more(self) -> bool:
        """Return whether messages may be whole that are not cut yet: cutting no bytes has them."""
        return self._framer.more

    @property
    def _waiting(self) -> int:
        """The bytes of messages that wait, whether they are cut or not."""
        return self._queued + (self._framer.pending if self._framer.more else 0)

    @property
    def half(self) -> Half | None:
        """Return the unfinished message whose rest the client may send; None: there is none, or the client is not read from."""
        if not self._framer.pending or self._framer.more or not self._reads:
            return None
        return Half(self._whole, self._framer.pending, self._framer.needed)

    def put(self, buffer: bytes, spans: Iterable[Span]) -> None:
        """Let messages wait."""
        for tag, start, end in spans:
            self.queue.append((tag, buffer[start:end]))
            self._queued += end - start
        self.settle()

    def take(self) -> Message:
        """Return the next message that waits; the one before it is done with."""
        tag, raw = self.queue.popleft()
        self._queued -= len(raw)
        self._working = len(raw)
        self.settle()
        return tag, raw

    def rest(self) -> None:
        """Note that no message is worked on."""
        self._working = 0
        self.settle()

    def facade_slow(self, slow: bool) -> None:
        """Note whether the facade reads what it is sent."""
        self._slow = slow
        self.settle()

    def granted(self) -> None:
        """There is room for what it waited for."""
        self._short = False
        self._read_or_not()

    def settle(self) -> None:
        """Count what is held, and read the client or not."""
        drains = self._waiting + self._working + (self._unsent() if self._slow else 0)
        want = drains + (0 if self._framer.more else self._framer.needed)
        if (self._counted or want > FREE) and not self._left:
            self._counted = want > FREE
            self._short = not self._pool.hold(self, drains, want)
        self._read_or_not()

    def leave(self) -> None:
        """Drop what is held, and give its room back: the client has gone, or is being sent away."""
        self._left = True
        self._framer.drop()
        self.queue.clear()
        self._queued = self._working = 0
        self._pool.leave(self)

    def _read_or_not(self) -> None:
        reads = not (self._short or self._slow or self._waiting > QUEUE_LIMIT)
        if reads is self._reads or self._transport.is_closing():
            return
        self._reads = reads
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


# Ends sessions whose client has begun a message and does not go on.
#
# Knows: how far each session's unfinished message has come, clocks it is given. Must not know: sockets, what messages say. An
# unfinished message takes room that others may wait for. A client that sends nothing of it for `PAUSE` seconds has stopped; one
# that sends a byte now and then has as long as a slow line takes for the whole. Time in which the proxy does not read the
# client does not count.


PAUSE: Final = 30.0
"""Seconds without a byte of an unfinished message."""
SLOWEST: Final = 64 * 1024
"""Bytes a second: half a megabit. A message has this much time, and `PAUSE` seconds."""
STOPPED: Final = "terminating connection because a message was not completed in time"


class Sending(Protocol):
    """A session. `half`: its unfinished message, if it may send the rest."""

    @property
    def half(self) -> Half | None: ...

    def fatal(self, sqlstate: str, text: str) -> None: ...


S = TypeVar("S", bound=Sending)


class HalfMessages(Generic[S]):
    """Remembers since when each unfinished message is known, and since when it has not grown."""

    def __init__(self) -> None:
        self._seen: dict[S, tuple[Half, float, float]] = {}  # how far, known since, grown

    def look(self, sessions: Iterable[S], now: float) -> None:
        """End who has stopped. `now` is of any clock that goes forward."""
        seen: dict[S, tuple[Half, float, float]] = {}
        for session in sessions:
            half = session.half
            if half is None:
                continue
            before, since, grown = self._seen.get(session, (half, now, now))
            if before.number != half.number:
                since = grown = now
            elif before.pending != half.pending:
                grown = now
            if now - grown >= PAUSE or now - since >= PAUSE + half.size / SLOWEST:
                session.fatal(IDLE_SESSION_TIMEOUT, STOPPED)
            else:
                seen[session] = half, since, grown
        self._seen = seen


# What the proxy itself tells a client: put together while more follows, and held up while the client does not read.
#
# Knows: pieces of bytes, how large a piece is worth a write of its own. Must not know: what messages say, who asked. What the
# facade says is relayed past it, so whoever relays flushes this first.


PIECE: Final = 16 * 1024
"""Bytes of an answer that are worth a piece of their own: each piece wakes the client."""


class Outflow:
    """Messages to one client until they are sent, through `write`."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()

    def tell(self, data: bytes) -> None:
        """Send something with what follows it, or at once where it has come to a `PIECE`."""
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= PIECE:
            self.flush()

    def flush(self) -> None:
        """Send what was told so far."""
        if self._held:
            data = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
            self._write(data)

    async def drained(self) -> None:
        """Wait while the client does not read."""
        await self._writable.wait()

    def slow(self, slow: bool) -> None:
        """Note whether the client reads."""
        if slow:
            self._writable.clear()
        else:
            self._writable.set()
