"""Whether a long text holds one of many words: one pass over its bytes beside the loop, without the interpreter's lock.

Knows: words, RE2 through Arrow. Must not know: what a text or a word is. A search by Python holds the interpreter's lock from its
beginning to its end, in whatever thread, and takes as long again for each word; RE2 makes one automaton of the words, which reads
each byte once. It keeps a budget of memory for the automaton, and is slow beyond it: so that many words are several of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.limits.side_threads import SideThreads

TOGETHER: Final = 250
"""Words of one automaton: it takes some 5 nanoseconds a byte."""
REACH: Final = 1 << 20
"""Bytes times words that are looked through on the loop: a millisecond."""


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
