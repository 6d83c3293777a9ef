"""The values of one statement's holes, each spelled once for its type, and how many bytes they may have.

Knows: parameters, digests, a function that spells a literal. Must not know: engines, what a statement says, connections. A
measurement is named a dozen times and asked in several queries, with the same values in each: so a value is spelled once, and a
long one beside the loop. In a name a long value stands as its digest: names are made for each look at what is stored, and are
compared, and none of that shall take longer for a longer list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Final

from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.limits.side_threads import SideThreads
from dpproxy.sql.template import Dialect, Param

LONG: Final = 2_000
"""Characters of a value that are spelled in a millisecond; a longer one is spelled beside the loop."""

Spell = Callable[[Dialect, str, str | None], str]
"""`plan`'s rendering of a value of a PostgreSQL type as a literal of a dialect."""


def check_size(parameters: Iterable[bytes | str | None], most: int, computed: Iterable[str | None] = ()) -> None:
    """Refuse a client's parameters, or these and what the facade `computed`, that have more bytes together than the policy
    allows."""
    own, what = _bytes(parameters), "the parameters of this statement have"
    hint = "Ask for fewer values at a time, or for a range of them: x BETWEEN 1 AND 1000."
    if own <= most:
        what = "the values that this statement computes, and its parameters, have"
        hint = "Let its subqueries over public rows give fewer and shorter values."
    if own + _bytes(computed) > most:
        detail = "So many are not looked at for one statement over private tables. Nothing was charged."
        raise Refusal(STATEMENT_TOO_COMPLEX, f"{what} more than {most:,} bytes", detail=detail, hint=hint)


def _bytes(values: Iterable[bytes | str | None]) -> int:
    return sum(len(value) for value in values if value is not None)


def holes(value: object) -> Iterator[Param]:
    """Return every hole in a measurement, a template or whatever is made of them."""
    if isinstance(value, Param):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from holes(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from holes(getattr(value, each.name))


class SpelledValues:
    """Spells values as `spell` does; it takes the place of that function for one statement."""

    def __init__(self, spell: Spell, aside: SideThreads) -> None:
        self._spell, self._aside = spell, aside
        self._known: dict[tuple[Dialect, str, str], tuple[str, str] | ValueError] = {}

    async def prepare(self, dialect: Dialect, parts: Sequence[object], values: Sequence[str | None]) -> None:
        """Spell the long values that are known by now, for every hole in these parts, in a thread."""
        long = {i: value for i, value in enumerate(values) if value is not None and len(value) > LONG}
        if not long:
            return
        keys = {(dialect, hole.type, long[hole.index]) for hole in holes(tuple(parts)) if hole.index in long}
        fresh = keys - self._known.keys()
        if fresh:
            self._known |= await self._aside.run(lambda: {key: self._both(*key) for key in fresh})

    def __call__(self, dialect: Dialect, type_: str, text: str | None) -> str:
        """Return a value as a literal. Raises ValueError for what the engine cannot take."""
        return self._spelled(dialect, type_, text)[0]

    def named(self, dialect: Dialect, type_: str, text: str | None) -> str:
        """Return what stands for a value in a name. Raises ValueError for what the engine cannot take."""
        return self._spelled(dialect, type_, text)[1]

    def key(self, values: Sequence[str | None]) -> tuple[str | None, ...]:
        """Return what values can be told apart by, which is short however long they are."""
        return tuple(value if value is None or len(value) <= LONG else _digest(value) for value in values)

    def _spelled(self, dialect: Dialect, type_: str, text: str | None) -> tuple[str, str]:
        if text is None or len(text) <= LONG:
            literal = self._spell(dialect, type_, text)
            return literal, literal
        key = dialect, type_, text
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._both(*key)
        if isinstance(known, ValueError):
            raise known
        return known

    def _both(self, dialect: Dialect, type_: str, text: str) -> tuple[str, str] | ValueError:
        try:
            literal = self._spell(dialect, type_, text)
        except ValueError as error:
            return error
        return literal, _digest(literal)


def _digest(text: str) -> str:
    """With a NUL in front, which no literal has."""
    return f"\0{hashlib.sha256(text.encode()).hexdigest()}"
