"""How large an index of groups DuckDB may make: of any query by unit alone, and of one that asks for it (`sql.template.INDEXED`).

Knows: the mark, DuckDB's catalog and the setting. Must not know: what is grouped. DuckDB indexes groups by whole numbers where
their ranges together have no more bits than `perfect_ht_threshold`, and hashes them else. An index has all its cells, filled or
not, and nobody counts its memory: so it has no more cells than the largest table that the query names has rows, and than there is
memory for.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa

from dpproxy.backends.base import BackendError
from dpproxy.backends.duckdb_catalog import fetched
from dpproxy.policy.names import quote_name
from dpproxy.sql.template import INDEXED, KEPT

_MARK: Final = re.compile(re.escape(INDEXED).replace(r"\{\}", r"(\d+)"))
USUAL_BITS, MOST_BITS = 12, 24
"""DuckDB's own setting; and the most that is ever set."""
UNIT, UNIT_BITS = 512, 20
"""Bytes of the sums of a unit, where it alone is grouped by: twenty sums, or forty counts; and a million units, where there is
memory for them."""
BESIDE = 32
"""Bytes of the cells of whatever else a marked query groups by unit alone: a norm."""


def bits(connection: duckdb.DuckDBPyConnection, cell: int, places: int) -> int:
    """Return how many bits there is memory for: each thread of each place has an index, outside of what `memory_limit` counts;
    all of them together may take half as much again. `cell`: bytes."""
    ((limit, threads),) = fetched(
        connection, "SELECT parse_formatted_bytes(current_setting('memory_limit')), current_setting('threads')"
    )
    return (int(limit) // (2 * places * int(threads) * cell)).bit_length() - 1


def unit_bits(root: duckdb.DuckDBPyConnection, places: int) -> int:
    """Return how many bits a unit's number may have to index a table of sums, where DuckDB would hash it else, at four times the
    cost or more."""
    return max(USUAL_BITS, min(UNIT_BITS, bits(root, UNIT, places)))


@contextmanager
def indexing(connection: duckdb.DuckDBPyConnection, query: str, places: int) -> Iterator[None]:
    """Let the query have the index that its mark asks for, if any, and no later one: a connection whose query failed is closed.
    Raises duckdb.Error."""
    mark = _MARK.search(query)
    if mark is None:
        yield
        return
    ((usual,),) = fetched(connection, "SELECT current_setting('perfect_ht_threshold')")
    rows = largest(sizes(connection), query)
    room = min(MOST_BITS, bits(connection, max(BESIDE, int(mark.group(1))), places), rows.bit_length() - 1)
    connection.execute(f"SET SESSION perfect_ht_threshold = {max(int(usual), room)}")
    yield
    connection.execute(f"SET SESSION perfect_ht_threshold = {int(usual)}")


def sizes(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, int]]:
    """Return the quoted name of each table of the data, and about how many rows it has. Raises duckdb.Error."""
    tables = fetched(
        connection, "SELECT table_name, estimated_size FROM duckdb_tables() WHERE database_name = current_database()"
    )
    return [(quote_name(name), int(rows)) for name, rows in tables]


def largest(tables: Sequence[tuple[str, int]], query: str) -> int:
    """Return how many rows the largest of these tables has that the query names, 0 where it names none."""
    return max((rows for name, rows in tables if name in query), default=0)


# What two queries of a measurement begin with, computed once: on the connection of one snapshot, in a table of its own.
#
# Knows: where a query says so (`sql.template.KEPT`), DuckDB's temporary tables. Must not know: what the stages are. The table
# is that connection's alone, in memory, or on the disk where memory is short, as whatever a query sorts; it ends with the
# connection. The data cannot change meanwhile: the file is read-only and is held against its state before and after each query.


_KEPT_MARK: Final = re.compile(re.escape(KEPT).replace(r"\{\}", r"(\w+)", 1).replace(r"\{\}", r"(\d)"))


def said(query: str) -> bool:
    """Tell whether a query says what another one begins with as well."""
    return _KEPT_MARK.search(query) is not None


class KeptStages:
    """The tables of one connection, by the text that they were made of."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._tables: dict[str, str] = {}

    def read(self, query: str) -> str:
        """Return the query, made to read the tables, which are made where they are not there: not in a read-only transaction.
        Raises duckdb.Error."""
        marks = list(_KEPT_MARK.finditer(query))
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


# The rows of one generated query on a connection to DuckDB.
#
# Knows: texts of queries, DuckDB's Python interface and what it holds up. Must not know: where connections come from, what a
# query measures. That a text is one SELECT is looked at here, though nothing else is generated: it is the wall behind the
# planner's.


PARSED_AT_ONCE: Final = 16_000
"""Characters of a query that DuckDB parses for Python in some milliseconds."""
_QUERY = re.compile(r"\s*(SELECT|WITH)\b")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|;""")

warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)  # see `as_table`


def as_table(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """Return the rows of a query of ours. Raises duckdb.Error, BackendError.

    It is run as a statement, not as a relation (`connection.sql`): a relation is bound twice, which costs several milliseconds of
    a generated query, as much as small tables do. The copy of the rows that DuckDB warns of costs 10 nanoseconds a row.

    Rows are in the query's order. The copy is made by all threads, a part of 2,048 rows each: in DuckDB 2.0.0 they come in any
    order where `preserve_insertion_order` is off, whatever the query orders by.
    """
    connection.execute("SET SESSION preserve_insertion_order = true")
    table: pa.Table = connection.execute(_one_query(connection, query)).to_arrow_table()
    connection.execute("SET SESSION preserve_insertion_order = false")  # a connection whose query failed is closed
    return table


def _one_query(connection: duckdb.DuckDBPyConnection, text: str) -> Any:
    """Return what to execute of a text that is one SELECT, parsed or not. Raises duckdb.Error, BackendError for any other.

    `extract_statements` keeps the interpreter's lock while it parses, three microseconds a byte of a long list, and nothing
    else in this process goes on meanwhile. So a long text is judged by its first word and by what stands outside of its quotes.
    """
    if len(text) > PARSED_AT_ONCE:
        if _QUERY.match(text) and not any(found[0] == ";" for found in _QUOTED.finditer(text)):
            return text
    else:
        statements = connection.extract_statements(text)
        if [statement.type for statement in statements] == [duckdb.StatementType.SELECT]:
            return statements[0]
    raise BackendError("a generated statement is not a query")
