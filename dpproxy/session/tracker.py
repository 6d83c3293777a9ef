"""Where a relayed conversation stands, told from the bytes that pass, without holding any of them back.

Knows: tags and lengths of messages in both directions. Must not know: what they say. Pure; no IO.

The proxy steps into a conversation only when the facade has answered everything that was relayed to it. PostgreSQL
answers in order: each Query and Sync with one ReadyForQuery, each extended message with exactly one completion (Parse
1, Bind 2, Describe T or n, Execute C, s or I, Close 3), or with an error, after which it discards all before the next Sync
(the table's column `failed`): a Query there is never answered. Counting both sides therefore tells when it is done.

While COPY FROM STDIN lasts, PostgreSQL ignores Sync. When the copy fails, a Sync behind its last row is answered after all; of
one between two rows nobody can say from the bytes whether it stood before the row that failed. Whether PostgreSQL answered such a
Sync, or discards what it is sent up to the next one, is not known then, and all that was counted is `doubtful`: `FacadeLink` asks
the facade before it relies on the count.

Small pieces repeat (BEGIN, COMMIT, pings, the same statement again): what they come to is remembered, since one look
into a dictionary is cheaper than five messages. Each session remembers for itself: what others get shows in no time.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Set
from typing import Final

from dpproxy.session.message_flow import COMPLETED, COMPLETIONS, ENDS_COPY, State, Step, step
from dpproxy.wire.backend import Status
from dpproxy.wire.framing import MOST

_LENGTH: Final = struct.Struct("!I").unpack_from
_READY, _ERROR, _COPY_IN = b"ZEG"
_COMPLETIONS: Final = frozenset(tag[0] for tag in COMPLETIONS)

REMEMBERED: Final = 64
SMALL: Final = 256
"""Pieces a session remembers, and the bytes such a piece may have: 16 kB a session at most."""

Counts = tuple[int, int, int]
"""Queries or Syncs (never both), then extended messages behind the last of them. No Query stands behind an extended message."""

_SYNC: Final = -1
"""A Sync, among what the facade is sent. A number from 0 is a Query behind so many extended messages; one below is a message of a
copy that the facade has not begun yet: `_row`, `_end`."""


def _row(sent: int) -> int:
    """CopyData, behind so many extended messages."""
    return -2 - 2 * sent


def _end(sent: int) -> int:
    """CopyDone or CopyFail, behind so many extended messages."""
    return -3 - 2 * sent


def _is_end(mark: int) -> bool:
    return mark < _SYNC and mark % 2 == 1


def _before(mark: int) -> int:
    """How many extended messages stand before a message of a copy."""
    return (-2 - mark) // 2


def _rebased(mark: int, more: int) -> int:
    """The same behind `more` extended messages."""
    return mark + more if mark >= 0 else mark if mark == _SYNC else mark - 2 * more


STATUSES: Final[dict[int, Status]] = {ord("I"): "I", ord("T"): "T", ord("E"): "E"}


class Tracker:
    """Counts both sides of one conversation. `sent`, `done`: extended messages since the last Query or Sync, completions.

    `failed`: an error since the last ReadyForQuery. `status`: I, T or E, as last reported. `readies`: ReadyForQuery seen so far.
    `outstanding`: ReadyForQuery still to come, counted as they are asked for: a client may have asked for any number of them, and
    each message wants to know. `doubtful`: the count may be wrong, until it is known what is to come (`begin_again`).
    """

    __slots__ = (
        "_among",
        "_asked",
        "_behind",
        "_head",
        "_known",
        "_skip",
        "copy_in",
        "done",
        "doubtful",
        "failed",
        "outstanding",
        "readies",
        "sent",
        "status",
    )

    def __init__(self) -> None:
        self.readies = 0
        self.sent = 0
        self.done = 0
        self.failed = False
        self.copy_in = False
        self.doubtful = False
        self.outstanding = 0
        self.status: Status = "I"
        self._asked: deque[int] = deque()  # Queries, Syncs and messages of copies that are not reached yet, in order
        self._behind = 0  # Syncs of a copy behind its last row
        self._among = 0  # Syncs of a copy that a row, CopyDone or CopyFail followed
        self._skip = 0  # bytes of the current message still to pass
        self._head = b""  # an incomplete header, already passed on
        self._known: dict[bytes, Status] = {}  # pieces that end with their only ReadyForQuery, and the status it says

    @property
    def state(self) -> State:
        """Return where the conversation stands. An error is of an extended query where no ReadyForQuery is to come for it."""
        if self.copy_in:
            return State.COPY_IN
        return State.FAILED if self.failed and not self.outstanding else State.READY

    # towards the facade

    def forward(self, tag: bytes) -> None:
        """Count one message of the client, which is on its way to the facade, and is examined already."""
        state = self.state
        if state is State.FAILED and step(state, tag) is Step.DISCARD:
            return
        if tag == b"Q":
            self._asked.append(self.sent)
            self.outstanding += 1
            self.sent = 0
        elif tag == b"S":
            self._synced(1)
        elif tag in COMPLETED:
            self.sent += 1
        elif tag == b"d" or tag in ENDS_COPY:
            self._copied(tag in ENDS_COPY)

    def passed(self, counts: Counts) -> None:
        """Count several messages at once."""
        queries, syncs, extended = counts
        if syncs == 1 and not self.copy_in:  # a prepared statement's: no call more
            self._asked.append(_SYNC)
            self.outstanding += 1
            self.sent = extended
            return
        if syncs:
            self._synced(syncs)
        elif self.failed and self.state is State.FAILED:
            return  # to be discarded
        elif queries:
            self._asked.append(self.sent)
            if queries > 1:
                self._asked.extend([0] * (queries - 1))
            self.outstanding += queries
            self.sent = 0
        self.sent += extended

    def _copied(self, ends: bool) -> None:
        if self.copy_in:
            self._among += self._behind
            self._behind = 0
            self.copy_in = not ends
        elif self._asked or self.sent != self.done:  # else no copy can begin any more that it belongs to
            mark = (_end if ends else _row)(self.sent)
            if ends or not self._asked or self._asked[-1] != mark:  # one Query may hold several copies, each with an end
                self._asked.append(mark)

    def begin_again(self, status: int) -> None:
        """Count from here on: all is answered, in that state."""
        self._asked.clear()
        self.sent = self.done = self.outstanding = self._behind = self._among = 0
        self.copy_in = self.doubtful = self.failed = False
        self.status = STATUSES[status]

    def _synced(self, syncs: int) -> None:
        if self.copy_in:
            self._behind += syncs
            return
        self._asked.append(_SYNC)
        if syncs > 1:
            self._asked.extend([_SYNC] * (syncs - 1))
        self.outstanding += syncs
        self.sent = 0

    # from the facade

    @property
    def between(self) -> bool:
        """Return whether the stream to the client is between two messages."""
        return not self._skip and not self._head

    @property
    def settled(self) -> bool:
        """Return whether everything relayed is answered, and the stream is between two messages."""
        return not self.outstanding and self.between and (self.failed or self.sent <= self.done)

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
            self._known[data] = self.status

    def _walk(self, data: bytes) -> bool:
        """Message by message. Whether they are whole, and the last is ReadyForQuery, and none is an error or began a COPY."""
        if self._head:
            data = self._head + data
            self._head = b""
        position, size = self._skip, len(data)
        plain, tag = True, 0
        while size - position >= 5:
            tag = data[position]
            end = position + 1 + _LENGTH(data, position + 1)[0]
            if tag == _READY:
                if end > size:
                    break
                self._ready(STATUSES[data[position + 5]])
            elif tag in _COMPLETIONS:
                self.done += 1
            elif tag == _ERROR:
                self._error()
                plain = False
            elif tag == _COPY_IN:
                self._copy_in()
                plain = False
            position = end
        if position < size:
            self._head = data[position:]
            position = size
        self._skip = position - size
        return tag == _READY and plain and not self._head and not self._skip

    def _ready(self, status: Status) -> None:
        while self._asked:
            if self._asked.popleft() >= _SYNC:
                self.outstanding -= 1
                break
        else:
            self.sent = 0
        self.readies += 1
        self.done = 0
        self.failed = False
        self.copy_in = False
        self._among = 0
        self.status = status

    def _error(self) -> None:
        """All is discarded from an extended message that failed to the next Sync; an error of a Query or Sync is its own."""
        asked = self._asked
        self.failed = True
        self.doubtful = self.doubtful or self._among > 0
        self._among = 0
        if self.copy_in:
            self.copy_in = False
            behind, self._behind = self._behind, 0
            if behind:
                asked.extend([_SYNC] * behind)
                self.outstanding += behind
                self.sent = 0
        first = next((mark for mark in asked if mark >= _SYNC), self.done + 1)
        if self.done < first:
            while asked and asked[0] != _SYNC:
                self.outstanding -= asked.popleft() > _SYNC

    def _copy_in(self) -> None:
        """COPY FROM STDIN began, in a Query or by Execute. What was sent along already is the copy's, up to its end."""
        sent = self._asked
        first = next((mark for mark in sent if mark >= _SYNC), _SYNC)
        by_query = 0 <= first <= self.done
        while sent and sent[0] < _SYNC and (by_query or _before(sent[0]) <= self.done):
            sent.popleft()
        own = [sent.popleft()] if by_query else []
        self.copy_in, self._behind, self._among = True, 0, 0
        ignored = False
        while sent and self.copy_in:
            mark = sent.popleft()
            if mark == _SYNC:
                ignored = True
                self.outstanding -= 1
                self._behind += 1
            elif mark < _SYNC:
                self._copied(_is_end(mark))
            else:
                self.outstanding -= 1
        own += self._follow(sent, 0 if by_query else self.done + 1, ignored)
        sent.extendleft(reversed(own))

    def _follow(self, sent: deque[int], base: int, ignored: bool) -> list[int]:
        """What was sent behind a copy stays; return what of it is counted anew. `ignored`: a Sync was the copy's, so that what
        follows is counted from `base` on."""
        if self.copy_in:
            self.sent = base
            return []
        counted: list[int] = []
        while sent and ignored:
            mark = sent.popleft()
            counted.append(_rebased(mark, base))
            ignored = mark < _SYNC
        if ignored:
            self.sent += base
        return counted


# What a piece of a client's bytes comes to, if it concerns nobody: counted as fast as Python can.
#
# Knows: tags and lengths of messages, texts that are known to concern nobody. Must not know: what texts say. This is the hot
# path of the relay: it makes no object a message, and gives up where a piece is of another kind, for then the session looks at
# each message by itself. What it does not give up on is counted as `Tracker.forward` counts message by message. Pure.


_HEADER: Final = struct.Struct("!I").unpack_from
_QUERY, _SYNC_TAG = b"QS"
_TEXTS: Final = frozenset(b"QP")
_EXTENDED: Final = frozenset(b"BDES")
"""What a client of prepared statements sends, beside Parse."""


def glance(known: dict[bytes, Counts], data: bytes, unconcerned: Set[bytes]) -> Counts | None:
    """Do as `counted`; small pieces, which come again and again, are remembered in `known`."""
    counts = counted(data, unconcerned)
    if counts is not None and len(data) <= SMALL:
        if len(known) >= REMEMBERED:
            known.clear()
        known[data] = counts
    return counts


def counted(data: bytes, unconcerned: Set[bytes]) -> Counts | None:
    """Return the counts of whole messages of the usual kinds whose texts are all among `unconcerned`; None if it is not such,
    where a Query stands behind an extended message (whether it is answered hangs on that one), and of more messages than are cut
    at once."""
    position, size = 0, len(data)
    queries = syncs = extended = 0
    for _ in range(MOST):
        if size - position < 5:
            break
        tag = data[position]
        end = position + 1 + _HEADER(data, position + 1)[0]
        if end > size or end < position + 5:
            return None
        if tag in _TEXTS:
            if data[position + 5 : end] not in unconcerned:
                return None
        elif tag not in _EXTENDED:
            return None
        if tag == _SYNC_TAG:
            syncs += 1
            extended = 0
        elif tag == _QUERY:
            if extended:
                return None
            queries += 1
        else:
            extended += 1
        position = end
    if position != size or (queries and syncs):
        return None
    return queries, syncs, extended
