"""From a stream of bytes to messages: where each begins and ends, and nothing else about it.

Knows: headers, caps, how much is held back. Must not know: what a message says, sockets. `feed` never waits: the caller
gives what it has, in any pieces, and asks what is complete.

Theory. A hostile length is the oldest attack on a framed protocol: a TLS ClientHello read as a length makes a naive
server wait for 370 MB. Hence each length is judged from the header alone, before one byte of the body is kept, and
what is held for an unfinished message never exceeds its cap plus one read. The caps follow the phase: before
authentication only small packets pass (PostgreSQL: 10,000 bytes at start-up, 1,024 for a message of SASL),
after it only the five messages that carry a client's own data may be large.

The hot path is `batch`: one call a read, spans of complete messages over the buffer that was read, no copy a message.
A long message of a client (`LONG`) is put together as its bytes come, and is then a batch of its own: to copy 16 MB takes
ten milliseconds, in which a loop serves nobody else.
A wrong header behind good messages does not swallow them: they are returned together with the error, so that a
stream means the same however it was cut into pieces.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from dpproxy.errors import PROTOCOL_VIOLATION
from dpproxy.wire.frontend import decode_frontend, decode_sasl_initial, decode_sasl_response, decode_startup
from dpproxy.wire.protocol import HEADER, UINT32, Frame, ProtocolError

MAX_STARTUP: Final = 10_000
"""Bytes; PostgreSQL's MAX_STARTUP_PACKET_LENGTH."""
MAX_SASL: Final = 2_048
"""Bytes; twice PostgreSQL's PG_MAX_SASL_MESSAGE_LENGTH: names of users, which some clients repeat, may be longer here."""
MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes; far above any statement people write, far below what 100 sessions could hold in memory."""
MAX_SMALL: Final = 10_000
"""Bytes; PostgreSQL's PQ_SMALL_MESSAGE_LIMIT, for messages that carry a name at most."""
MAX_BACKEND: Final = 1 << 30
"""Bytes; PostgreSQL cannot build a longer message (MaxAllocSize)."""
MAX_WHOLE: Final = 64 * 1024 * 1024
"""Bytes of a facade's message held until complete: an error that quotes the longest statement, four bytes a byte."""
PIECE: Final = 128 * 1024
"""Bytes above which an unfinished row is passed on in pieces; below, waiting for the rest is cheaper."""

MOST: Final = 1_000
"""Messages of a client that are cut at once: a read of 256 kB may hold fifty thousand, and each is looked at for a microsecond or
two."""

LONG: Final = 256 * 1024
"""Bytes above which a message is not copied once it is whole. Shorter ones are copied in a tenth of a millisecond."""

_LARGE: Final = (b"Q", b"P", b"B", b"F", b"d")
_SMALL: Final = (b"D", b"E", b"C", b"H", b"S", b"X", b"c", b"f")
"""Messages a client may send, by whether they carry its own data. Any other ends the connection at its first byte."""

Span = tuple[bytes, int, int]
"""Tag, start (of the tag byte) and end (exclusive) of a message in a buffer; tag b"" continues the one before."""


class Batch(NamedTuple):
    """The complete messages of one read. `spans` lie back to back in `buffer`. `error` is what follows them, if the next
    header is wrong."""

    buffer: bytes
    spans: list[Span]
    error: ProtocolError | None


class Phase(Enum):
    STARTUP = "startup"  # packets without a tag
    AUTH = "auth"  # answers to authentication requests only
    NORMAL = "normal"


class LongMessage:
    """A message that is put together as its bytes come. `io.BytesIO` gives its buffer away as bytes without a copy."""

    def __init__(self, need: int, begun: memoryview) -> None:
        """`need`: bytes of it when it is whole; `begun`: those that are there, fewer."""
        self.size = 0
        self._need, self._buffer = need, io.BytesIO()
        self.add(begun)

    def add(self, data: bytes | memoryview) -> memoryview:
        """Take what belongs to it; return what does not."""
        view = memoryview(data)
        taken = view[: self._need - self.size]
        self.size += self._buffer.write(taken)
        return view[len(taken) :]

    def message(self) -> bytes:
        return self._buffer.getvalue()


class _Framer:
    """What both directions share: the held bytes of an unfinished message, looked at again only when it may be done."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._long: LongMessage | None = None  # then what is held stands behind it
        self._need = 0
        self._more = False
        self._error: ProtocolError | None = None

    @property
    def pending(self) -> int:
        """Return how many bytes are held of an unfinished message."""
        return len(self._held) + (self._long.size if self._long is not None else 0)

    @property
    def more(self) -> bool:
        """Return whether more messages may be whole than the last batch had: a further one, of no bytes, has them."""
        return self._more

    @property
    def needed(self) -> int:
        """Return how many bytes the unfinished message has when it is whole, as far as they are known: at least `pending`."""
        return max(self._need, self.pending) if self.pending else 0

    def drop(self) -> None:
        """Forget the unfinished message, whose rest will not come."""
        self._held, self._long = bytearray(), None
        self._need, self._more = 0, False

    def keep(self, data: bytes) -> None:
        """Hold bytes back behind what is held, and look at none of them: a later `batch`, of no bytes, has what is whole then."""
        if self._error is None:
            self._add(data)
            self._more = self.pending >= self._need

    def _add(self, data: bytes | memoryview) -> None:
        """Hold bytes behind those that are held."""
        if self._long is None:
            self._held += data
        else:
            self._held += self._long.add(data)

    def batch(self, data: bytes) -> Batch:
        """Return `data` with what was held before it, as far as it is complete, but no more than `MOST` messages of a client, and
        no other beside a long one. The work is linear in the bytes given, however they are cut."""
        if self._error is not None:
            return Batch(b"", [], self._error)
        if self._held or self._long is not None:
            self._add(data)
            if self.pending < self._need:
                return Batch(b"", [], None)
            if self._long is not None:
                return self._whole(self._long)
            data = bytes(self._held)
            self._held.clear()
        spans, self._need, self._error = self._split(data)
        used = spans[-1][2] if spans else 0
        self._more = len(spans) == MOST and used < len(data)
        if used < len(data) and self._error is None:
            self._hold(data, used)
        return Batch(data, spans, self._error)

    def _hold(self, data: bytes, used: int) -> None:
        """Hold the beginning of an unfinished message."""
        self._held += memoryview(data)[used:]

    def _whole(self, long: LongMessage) -> Batch:
        """Return a long message alone; what came behind it is held."""
        self._long, self._need = None, 0
        self._more = bool(self._held)
        message = long.message()
        return Batch(message, [(message[:1], 0, len(message))], None)

    def _split(self, data: bytes) -> tuple[list[Span], int, ProtocolError | None]:
        """Spans from the beginning of `data`, bytes the unfinished message behind them needs (0: unknown), error."""
        raise NotImplementedError


class FrontendFramer(_Framer):
    """Cuts the client's half of a connection into messages. It begins in the start-up phase; `startup_done` and `authenticated`
    move it on.

    Caps are in bytes of the length field. `feed`/`next` serve all phases, `batch` all but start-up; they share one
    buffer and may be mixed. `pending` must be 0 when TLS begins: bytes that came before the handshake were sent in
    the clear (CVE-2021-23214).
    """

    def __init__(self, max_startup: int = MAX_STARTUP, max_message: int = MAX_MESSAGE, max_sasl: int = MAX_SASL) -> None:
        super().__init__()
        self._max_startup = max_startup
        small = dict.fromkeys(_SMALL, min(MAX_SMALL, max_message))
        self._caps: Mapping[bytes, int] = small | dict.fromkeys(_LARGE, max_message) | {b"p": max_sasl}
        self.phase = Phase.STARTUP

    def startup_done(self) -> None:
        """Note that a StartupMessage was accepted: tagged messages follow, until `authenticated` only authentication tokens."""
        self.phase = Phase.AUTH

    def authenticated(self) -> None:
        """Note that the client proved who it is: every message is allowed, up to `max_message` bytes."""
        self.phase = Phase.NORMAL

    def _hold(self, data: bytes, used: int) -> None:
        rest = memoryview(data)[used:]
        if self._need > LONG and not self._more:
            self._long = LongMessage(self._need, rest)
        else:
            self._held += rest

    def feed(self, data: bytes | memoryview) -> None:
        if self._error is None:
            self._add(data)

    def next(self) -> Frame | None:
        """Return the next complete message, or None. Raises a fatal ProtocolError, again at each further call."""
        if self._error is not None:
            raise self._error
        if self._long is not None:
            if self.pending < self._need:
                return None
            whole = self._whole(self._long).buffer
            return Frame(whole[:1], whole[5:], whole)
        try:
            end = self._end(self._held)
        except ProtocolError as error:
            self._error = error
            self._held.clear()
            raise
        if end is None or end > len(self._held):
            return None
        raw = bytes(self._held[:end])
        del self._held[:end]
        self._need = 0
        if self.phase is Phase.STARTUP:
            return Frame(b"", raw[4:], raw)
        return Frame(raw[:1], raw[5:], raw)

    def _end(self, data: bytearray) -> int | None:
        """Where the first message ends, judged by its header; None while that is incomplete."""
        if self.phase is Phase.STARTUP:
            if len(data) < 4:
                return None
            length = int(UINT32.unpack_from(data)[0])
            if not 8 <= length <= self._max_startup:
                raise ProtocolError(PROTOCOL_VIOLATION, "invalid length of startup packet", fatal=True)
            return length
        if len(data) < 5:
            return None
        tag, size = HEADER.unpack_from(data)
        self._check(tag, size)
        return 1 + int(size)

    def _split(self, data: bytes) -> tuple[list[Span], int, ProtocolError | None]:
        spans: list[Span] = []
        position, size, caps = 0, len(data), self._caps
        normal = self.phase is Phase.NORMAL
        while size - position >= 5:
            tag, length = HEADER.unpack_from(data, position)
            if not normal or not 4 <= length <= caps.get(tag, 0):
                try:
                    self._check(tag, length)
                except ProtocolError as error:
                    return spans, 0, error
            end = position + 1 + length
            if end > size:
                return spans, end - position, None
            spans.append((tag, position, end))
            position = end
            if len(spans) == MOST:
                break
        return spans, 0, None

    def _check(self, tag: bytes, length: int) -> None:
        if self.phase is Phase.STARTUP:
            raise ValueError("a start-up packet has no tag: use `next`")
        if self.phase is Phase.AUTH and tag not in (b"p", b"X"):
            text = f"expected SASL response, got message type {tag[0]}"
            raise ProtocolError(PROTOCOL_VIOLATION, text, fatal=True)
        cap = self._caps.get(tag)
        if cap is None:
            raise ProtocolError(PROTOCOL_VIOLATION, f"invalid frontend message type {tag[0]}", fatal=True)
        if not 4 <= length <= cap:
            raise ProtocolError(PROTOCOL_VIOLATION, f"invalid message length {length}", fatal=True)


class BackendFramer(_Framer):
    """Cuts the facade's half, messages on their way to the client.

    Tags in `streamed` (rows) may be longer than memory should hold: an unfinished one of more than `piece` bytes is
    returned as far as it has come, and its continuation as spans with tag b"". `passthrough` is what is still to come.
    Messages of other tags are always whole.
    """

    def __init__(self, streamed: frozenset[bytes] = frozenset((b"D", b"d")), piece: int = PIECE) -> None:
        super().__init__()
        self._streamed = streamed
        self._piece = piece
        self.passthrough = 0

    def _split(self, data: bytes) -> tuple[list[Span], int, ProtocolError | None]:
        spans: list[Span] = []
        size = len(data)
        position = min(self.passthrough, size)
        if position:
            self.passthrough -= position
            spans.append((b"", 0, position))
        while size - position >= 5:
            tag, length = HEADER.unpack_from(data, position)
            if not 4 <= length <= MAX_WHOLE and not (tag in self._streamed and 4 <= length <= MAX_BACKEND):
                text = f"lost synchronization with server: message type {tag[0]}, length {length}"
                return spans, 0, ProtocolError(PROTOCOL_VIOLATION, text, fatal=True)
            end = position + 1 + length
            if end > size:
                if length <= self._piece or tag not in self._streamed:
                    return spans, end - position, None
                self.passthrough = end - size
                end = size
            spans.append((tag, position, end))
            position = end
        return spans, 0, None


__all__ = [
    "BackendFramer",
    "Batch",
    "Frame",
    "FrontendFramer",
    "Phase",
    "ProtocolError",
    "Span",
    "decode_frontend",
    "decode_sasl_initial",
    "decode_sasl_response",
    "decode_startup",
]
