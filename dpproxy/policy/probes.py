"""Generated SQL that names what a policy uses and reads no row: what an engine cannot read, it says at start.

Knows: quoting, which columns a policy uses. Must not know: how SQL is run. A catalog shows a view's columns also when what
the view stands on is out of reach: a file, a table the role may not read, something that was dropped. Without this each
question about it would fail after its charge.
"""

from __future__ import annotations

from dpproxy.policy.catalog import Catalog
from dpproxy.policy.data_claims import QUOTE, column_source, table_source
from dpproxy.policy.grants import used_columns
from dpproxy.policy.model import ColumnRole, Policy
from dpproxy.table_terms import TableName


def probes(policy: Policy, catalog: Catalog, dialect: str) -> dict[TableName, str]:
    """Return a SELECT of one integer for each table. The policy must fit the catalog (run `check.check` first)."""
    quote, used = QUOTE[dialect], used_columns(policy)
    found: dict[TableName, str] = {}
    for table in policy.tables.values():
        hidden = {c.name for c in table.columns.values() if c.role == ColumnRole.HIDDEN}
        shown = [c.name for c in catalog.tables[table.name].columns if c.name not in hidden] if table.public else used[table.name]
        columns = ", ".join(column_source(catalog, table.name, name, quote) for name in sorted(shown))
        inner = f"SELECT {columns} FROM {table_source(catalog, table.name, quote)} WHERE false"
        found[table.name] = f"SELECT COUNT(*) AS n FROM ({inner}) AS t"
    return found
