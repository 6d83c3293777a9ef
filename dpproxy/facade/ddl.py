"""The facade's databases as SQL: what a policy and a catalog show, and to whom.

Knows: policies, catalogs, PostgreSQL's DDL. Must not know: connections, rows. Pure functions; every text that comes
from outside passes `quoted` or `literal`. What is not granted here does not exist for analysts: a column the policy
hides is not created at all, and a role reads the tables of the policy, column by column, and can do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dpproxy.facade import foreign
from dpproxy.facade.binaries import FacadeError
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey, TableName
from dpproxy.policy.model import MICRO, ColumnRole, Policy, Role, TablePolicy

NAME_LIMIT = 63  # bytes of a PostgreSQL identifier; longer ones are cut silently, so two could become one
STATEMENT_TIMEOUT = "10min"  # generous: what runs here reads no private row, but must end some day

TYPES = frozenset(
    {
        *("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar"),
        *("date", "time", "timetz", "timestamp", "timestamptz", "interval"),
        *("uuid", "json", "jsonb", "bytea", "inet", "cidr", "macaddr", "bit", "varbit", "xml"),
    }
)
"""Types a column may have, and arrays of them; any other is shown as text."""

VIRTUAL = {
    "budget": "role text, scope text, epsilon_spent numeric, epsilon_limit numeric, epsilon_left numeric, "
    'delta_spent numeric, delta_limit numeric, "window" text, resets timestamptz, epsilon_lifetime numeric, '
    "delta_lifetime numeric",
    "answers": "asked timestamptz, epsilon numeric, delta numeric, measurements int4, reused bool, statement_hash text, "
    "outcome text",
    "policy": 'table_name text, column_name text, kind text, type text, low text, high text, "values" text, note text',
    "tables": "table_name text, kind text, rows_per_group int4, groups int4, note text",
}
"""The virtual schema `dpproxy`: empty here, answered by injection as a measurement is."""

HARDENING = """
DO $$
DECLARE f regprocedure;
BEGIN
  FOR f IN
    SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND (
      proname ~ '^lo_' OR proname IN ('loread', 'lowrite')            -- storage nothing bounds
      OR proname ~ '^pg_(try_)?advisory_(xact_)?lock'                 -- a channel between sessions; unlocking is none
      OR proname IN ('pg_notify', 'pg_export_snapshot', 'pg_logical_emit_message')
      OR proname IN ('pg_cancel_backend', 'pg_terminate_backend'))    -- another analyst's session
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
END $$;
REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC;
REVOKE USAGE ON LANGUAGE sql FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
"""
"""Taken from everybody in every database. Files, programs and other servers are a superuser's already."""


TEXT_FORM = """
CREATE FUNCTION dpproxy.text_form(anyelement) RETURNS text LANGUAGE sql STABLE
  SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1
  AS 'SELECT $1::text';
"""
"""A value's text form whatever the session has set: the proxy reads parameters with it."""


_NOT_FINITE = "$1 IN (''NaN'', ''Infinity'', ''-Infinity'')"
ROUNDING = "\n".join(
    f"CREATE FUNCTION public.{name}({type_}, int4) RETURNS {result} LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS '{body}';"
    for name in ("round", "trunc")
    for type_, result, body in (
        ("float8", "float8", f"SELECT CASE WHEN {_NOT_FINITE} THEN $1 ELSE pg_catalog.{name}($1::numeric, $2)::float8 END"),
        *((whole, "numeric", f"SELECT pg_catalog.{name}($1::numeric, $2)") for whole in ("int2", "int4", "int8")),
    )
)
"""Engines whose usual number is a double round it to digits; PostgreSQL does numeric only. Those of whole numbers are what
PostgreSQL says to them, which would otherwise take the double for the better fit."""


ACCURACY = """
CREATE FUNCTION dpproxy.low(anyelement) RETURNS anyelement LANGUAGE plpgsql VOLATILE AS $body$ BEGIN
  RAISE 'dpproxy.low() must stand around an aggregate of private rows' USING ERRCODE = '0A000'; END $body$;
CREATE FUNCTION dpproxy.high(anyelement) RETURNS anyelement LANGUAGE plpgsql VOLATILE AS $body$ BEGIN
  RAISE 'dpproxy.high() must stand around an aggregate of private rows' USING ERRCODE = '0A000'; END $body$;
CREATE FUNCTION dpproxy.stderr(anyelement) RETURNS float8 LANGUAGE plpgsql VOLATILE AS $body$ BEGIN
  RAISE 'dpproxy.stderr() must stand around an aggregate of private rows' USING ERRCODE = '0A000'; END $body$;
COMMENT ON FUNCTION dpproxy.low(anyelement) IS
  'lower end of the interval of a released aggregate, at dpproxy.confidence; NULL: nothing is known on that side';
COMMENT ON FUNCTION dpproxy.high(anyelement) IS
  'upper end of the interval of a released aggregate, at dpproxy.confidence; NULL: nothing is known on that side';
COMMENT ON FUNCTION dpproxy.stderr(anyelement) IS 'standard error of a released aggregate, by its noise';
"""
"""Names and types for clients and for Describe: the planner writes formulas over released values in their place."""


def quoted(name: str) -> str:
    """A delimited identifier. Raises FacadeError when PostgreSQL would cut or reject it."""
    if not name or "\0" in name or len(name.encode()) > NAME_LIMIT:
        raise FacadeError(f"`{name}` cannot be a PostgreSQL name: 1 to {NAME_LIMIT} bytes, no NUL")
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string constant whatever `standard_conforming_strings` says."""
    if "\\" in text:
        return " E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"


def qualified(table: TableName) -> str:
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def role_name(role: str, dataset: str) -> str:
    """The PostgreSQL role of a policy role: roles belong to the whole server, so the dataset is in the name."""
    name = f"{role}@{dataset}"
    quoted(name)
    return name


def column_type(column: CatalogColumn) -> str:
    return column.type if column.type.removesuffix("[]") in TYPES else "text"


def visible_columns(policy: TablePolicy, table: CatalogTable) -> tuple[CatalogColumn, ...]:
    """Columns analysts see: all of a public table, those the policy lists of a private one, never hidden ones."""
    return tuple(c for c in table.columns if _visible(policy, c.name))


def _visible(policy: TablePolicy, column: str) -> bool:
    listed = policy.columns.get(column)
    if listed is not None:
        return listed.role != ColumnRole.HIDDEN
    own_unit = policy.unit is not None and not policy.unit.steps and policy.unit.column == column
    return policy.public or own_unit


def readable(role: Role, table: TableName) -> bool:
    return role.tables is None or table in role.tables


def tables_of(policy: Policy, catalog: Catalog) -> Iterator[tuple[TablePolicy, CatalogTable]]:
    """The policy's tables with their shapes. Raises FacadeError for one the backend does not have."""
    for name, table in policy.tables.items():
        shape = catalog.tables.get(name)
        if shape is None:
            raise FacadeError(f"dataset {policy.dataset}: the backend has no table `{name}`")
        yield table, shape


SECRETIVE: Final = {
    "track_activities": "off",
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_min_duration_statement": "-1",
}
"""Only a superuser may change them."""


def roles_script(policy: Policy, verifier: str | None = None) -> Iterator[str]:
    """Roles of the policy, without attributes and without membership; settings of an earlier life are forgotten.

    What analysts ask is in no view of other sessions and in no log, whatever the server's own settings say.
    """
    password = "NULL" if verifier is None else literal(verifier)
    for role in policy.roles.values():
        name = role_name(role.name, policy.dataset)
        yield f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {literal(name)}) THEN "
        yield f"CREATE ROLE {quoted(name)}; END IF; END $$;"
        attributes = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
        yield f"ALTER ROLE {quoted(name)} {attributes} PASSWORD {password};"
        yield f"ALTER ROLE {quoted(name)} RESET ALL;"
        yield from (f"ALTER ROLE {quoted(name)} SET {setting} = {value};" for setting, value in SECRETIVE.items())


def tables_script(policy: Policy, catalog: Catalog) -> Iterator[str]:
    """Schemas, tables, the virtual schema: everything but keys and grants."""
    for schema in sorted({t.schema for t in policy.tables} | {v.schema for v in policy.views} | {"dpproxy"}):
        yield f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};"
    for table, shape in tables_of(policy, catalog):
        columns = visible_columns(table, shape)
        yield f"CREATE TABLE {qualified(table.name)} ({', '.join(map(_column, columns))});"
        yield from _comments(table, shape, columns)
    for name, columns_text in VIRTUAL.items():
        yield f"CREATE TABLE dpproxy.{name} ({columns_text});"
    yield TEXT_FORM
    yield ROUNDING
    yield foreign.DATES
    yield ACCURACY
    for view, sql in policy.views.items():
        yield f"CREATE VIEW {qualified(view)} AS {sql};"


def _column(column: CatalogColumn) -> str:
    return f"{quoted(column.name)} {column_type(column)}{'' if column.nullable else ' NOT NULL'}"


def _comments(table: TablePolicy, shape: CatalogTable, columns: Sequence[CatalogColumn]) -> Iterator[str]:
    if shape.comment:
        yield f"COMMENT ON TABLE {qualified(table.name)} IS {literal(shape.comment)};"
    for column in columns:
        if column.comment:
            target = f"{qualified(table.name)}.{quoted(column.name)}"
            yield f"COMMENT ON COLUMN {target} IS {literal(column.comment)};"


def keys_script(policy: Policy, catalog: Catalog) -> Iterator[str]:
    """Primary, unique and foreign keys whose columns are all visible. Each may fail alone without harm.

    Foreign keys are NOT VALID: tools draw their diagrams from them, and no row is ever checked against empty tables.
    """
    seen = {t.name: {c.name for c in visible_columns(t, s)} for t, s in tables_of(policy, catalog)}
    pairs = list(tables_of(policy, catalog))
    for table, shape in pairs:
        for kind, columns in (("PRIMARY KEY", shape.primary_key), *(("UNIQUE", u) for u in shape.unique)):
            if columns and seen[table.name].issuperset(columns):
                yield f"ALTER TABLE {qualified(table.name)} ADD {kind} ({_names(columns)});"
    for table, shape in pairs:
        for key in shape.foreign_keys:
            if seen[table.name].issuperset(key.columns) and seen.get(key.target, set()).issuperset(key.target_columns):
                yield _foreign(table.name, key)


def _foreign(table: TableName, key: ForeignKey) -> str:
    target = f"{qualified(key.target)} ({_names(key.target_columns)})"
    return f"ALTER TABLE {qualified(table)} ADD FOREIGN KEY ({_names(key.columns)}) REFERENCES {target} NOT VALID;"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(map(quoted, columns))


def grants_script(policy: Policy, catalog: Catalog, database: str, withheld: frozenset[TableName]) -> Iterator[str]:
    """CONNECT, USAGE and SELECT, and session defaults. `withheld`: public tables too large to be here.

    Tables hold visible columns only, and are granted by column, but for public ones: tools read these in slices of `ctid`,
    which wants the whole table's privilege. A withheld table says `permission denied` when it is read; empty it would be silently
    wrong.
    """
    schemas = sorted({t.schema for t in policy.tables} | {v.schema for v in policy.views} | {"dpproxy", "public"})
    path = ", ".join(['"$user"', "public", *(quoted(s) for s in schemas if s not in ("public", "dpproxy"))])
    yield f"REVOKE ALL ON DATABASE {quoted(database)} FROM PUBLIC;"
    for role in policy.roles.values():
        to = quoted(role_name(role.name, policy.dataset))
        temp = ", TEMPORARY" if role.temp_tables else ""
        yield f"GRANT CONNECT{temp} ON DATABASE {quoted(database)} TO {to};"
        yield f"GRANT USAGE ON SCHEMA {_names(schemas)} TO {to};"
        yield f"GRANT SELECT ON ALL TABLES IN SCHEMA dpproxy TO {to};"
        for table, shape in tables_of(policy, catalog):
            columns = visible_columns(table, shape)
            if readable(role, table.name) and table.name not in withheld and columns:
                some = "" if table.public else f" ({_names(c.name for c in columns)})"
                yield f"GRANT SELECT{some} ON {qualified(table.name)} TO {to};"
        for view in policy.views:
            if readable(role, view):
                yield f"GRANT SELECT ON {qualified(view)} TO {to};"
        yield from _defaults(to, quoted(database), role, path)


def _defaults(to: str, database: str, role: Role, path: str) -> Iterator[str]:
    epsilon = f"{role.query.epsilon / MICRO:f}".rstrip("0").rstrip(".")
    for name, value in (
        ("search_path", path),
        ("statement_timeout", literal(STATEMENT_TIMEOUT)),
        ("dpproxy.epsilon", literal(epsilon)),
    ):
        yield f"ALTER ROLE {to} IN DATABASE {database} SET {name} = {value};"
