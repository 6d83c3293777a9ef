"""What a PostgreSQL database looks like to the role the proxy reads with: tables, columns, types, keys, comments.

Knows: pg_catalog (versions 14 to 18). Must not know: policies, statistics. What the role may not read does not exist. Partitions
are seen through their parent only; keys are those an index enforces over all rows a query of the table reads, so
neither those of a parent in old-style inheritance nor partial, deferrable or invalid ones count. Of NOT NULL likewise: not of
views and foreign tables, which say so and keep nothing, of parents and of what is not validated; of domains PostgreSQL itself
warns that their columns may be NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import asyncpg

from dpproxy.backends.base import COUNTED, BackendError, columns_of
from dpproxy.policy.catalog import SPELLINGS, Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.names import quote_name
from dpproxy.table_terms import Enumeration, TableName

COMPUTABLE = {
    **{t: t for t in ("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar")},
    **{t: t for t in ("date", "time", "timestamp", "timestamptz", "interval", "uuid")},
    "name": "text", "oid": "int8",
}  # fmt: skip
"""Types the planner computes with, by pg_type's name."""

SHOWN = frozenset({"json", "jsonb", "bytea", "inet", "cidr", "macaddr", "timetz", "bit", "varbit", "xml"})
"""Types the facade has as well, so that public tables keep them; below an aggregate they cannot be used."""

RANGED = frozenset({"int2", "int4", "int8", "numeric", "float4", "float8", "date", "timestamp", "timestamptz"})
_INFINITE = "('NaN', 'Infinity', '-Infinity')"

_ENCODING = "SELECT current_setting('server_encoding')"

_COLUMNS = """
WITH RECURSIVE base(oid, base) AS (
    SELECT oid, oid FROM pg_type WHERE typtype <> 'd'
  UNION ALL
    SELECT d.oid, b.base FROM pg_type d JOIN base b ON d.typbasetype = b.oid WHERE d.typtype = 'd')
SELECT n.nspname, c.relname, a.attname, t.typname, tn.nspname, t.typtype::text,
       (SELECT e.typname FROM pg_type e JOIN pg_namespace en ON en.oid = e.typnamespace
        WHERE e.oid = t.typelem AND t.typcategory = 'A' AND en.nspname = 'pg_catalog'), t.typcategory = 'A',
       a.attnotnull AND c.relkind IN ('r', 'p')
         AND NOT EXISTS (SELECT FROM pg_constraint k
                         WHERE k.conrelid = c.oid AND k.contype = 'n' AND NOT k.convalidated AND a.attnum = ANY (k.conkey))
         AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid))
         AND NOT EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid WHERE l.relkind = 'f'),
       col_description(c.oid, a.attnum), obj_description(c.oid, 'pg_class'), c.oid::int8, a.attnum::int4,
       coalesce((SELECT collisdeterministic FROM pg_collation WHERE oid = a.attcollation), true),
       a.attcollation NOT IN (0, (SELECT oid FROM pg_collation WHERE collname = 'default' AND collprovider = 'd')),
       format_type(a.atttypid, NULL)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN base ON base.oid = a.atttypid
JOIN pg_type t ON t.oid = base.base
JOIN pg_namespace tn ON tn.oid = t.typnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT')
ORDER BY n.nspname, c.relname, a.attnum
"""

_WITHHELD = """
SELECT n.nspname, c.relname, array_agg(a.attname::text)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT'))
GROUP BY n.nspname, c.relname
"""

_LABELS = """
SELECT n.nspname, t.typname, array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_enum e ON e.enumtypid = t.oid GROUP BY 1, 2
"""

_KEYS = """
SELECT i.indrelid::int8, i.indisprimary, (string_to_array(i.indkey::text, ' ')::int4[])[1:i.indnkeyatts]
FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid
WHERE i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid))
ORDER BY i.indrelid, NOT i.indisprimary, i.indexrelid
"""

_FOREIGN = """
SELECT conrelid::int8, conkey::int4[], confrelid::int8, confkey::int4[], convalidated
FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 ORDER BY conrelid, conname
"""

_READ = """
SELECT DISTINCT r.ev_class::int8, n.nspname, c.relname
FROM pg_rewrite r
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
JOIN pg_class c ON c.oid = COALESCE(pg_partition_root(d.refobjid), d.refobjid)
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.rulename = '_RETURN' AND d.refobjid <> r.ev_class
ORDER BY 1, 2, 3
"""
"""What the queries of views read; of a partition, the table that it is a part of."""

_NUMERICS = """
SELECT n.nspname, c.relname, a.attname, regexp_match(
    format_type('numeric'::regtype, CASE WHEN a.atttypmod >= 0 THEN a.atttypmod ELSE t.typtypmod END),
    '^numeric[(]([0-9]+),([0-9]+)[)]$')::int4[]
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attnum > 0 AND NOT a.attisdropped AND 'numeric'::regtype IN (t.oid, t.typbasetype)
  AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
"""Of columns and of domains of the type itself. A scale below 0 is of no use to who asks."""


def source(table: CatalogTable) -> str:
    return ".".join(quote_name(part) for part in table.source)


Labels = dict[tuple[str, str], tuple[str, ...]]


def _type(name: str, schema: str, kind: str, deterministic: bool, labels: Labels) -> tuple[str, str]:
    """(PostgreSQL's type for the facade, why the planner cannot compute with it). `kind` is pg_type.typtype."""
    if kind == "e":
        return Enumeration(schema, name, labels.get((schema, name), ())), ""
    if schema != "pg_catalog":
        return "text", f"of type {name}, which is not one of PostgreSQL's own"
    if not deterministic:
        return "text", SPELLINGS
    if name in COMPUTABLE:
        return COMPUTABLE[name], ""
    return (name if name in SHOWN else "text"), f"of type {name}, which has no bounds"


def _array(element: str | None) -> str:
    """The type the facade shows of an array of a built-in type (None: of another): arrays of what it has are arrays there."""
    known = element is not None and (element in SHOWN or COMPUTABLE.get(element) == element)
    return f"{element}[]" if known else "text"


async def introspect(connection: asyncpg.Connection) -> Catalog:
    """Return names, types and keys of every table. Raises BackendError for a database whose texts are bytes of no known
    encoding."""
    if await connection.fetchval(_ENCODING) == "SQL_ASCII":
        raise BackendError("the database's encoding is SQL_ASCII: its texts cannot be told to be UTF-8; use a UTF8 database")
    tables: dict[int, CatalogTable] = {}
    names: dict[tuple[int, int], str] = {}
    labels = {(schema, name): tuple(told) for schema, name, told in await connection.fetch(_LABELS)}
    for row in await connection.fetch(_COLUMNS):
        (schema, table, column, type_, type_schema, kind, element, array, not_null, *rest) = row
        comment, about, oid, number, exact, other, stored = rest
        known = tables.get(oid) or CatalogTable(TableName(schema, table), (schema, table), (), comment=about)
        shown, why = (_array(element), "arrays have no bounds") if array else _type(type_, type_schema, kind, exact, labels)
        whole = "numeric" if shown in ("int2", "int4", "int8", "numeric") else ""  # compared with each other as they are
        said = {"reason": why, "collated": other, "exact": whole, "stored": stored}
        added = CatalogColumn(column, column, shown, not not_null, not why, comment, **said)
        tables[oid] = replace(known, columns=(*known.columns, added))
        names[oid, number] = column
    for oid, primary, numbers in await connection.fetch(_KEYS):
        columns = _named(names, oid, numbers)
        if columns:
            table_ = tables[oid]
            tables[oid] = replace(table_, primary_key=columns) if primary else replace(table_, unique=(*table_.unique, columns))
    for oid, numbers, target, target_numbers, checked in await connection.fetch(_FOREIGN):
        columns, others = _named(names, oid, numbers), _named(names, target, target_numbers)
        if columns and others:
            key = ForeignKey(columns, tables[target].name, others, enforced=checked)
            tables[oid] = replace(tables[oid], foreign_keys=(*tables[oid].foreign_keys, key))
    for oid, schema, table in await connection.fetch(_READ):
        if oid in tables:
            tables[oid] = replace(tables[oid], reads=(*tables[oid].reads, TableName(schema, table)))
    withheld = {TableName(s, t): frozenset(columns) for s, t, columns in await connection.fetch(_WITHHELD)}
    return Catalog({t.name: t for t in tables.values()}, withheld)


async def numerics(connection: asyncpg.Connection) -> dict[tuple[TableName, str], tuple[int, int]]:
    """Return digits and places of the NUMERIC columns that declare them."""
    rows = await connection.fetch(_NUMERICS)
    return {(TableName(schema, table), column): tuple(told) for schema, table, column, told in rows if told is not None}


def _named(names: dict[tuple[int, int], str], table: int, numbers: Iterable[int]) -> tuple[str, ...]:
    """Names of columns, empty when one of them is not visible."""
    found = [names.get((table, n)) for n in numbers]
    return tuple(n for n in found if n is not None) if None not in found else ()


async def with_ranges(connection: asyncpg.Connection, table: CatalogTable) -> CatalogTable:
    """Return the table with the ranges of its columns. A column with NaN or an infinity in it gets no range: it has no bounds."""
    table = await _with_sizes(connection, table)
    ranged = [c for c in table.columns if c.type in RANGED and c.bounded]
    if not ranged:
        return table
    wanted = ", ".join(_range(c) for c in ranged)
    found = await connection.fetchrow(f"SELECT {wanted} FROM {source(table)}")
    ranges = {c.name: (found[3 * i], found[3 * i + 1]) for i, c in enumerate(ranged) if found[3 * i + 2]}
    return replace(table, columns=tuple(replace(c, public_range=ranges.get(c.name)) for c in table.columns))


async def state(connection: asyncpg.Connection, table: CatalogTable) -> str:
    """Name what is in a public table: by its rows, whatever their order; where it has very many rows, by what PostgreSQL's plans
    know of it."""
    rows = int(await connection.fetchval(f"SELECT count(*) FROM {source(table)}"))
    if rows > COUNTED:
        known = await with_ranges(connection, table)
        return f"{rows} {[c.public_range for c in known.columns]}"
    row = f"ROW({', '.join(quote_name(c.source) for c in table.columns)})::text"
    digests = f"SELECT coalesce(sum(hashtextextended({row}, 0)::numeric), 0) FROM {source(table)}"
    return f"{rows} {await connection.fetchval(digests)}"


async def _with_sizes(connection: asyncpg.Connection, table: CatalogTable) -> CatalogTable:
    rows = int(await connection.fetchval(f"SELECT count(*) FROM {source(table)}"))
    comparable = [c for c in table.columns if c.bounded and c.type not in SHOWN]  # json and its like have no equality
    if rows > COUNTED or not comparable:
        return replace(table, rows=rows)
    counts = [
        f"(SELECT coalesce(max(n), 0) FROM (SELECT count({c}) AS n FROM {source(table)} GROUP BY {c}) AS g)"
        for c in (quote_name(column.source) for column in comparable)
    ]
    found = await connection.fetchrow(f"SELECT {', '.join(counts)}")
    most = {c.name: int(n) for c, n in zip(comparable, found, strict=True)}
    return replace(table, rows=rows, columns=tuple(replace(c, most=most.get(c.name)) for c in table.columns))


def _range(column: CatalogColumn) -> str:
    name = quote_name(column.source)
    finite = f"count({name}) > 0"
    if column.type in ("numeric", "float4", "float8"):
        finite = f"bool_and({name} NOT IN {_INFINITE})"
    elif column.type in ("date", "timestamp", "timestamptz"):
        finite = f"bool_and(isfinite({name}))"
    return f"min({name})::text, max({name})::text, coalesce({finite}, false)"


def public_rows(table: CatalogTable, columns: Sequence[str], cap: int) -> str:
    """Return the query that reads a public table's rows. Raises BackendError for a column the table has not."""
    items = ", ".join(f"{quote_name(c.source)} AS {quote_name(c.name)}" for c in columns_of(table, columns))
    return f"SELECT {items} FROM {source(table)} LIMIT {cap + 1}"
