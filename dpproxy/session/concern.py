"""Whether a client's message has to be read by the proxy, from a look at its names and words.

Knows: where a message holds a name or a text, words that name prepared statements in SQL. Must not know: SQL beyond those words.
What it is in doubt of has to be read.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Sequence
from enum import Enum
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.limits.side_threads import SideThreads
from dpproxy.session.message_flow import HARMLESS
from dpproxy.wire.framing import Span
from dpproxy.wire.frontend import peek_bind, peek_name
from dpproxy.wire.protocol import ProtocolError

# Whether a long text holds one of many words: one pass over its bytes beside the loop, without the interpreter's lock.
#
# Knows: words, RE2 through Arrow. Must not know: what a text or a word is. A search by Python holds the interpreter's lock from
# its beginning to its end, in whatever thread, and takes as long again for each word; RE2 makes one automaton of the words,
# which reads each byte once. It keeps a budget of memory for the automaton, and is slow beyond it: so that many words are
# several of them.


TOGETHER: Final = 250
"""Words of one automaton: it takes some 5 nanoseconds a byte."""
REACH: Final = 1 << 20
"""Bytes times words that are looked through on the loop: a millisecond."""
WORDS: Final = (b"execute", b"deallocate", b"discard")
"""With prepared statements over private tables in a session, a text with one of these is worth a second look."""


def at_once(size: int, words: int) -> bool:
    """Return whether a text of so many bytes is looked through for so many words in a millisecond."""
    return size * words <= REACH


class WordSearch:
    """Looks for words, which are in small letters; the letters of a text may be of either size."""

    def __init__(self, words: Iterable[bytes]) -> None:
        spelled = sorted({"".join(f"\\x{byte:02x}" for byte in word) for word in words})
        self._patterns = ["|".join(spelled[i : i + TOGETHER]) for i in range(0, len(spelled), TOGETHER)]
        self._aside = SideThreads(1)

    async def within(self, text: bytes | memoryview) -> bool:
        """Return whether a text holds one of the words."""
        return await self._aside.run(lambda: self.found(text))

    def found(self, text: bytes | memoryview) -> bool:
        ends = pa.py_buffer(struct.pack("=qq", 0, len(text)))
        array = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(text)])
        return any(pc.match_substring_regex(array, p, ignore_case=True)[0].as_py() for p in self._patterns)


class Reader(Protocol):
    """A session. `private`: the names of its prepared statements over private tables."""

    @property
    def private(self) -> Container[str]: ...

    @property
    def words(self) -> tuple[bytes, ...]:
        """Return the words for which a text must be read."""
        ...

    def mentions(self, text: bytes) -> bool:
        """Return whether a text holds a word for which it must be read."""
        ...

    async def searched(self, text: memoryview, words: tuple[bytes, ...]) -> bool:
        """Return whether a long text holds one of the words."""
        ...


class Concern(Enum):
    """Why a message has to be read."""

    NOTHING = "nothing"
    NAME = "it names a prepared statement over private tables"
    TEXT = "its text may concern them"


TEXTS: Final = (b"Q", b"P")
"""Messages that carry a text."""
LOOKS: Final = 20_000
"""Texts times words that are looked for at once: a millisecond or two."""


def text_concerns(reader: Reader, text: bytes) -> bool:
    """Return whether a text holds a word of the dataset's, or may name a prepared statement by SQL."""
    return reader.mentions(text) or (bool(reader.private) and any(word in text.lower() for word in WORDS))


def concerns(reader: Reader, tag: bytes, buffer: bytes, start: int, end: int) -> bool:
    """Return whether a message needs more than to be passed on, or more than one look to say so."""
    if tag in TEXTS and not at_once(end - start, len(reader.words)):
        return True
    return _judged(reader, tag, buffer, start, end) is not Concern.NOTHING


def harmless(reader: Reader, buffer: bytes, spans: Sequence[Span], *, leaving: bool) -> int:
    """Return how many messages stand before the first that needs more than to be passed on. `leaving`: whatever may begin
    work does."""
    looks = LOOKS // len(reader.words)
    for i, (tag, start, end) in enumerate(spans):
        looks -= tag in TEXTS
        if tag not in HARMLESS and (leaving or looks < 0 or concerns(reader, tag, buffer, start, end)):
            return i
    return len(spans)


async def concern(reader: Reader, tag: bytes, raw: bytes) -> Concern:
    """Return why a whole message has to be read; a long text is looked through in a thread, once."""
    if tag not in TEXTS or at_once(len(raw), len(reader.words)):
        return _judged(reader, tag, raw, 0, len(raw))
    words = (*reader.words, *WORDS) if reader.private and tag == b"Q" else reader.words
    if await reader.searched(memoryview(raw)[5:], words):
        return Concern.TEXT
    return Concern.NAME if tag == b"P" and _named(reader, tag, raw, 0) else Concern.NOTHING


def _judged(reader: Reader, tag: bytes, buffer: bytes, start: int, end: int) -> Concern:
    if tag == b"Q":
        return Concern.TEXT if text_concerns(reader, buffer[start + 5 : end]) else Concern.NOTHING
    if tag == b"P" and reader.mentions(buffer[start + 5 : end]):
        return Concern.TEXT
    if tag in (b"P", b"B", b"C"):
        return Concern.NAME if _named(reader, tag, buffer, start) else Concern.NOTHING
    return Concern.TEXT


def _named(reader: Reader, tag: bytes, buffer: bytes, start: int) -> bool:
    """Whether a message names a prepared statement over private tables; what is wrong with one, the facade says."""
    private = reader.private
    if not private:
        return False
    try:
        if tag == b"B":
            return peek_bind(buffer, start)[1] in private
        return peek_name(buffer, start if tag == b"P" else start + 1) in private
    except ProtocolError:
        return False
