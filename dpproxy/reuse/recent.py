"""Answers just shown, in memory: a dashboard asks for the same ones again and again, and a file is slow.

Knows: what was asked, who has seen what. Must not know: where releases are kept, charges. Only what a role has seen is
remembered, for this role alone: it may have it again whatever became of the file. An entry is forgotten after a minute, so
that the file knows which answers are in use, and when something newer is kept under the same name.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final

from dpproxy.mechanisms.exact_answers import Int64
from dpproxy.plan.model import Plan
from dpproxy.reuse.matching import Asked
from dpproxy.reuse.store import TOUCH_SECONDS, Found

MOST: Final = 1024
ROWS: Final = 1000
"""Of an answer that is remembered: together a few tens of megabytes at most, usually far less than one."""
NUMBERS: Final = 4 * ROWS
"""Of an answer of which is remembered what was said: these are mostly the same numbers as above."""
LIFE: Final = dt.timedelta(seconds=TOUCH_SECONDS)

Key = tuple[Hashable, ...]


class RecentAnswers:
    """Remembers answers that were just shown; for one dataset, one event loop."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, tuple[Found, dt.datetime]] = OrderedDict()

    def find(self, role: str, asked: Asked, now: dt.datetime, max_age: dt.timedelta | None) -> Found | None:
        key = _key(role, asked)
        found, until = self._entries.get(key, (None, now))
        if found is None or found.stored is None:
            return None
        if now >= until or (max_age is not None and found.made[0] < now - max_age):
            del self._entries[key]
            return None
        return found

    def add(self, role: str, asked: Asked, found: Found, now: dt.datetime) -> None:
        if found.stored is None or role not in found.stored.roles or found.released.rows > ROWS:
            return
        self._entries[_key(role, asked)] = (found, now + LIFE)
        if len(self._entries) > MOST:
            self._entries.popitem(last=False)

    def forget(self, asked: Asked) -> None:
        """Forget what answered this: something new does, for whoever may see it."""
        for key in [k for k in self._entries if k[1] == asked.rows]:
            del self._entries[key]


def _key(role: str, asked: Asked) -> Key:
    """All that decides what a stored release answers (`asked.serve`)."""
    return role, asked.rows, asked.keys, asked.columns, asked.noise, asked.tau


Values = Mapping[int, tuple[Int64, ...]]


class RecentNotices:
    """Remembers what was said of answers just shown: computing typical errors takes longer than finding what they are of."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Plan, Values, tuple[str, ...]]] = OrderedDict()

    def find(self, plan: Plan, values: Values) -> tuple[str, ...] | None:
        """Return what was said of these very objects; equal ones are not looked for."""
        known = self._known.get(id(plan))
        if known is None or known[0] is not plan or known[1].keys() != values.keys():
            return None
        return known[2] if all(known[1][i] is v for i, v in values.items()) else None

    def keep(self, plan: Plan, values: Values, texts: tuple[str, ...]) -> None:
        if sum(len(column) for columns in values.values() for column in columns) > NUMBERS:
            return
        self._known[id(plan)] = (plan, dict(values), texts)
        self._known.move_to_end(id(plan))
        if len(self._known) > MOST:
            self._known.popitem(last=False)
