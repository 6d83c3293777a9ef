"""Where a relayed conversation stands, told from the bytes that pass, without holding any of them back.

Knows: tags and lengths of messages in both directions. Must not know: what they say. Pure; no IO.

The proxy steps into a conversation only when the facade has answered everything that was relayed to it. PostgreSQL
answers in order: each Query and Sync with one ReadyForQuery, each extended message with exactly one completion (Parse
1, Bind 2, Describe T or n, Execute C, s or I, Close 3), or with an error, after which it skips to Sync. Counting both
sides therefore tells when it is done. COPY FROM STDIN is the exception: while it lasts, PostgreSQL ignores Sync.

Small pieces repeat (BEGIN, COMMIT, pings, the same statement again): what they come to is remembered, since one look
into a dictionary is cheaper than five messages. Each session remembers for itself: what others get shows in no time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from dpproxy.session.message_flow import COMPLETED, COMPLETIONS, ENDS_COPY, State
from dpproxy.wire.backend import Status

_LENGTH: Final = struct.Struct("!I").unpack_from
_READY, _ERROR, _COPY_IN = b"ZEG"
_COMPLETIONS: Final = frozenset(tag[0] for tag in COMPLETIONS)

REMEMBERED: Final = 64
SMALL: Final = 256
"""Pieces a session remembers, and the bytes such a piece may have: 16 kB a session at most."""

Counts = tuple[int, int, int]
"""Queries or Syncs (never both), then extended messages behind the last of them."""

STATUSES: Final[dict[int, Status]] = {ord("I"): "I", ord("T"): "T", ord("E"): "E"}


class Tracker:
    """Counts both sides of one conversation. `outstanding`: ReadyForQuery still to come. `sent`, `done`: extended messages since
    the last Sync, completions.

    `failed`: an error since the last ReadyForQuery: the facade skips to Sync. `status`: I, T or E, as last reported.
    `readies`: ReadyForQuery seen so far.
    """

    __slots__ = (
        "_head",
        "_known",
        "_query_last",
        "_skip",
        "copy_in",
        "done",
        "failed",
        "outstanding",
        "readies",
        "sent",
        "status",
    )

    def __init__(self) -> None:
        self.outstanding = 0
        self.readies = 0
        self.sent = 0
        self.done = 0
        self.failed = False
        self.copy_in = False
        self.status: Status = "I"
        self._query_last = False
        self._skip = 0  # bytes of the current message still to pass
        self._head = b""  # an incomplete header, already passed on
        self._known: dict[bytes, int] = {}  # pieces that end with their only ReadyForQuery, and the status it says

    @property
    def state(self) -> State:
        """Return where the conversation stands. An error is of an extended query where no ReadyForQuery is to come for it."""
        if self.copy_in:
            return State.COPY_IN
        return State.FAILED if self.failed and self.settled else State.READY

    # towards the facade

    def query(self) -> None:
        self.outstanding += 1
        self.sent = 0
        self._query_last = True

    def sync(self) -> None:
        if not self.copy_in:
            self.outstanding += 1
            self.sent = 0
            self._query_last = False

    def forward(self, tag: bytes) -> None:
        """Count one message of the client, which is on its way to the facade."""
        if tag == b"Q":
            self.query()
        elif tag == b"S":
            self.sync()
        elif tag in COMPLETED:
            self.sent += 1
        elif tag in ENDS_COPY:
            self.copy_in = False

    def passed(self, counts: Counts) -> None:
        """Count several messages at once."""
        queries, syncs, extended = counts
        if queries or syncs:
            if syncs and self.copy_in:
                return
            self.outstanding += queries + syncs
            self.sent = extended
            self._query_last = queries > 0
        else:
            self.sent += extended

    # from the facade

    @property
    def between(self) -> bool:
        """Return whether the stream to the client is between two messages."""
        return not self._skip and not self._head

    @property
    def settled(self) -> bool:
        """Return whether everything relayed is answered, and the stream is between two messages."""
        return self.outstanding == 0 and self.between and (self.failed or self.sent == self.done)

    def boundaries(self, data: bytes) -> Iterator[tuple[bytes, int, int]]:
        """Return tag, beginning and end of those whole messages in the next piece that begin there."""
        position = self._skip
        if self._head:
            start = self._head + data[:5]
            position = 1 + _LENGTH(start, 1)[0] - len(self._head) if len(start) >= 5 else len(data)
        while len(data) - position >= 5:
            end = position + 1 + _LENGTH(data, position + 1)[0]
            if end > len(data):
                return
            yield data[position : position + 1], position, end
            position = end

    def scan(self, data: bytes) -> None:
        """Follow bytes of the facade on their way to the client, in time linear in the number of messages."""
        if self._skip or self._head:
            self._walk(data)
            return
        status = self._known.get(data)
        if status is not None:
            self._ready(status)
            return
        before = self.readies
        if self._walk(data) and self.readies == before + 1 and len(data) <= SMALL:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[data] = data[-1]

    def _walk(self, data: bytes) -> bool:
        """Message by message. Whether they are whole, and the last is ReadyForQuery, and none began a COPY."""
        if self._head:
            data = self._head + data
            self._head = b""
        position, size = self._skip, len(data)
        copied, tag = False, 0
        while size - position >= 5:
            tag = data[position]
            end = position + 1 + _LENGTH(data, position + 1)[0]
            if tag == _READY:
                if end > size:
                    break
                self._ready(data[position + 5])
            elif tag in _COMPLETIONS:
                self.done += 1
            elif tag == _ERROR:
                self.failed = True
            elif tag == _COPY_IN:
                self._copy_in()
                copied = True
            position = end
        if position < size:
            self._head = data[position:]
            position = size
        self._skip = position - size
        return tag == _READY and not copied and not self._head and not self._skip

    def _ready(self, status: int) -> None:
        self.outstanding -= 1
        self.readies += 1
        self.done = 0
        self.failed = False
        self.copy_in = False
        self.status = STATUSES[status]

    def _copy_in(self) -> None:
        """COPY FROM STDIN began. In the extended protocol the Sync that was sent along is going to be ignored."""
        self.copy_in = True
        if not self._query_last and self.sent == 0:
            self.outstanding = 0
