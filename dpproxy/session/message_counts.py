"""What a piece of a client's bytes comes to, if it concerns nobody: counted as fast as Python can.

Knows: tags and lengths of messages, texts that are known to concern nobody. Must not know: what texts say. This is the hot path
of the relay: it makes no object a message, and gives up where a piece is of another kind, for then the session looks at each
message by itself. What it does not give up on is counted as `Tracker.forward` counts message by message. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Set
from typing import Final

from dpproxy.session.tracker import REMEMBERED, SMALL, Counts
from dpproxy.wire.framing import MOST

_LENGTH: Final = struct.Struct("!I").unpack_from
_QUERY, _SYNC = b"QS"
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
        end = position + 1 + _LENGTH(data, position + 1)[0]
        if end > size or end < position + 5:
            return None
        if tag in _TEXTS:
            if data[position + 5 : end] not in unconcerned:
                return None
        elif tag not in _EXTENDED:
            return None
        if tag == _SYNC:
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
