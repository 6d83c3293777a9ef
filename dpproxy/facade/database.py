"""A database of the facade, filled: all that one role of one dataset sees, from nothing.

Knows: the DDL, how public tables are filled, a superuser's connection. Must not know: where the server comes from, who
connects, private rows.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import asyncpg
import pyarrow as pa

from dpproxy.facade import ddl
from dpproxy.facade.copytext import copy_chunks
from dpproxy.policy.catalog import CatalogTable
from dpproxy.table_terms import TableName

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
        if not table.public or not columns:
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
