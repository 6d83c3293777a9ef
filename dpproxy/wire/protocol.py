"""What every codec of this room shares: the error, the frame, a cursor over a payload, the protocol's numbers.

Knows: PostgreSQL's chapter "Frontend/Backend Protocol". Must not know: sockets, SQL, policies, clients' state.

Two kinds of failure, and one class for both. A *fatal* `ProtocolError` means that the stream has lost its framing or
the peer breaks the start-up rules: whatever follows cannot be trusted, so the connection must be closed after the
error was sent. A plain one means that this message is wrong but the next begins where it should: the server answers
with an error and skips to Sync, as PostgreSQL does. No other exception leaves this room, whatever the bytes are.

Texts and SQLSTATEs follow PostgreSQL's `pqformat.c` and `postgres.c`, since drivers and their users know those.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from dpproxy.errors import CHARACTER_NOT_IN_REPERTOIRE, PROTOCOL_VIOLATION

MAJOR: Final = 3
MINOR: Final = 2
"""The newest minor version spoken; 3.1 was never released, 3.2 came with PostgreSQL 18."""

CANCEL_CODE: Final = 80877102
SSL_CODE: Final = 80877103
GSSENC_CODE: Final = 80877104
"""Codes in place of a protocol version: (1234 << 16) + 5678, 5679, 5680."""

INT16: Final = struct.Struct("!H")
INT32: Final = struct.Struct("!i")
UINT32: Final = struct.Struct("!I")
HEADER: Final = struct.Struct("!ci")
"""Tag and length (which counts itself, not the tag)."""


class ProtocolError(Exception):
    """The peer sent what the protocol does not allow.

    `sqlstate` and `message` are ready for an ErrorResponse and quote nothing but bytes of the peer's own message.
    `fatal`: the stream cannot be continued.
    """

    def __init__(self, sqlstate: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.fatal = fatal

    def __str__(self) -> str:
        return f"{self.sqlstate} {self.message}"


class Frame(NamedTuple):
    """One message: `tag` is one byte, or empty for a start-up packet; `raw` is tag, length and payload as received."""

    tag: bytes
    payload: bytes
    raw: bytes


def decode_text(data: bytes) -> str:
    """Decode UTF-8, strictly. Raises ProtocolError 22021 naming the bytes of the wrong character, as PostgreSQL does."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        lead = data[error.start]
        size = 1 if lead < 0xC0 or lead > 0xF7 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        wrong = " ".join(f"0x{byte:02x}" for byte in data[error.start : error.start + size])
        text = f'invalid byte sequence for encoding "UTF8": {wrong}'
        raise ProtocolError(CHARACTER_NOT_IN_REPERTOIRE, text) from None


NAME_BYTES: Final = 63
"""Bytes that PostgreSQL keeps of the name of a prepared statement or portal (NAMEDATALEN - 1): longer names that begin alike are
one."""


def _cut(raw: bytes) -> str:
    """Names that are the same to PostgreSQL are the same here. It cuts within a character, which it would not take from us: then
    the first that begins so stands for all."""
    for rest in (b"", *(first + b"\x80" * more for first in (b"\x80", b"\x90", b"\xa0") for more in range(3))):
        try:
            return (raw + rest).decode()
        except UnicodeDecodeError:
            continue
    raise AssertionError("valid UTF-8, cut anywhere, has a completion")


class Reader:
    """Reads one payload from its beginning to its end. Each method raises ProtocolError when the payload is shorter than it
    claims."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    def take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise ProtocolError(PROTOCOL_VIOLATION, "insufficient data left in message")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def text(self) -> str:
        """Read a NUL-terminated string."""
        end = self._data.find(0, self._position)
        if end < 0:
            raise ProtocolError(PROTOCOL_VIOLATION, "invalid string in message")
        taken = self._data[self._position : end]
        self._position = end + 1
        return decode_text(taken)

    def name(self) -> str:
        """Read the name of a prepared statement or portal, as far as PostgreSQL keeps it."""
        raw = self.text().encode()
        return raw.decode() if len(raw) <= NAME_BYTES else _cut(raw[:NAME_BYTES])

    def int16(self) -> int:
        """Read two bytes without a sign: the protocol's counts go to 65535."""
        return int(INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(INT32.unpack(self.take(4))[0])

    def uint32(self) -> int:
        return int(UINT32.unpack(self.take(4))[0])

    def int16s(self, count: int) -> tuple[int, ...]:
        """Read a count and as many numbers. The bytes are taken before they are unpacked, so that a count without its items
        cannot make anything large."""
        return struct.unpack(f"!{count}H", self.take(2 * count)) if count else ()

    def uint32s(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"!{count}I", self.take(4 * count)) if count else ()

    def value(self) -> bytes | None:
        """Read a length-prefixed value; length -1 is NULL."""
        size = self.int32()
        return None if size == -1 else self.take(size)

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._position)

    def end(self) -> None:
        if self._position != len(self._data):
            raise ProtocolError(PROTOCOL_VIOLATION, "invalid message format")
