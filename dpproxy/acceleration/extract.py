"""An extract as the data engine: a DuckDB file that was read from a PostgreSQL database, with that database's names and types.

Knows: DuckDB, the catalog that the extract was made by. Must not know: PostgreSQL's connections, how an extract is made or found.
What is measured is what was read; the database is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from dpproxy.acceleration.extract_tables import DIGITS
from dpproxy.backends.base import columns_of
from dpproxy.backends.duckdb import DuckDB
from dpproxy.backends.duckdb_catalog import quoted
from dpproxy.backends.duckdb_rows import as_table
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.model import DuckDBBackend
from dpproxy.policy.names import quote_name
from dpproxy.sql.types import FLOATS, INTEGERS


class Extract(DuckDB):
    """Runs the `Backend` of one extract. Raises BackendError when its file cannot be opened."""

    def __init__(self, path: Path, catalog: Catalog, places: int) -> None:
        super().__init__(DuckDBBackend(str(path)), places)
        self._catalog = catalog

    async def introspect(self) -> Catalog:
        """Return the catalog that it was made by: DuckDB has fewer types."""
        return self._catalog

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        """Return rows as PostgreSQL would write them."""
        items = ", ".join(f"{_text(c)} AS {quote_name(c.name)}" for c in columns_of(table, columns))
        return await self._run(lambda connection: as_table(connection, f"SELECT {items} FROM {quoted(table)} LIMIT {cap + 1}"))


def _text(column: CatalogColumn) -> str:
    name = quote_name(column.source)
    if column.type in (*INTEGERS, *FLOATS, "bool"):
        return name
    text = f"CAST({name} AS VARCHAR)"
    if column.exact.startswith(f"DECIMAL({DIGITS},") and not column.exact.endswith(",0)"):
        return f"regexp_replace({text}, '[.]?0+$', '')"  # of no declared places: zeros at the end are the extract's
    if column.type in ("date", "timestamp", "timestamptz"):
        return rf"regexp_replace({text}, '^(\S+) \(BC\)(.*)$', '\1\2 BC')"
    return text
