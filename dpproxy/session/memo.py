"""What the sessions of one dataset remember together, so that none of them finds out again what another has found out.

Knows: texts, and what was found out of each. Must not know: who asked, data, answers. Each of these is a pure function of a text
and of the dataset as it was opened, so a dataset that is opened anew begins with an empty `Memo`. What one session remembers of
itself is in `repeat_cache`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dpproxy.session.outer_text import Outers
from dpproxy.session.steadiness import Steadiness
from dpproxy.session.word_search import WordSearch

REMEMBERED = 4096  # texts of no concern
LONG_TEXT = 4096  # bytes; longer texts are not remembered


@dataclass(frozen=True)
class Memo:
    """Holds what was found out of texts. `unconcerned`: texts that hold none of the dataset's words. `outers`: the outer queries
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
