"""Generated SQL that asks PostgreSQL's catalog how a table comes by its rows: by a view, from children, from elsewhere.

Knows: quoting, pg_catalog. Must not know: how SQL is run. A policy calls a table public, or says whose rows it holds; what stands
below the name decides whether that is true. A public view that reads a private table, a public parent of private children and a
public child of a private parent show private rows to everybody: that stops the start. Whose rows a foreign table holds, and which
of its rows a table with row-level security shows, nobody can see from here: these are warnings. What a function reads is not
seen either.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.policy.names import quote_name
from dpproxy.table_terms import TableName


def exposures(policy: Policy, catalog: Catalog, dialect: str) -> tuple[tuple[TableName, str], ...]:
    """Return for each public table a SELECT of one integer: 0, or the number (from 1) of the first of `private_tables` whose rows
    it shows. Nothing for engines of which this is not known. The policy must fit the catalog (run `check.check` first)."""
    private = [_oid(catalog, name) for name in private_tables(policy)]
    if dialect != "postgres" or not private:
        return ()
    return tuple((t.name, _exposed(_oid(catalog, t.name), private)) for t in policy.tables.values() if t.public)


def private_tables(policy: Policy) -> tuple[TableName, ...]:
    """Return the private tables, in the order in which `exposures` numbers them."""
    return tuple(t.name for t in policy.tables.values() if not t.public)


def unseen(policy: Policy, catalog: Catalog, dialect: str) -> tuple[tuple[TableName, str], ...]:
    """Return for each table a SELECT of one integer: 1 for public rows from another server, 2 for rows that row-level security
    chooses, 0 for others."""
    if dialect != "postgres":
        return ()
    return tuple((t.name, _unseen(_oid(catalog, t.name), t.public)) for t in policy.tables.values())


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
