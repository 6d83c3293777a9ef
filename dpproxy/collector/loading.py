"""Sealed segments into a store: each batch once, in an order that says nothing, and then the segment is gone.

Knows: segments, names of batches, rows. Must not know: HTTP, how a store is written. A device that hears no reply sends its
batch again, so a batch may stand in two segments: the names of 48 hours are kept, each with the segment that had it first, and
forgotten then. They are kept before the store is written, so that a load which is tried again drops the same batches as the
first time.

A store takes a segment and its number in one transaction, and a number that it has not twice. Whatever stops in between, the
segment is loaded again and counted once. Rows are permuted by the system's randomness, over the whole segment.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from dpproxy.collect.questions import DAY
from dpproxy.collector.journal import Batch, Segment, State
from dpproxy.collector.tables import ReportTable
from dpproxy.errors import OperatorError
from dpproxy.private_files import private_file, settle

KEPT_SECONDS: Final = 48 * 3600
"""For which the names of batches are kept. Devices send none again after 40 hours."""
CLAIM: Final = "claim"
COUNT: Final = "n"
"""The columns of a table for the number of the claim, and of cells for the reports that are alike."""

Row = tuple[Any, ...]


class StoreError(OperatorError):
    """A store that is gone, or does not take rows; segments wait."""


@dataclass(frozen=True)
class Rows:
    """Rows of one table, as JSON has them. `columns`: their names; of cells the last one is the count."""

    table: ReportTable
    columns: tuple[str, ...]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Load:
    """What one segment brings. `reports`: how many it counts."""

    segment: int
    rows: Sequence[Rows]
    reports: int


class Store(Protocol):
    """Where reports are kept for good."""

    async def columns(self, tables: Iterable[ReportTable]) -> Mapping[str, frozenset[str]]:
        """Return the columns of each table. Raises StoreError where there is no such table."""
        ...

    def load(self, collector: str, loads: Iterable[Load]) -> AsyncIterator[int]:
        """Take segments of a collector, each with its number in one transaction, unless the number is there. Yields the number
        of each that is durable. Raises StoreError."""
        ...


class Names:
    """The names of batches of the last 48 hours, each with the segment that had it first."""

    def __init__(self, path: Path) -> None:
        """Raises StoreError."""
        private_file(path)
        with _named(path):
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(
                "CREATE TABLE IF NOT EXISTS names (name BLOB PRIMARY KEY, segment INTEGER NOT NULL) WITHOUT ROWID;"
                "CREATE INDEX IF NOT EXISTS of_segments ON names (segment);"
                "CREATE TABLE IF NOT EXISTS segments (segment INTEGER PRIMARY KEY, seen INTEGER NOT NULL);"
            )
        self._path = path

    def first(self, segment: int, names: Iterable[str], now: float) -> set[str]:
        """Keep the names of a segment; return those that no other segment had before. Durable. Raises StoreError."""
        with _named(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.execute("INSERT OR IGNORE INTO segments VALUES (?, ?)", (segment, int(now)))
                self._db.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", ((bytes.fromhex(n), segment) for n in names))
                kept = {name.hex() for (name,) in self._db.execute("SELECT name FROM names WHERE segment = ?", (segment,))}
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        return kept

    def forget(self, now: float) -> None:
        """Delete the names of segments that are older than 48 hours. Raises StoreError."""
        with _named(self._path):
            old = "SELECT segment FROM segments WHERE seen < ?"
            self._db.execute(f"DELETE FROM names WHERE segment IN ({old})", (int(now) - KEPT_SECONDS,))
            self._db.execute("DELETE FROM segments WHERE seen < ?", (int(now) - KEPT_SECONDS,))

    def close(self) -> None:
        self._db.close()


async def load_sealed(state: State, tables: Mapping[str, ReportTable], store: Store, now: float) -> int:
    """Bring all sealed segments into a store and delete them; return how many. It takes seconds of a processor: not on a loop
    that others wait for. The caller holds the lock of loading. Raises StoreError, JournalDamaged, OSError."""
    segments = {segment.number: segment for segment in state.sealed()}
    names = Names(state.folder / "names.sqlite")
    done = 0
    try:
        names.forget(now)
        if segments:
            columns = await store.columns(tables.values())
            loads = (_load(segment, tables, columns, names, now) for segment in segments.values())
            async for number in store.load(state.name, loads):
                state.note_last(number)
                segments[number].path.unlink()
                done += 1
            settle(state.folder)
    finally:
        names.close()
    return done


def _load(
    segment: Segment, tables: Mapping[str, ReportTable], columns: Mapping[str, frozenset[str]], names: Names, now: float
) -> Load:
    batches = {batch.name: batch for batch in reversed(list(segment.batches()))}  # of two of one name the first
    first = names.first(segment.number, batches, now)
    by_table: dict[str, list[Batch]] = defaultdict(list)
    for name in first & batches.keys():
        by_table[batches[name].table].append(batches[name])
    gone = by_table.keys() - tables.keys()
    if gone:
        raise StoreError(
            f"the policy has no table {', '.join(sorted(gone))} any more, and segment {segment.number} has reports of it"
        )
    rows = [rows_of(tables[name], of_table, segment.day, columns[name]) for name, of_table in sorted(by_table.items())]
    return Load(segment.number, rows, sum(len(batch.reports) for of_table in by_table.values() for batch in of_table))


def rows_of(table: ReportTable, batches: Sequence[Batch], day: str, present: frozenset[str]) -> Rows:
    """Return what is stored of batches: a row a report or, of cells, a row for all that are alike. Raises StoreError."""
    columns = table.columns + ((CLAIM,) if CLAIM in present else ())
    if CLAIM not in present and len(table.questions) > 1:
        raise StoreError(f"{table.name} needs a column `{CLAIM}`: its reports are by {len(table.questions)} claims")
    dated: Row = (day,) if DAY in table.columns else ()
    numbered = CLAIM in present
    rows: Iterator[Row] = (
        (*dated, *report, *((batch.claim,) if numbered else ())) for batch in batches for report in batch.reports
    )
    if not table.reports.cells:
        return Rows(table, columns, permuted(list(rows)))
    spaces = [column.claim.space if column.claim.space.form == "bits" else None for column in table.newest.randomised]
    first = len(dated) + len(table.newest.plain)
    cells: Counter[Row] = Counter()
    for row in rows:
        parts = [space.cells(value) if space else (value,) for space, value in zip(spaces, row[first:], strict=False)]
        rest = row[first + len(spaces) :]
        cells.update((*row[:first], *cell, *rest) for cell in itertools.product(*parts))
    return Rows(table, (*columns, COUNT), permuted([(*cell, number) for cell, number in cells.items()]))


def permuted(rows: Sequence[Row]) -> list[Row]:
    """Return rows in an order that is drawn by the operating system."""
    keys = os.urandom(16 * len(rows))
    order = sorted(range(len(rows)), key=lambda i: keys[16 * i : 16 * i + 16])
    return [rows[i] for i in order]


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the names of batches in {path} cannot be kept: {error}") from error
