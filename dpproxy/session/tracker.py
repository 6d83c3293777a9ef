"""Where a relayed conversation stands, told from the bytes that pass, without holding any of them back.

Knows: tags and lengths of messages in both directions. Must not know: what they say. Pure; no IO.

The proxy steps into a conversation only when the facade has answered everything that was relayed to it. PostgreSQL
answers in order: each Query and Sync with one ReadyForQuery, each extended message with exactly one completion (Parse
1, Bind 2, Describe T or n, Execute C, s or I, Close 3), or with an error, after which it skips to Sync. Counting both
sides therefore tells when it is done. COPY FROM STDIN is the exception: while it lasts, PostgreSQL ignores Sync.
"""

from __future__ import annotations

import struct
from typing import Final

from dpproxy.wire.backend import Status

_LENGTH: Final = struct.Struct("!I").unpack_from
_ROW, _COPY_ROW, _READY, _ERROR, _COPY_IN = b"DdZEG"
_COMPLETIONS: Final = frozenset(b"12TnCsI3")
COMPLETIONS: Final = frozenset(bytes([tag]) for tag in _COMPLETIONS)
"""Tags of which every extended message gets exactly one."""


STATUSES: Final[dict[int, Status]] = {ord("I"): "I", ord("T"): "T", ord("E"): "E"}


class Tracker:
    """`outstanding`: ReadyForQuery still to come. `sent`, `done`: extended messages since the last Sync, completions.

    `failed`: an error since the last ReadyForQuery: the facade skips to Sync. `status`: I, T or E, as last reported.
    `readies`: ReadyForQuery seen so far.
    """

    __slots__ = ("_head", "_query_last", "_skip", "copy_in", "done", "failed", "outstanding", "readies", "sent", "status")

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
        """One message of the client is on its way to the facade."""
        if tag == b"Q":
            self.query()
        elif tag == b"S":
            self.sync()
        elif tag in b"PBDEC":
            self.sent += 1
        elif tag in b"cf":
            self.copy_in = False

    def passed(self, queries: int, syncs: int, extended: int) -> None:
        """Several messages at once: queries or syncs, then `extended` messages behind them."""
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
        """The stream to the client is between two messages."""
        return not self._skip and not self._head

    @property
    def settled(self) -> bool:
        """Everything relayed is answered, and the stream is between two messages."""
        return self.outstanding == 0 and self.between and (self.failed or self.sent == self.done)

    def scan(self, data: bytes) -> None:
        """Bytes of the facade are on their way to the client. Linear in the number of messages."""
        if self._head:
            data = self._head + data
            self._head = b""
        position, size = self._skip, len(data)
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
            position = end
        if position < size:
            self._head = data[position:]
            position = size
        self._skip = position - size

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
