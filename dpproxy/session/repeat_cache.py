"""What a session was just answered, for when it asks the same again and nothing has happened in it since.

Knows: texts, and what the facade said to them. Must not know: how it was asked, charges. A dashboard or a pool asks the same in
the same session again and again. As long as the client has sent the facade nothing (`FacadeLink.sent` has not moved), its
settings, its names and its temporary tables are what they were: the statement need not be described again. And where the
outer query is `steady` (`sql.repeatability`) and the released numbers are the same, its rows are, byte for byte.

Whether these numbers may be shown, and at which charge, is decided anew each time; this only saves asking PostgreSQL for the
same encoding of the same numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from dpproxy.session.private_statement import PrivateStatement

MOST: Final = 16
"""Statements a session remembers: a dashboard's."""
ROWS: Final = 8192
"""Bytes of rows that are kept of one: with `MOST`, an eighth of a megabyte a session at most."""


@dataclass(frozen=True)
class CachedReply:
    """One reply. `rows`: what came before `complete`, the command's completion, for these `literals`."""

    private: PrivateStatement
    literals: tuple[bytes, ...]
    rows: bytes
    complete: bytes


class ReplyRecorder:
    """Records messages on their way to the client, for `CachedReply`. Only a row description, whole rows and a completion can be
    kept."""

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._size = 0
        self._plain = True
        self.complete = b""

    def add(self, tag: bytes, raw: bytes) -> None:
        if tag == b"C":
            self.complete = raw
            return
        self._size += len(raw)
        self._plain = self._plain and tag in (b"T", b"D") and self._size <= ROWS
        if self._plain:
            self._messages.append(raw)

    def kept(self, private: PrivateStatement, literals: tuple[bytes, ...]) -> CachedReply | None:
        return CachedReply(private, literals, b"".join(self._messages), self.complete) if self._plain and self.complete else None


class RepeatCache:
    """Remembers the replies of one session, by the statement's text. `since`: how much had been sent to the facade when the first
    was kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, CachedReply] = OrderedDict()
        self._since = -1

    def find(self, text: str, sent: int) -> CachedReply | None:
        if sent != self._since:
            self._kept.clear()
            self._since = sent
        return self._kept.get(text)

    def keep(self, text: str, kept: CachedReply, sent: int) -> None:
        self.find(text, sent)
        self._kept[text] = kept
        self._kept.move_to_end(text)
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
