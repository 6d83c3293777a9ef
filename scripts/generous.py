"""A policy whose bounds are what is true of the data, and the data as the policy sees them.

Knows: policy files, DuckDB. Must not know: plans, the proxy. For `scripts/accept --exact` alone: a policy made by looking
at the data is what one must never write by hand, and the right thing for asking whether answers are right. So that no
bound binds, ranges and values are widened to the data, keys may be NULL where they are, and a person may have any number
of rows in any number of groups. What is left is what the product promises to differ in: rows of nobody do not count.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from ruamel.yaml import YAML

from dpproxy.policy.load import load_file
from dpproxy.policy.model import Policy, TablePolicy
from dpproxy.table_terms import TableName

EPSILON = 10**9
"""The largest a session may ask for: grids are chosen with room for the noise, and there shall be hardly any."""
BUDGET = 10**12
"""The largest a policy may give: enough for a thousand statements a data set."""
JOINED = 4
"""A person's rows of one table may meet this many others of theirs in a join: bounds are as many times what the data need."""
GROUPS = 10**6
"""More than anybody reaches in any data set of the corpus."""
MOST_VALUES = 3_000
"""Distinct values of a column that a policy is made to declare."""

Columns = MutableMapping[str, Any]
Place = Callable[[TableName], str]
"""How an engine names a table."""

OBJECTS = (
    "SELECT schema_name, table_name, NULL FROM duckdb_tables() WHERE database_name = '{0}' UNION ALL "
    "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = '{0}' AND NOT internal"
)


def places(database: duckdb.DuckDBPyConnection) -> Place:
    """Return how tables are named in a database that is connected to."""
    (catalog,) = database.execute("SELECT current_database()").fetchone() or ("",)
    return _place(database, catalog)


def _place(database: duckdb.DuckDBPyConnection, catalog: str) -> Place:
    """The names of tables in a DuckDB file, whose `main` is `public` to analysts too."""
    found = [(schema, name) for schema, name, _ in database.execute(OBJECTS.format(catalog)).fetchall()]

    def place(table: TableName) -> str:
        fitting = [(s, n) for s, n in found if n.lower() == table.name.lower() and s in _schemas(table)]
        return f'"{catalog}"."{fitting[0][0]}"."{fitting[0][1]}"'

    return place


def _schemas(table: TableName) -> tuple[str, ...]:
    return ("public", "main") if table.schema == "public" else (table.schema,)


def _in_postgres(table: TableName) -> str:
    return f'"{table.schema}"."{table.name}"'


# --- the policy


def generous(policy: Path, data: Path, folder: Path) -> Path:
    """Write a copy of the policy into `folder`, widened to the DuckDB file `data`."""
    yaml = YAML()
    rules = yaml.load(policy.read_text())
    for limits in (rules["budget"], *(role["budget"] for role in rules["roles"].values())):
        limits["epsilon"] = BUDGET
    for role in rules["roles"].values():
        role["query"]["max_epsilon"] = EPSILON
        role["min_units"] = 1
    known = load_file(policy).policy
    with duckdb.connect(str(data), read_only=True) as database:
        place = _place(database, data.stem)
        for name, table in rules["tables"].items():
            if table.get("public"):
                continue
            schema, _, bare = name.rpartition(".")
            found = TableName(schema or "public", bare)
            if "bounds" in table:
                rows = JOINED * _most_rows(known.tables[found], database, place)
                table["bounds"] = {"rows_per_group": rows, "groups": GROUPS}
            _widen(table.get("columns") or {}, place(found), database)
    target = folder / policy.name
    with target.open("w") as file:
        yaml.dump(rules, file)
    return target


def _most_rows(table: TablePolicy, database: duckdb.DuckDBPyConnection, place: Place) -> int:
    """Rows of the table that the busiest unit has."""
    source, unit = _reached(table, f"{place(table.name)} AS mine", place)
    found = database.execute(f"SELECT max(n) FROM (SELECT count(*) AS n FROM {source} GROUP BY {unit})").fetchone()
    return (found and found[0]) or 1


def _reached(table: TablePolicy, source: str, place: Place) -> tuple[str, str]:
    """The rows of `source`, named `mine`, once for each unit that the policy's path leads to, and where its id stands."""
    assert table.unit is not None
    at = "mine"
    for i, step in enumerate(table.unit.steps):
        source += f' JOIN {place(step.target)} AS step{i} ON {at}."{step.column}" = step{i}."{step.target_column}"'
        at = f"step{i}"
    return source, f'{at}."{table.unit.column}"'


def _widen(columns: Columns, table: str, database: duckdb.DuckDBPyConnection) -> None:
    for name, column in columns.items():
        if not isinstance(column, MutableMapping) or not ({"range", "values"} & column.keys()):
            continue
        nulls = database.execute(f'SELECT count(*) FROM {table} WHERE "{name}" IS NULL').fetchone()
        if nulls is not None and nulls[0]:
            column["nulls"] = True
        if "range" in column:
            column["range"] = _range(column["range"], f'"{name}"', table, database)
        else:
            distinct = f'SELECT DISTINCT "{name}" FROM {table} WHERE "{name}" IS NOT NULL LIMIT {MOST_VALUES}'
            known = {_plain(v) for v in column["values"]}
            found = {_plain(v) for (v,) in database.execute(distinct).fetchall()}
            column["values"] = [*column["values"], *sorted(found - known)]


def _range(given: Any, column: str, table: str, database: duckdb.DuckDBPyConnection) -> list[Any]:
    days = isinstance(given[0], dt.date)
    finite = "" if days else f" WHERE isfinite(CAST({column} AS DOUBLE))"
    value = f"CAST({column} AS DATE)" if days else column
    low, high = database.execute(f"SELECT min({value}), max({value}) FROM {table}{finite}").fetchone() or (None, None)
    if low is None:
        return list(given)
    return [min(given[0], _plain(low)), max(given[1], _plain(high))]


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, decimal.Decimal) else value


# --- the data


def seen(policy: Path, data: Path, apart: bool = False) -> duckdb.DuckDBPyConnection:
    """Make a database with the tables of `data` as the policy sees them: without rows of nobody, whose unit id is NULL or whose
    way to it ends in nothing, and with rows once for each unit that the way leads to. `apart`: a key that refers to a row of
    somebody else refers to nothing."""
    rules = load_file(policy).policy
    database = duckdb.connect()
    database.execute("SET integer_division = true")  # as in PostgreSQL, whose SQL analysts write
    database.execute("SET disabled_optimizers = 'common_subplan'")  # DuckDB 2.0.0 answers wrongly with it
    database.execute(f"ATTACH '{data}' AS source (READ_ONLY)")
    place = _place(database, "source")
    for schema, table, sql in database.execute(OBJECTS.format("source")).fetchall():
        database.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        fitting = (t for t in rules.tables.values() if t.name.name.lower() == table.lower() and schema in _schemas(t.name))
        found = next(fitting, None)
        changed = _decimals(found, schema, table, database) if found is not None else []
        if apart and found is not None:
            changed += [f'{text} AS "{name}"' for name, text in _strange(found, rules, place)]
        items = f"mine.* REPLACE ({', '.join(changed)})" if changed else "mine.*"
        # a view of the data is written out: attached, it would not find its tables
        origin = f'source."{schema}"."{table}"' if sql is None else f"({re.split(r'(?i) AS ', sql, maxsplit=1)[1].rstrip(';')})"
        rows = f"{origin} AS mine"
        if found is not None and found.unit is not None:
            rows = "{} WHERE {} IS NOT NULL".format(*_reached(found, rows, place))
        database.execute(f'CREATE VIEW "{schema}"."{table}" AS SELECT {items} FROM {rows}')
    return database


def _decimals(table: TablePolicy, schema: str, name: str, database: duckdb.DuckDBPyConnection) -> list[str]:
    """DOUBLE columns of a resolution as the decimals they are: sums of DOUBLE differ in their last digits, and ranks by them."""
    wanted = "database_name = 'source' AND data_type = 'DOUBLE' AND table_name = ?"
    rows = database.execute(f"SELECT column_name FROM duckdb_columns() WHERE {wanted}", [name]).fetchall()
    doubles = {column.lower(): column for (column,) in rows}
    places = {
        column: -int(policy.resolution.as_tuple().exponent)
        for column, policy in table.columns.items()
        if column in doubles and policy.resolution is not None
    }
    fitting = {c: n for c, n in places.items() if _fits(f'"{doubles[c]}"', max(n, 0), f'source."{schema}"."{name}"', database)}
    return [f'CAST(mine."{doubles[c]}" AS DECIMAL(18, {max(n, 0)})) AS "{doubles[c]}"' for c, n in fitting.items()]


def _fits(column: str, places: int, table: str, database: duckdb.DuckDBPyConnection) -> bool:
    """Whether all values of a column have so many places: others are other keys when they are rounded."""
    found = database.execute(f"SELECT bool_and({column} IS NULL OR round({column}, {places}) = {column}) FROM {table}").fetchone()
    return found is not None and bool(found[0])


def _strange(table: TablePolicy, rules: Policy, place: Place) -> list[tuple[str, str]]:
    """The keys that refer to a private row, and what they are then: NULL where it is not of the row's own unit."""
    changed = []
    for name, column in table.columns.items():
        if column.references is None or table.unit is None or table.unit.steps:
            continue
        target, key = column.references
        other = rules.tables[target].unit
        if other is None or other.steps:
            continue
        same = f'theirs."{key}" = mine."{name}" AND theirs."{other.column}" = mine."{table.unit.column}"'
        changed.append((name, f'CASE WHEN EXISTS (SELECT 1 FROM {place(target)} AS theirs WHERE {same}) THEN mine."{name}" END'))
    return changed


def _somebody(table: TablePolicy, rules: Policy) -> str:
    """The condition that a row belongs to a unit."""
    assert table.unit is not None
    if not table.unit.steps:
        return f'"{table.unit.column}" IS NOT NULL'
    step = table.unit.steps[0]
    inner = _somebody(rules.tables[step.target], rules)
    return f'"{step.column}" IN (SELECT "{step.target_column}" FROM {_in_postgres(step.target)} WHERE {inner})'


def forget_nobody(policy: Path, dsn: str) -> None:
    """Delete the rows of nobody from a scratch copy of the data in PostgreSQL."""
    rules = load_file(policy).policy
    private = [t for t in rules.tables.values() if t.unit is not None]
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute("SET session_replication_role = replica")  # a row of nobody may be referred to by others of nobody
        for table in sorted(private, key=lambda t: -len(t.unit.steps) if t.unit else 0):  # who reaches furthest first
            where = _somebody(table, rules)
            database.execute(f"DELETE FROM {_in_postgres(table.name)} WHERE ({where}) IS NOT TRUE".encode())


KEYS = "SELECT conname FROM pg_catalog.pg_constraint WHERE conrelid = %s::regclass AND contype IN ('p', 'u')"


def _repeated(rules: Policy, owner: psycopg.Connection) -> list[tuple[TableName, str]]:
    """Tables with rows whose way leads to several units, and FROM of these rows once for each."""
    found = []
    for table in rules.tables.values():
        if table.unit is not None and table.unit.steps:
            source, unit = _reached(table, f"{_in_postgres(table.name)} AS mine", _in_postgres)
            rows = f"FROM {source} WHERE {unit} IS NOT NULL"
            more = f"SELECT (SELECT count(*) {rows}) > (SELECT count(*) FROM {_in_postgres(table.name)})"
            if owner.execute(more.encode()).fetchone() == (True,):
                found.append((table.name, rows))
    return found


class Apart:
    """Holds a scratch copy in PostgreSQL in which keys that refer to a row of somebody else refer to nothing, and a row is there
    once for each unit that its way leads to. It is changed in a transaction that never ends, so that nobody else sees it. What
    fails in it is undone alone."""

    def __init__(self, policy: Path, dsn: str, options: str) -> None:
        rules = load_file(policy).policy
        changes = [(t.name, *change) for t in rules.tables.values() for change in _strange(t, rules, _in_postgres)]
        with psycopg.connect(dsn, autocommit=True) as owner:
            for table, name, _ in changes:
                owner.execute(f'ALTER TABLE {_in_postgres(table)} ALTER COLUMN "{name}" DROP NOT NULL'.encode())
            repeated = _repeated(rules, owner)
            for table, _ in repeated:
                for (constraint,) in owner.execute(KEYS, [_in_postgres(table)]).fetchall():
                    owner.execute(f'ALTER TABLE {_in_postgres(table)} DROP CONSTRAINT "{constraint}" CASCADE'.encode())
        self._connection = psycopg.connect(dsn, options=options)
        self._connection.execute("SET LOCAL session_replication_role = replica")
        for table, name, text in changes:
            self._connection.execute(f'UPDATE {_in_postgres(table)} AS mine SET "{name}" = {text}'.encode())
        for table, rows in repeated:
            self._connection.execute(f"CREATE TEMP TABLE dpproxy_rows ON COMMIT DROP AS SELECT mine.* {rows}".encode())
            self._connection.execute(f"DELETE FROM {_in_postgres(table)}".encode())
            self._connection.execute(f"INSERT INTO {_in_postgres(table)} SELECT * FROM dpproxy_rows".encode())
            self._connection.execute("DROP TABLE dpproxy_rows")

    def execute(self, sql: str) -> psycopg.Cursor:
        with self._connection.transaction():
            return self._connection.execute(sql.encode())

    def close(self) -> None:
        self._connection.close()
