"""All neighbours of a shop in one query: a generated statement beside each of them, planned once and answered together.

A small shop's query takes longer to plan than to run, and it is asked of a dozen neighbours that differ in one person each. So the
tables of all neighbours stand one below the other in the schema `beside_all`, with the neighbour's number in a column, and the
statement runs `LATERAL` to a list of the numbers: each table of its text becomes the rows of the neighbour at hand. What an engine
cannot answer so is asked of each neighbour alone, and so is one neighbour now and then, to see that both roads agree.

Knows: texts, the names of tables in them. Must not know: plans, engines, what is compared with what.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

Neighbour = int | str
Row = tuple[Any, ...]
SCHEMA = "beside_all"
NUMBER = "beside"
"""The column that says whose row it is."""
TABLE = re.compile(r'((?:"\w+"\.)?)"main"\.("?)(\w+)\2')
"""A table of the shop, or one of another database of the same connection."""
ORDER = re.compile(r" ORDER BY ((?:\w+\.)?\w+(?:, (?:\w+\.)?\w+)*)$")
PUNCTUATION = '".'
KEPT = 4
"""Statements whose answers are kept: the judge goes to and fro between the first round, the second one, and plain ones."""
ALONE = 16
"""Of one statement in so many one neighbour is asked alone, too."""


class Disagreement(AssertionError):
    """A neighbour answers otherwise when it is asked alone: not for a judge of plans to take for a leak, or for none."""


class AllNeighbours:
    """Answers of all neighbours to a text. `columns`: the columns of a table; `create`: runs DDL; `ask`: runs a query, and raises
    one of `failures`."""

    def __init__(
        self,
        names: Sequence[Neighbour],
        columns: Callable[[str, str], Sequence[str]],
        create: Callable[[str], object],
        ask: Callable[[str], pa.Table],
        failures: tuple[type[Exception], ...],
    ) -> None:
        self._names, self._columns, self._create, self._ask, self._failures = tuple(names), columns, create, ask, failures
        self._tables: dict[tuple[str, str], tuple[str, str]] = {}
        self._kept: OrderedDict[str, dict[Neighbour, pa.Table]] = OrderedDict()
        self.asked: Counter[str] = Counter()

    def forget(self) -> None:
        """Rows have changed."""
        self._kept.clear()
        for text, _ in self._tables.values():
            self._create(f"DROP TABLE {text}")
        self._tables.clear()

    def answer(self, text: str, name: Neighbour, alone: Callable[[str, Neighbour], pa.Table]) -> pa.Table:
        """What a neighbour says to a text; `alone` asks one of them. Raises what the engine does, and Disagreement."""
        if text not in self._kept:
            self._kept[text] = self._together(text)
            if self._kept[text]:
                self._compare(text, alone)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        answers = self._kept[text]
        if name not in answers:
            answers[name] = alone(text, name)
        return answers[name]

    def _compare(self, text: str, alone: Callable[[str, Neighbour], pa.Table]) -> None:
        chosen = zlib.crc32(text.encode())
        if chosen % ALONE:
            return
        name = self._names[chosen // ALONE % len(self._names)]
        together, own = self._kept[text][name], alone(text, name)
        both = [cells(table) if ORDER.search(text) else sorted(cells(table), key=repr) for table in (together, own)]
        if both[0] != both[1]:
            raise Disagreement(f"beside {name} all neighbours at once say {both[0][:5]}, it alone {both[1][:5]}: {text}")
        self.asked["compared"] += 1

    def _together(self, text: str) -> dict[Neighbour, pa.Table]:
        """None of the answers where the engine has none to the text in this form: then each is asked alone."""
        try:
            answers = self._split(self._ask(self.lateral(text)))
        except self._failures:
            self.asked["alone"] += 1
            return {}
        self.asked["together"] += 1
        return answers

    def lateral(self, text: str) -> str:
        """The text, asked beside each neighbour; in its own order."""
        inner = TABLE.sub(lambda found: self._rows(found[1], found[3]), text)
        if '"main"' in inner:
            raise AssertionError(f"a table that all neighbours would share: {inner}")
        order = ORDER.search(text)
        own = [f"q.{key.rpartition('.')[2]}" for key in order[1].split(", ")] if order is not None else []
        numbers = ", ".join(f"({i})" for i in range(len(self._names)))
        listed = f"(VALUES {numbers}) AS everyone({NUMBER})"
        return f"SELECT q.*, everyone.{NUMBER} FROM {listed}, LATERAL ({inner}) AS q ORDER BY {', '.join([f'everyone.{NUMBER}', *own])}"

    def _rows(self, database: str, table: str) -> str:
        """The rows of the neighbour at hand, in place of a table's name."""
        if (database, table) not in self._tables:
            self._tables[database, table] = self._stacked(database, table)
        text, names = self._tables[database, table]
        return f"(SELECT {names} FROM {text} AS all_rows WHERE all_rows.{NUMBER} = everyone.{NUMBER})"

    def _stacked(self, database: str, table: str) -> tuple[str, str]:
        """The table of all neighbours' rows, which is created; and its columns."""
        names = ", ".join(f'"{name}"' for name in self._columns(database, table))
        places = ((i, f'{database}"beside_{name}"."{table}"') for i, name in enumerate(self._names))
        text = f'{SCHEMA}."{database.strip(PUNCTUATION)}{table}"'
        rows = " UNION ALL ".join(f"SELECT {names}, {i} AS {NUMBER} FROM {place}" for i, place in places)
        self._create(f"CREATE TABLE {text} AS {rows}")
        return text, names

    def _split(self, table: pa.Table) -> dict[Neighbour, pa.Table]:
        """Each neighbour's rows, which are in the order of their numbers."""
        last = table.num_columns - 1
        counts = Counter(table.column(last).to_pylist())
        rest, answers, at = table.remove_column(last), {}, 0
        for i, name in enumerate(self._names):
            answers[name] = rest.slice(at, counts[i])
            at += counts[i]
        return answers


def cells(table: pa.Table) -> list[Row]:
    """Rows that compare by value: NaN equals NaN, -0 is not 0, times as numbers (no Python time holds all of DuckDB's)."""
    columns = []
    for column in table.columns:
        if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
            column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        columns.append([_plain(v) for v in column.to_pylist()])
    return list(zip(*columns, strict=True)) if columns else []


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else "-0" if value == 0 and math.copysign(1, value) < 0 else value
