"""What the role the proxy reads with must be allowed in PostgreSQL: the columns the policy uses, and nothing else.

Knows: policies, GRANT. Must not know: connections, catalogs. A private table's columns that are hidden or not listed are left
out, so that the server itself refuses them, whatever a bug or a stolen password may ask for. Public tables are read
whole unless they hide columns: then the others must be named, which only their owner can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qs, unquote, urlsplit

from dpproxy.policy.catalog import Catalog
from dpproxy.policy.data_claims import QUOTE, column_source, table_source
from dpproxy.policy.model import ColumnRole, Policy, PostgresBackend, TableKind, TablePolicy
from dpproxy.policy.names import quote_name
from dpproxy.policy.report_columns import read_beside
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
    if not table.kind.shown:
        held = {c.name: c.randomised.stored for c in table.columns.values() if c.randomised is not None}
        listed = ", ".join(quote_name(name) for name in sorted({held.get(c, c) for c in used - table.joined.keys()}))
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
    if policy.unit_table is not None:
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
    for name, table in policy.tables.items():
        found[name] |= {part.column for parts in table.joined.values() for part in parts}
        found[name].update(read_beside(table))
    return {name: frozenset(columns) for name, columns in found.items()}


def _address(dsn: str) -> tuple[str, str]:
    """(role, database) of a connection URI."""
    parts = urlsplit(dsn)
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    role = options.get("user") or unquote(parts.netloc.rpartition("@")[0].partition(":")[0]) or "reader"
    return role, options.get("dbname") or options.get("database") or unquote(parts.path.strip("/")) or role


# Generated SQL that names what a policy uses and reads no row: what an engine cannot read, it says at start.
#
# Knows: quoting, which columns a policy uses. Must not know: how SQL is run. A catalog shows a view's columns also when what
# the view stands on is out of reach: a file, a table the role may not read, something that was dropped. Without this each
# question about it would fail after its charge.


def probes(policy: Policy, catalog: Catalog, dialect: str) -> dict[TableName, str]:
    """Return a SELECT of one integer for each table. The policy must fit the catalog (run `check.check` first)."""
    quote, used = QUOTE[dialect], used_columns(policy)
    found: dict[TableName, str] = {}
    for table in policy.tables.values():
        hidden = {c.name for c in table.columns.values() if c.role == ColumnRole.HIDDEN}
        shown = (
            [c.name for c in catalog.tables[table.name].columns if c.name not in hidden] if table.kind.shown else used[table.name]
        )
        columns = ", ".join(column_source(catalog, table.name, name, quote) for name in sorted(shown))
        inner = f"SELECT {columns} FROM {table_source(catalog, table.name, quote)} WHERE false"
        found[table.name] = f"SELECT COUNT(*) AS n FROM ({inner}) AS t"
    return found


# Generated SQL that asks PostgreSQL's catalog how a table comes by its rows: by a view, from children, from elsewhere.
#
# Knows: quoting, pg_catalog. Must not know: how SQL is run. A policy calls a table public, or says whose rows it holds; what
# stands below the name decides whether that is true. A public view that reads a private table, a public parent of private
# children and a public child of a private parent show private rows to everybody: that stops the start. Whose rows a foreign
# table holds, and which of its rows a table with row-level security shows, nobody can see from here: these are warnings. What a
# function reads is not seen either.


def exposures(policy: Policy, catalog: Catalog, dialect: str) -> tuple[tuple[TableName, str], ...]:
    """Return for each public table a SELECT of one integer: 0, or the number (from 1) of the first of `private_tables` whose rows
    it shows. Nothing for engines of which this is not known. The policy must fit the catalog (run `check.check` first)."""
    private = [_oid(catalog, name) for name in private_tables(policy)]
    if dialect != "postgres" or not private:
        return ()
    return tuple((t.name, _exposed(_oid(catalog, t.name), private)) for t in policy.of_kind(TableKind.PUBLIC))


def private_tables(policy: Policy) -> tuple[TableName, ...]:
    """Return the tables whose rows are not shown, in the order in which `exposures` numbers them."""
    return tuple(t.name for t in policy.tables.values() if not t.kind.shown)


def unseen(policy: Policy, catalog: Catalog, dialect: str) -> tuple[tuple[TableName, str], ...]:
    """Return for each table a SELECT of one integer: 1 for public rows from another server, 2 for rows that row-level security
    chooses, 0 for others."""
    if dialect != "postgres":
        return ()
    return tuple((t.name, _unseen(_oid(catalog, t.name), t.kind.shown)) for t in policy.tables.values())


def _oid(catalog: Catalog, name: TableName) -> str:
    source = ".".join(quote_name(part) for part in catalog.tables[name].source)
    return "'" + source.replace("'", "''") + "'::regclass::oid"


_BELOW = """
below(oid) AS (
    SELECT {table}
  UNION
    SELECT s.oid FROM below, LATERAL (
        SELECT d.refobjid AS oid FROM pg_rewrite w JOIN pg_depend d ON d.objid = w.oid AND d.classid = 'pg_rewrite'::regclass
        WHERE w.ev_class = below.oid AND d.refclassid = 'pg_class'::regclass
      UNION ALL
        SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = below.oid) AS s)"""
"""What a table's rows are read from: views' sources, children and partitions, and theirs."""


def _exposed(table: str, private: Sequence[str]) -> str:
    numbered = ", ".join(f"({n}, {oid})" for n, oid in enumerate(private, 1))
    return f"""WITH RECURSIVE {_BELOW.format(table=table)},
above(oid) AS (
    SELECT oid FROM below
  UNION
    SELECT i.inhparent FROM above JOIN pg_inherits i ON i.inhrelid = above.oid)
SELECT coalesce(min(p.n), 0) FROM (VALUES {numbered}) AS p(n, oid) JOIN above USING (oid)"""


def _unseen(table: str, public: bool) -> str:
    foreign = "WHEN bool_or(c.relkind = 'f') THEN 1 " if public else ""
    return f"""WITH RECURSIVE {_BELOW.format(table=table)}
SELECT CASE {foreign}WHEN bool_or(c.relrowsecurity) THEN 2 ELSE 0 END FROM below JOIN pg_class c USING (oid)"""
