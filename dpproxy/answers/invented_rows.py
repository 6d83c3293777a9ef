"""The invented rows that previews show (`plan.previews`): made once for a dataset, the same for all who ask.

Knows: a policy, a catalog, what invents rows of them. Must not know: engines, stored data, who asks. No rows are read for it,
not even of public tables: what is declared, and types, are all that goes in.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from dpproxy.facade.sample import Size, sample
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.table_terms import TableName

SIZE = Size(units=100, rows=3.0)
"""More rows than people look at, and few enough to be sent as constants in a statement's text (cursors, COPY)."""
TYPES = frozenset(
    {
        *("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar"),
        *("date", "time", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb"),
    }
)
"""Types whose invented values PostgreSQL reads; columns of others are NULL."""

Rows = Mapping[TableName, Mapping[str, list[str | None]]]
"""Columns of each private table, in text form."""


class InventedRows:
    """Remembers what was invented for one dataset."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._lock = threading.Lock()

    def rows(self, policy: Policy, catalog: Catalog) -> Rows:
        """Return the rows of all private tables of the dataset, which these describe."""
        with self._lock:
            if self._rows is None:
                self._rows = _invented(policy, catalog)
            return self._rows


def _invented(policy: Policy, catalog: Catalog) -> Rows:
    found: dict[TableName, dict[str, list[str | None]]] = {}
    for shape, rows in sample(policy, catalog, {}, SIZE):
        known = {column.name for column in shape.columns if column.type in TYPES}
        nothing: list[str | None] = [None] * rows.num_rows
        found[shape.name] = {name: rows[name].to_pylist() if name in known else nothing for name in rows.column_names}
    return found
