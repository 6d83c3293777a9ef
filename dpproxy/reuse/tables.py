"""What stored answers need of the place they are kept in.

Knows: rows, work that is done whole. Must not know: what the rows mean, keys. `file_tables` is a file of one machine's proxies,
`server_tables` is beside a ledger in PostgreSQL, for the proxies of many; `store` is the one user of either. Both have the same
tables, and take the same SQL, with `?` for a value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

Values = Sequence[object]

FORMAT = 4
"""Of the tables. 3 did not seal who has seen what; 2 did not say what was dropped, so no other role is shown what is in it."""


class TablesError(Exception):
    """Something could not be read or written: it counts as not there, which costs budget."""


class TablesAway(TablesError):
    """What others share cannot be reached. Whoever went on without it would pay for what is paid for."""


class Claiming(Protocol):
    """Who is making which measurement, among those who share the tables."""

    async def claim(self, names: Collection[str]) -> bool:
        """Take all names, or none: False when one is somebody else's. Raises TablesAway."""
        ...

    def drop(self, names: Collection[str]) -> None: ...


class AnswerTables(Protocol):
    """Keeps the rows of stored answers; for one thread at a time."""

    @property
    def claims(self) -> Claiming: ...

    def open(self, check: Callable[[int], None]) -> None:
        """Make what is missing. `check` is given the format that is there, and brings the rows to FORMAT, or raises SealError.
        Raises OperatorError."""
        ...

    def now(self) -> dt.datetime:
        """Return the time by which answers age: the same for all who share the tables."""
        ...

    def rows(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Run one statement within `reading` or `writing`, and return what it returns."""
        ...

    def reading(self, work: Callable[[], T]) -> T:
        """Raises TablesError."""
        ...

    def writing(self, work: Callable[[], T]) -> T:
        """Do all of it or nothing, and nobody else's meanwhile. `work` may be done twice, where it is not known whether it was
        done. Raises TablesError."""
        ...

    def close(self) -> None: ...
