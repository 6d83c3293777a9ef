"""What the role the proxy reads with must be allowed in PostgreSQL: the columns the policy uses, and nothing else.

Knows: policies, GRANT. Must not know: connections, catalogs. A private table's columns that are hidden or not listed are left
out, so that the server itself refuses them, whatever a bug or a stolen password may ask for. Public tables are read
whole unless they hide columns: then the others must be named, which only their owner can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from dpproxy.policy.model import ColumnRole, Policy, PostgresBackend, TablePolicy
from dpproxy.policy.names import quote_name
from dpproxy.table_terms import TableName


def grants(policy: Policy, backend: PostgresBackend) -> str:
    """Return a script for an owner of the tables. The role and the database are those of the backend's address."""
    role, database = (quote_name(part) for part in _address(backend.dsn))
    used = used_columns(policy)
    lines = [
        f"-- what dpproxy reads for dataset {policy.dataset}; run it as the tables' owner or a superuser",
        f"-- CREATE ROLE {role} LOGIN PASSWORD '...';",
        f"ALTER ROLE {role} SET default_transaction_read_only = on;",
        f"GRANT CONNECT ON DATABASE {database} TO {role};",
        *(f"GRANT USAGE ON SCHEMA {quote_name(schema)} TO {role};" for schema in sorted({t.schema for t in policy.tables})),
        *(line for table in policy.tables.values() for line in _table(table, used[table.name], role)),
    ]
    return "".join(f"{line}\n" for line in lines)


def _table(table: TablePolicy, used: frozenset[str], role: str) -> Iterator[str]:
    place = f"{quote_name(table.name.schema)}.{quote_name(table.name.name)}"
    if not table.public:
        listed = ", ".join(quote_name(column) for column in sorted(used))
        yield f"GRANT SELECT ({listed}) ON {place} TO {role};"
        return
    hidden = sorted(c.name for c in table.columns.values() if c.role == ColumnRole.HIDDEN)
    if hidden:
        names = ", ".join(map(quote_name, hidden))
        yield f"-- to withhold {names} from the proxy too, name the other columns: GRANT SELECT (...) ON"
    yield f"GRANT SELECT ON {place} TO {role};"


def used_columns(policy: Policy) -> Mapping[TableName, frozenset[str]]:
    """Return the columns of each table that are shown, computed with, or on the way from a row to its unit."""
    found = {
        name: {c.name for c in table.columns.values() if c.role != ColumnRole.HIDDEN} for name, table in policy.tables.items()
    }
    found.setdefault(policy.unit_table, set()).add(policy.unit_column)
    for name, table in policy.tables.items():
        for column in table.columns.values():
            if column.references is not None:
                found.setdefault(column.references[0], set()).add(column.references[1])
        if table.unit is None:
            continue
        at = name
        for step in table.unit.steps:
            found[at].add(step.column)
            found.setdefault(step.target, set()).add(step.target_column)
            at = step.target
        found.setdefault(at, set()).add(table.unit.column)
    return {name: frozenset(columns) for name, columns in found.items()}


def _address(dsn: str) -> tuple[str, str]:
    """(role, database) of a connection URI."""
    parts = urlsplit(dsn)
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    role = options.get("user") or unquote(parts.netloc.rpartition("@")[0].partition(":")[0]) or "reader"
    return role, options.get("dbname") or options.get("database") or unquote(parts.path.strip("/")) or role
