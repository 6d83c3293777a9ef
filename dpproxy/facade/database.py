"""A database of the facade, filled: all that one role of one dataset sees, from nothing.

Knows: the DDL, how public tables are filled, a superuser's connection. Must not know: where the server comes from, who
connects, private rows.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import asyncpg
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.facade import ddl
from dpproxy.policy.catalog import CatalogTable
from dpproxy.table_terms import TableName

# An Arrow table of public rows as PostgreSQL's COPY text format.
#
# Knows: Arrow, the COPY text format. Must not know: where the rows came from or go to. Column by column in Arrow's kernels,
# since a public table may have 200,000 rows; only types without a kernel go value by value.


CHUNK = 10_000  # rows a chunk: a few megabytes of text at a time


def copy_chunks(table: pa.Table) -> Iterator[bytes]:
    """Return the rows in COPY text format, UTF-8, in chunks of whole lines."""
    for batch in table.to_batches(max_chunksize=CHUNK):
        if batch.num_rows == 0:
            continue
        columns = [_escaped(column) for column in batch.columns]
        if not columns:
            yield b"\n" * batch.num_rows
            continue
        lines = pc.binary_join_element_wise(*columns, "\t") if len(columns) > 1 else columns[0]
        yield ("\n".join(lines.to_pylist()) + "\n").encode()


def _escaped(column: pa.Array) -> pa.Array:
    text = column_text(column)
    for plain, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "")):
        text = pc.replace_substring(text, plain, escape)
    return pc.fill_null(text, "\\N")


def column_text(column: pa.Array) -> pa.Array:
    """Return PostgreSQL's text forms of a column, as Arrow strings; NULL stays NULL."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    slow = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_nested,
        pa.types.is_interval,
        pa.types.is_duration,
    )
    if not any(test(column.type) for test in slow):
        try:
            return pc.cast(column, pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            pass
    return pa.array([None if v is None else value_text(v) for v in column.to_pylist()], pa.string())


def value_text(value: object) -> str:
    """Return PostgreSQL's text form of one Python value."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, dt.timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    if isinstance(value, pa.MonthDayNano):
        return f"{value.months} months {value.days} days {value.nanoseconds // 1000} microseconds"
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=str)
    return str(value)


LOG = logging.getLogger(__name__)

PublicRows = Callable[[CatalogTable, Sequence[str], int], Awaitable[pa.Table]]
"""`Backend.public_rows`: at most cap + 1 rows of a public table, columns by catalog name."""


async def fill(connection: Any, shown: ddl.Shown, database: str, public_rows: PublicRows, cap: int) -> frozenset[TableName]:
    """Fill an empty database. Returns the names of public tables with more than `cap` rows, which stay empty and are not
    granted."""
    await connection.execute(ddl.HARDENING)
    await connection.execute("".join(ddl.tables_script(shown)))
    withheld = await _fill_public(connection, shown, public_rows, cap)
    await _hide(connection, shown)
    for statement in ddl.keys_script(shown):
        try:
            await connection.execute(statement)
        except asyncpg.PostgresError as error:  # a key is an ornament: duplicates in public rows, odd types
            LOG.warning("dataset %s: key left out: %s", shown.policy.dataset, type(error).__name__)
    await connection.execute("".join(ddl.grants_script(shown, database, withheld)))
    await connection.execute("ANALYZE")
    return withheld


async def _fill_public(connection: Any, shown: ddl.Shown, public_rows: PublicRows, cap: int) -> frozenset[TableName]:
    withheld: set[TableName] = set()
    for table, shape in (*shown.tables, *shown.behind):
        columns = [c.name for c in ddl.visible_columns(table, shape)]
        if not table.kind.shown or not columns:
            continue
        rows = await public_rows(shape, columns, cap)
        if rows.num_rows > cap:
            withheld.add(table.name)
            note = f"more than {cap} rows: readable only joined in a query over private tables"
            await connection.execute(f"COMMENT ON TABLE {ddl.qualified(table.name)} IS {ddl.literal(note)}")
        else:
            await connection.copy_to_table(
                table.name.name,
                schema_name=table.name.schema,
                columns=columns,
                source=_aiter(copy_chunks(rows.select(columns))),
                format="text",
            )
    return frozenset(withheld)


async def _hide(connection: Any, shown: ddl.Shown) -> None:
    """What the role does not see goes, once views over it are views no more."""
    gone = ddl.hidden(shown)
    if not gone:
        return
    made = [v for v in shown.views if await connection.fetchval(ddl.STANDING_ON, ddl.qualified(v), gone)]
    for view in reversed(made):
        await connection.execute(ddl.as_table(view))
    await connection.execute("".join(ddl.hiding_script(shown)))


async def _aiter(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
