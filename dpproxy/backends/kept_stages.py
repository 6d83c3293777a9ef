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

_MARK: Final = re.compile(re.escape(KEPT).replace(r"\{\}", r"(\w+)"))


def said(query: str) -> bool:
    """Tell whether a query says what another one begins with as well."""
    return _MARK.search(query) is not None


class KeptStages:
    """The tables of one connection, by the text that they were made of."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._tables: dict[str, str] = {}

    def read(self, query: str) -> str:
        """Return the query, made to read the table, which is made where there is none: not in a read-only transaction. Raises
        duckdb.Error."""
        if not said(query):
            return query
        *_, mark = _MARK.finditer(query)
        head, _, stages = query[: mark.start()].partition("WITH ")
        name = mark.group(1)
        if stages not in self._tables:
            kept = f"temp.main.kept{len(self._tables)}"
            self.connection.execute(f"CREATE TEMP TABLE {kept} AS WITH {stages} SELECT * FROM {name}")
            self._tables[stages] = kept
        return f"{head}WITH {name} AS NOT MATERIALIZED (SELECT * FROM {self._tables[stages]}){query[mark.end() :]}"
