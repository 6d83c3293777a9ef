"""The facade's databases as SQL: what a policy and a catalog show to one role.

Knows: policies, catalogs, PostgreSQL's DDL. Must not know: connections, rows. Pure functions; every text that comes
from outside passes `quoted` or `literal`. What a role may not see is not there: a column the policy hides and a table the
role may not read are not created at all, or are gone before the role can connect. What is there it reads, column by
column, and can do nothing else. A database is one role's, so what it may do is granted to everybody there: a role that
drops what was granted to it (DROP OWNED) finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dpproxy.amounts import MICRO
from dpproxy.facade import foreign_functions
from dpproxy.facade.account import FacadeError
from dpproxy.facade.policy_comments import column_comment, table_comment
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey, published_type
from dpproxy.policy.model import ColumnRole, Policy, Role, TablePolicy
from dpproxy.policy.names import quote_name
from dpproxy.sql.types import shown_type
from dpproxy.sql.virtual_tables import VIRTUAL_TABLES
from dpproxy.table_terms import Enumeration, TableName, spelled_type

NAME_LIMIT = 63  # bytes of a PostgreSQL identifier; longer ones are cut silently, so two could become one
STATEMENT_TIMEOUT = "10min"  # generous: what runs here reads no private row, but must end some day

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
"""Takes rights from everybody in every database. Files, programs and other servers are a superuser's already."""


KEYS_SHOWN = """
DO $$ BEGIN
  EXECUTE 'CREATE OR REPLACE VIEW information_schema.constraint_column_usage AS ' || pg_catalog.regexp_replace(
    pg_catalog.pg_get_viewdef('information_schema.constraint_column_usage'::regclass),
    'pg_has_role\\((\\w+\\.)?tblowner, ''USAGE''::text\\)', 'tblschema <> ''pg_catalog''');
END $$;
"""
"""Shows in information_schema.constraint_column_usage, which most tools join to find what a foreign key refers to, the keys of
the tables that are here, all of which the role may see; PostgreSQL shows them to the tables' owners alone."""


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
"""Rounds doubles to digits, as engines do whose usual number is a double; PostgreSQL rounds numeric only. The forms
for whole numbers do what PostgreSQL does: without them it would take the form for doubles as the better fit."""


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
    """Return a delimited identifier. Raises FacadeError when PostgreSQL would cut or reject it."""
    if not name or "\0" in name or len(name.encode()) > NAME_LIMIT:
        raise FacadeError(f"`{name}` cannot be a PostgreSQL name: 1 to {NAME_LIMIT} bytes, no NUL")
    return quote_name(name)


def literal(text: str) -> str:
    """Return a string constant whatever `standard_conforming_strings` says."""
    if "\\" in text:
        return " E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"


def qualified(table: TableName) -> str:
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def role_name(role: str, dataset: str) -> str:
    """Return the PostgreSQL role of a policy role: roles belong to the whole server, so the dataset is in the name."""
    name = f"{role}@{dataset}"
    quoted(name)
    return name


def column_type(table: TablePolicy, column: CatalogColumn) -> str:
    type_ = published_type(table, column)
    return spelled_type(type_) if isinstance(type_, Enumeration) else shown_type(type_)


def enumerations(tables: Iterable[tuple[TablePolicy, CatalogTable]]) -> list[Enumeration]:
    """Return the enumerated types of columns that analysts see of tables."""
    types = (published_type(t, c) for t, shape in tables for c in visible_columns(t, shape))
    return list(dict.fromkeys(t for t in types if isinstance(t, Enumeration) and t.labels))


def visible_columns(policy: TablePolicy, table: CatalogTable) -> tuple[CatalogColumn, ...]:
    """Return the columns that analysts see: all of a public table, those the policy lists of a private one, never hidden ones."""
    return tuple(c for c in table.columns if _visible(policy, c.name))


def _visible(policy: TablePolicy, column: str) -> bool:
    listed = policy.columns.get(column)
    if listed is not None:
        return listed.role != ColumnRole.HIDDEN
    own_unit = policy.unit is not None and not policy.unit.steps and policy.unit.column == column
    return policy.kind.shown or own_unit


def readable(role: Role, table: TableName) -> bool:
    return role.tables is None or table in role.tables


@dataclass(frozen=True)
class Shown:
    """What one role of one dataset sees."""

    policy: Policy
    catalog: Catalog
    role: Role

    @property
    def user(self) -> str:
        """Return the PostgreSQL role of the policy's role."""
        return role_name(self.role.name, self.policy.dataset)

    @property
    def tables(self) -> tuple[tuple[TablePolicy, CatalogTable], ...]:
        """Return the tables that the role sees, with their shapes. Raises FacadeError for a table the backend does not have."""
        return tuple((t, shape) for t, shape in tables_of(self.policy, self.catalog) if readable(self.role, t.name))

    @property
    def views(self) -> tuple[TableName, ...]:
        return tuple(view for view in self.policy.views if readable(self.role, view))

    @property
    def behind(self) -> tuple[tuple[TablePolicy, CatalogTable], ...]:
        """Return the tables that the role does not see and views may be made of: they exist until the views have become
        tables."""
        if not self.views:
            return ()
        return tuple((t, shape) for t, shape in tables_of(self.policy, self.catalog) if not readable(self.role, t.name))

    @property
    def schemas(self) -> list[str]:
        types = {e.schema for e in enumerations(self.tables)}
        return sorted({t.name.schema for t, _ in self.tables} | {view.schema for view in self.views} | {"dpproxy"} | types)


def tables_of(policy: Policy, catalog: Catalog) -> Iterator[tuple[TablePolicy, CatalogTable]]:
    """Return the policy's tables with their shapes. Raises FacadeError for one the backend does not have."""
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
"""Settings that only a superuser may change."""


def role_script(shown: Shown, verifier: str | None = None) -> Iterator[str]:
    """Make the role, without attributes and without membership; settings of an earlier life are forgotten.

    What analysts ask is in no view of other sessions and in no log, whatever the server's own settings say.
    """
    name = shown.user
    password = "NULL" if verifier is None else literal(verifier)
    yield f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {literal(name)}) THEN "
    yield f"CREATE ROLE {quoted(name)}; END IF; END $$;"
    attributes = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
    yield f"ALTER ROLE {quoted(name)} {attributes} PASSWORD {password};"
    yield f"ALTER ROLE {quoted(name)} RESET ALL;"
    yield from (f"ALTER ROLE {quoted(name)} SET {setting} = {value};" for setting, value in SECRETIVE.items())


def tables_script(shown: Shown) -> Iterator[str]:
    """Make schemas, tables, views and the virtual schema: everything but keys and grants."""
    made = (*shown.tables, *shown.behind)
    views = shown.policy.views if shown.views else {}
    types = enumerations(made)
    for schema in sorted({t.name.schema for t, _ in made} | {v.schema for v in views} | {"dpproxy"} | {e.schema for e in types}):
        yield f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};"
    for type_ in types:
        yield f"CREATE TYPE {spelled_type(type_)} AS ENUM ({', '.join(map(literal, type_.labels))});"
    for table, shape in made:
        columns = visible_columns(table, shape)
        yield f"CREATE TABLE {qualified(table.name)} ({', '.join(_column(table, c) for c in columns)});"
        yield from _comments(table, shape, columns, shown.policy.unit_name)
    yield from _virtual_tables()
    yield KEYS_SHOWN
    yield TEXT_FORM
    yield ROUNDING
    yield foreign_functions.DATES
    yield ACCURACY
    for view, sql in views.items():
        yield f"CREATE VIEW {qualified(view)} AS {sql};"


STANDING_ON = """
WITH RECURSIVE uses(view, base) AS (
  SELECT r.ev_class, d.refobjid FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
  WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class),
deeply(view, base) AS (SELECT * FROM uses UNION SELECT d.view, u.base FROM deeply d JOIN uses u ON u.view = d.base)
SELECT EXISTS (SELECT FROM deeply WHERE view = $1::regclass AND base = ANY ($2::regclass[]))
"""
"""Whether a view ($1) is made of one of some tables and views ($2)."""


def hidden(shown: Shown) -> list[str]:
    """Return the tables and views that are there only for the sake of others, as SQL names."""
    views = (view for view in shown.policy.views if not readable(shown.role, view))
    return [qualified(name) for name in (*(t.name for t, _ in shown.behind), *views)] if shown.views else []


def as_table(view: TableName) -> str:
    """Turn a view into a table of what it shows now: nothing, or public rows. What it was made of can then be dropped."""
    parked = f"{quoted(view.schema)}.dpproxy_parked"
    return (
        f"CREATE TABLE {parked} AS TABLE {qualified(view)}; DROP VIEW {qualified(view)} CASCADE; "
        f"ALTER TABLE {parked} RENAME TO {quoted(view.name)};"
    )


def hiding_script(shown: Shown) -> Iterator[str]:
    """Drop what `hidden` names, and schemas that hold nothing else."""
    for name in hidden(shown):
        kind = "TABLE" if name in {qualified(t.name) for t, _ in shown.behind} else "VIEW"
        yield f"DROP {kind} IF EXISTS {name} CASCADE;"
    types = enumerations(shown.behind) if hidden(shown) else []
    for type_ in types:
        if type_ not in enumerations(shown.tables):
            yield f"DO $$ BEGIN DROP TYPE {spelled_type(type_)}; EXCEPTION WHEN dependent_objects_still_exist THEN NULL; END $$;"
    gone = {t.name.schema for t, _ in shown.behind} | {view.schema for view in shown.policy.views} | {e.schema for e in types}
    yield from (f"DROP SCHEMA IF EXISTS {quoted(schema)};" for schema in sorted(gone - {*shown.schemas, "public"}))


def _virtual_tables() -> Iterator[str]:
    """Make the tables of schema `dpproxy`: empty here, answered by injection as a measurement is."""
    for name, table in VIRTUAL_TABLES.items():
        yield f"CREATE TABLE dpproxy.{name} ({', '.join(f'{c.name} {c.type}' for c in table.columns)});"
        yield f"COMMENT ON TABLE dpproxy.{name} IS {literal(table.meaning)};"
        yield from (f"COMMENT ON COLUMN dpproxy.{name}.{c.name} IS {literal(c.meaning)};" for c in table.columns)


def _column(table: TablePolicy, column: CatalogColumn) -> str:
    return f"{quoted(column.name)} {column_type(table, column)}{'' if column.nullable else ' NOT NULL'}"


def _comments(table: TablePolicy, shape: CatalogTable, columns: Sequence[CatalogColumn], unit: str) -> Iterator[str]:
    comment = table_comment(table, shape, unit)
    if comment:
        yield f"COMMENT ON TABLE {qualified(table.name)} IS {literal(comment)};"
    for column in columns:
        said = column_comment(table, column, unit)
        if said:
            yield f"COMMENT ON COLUMN {qualified(table.name)}.{quoted(column.name)} IS {literal(said)};"


def keys_script(shown: Shown) -> Iterator[str]:
    """Make the primary, unique and foreign keys whose columns are all visible. Each may fail alone without harm.

    Foreign keys are NOT VALID: tools draw their diagrams from them, and no row is ever checked against empty tables.
    """
    seen = {t.name: {c.name for c in visible_columns(t, s)} for t, s in shown.tables}
    for table, shape in shown.tables:
        for kind, columns in (("PRIMARY KEY", shape.primary_key), *(("UNIQUE", u) for u in shape.unique)):
            if columns and seen[table.name].issuperset(columns):
                yield f"ALTER TABLE {qualified(table.name)} ADD {kind} ({_names(columns)});"
    for table, shape in shown.tables:
        for key in shape.foreign_keys:
            if seen[table.name].issuperset(key.columns) and seen.get(key.target, set()).issuperset(key.target_columns):
                yield _foreign(table.name, key)


def _foreign(table: TableName, key: ForeignKey) -> str:
    target = f"{qualified(key.target)} ({_names(key.target_columns)})"
    return f"ALTER TABLE {qualified(table)} ADD FOREIGN KEY ({_names(key.columns)}) REFERENCES {target} NOT VALID;"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(map(quoted, columns))


def grants_script(shown: Shown, database: str, withheld: frozenset[TableName]) -> Iterator[str]:
    """Grant CONNECT, USAGE, SELECT, REFERENCES; set session defaults. `withheld`: public tables too large to be here.

    Tables hold visible columns only, and are granted by column, but for public ones: tools read these in slices of `ctid`,
    which wants the whole table's privilege. A withheld table says `permission denied` when it is read; empty it would be wrong
    without a word. REFERENCES is what shows a table's keys in information_schema to who does not own it. It is of no other use
    here: nobody may make a table that stays, and PostgreSQL lets a temporary one refer to temporary ones only.
    """
    schemas = sorted({*shown.schemas, "public"})
    path = ", ".join(['"$user"', "public", *(quoted(s) for s in schemas if s not in ("public", "dpproxy"))])
    temp = ", TEMPORARY" if shown.role.temp_tables else ""
    yield f"REVOKE ALL ON DATABASE {quoted(database)} FROM PUBLIC;"
    yield f"GRANT CONNECT{temp} ON DATABASE {quoted(database)} TO PUBLIC;"
    yield f"GRANT USAGE ON SCHEMA {_names(schemas)} TO PUBLIC;"
    yield "GRANT SELECT ON ALL TABLES IN SCHEMA dpproxy TO PUBLIC;"
    for table, shape in shown.tables:
        columns = visible_columns(table, shape)
        if table.name not in withheld and columns:
            some = "" if table.kind.shown else f" ({_names(c.name for c in columns)})"
            yield f"GRANT SELECT{some}, REFERENCES{some} ON {qualified(table.name)} TO PUBLIC;"
    yield from (f"GRANT SELECT ON {qualified(view)} TO PUBLIC;" for view in shown.views)
    yield from _defaults(shown, quoted(database), path)


def _defaults(shown: Shown, database: str, path: str) -> Iterator[str]:
    epsilon = f"{shown.role.query.epsilon / MICRO:f}".rstrip("0").rstrip(".")
    priced = (("dpproxy.epsilon", literal(epsilon)),) if shown.role.query.epsilon else ()  # who reads reports alone has no budget
    for name, value in (("search_path", path), ("statement_timeout", literal(STATEMENT_TIMEOUT)), *priced):
        yield f"ALTER ROLE {quoted(shown.user)} IN DATABASE {database} SET {name} = {value};"


def withdrawal_script(before: Shown, now: Shown | None) -> Iterator[str]:
    """Take from a database what it shows and a newer one does not. `now`: None where the role is no more."""
    kept = {t.name: {c.name for c in visible_columns(t, shape)} for t, shape in now.tables} if now is not None else {}
    for table, shape in before.tables:
        columns = {c.name for c in visible_columns(table, shape)}
        remaining = sorted(columns & kept.get(table.name, set()))
        if len(remaining) < len(columns):
            names = _names(sorted(columns))
            yield f"REVOKE SELECT, REFERENCES ON {qualified(table.name)} FROM PUBLIC;"
            yield f"REVOKE SELECT ({names}), REFERENCES ({names}) ON {qualified(table.name)} FROM PUBLIC;"
            if remaining:
                yield f"GRANT SELECT ({_names(remaining)}) ON {qualified(table.name)} TO PUBLIC;"
    same = now.policy.views if now is not None else {}
    for view in before.views:
        if now is None or view not in now.views or same[view] != before.policy.views[view]:
            yield f"REVOKE SELECT ON {qualified(view)} FROM PUBLIC;"
