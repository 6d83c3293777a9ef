"""What two queries of a measurement begin with, computed once: on the connection of one snapshot, in a table of its own.

Knows: where a query says so (`sql.template.KEPT`), DuckDB's temporary tables. Must not know: what the stages are. The table is
that connection's alone, in memory, or on the disk where memory is short, as whatever a query sorts; it ends with the connection.
The data cannot change meanwhile: the file is read-only and is held against its state before and after each query.
"""

from __future__ import annotations

import re
from typing import Final

import duckdb

from dpproxy.sql.template import KEPT

_MARK: Final = re.compile(re.escape(KEPT).replace(r"\{\}", r"(\w+)", 1).replace(r"\{\}", r"(\d)"))


def said(query: str) -> bool:
    """Tell whether a query says what another one begins with as well."""
    return _MARK.search(query) is not None


class KeptStages:
    """The tables of one connection, by the text that they were made of."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._tables: dict[str, str] = {}

    def read(self, query: str) -> str:
        """Return the query, made to read the tables, which are made where they are not there: not in a read-only transaction.
        Raises duckdb.Error."""
        marks = list(_MARK.finditer(query))
        if not marks:
            return query
        marks = marks[-int(marks[-1].group(2)) :]
        head, begin, _ = query[: marks[0].start()].partition("WITH ")
        end, read = len(head) + len(begin), list[str]()
        for mark in marks:
            stages = query[end : mark.start()].removeprefix(", ")
            kept = self._table(query[len(head) : mark.start()], ", ".join([*read, stages]), mark.group(1))
            read.append(f"{mark.group(1)} AS NOT MATERIALIZED (SELECT * FROM {kept})")
            end = mark.end()
        return f"{head}WITH {', '.join(read)}{query[end:]}"

    def _table(self, text: str, stages: str, name: str) -> str:
        """Return the table of what a text is up to a mark; `stages`: what is left of that text to be computed."""
        if text not in self._tables:
            kept = f"temp.main.kept{len(self._tables)}"
            self.connection.execute(f"CREATE TEMP TABLE {kept} AS WITH {stages} SELECT * FROM {name}")
            self._tables[text] = kept
        return self._tables[text]
