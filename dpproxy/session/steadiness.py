"""Which statements are steady: asked again, with the same released numbers, they give the same rows, byte for byte.

Knows: statements' texts, which functions the facade calls immutable. Must not know: who asks, what was answered. What a text
is (`sql.repeatability`) is found once for all sessions of a dataset; a long text is read beside the loop.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from dpproxy.limits.side_threads import Race, SideThreads
from dpproxy.sql.repeatability import steady

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
