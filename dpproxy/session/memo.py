"""What the sessions of one dataset remember together, so that none of them finds out again what another has found out.

Knows: texts, and what was found out of each. Must not know: who asked, data, answers. Each of these is a pure function of a text
and of the dataset as it was opened, so a dataset that is opened anew begins with an empty `Memo`. What one session remembers of
itself is in `RepeatCache`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from dpproxy.limits.side_threads import Race, SideThreads
from dpproxy.session.concern import WordSearch
from dpproxy.session.outer_text import Outers
from dpproxy.session.private_statement import PrivateStatement
from dpproxy.sql.repeatability import steady

# Which statements are steady: asked again, with the same released numbers, they give the same rows, byte for byte.
#
# Knows: statements' texts, which functions the facade calls immutable. Must not know: who asks, what was answered. What a text
# is (`sql.repeatability`) is found once for all sessions of a dataset; a long text is read beside the loop.


LONG: Final = 2000
"""Characters of texts that are read in some milliseconds; longer ones shall not hold others up."""
KNOWN: Final = 1024
"""Pairs of texts of which a dataset's sessions remember whether they are steady."""


class Steadiness:
    """Remembers for one dataset which statements are steady.

    `immutable`: names of functions, as the facade tells them; None as long as it has not been asked.
    """

    def __init__(self) -> None:
        self.immutable: frozenset[str] | None = None
        self._known: dict[tuple[str, str], bool] = {}
        self._aside = SideThreads(1)

    async def of(self, query: str, outer: str, race: Race) -> bool:
        """Tell whether neither a statement nor its outer query changes anything, or looks at anything that changes.

        `race` waits for what takes long.
        """
        texts = query, outer
        if self.immutable is None:
            return False
        known = self._known.get(texts)
        if known is None:
            if len(self._known) >= KNOWN:
                self._known.clear()
            immutable = self.immutable
            asked = partial(_all_steady, texts, immutable)
            known = await race(self._aside.run(asked)) if sum(map(len, texts)) > LONG else asked()
            self._known[texts] = known
        return known


def _all_steady(texts: tuple[str, ...], immutable: frozenset[str]) -> bool:
    return all(steady(text, immutable) for text in texts)


REMEMBERED = 4096  # texts of no concern
LONG_TEXT = 4096  # bytes; longer texts are not remembered


@dataclass(frozen=True)
class Memo:
    """What was found out of texts. `unconcerned`: texts that hold none of the dataset's words. `outers`: the outer queries
    that statements had last time."""

    unconcerned: set[bytes] = field(default_factory=set)
    outers: Outers = field(default_factory=Outers)
    steadiness: Steadiness = field(default_factory=Steadiness)
    searches: dict[tuple[bytes, ...], WordSearch] = field(default_factory=dict)

    def search(self, words: tuple[bytes, ...]) -> WordSearch:
        """Return the search of long texts for these words."""
        found = self.searches.get(words)
        if found is None:
            found = self.searches[words] = WordSearch(words)
        return found

    def mentions(self, text: bytes, words: Iterable[bytes]) -> bool:
        """Return whether a text that is looked through at once holds one of the dataset's words; those that do not are
        remembered."""
        short = len(text) <= LONG_TEXT
        if short and text in self.unconcerned:
            return False
        lower = text.lower()
        if any(word in lower for word in words):
            return True
        if short:
            if len(self.unconcerned) >= REMEMBERED:
                self.unconcerned.clear()
            self.unconcerned.add(text)
        return False


# What a session was just answered, for when it asks the same again and nothing has happened in it since.
#
# Knows: texts, and what the facade said to them. Must not know: how it was asked, charges. A dashboard or a pool asks the same
# in the same session again and again. As long as the client has sent the facade nothing (`FacadeLink.sent` has not moved), its
# settings, its names and its temporary tables are what they were: the statement need not be described again. And where the
# outer query is `steady` (`sql.repeatability`) and the released numbers are the same, its rows are, byte for byte.
#
# Whether these numbers may be shown, and at which charge, is decided anew each time; this only saves asking PostgreSQL for the
# same encoding of the same numbers.


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
