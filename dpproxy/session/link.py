"""A session's own connection to the facade: relayed as it is, or captured for a private conversation.

Knows: bytes and message boundaries. Must not know: SQL, plans, policies. Two modes. *Relay*: what the facade sends
goes to the client unchanged, only boundaries are followed (`Tracker`). *Captured*: messages are collected here and
the client sees nothing of them. The mode changes only when the facade has answered everything (`settle`), so that no
message can be half in one and half in the other. Asynchronous messages (ParameterStatus, notifications) reach the
client in both.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import thread_time
from typing import Final, Protocol, cast

from dpproxy.limits.fair_share import Account
from dpproxy.limits.rota import SLICE, Piece
from dpproxy.limits.turns import RELAYED, beyond_flat
from dpproxy.session.message_flow import COMPLETIONS
from dpproxy.session.tracker import SMALL, STATUSES, Counts, Tracker
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.framing import BackendFramer

INBOX_LIMIT = 256 * 1024
"""Bytes captured and not yet read above which the facade is made to wait: one socket buffer's worth."""

PORTION: Final = 8 * 1024
"""Bytes that are looked through before the clock is looked at: fifteen hundred replies, a third of a millisecond."""
SPARED: Final = 16
"""Times as long as a session's replies took the loop, for which they wait when it is in debt and others work: sixteen sessions of
it leave half of the loop."""

UNASKED = (b"S", b"A")  # ParameterStatus and notifications

SIGN = "dpproxy_sign"
"""Portal that is never bound, and a statement by which the facade's last answer is known."""

CANCELED = b"\0C57014\0"
"""Of an error: the statement was cancelled."""

Message = tuple[bytes, bytes]
"""Tag and the whole message; tag b"" continues a long row."""


class LinkLost(Exception):
    """The facade's connection ended."""


class Peer(Protocol):
    """The client's side as the link needs it. `account`: to which the processor time of pieces is put down."""

    @property
    def account(self) -> Account: ...
    @property
    def behind(self) -> bool:
        """Return whether its work had better wait for that of others."""
        ...

    @property
    def write(self) -> Callable[[bytes], None]: ...
    def tell(self, data: bytes) -> None: ...
    def flush(self) -> None: ...
    def facade_slow(self, slow: bool) -> None: ...
    def link_lost(self) -> None: ...


@dataclass
class Exchange:
    """What the facade answered to a private question. `error`: an ErrorResponse, as received."""

    messages: list[Message] = field(default_factory=list)
    error: bytes | None = None

    def payloads(self, tag: bytes) -> list[bytes]:
        return [raw[5:] for t, raw in self.messages if t == tag]


ENDING: Final = (b"\0C57P01\0", b"\0C57P02\0")
"""What a facade that is stopped says to its sessions."""


class FacadeLink(asyncio.Protocol):
    """Relays or captures one facade's connection. It starts captured; `release` begins the relay."""

    def __init__(self, peer: Peer) -> None:
        self.tracker = Tracker()
        self._peer = peer
        self._account = peer.account
        self._transport: asyncio.Transport | None = None
        self._captured = True
        self._framer = BackendFramer()
        self._inbox: deque[Message] = deque()
        self._inbox_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._settling: asyncio.Future[None] | None = None
        self._lost = False
        self._client_slow = False
        self._inbox_full = False
        self._left = b""  # of the facade's bytes: what is not looked through yet
        self._pause: asyncio.TimerHandle | Piece | None = None  # nothing is read from the facade meanwhile: its replies took long
        self._farewell = False
        self.greeted = False  # the session has begun there: until then nothing is lost with the link
        self.excuse: bytes | None = None  # why the proxy had the running statement cancelled: told in place of PostgreSQL's words
        self.sent = 0  # what of the client's has been passed on that may have changed something
        self.too_early = False  # the facade was still starting, or ending: try again on another link

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not one by class

    def connection_lost(self, exc: Exception | None) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._left:  # the last words may be in it
            self._receive(self._left)
            self._left = b""
        self._lost = True
        self.too_early = self.too_early or not (self.greeted or self._farewell)  # one that ends leaves arrivals without a word
        for future in (self._waiter, self._settling):
            if future is not None and not future.done():
                future.set_exception(LinkLost())
        if not self.too_early:
            self._peer.link_lost()

    def begin(self) -> None:
        """Note that the session has begun there; of an end from here on the peer hears. Raises LinkLost: it has ended before."""
        if self._lost:
            raise LinkLost
        self.greeted = True

    def pause_writing(self) -> None:
        self._peer.facade_slow(True)

    def resume_writing(self) -> None:
        self._peer.facade_slow(False)

    def data_received(self, data: bytes) -> None:
        self._account.fresh += RELAYED
        if len(data) <= SMALL and not self._left:
            self._receive(data)
            return
        self._left += data
        if self._pause is not None:
            return  # what was read before reading was paused waits with the rest
        place = self._account.place
        if place is None or place.passes():
            self._look_through()
        else:
            self._pause = place.call(self._go_on)
            self._throttle()

    def _look_through(self) -> None:
        """As many of the bytes as others can wait for: a read may hold forty thousand replies, and one follows another as long as
        the facade has more. The rest waits, unread, for the others; of a session in debt, while they work."""
        began, data, position, place = thread_time(), self._left, 0, self._account.place
        while position < len(data) and thread_time() - began <= SLICE:
            whole = self._captured or self.excuse is not None  # what is told otherwise is in one piece
            end = len(data) if whole else position + PORTION
            self._receive(data[position:end])
            position = end
        self._left = data[position:]
        took = beyond_flat(began)
        self._account.fresh += took
        if place is not None:
            place.took(took)
        if took > SLICE or self._left:
            if place is not None and not self._peer.behind:
                self._pause = place.call(self._go_on)
            else:
                self._pause = asyncio.get_running_loop().call_later(SPARED * took * self._peer.behind, self._go_on)
            self._throttle()

    def _go_on(self) -> None:
        self._pause = None
        self._look_through()
        self._throttle()

    def _receive(self, data: bytes) -> None:
        if self._captured:
            self._collect(data)
            return
        if self.excuse is not None:
            data = self._excused(data)
        self.tracker.scan(data)
        self._peer.write(data)
        if self._settling is not None and self._capturable and not self._settling.done():
            self._settling.set_result(None)

    def _excused(self, data: bytes) -> bytes:
        """With the proxy's reason where a cancelled statement ends here. One that was not cancelled after all needs none."""
        for tag, start, end in self.tracker.boundaries(data):
            if tag == b"Z":
                self.excuse = None
            elif tag == b"E" and self.excuse is not None and CANCELED in data[start:end]:
                excuse, self.excuse = self.excuse, None
                return data[:start] + excuse + data[end:]
        return data

    @property
    def said_why(self) -> bool:
        """Return whether the last thing that the client heard from the facade was an error."""
        return self._farewell or (not self._captured and self.tracker.failed)

    @property
    def between(self) -> bool:
        """Return whether what the client was sent ends with a whole message."""
        return self.tracker.between and not self._framer.passthrough and not (self._inbox and not self._inbox[0][0])

    # relay

    def write(self, data: bytes) -> None:
        """Send a message of the client's, or one with consequences for the session."""
        self.sent += 1
        self.say(data)

    def say(self, data: bytes) -> None:
        """Send what changes nothing in the session."""
        if self._transport is not None:
            self._transport.write(data)

    def pass_on(self, data: bytes, counts: Counts) -> None:
        """Pass whole messages of the client on, which were counted."""
        self.sent += 1
        self.tracker.passed(counts)
        if self._transport is not None:
            self._transport.write(data)

    @property
    def unsent(self) -> int:
        """Return how many bytes the facade has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def client_slow(self, slow: bool) -> None:
        """Do with the facade as the client does with the proxy: read no more, or read again."""
        self._client_slow = slow
        self._throttle()

    def _throttle(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._client_slow or self._inbox_full or self._pause is not None:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(front.TERMINATE)
            self._transport.close()

    # private conversations

    @property
    def _capturable(self) -> bool:
        """Whether everything relayed is answered; where nobody knows, it is asked for between two messages (`_resolve_doubt`)."""
        return self.tracker.settled or (self.tracker.doubtful and self.tracker.between)

    async def capture(self) -> None:
        """Wait until everything relayed is answered, then keep what comes. Raises LinkLost."""
        if not self._capturable:
            self.say(front.FLUSH)
            self._settling = asyncio.get_running_loop().create_future()
            if self._lost:
                raise LinkLost
            await self._settling
            self._settling = None
        self._captured = True
        if self.tracker.doubtful:
            await self._resolve_doubt()

    async def _resolve_doubt(self) -> None:
        """Pass on what is still on its way, and learn whether the facade discards what it is sent. Raises LinkLost.

        The facade answers in order. It is asked to close a portal that never was, which it does unless it discards that, then to
        Sync, then for a statement whose parameters' types nobody else knows. Where it discarded, it is made to do so again.
        Where not, this Sync ends what the client began since its own: a client that sends Sync among the rows of a copy, and then
        neither waits for the error nor sends another, may find its portals closed.
        """
        oids = [secrets.randbelow(1 << 31) for _ in range(4)]
        sign = front.parse(SIGN, "", oids) + front.describe("S", SIGN) + front.close("S", SIGN) + front.FLUSH
        self.say(front.close("P", SIGN) + front.SYNC + sign)
        held: deque[Message] = deque()  # the last three before the sign are answers to this
        while (message := await self.read()) != (b"t", back.parameter_description(oids)):
            held.append(message)
            if len(held) > 3:
                self._pass_on(held.popleft()[1])
        discards = [tag for tag, _ in held] != [b"3", b"Z", b"1"]
        if discards and len(held) > 2:
            self._pass_on(held[0][1])
        self.tracker.begin_again(held[-2][1][5])
        while (await self.read())[0] != b"3":
            pass
        if discards:
            await self.exchange(front.parse(SIGN, "refused"), 1)

    def _pass_on(self, raw: bytes) -> None:
        self.tracker.scan(raw)
        self._peer.tell(raw)

    async def release(self) -> None:
        """Go back to relaying. The conversation was read to its end; an asynchronous message may be half here."""
        while self._framer.pending or self._framer.passthrough:
            await self._more()
        while self._inbox:
            _, raw = self._inbox.popleft()
            self._peer.tell(raw)
        self._peer.flush()
        self._inbox_bytes = 0
        self._captured = self._inbox_full = False
        self._throttle()

    @property
    def ready(self) -> bool:
        """Return whether `read` need not wait."""
        return bool(self._inbox)

    async def read(self) -> Message:
        """Return the next captured message that somebody asked for. Raises LinkLost."""
        while True:
            while not self._inbox:
                await self._more()
            message = self._inbox.popleft()
            self._inbox_bytes -= len(message[1])
            if self._inbox_full and self._inbox_bytes < INBOX_LIMIT:
                self._inbox_full = False
                self._throttle()
            if message[0] not in UNASKED:
                return message
            self._peer.tell(message[1])

    async def _more(self) -> None:
        """Wait for anything of the facade's. Raises LinkLost."""
        if self._lost:
            raise LinkLost
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
        self._waiter = None

    async def exchange(self, data: bytes, completions: int | None) -> Exchange:
        """Send `data` and collect the answers: to ReadyForQuery when `completions` is None, else so many of them.

        An error ends the collection in the extended protocol; the facade then skips to Sync, and the tracker knows.
        """
        self.say(data if completions is None else data + front.FLUSH)
        replies, row = Exchange(), list[bytes]()  # the pieces of a row, which are put together once
        seen = 0
        while completions is None or seen < completions:
            tag, raw = await self.read()
            if row and tag:
                replies.messages.append((b"D", b"".join(row)))
                row.clear()
            if tag == b"D" or not tag:
                row.append(raw)
            elif tag == b"Z":
                self.tracker.status = STATUSES[raw[5]]
                return replies
            elif tag == b"E":
                replies.error = raw
                if completions is not None:
                    self.tracker.failed = True
                    return replies
            else:
                replies.messages.append((tag, raw))
                seen += tag in COMPLETIONS
        return replies

    def _leave(self, raw: bytes) -> None:
        self.too_early = b"\0C57P03\0" in raw or (not self.greeted and any(code in raw for code in ENDING))
        if not self.too_early:
            self._farewell = True
            self._peer.tell(raw)
            self._peer.flush()

    def _collect(self, data: bytes) -> None:
        buffer, spans, error = self._framer.batch(data)
        for tag, start, end in spans:
            raw = buffer[start:end]
            if self.excuse is not None and tag == b"E" and CANCELED in raw:
                raw, self.excuse = self.excuse, None
            if tag in UNASKED and not self._inbox:  # else it waits for its turn: never within a long row
                self._peer.tell(raw)
            elif tag == b"E" and b"\0VFATAL\0" in raw:  # the end of the session, whatever was asked
                self._leave(raw)
            else:
                self._inbox.append((tag, raw))
                self._inbox_bytes += len(raw)
        if error is not None and self._transport is not None:
            self._transport.abort()
        if self._inbox_bytes >= INBOX_LIMIT and not self._inbox_full:
            self._inbox_full = True
            self._throttle()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
