"""The troubled shop in PostgreSQL: the same rows and neighbours as `plan_harness.Shop`, and trouble of PostgreSQL's own.

Knows: `shop_world`, an embedded server, text forms. What PostgreSQL cannot hold (dates of the year 5881580) becomes the end of
its own calendar; numerics of 131,072 digits, which DuckDB cannot hold, are added.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import all_neighbours
import duckdb
import plan_harness
import psycopg
import pyarrow as pa
import shop_world
from all_neighbours import AllNeighbours
from psycopg.adapt import Loader
from psycopg.types.datetime import IntervalLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))  # the starter of scratch servers

from scratch_postgres import Container, Scratch

EVIL_NUMERICS = (
    "'NaN', 'Infinity', '-Infinity', '1e131071', '-1e131071', '1e-16380', '0', '1e100', '9999999999999999999.5', '7.0', '7.000'"
)
EVIL_DATES = "'infinity', '-infinity', '5874897-12-31', '4714-11-24 BC', '0001-01-01', '294277-01-01', '4713-01-01 BC'"
EVIL_STAMPS = "'infinity', '-infinity', '294276-12-31 23:59:59.999999', '4714-11-24 00:00:00 BC', '0001-01-01', '4001-06-01 BC'"
EVIL_TEXTS = (
    "'1e5', '99999999999999999999', '\u0661\u0662', '\u00a01', '0x1F', '1_000', '2023-02-29', '2024-02-29', '1e-400', 'inf'"
)

NUMBERS = {"int2": pa.int64(), "int4": pa.int64(), "int8": pa.int64(), "bool": pa.bool_()}
OIDS = {20: "int8", 21: "int2", 23: "int4", 16: "bool"}


class _Text(Loader):
    def load(self, data: Any) -> str:
        return bytes(data).decode()


class _Interval(IntervalLoader):
    def load(self, data: Any) -> str:  # type: ignore[override]
        return str(super().load(data))


class PostgresShop:
    """A database of the server and its neighbours, by schema. `units` are those whose deletion is tried."""

    dialect = "postgres"

    def __init__(self, server: Scratch | Container, name: str, seed: int, most: int = 100, *, trouble: bool = True) -> None:
        with psycopg.connect(server.conninfo(), autocommit=True) as admin:
            admin.execute(f'CREATE DATABASE "{name}"')
        self.connection = psycopg.connect(server.conninfo(name), autocommit=True)
        self.connection.execute("SET search_path = pg_catalog; SET TimeZone = 'UTC'; SET statement_timeout = '60s'")
        self.connection.execute("SET max_parallel_workers_per_gather = 0; SET jit = off")
        _fill(self.connection, seed, trouble)
        found = self._rows("SELECT customer_id FROM main.customers UNION SELECT customer_id FROM main.orders ORDER BY 1")
        everyone = sorted((u for (u,) in found if u is not None), key=shop_world.telling)
        leaving = everyone[:most] if trouble else []
        arriving = shop_world.NEWCOMERS if leaving else ()
        self.units: tuple[int | str, ...] = (*leaving, *arriving)
        for unit in leaving:
            mine = f"SELECT order_id FROM main.orders WHERE customer_id = {unit} AND order_id IS NOT NULL"
            self._neighbour(unit, f"customer_id IS DISTINCT FROM {unit}", f"order_id IS NULL OR order_id NOT IN ({mine})")
        somebodys = "SELECT order_id FROM main.orders WHERE customer_id IS NOT NULL"
        self._neighbour(plan_harness.NOBODY, "customer_id IS NOT NULL", f"order_id IN ({somebodys})")
        self._neighbour(plan_harness.SHUFFLED, "true", "true", " ORDER BY ctid DESC")
        for name in arriving:
            self._neighbour(name, "true", "true")
            for text in shop_world.arrival(name):
                self.connection.execute(text.format(f"beside_{name}").encode())
        readable(self.connection)
        self.connection.execute(f"CREATE SCHEMA {all_neighbours.SCHEMA}")
        names = (plan_harness.NOBODY, plan_harness.SHUFFLED, *self.units) if leaving else ()
        self.neighbours = AllNeighbours(names, self._columns, self._create, self._ask, (ValueError,))

    def _columns(self, database: str, table: str) -> list[str]:
        described = self.connection.execute(f'SELECT * FROM "main"."{table}" LIMIT 0'.encode()).description
        return [column.name for column in described or ()]

    def _create(self, sql: str) -> None:
        """A table of all neighbours' rows, each found by its number."""
        self.connection.execute(sql.encode())
        if found := re.match(r"CREATE TABLE (\S+)", sql):
            self.connection.execute(f"CREATE INDEX ON {found[1]} ({all_neighbours.NUMBER}); ANALYZE {found[1]}".encode())

    def close(self) -> None:
        self.connection.close()

    def _neighbour(self, name: int | str, condition: str, items: str, order: str = "") -> None:
        kept = {"products": "true", "regions": "true", "order_items": items}
        self.connection.execute(f"CREATE SCHEMA beside_{name}")
        for table in shop_world.TABLES:
            rows = f"SELECT * FROM main.{table} WHERE {kept.get(table, condition)}{order}"
            self.connection.execute(f"CREATE TABLE beside_{name}.{table} AS {rows}")

    def run(self, sql: str, unit: int | str | None = None) -> pa.Table:
        """A generated statement, as the backend would return it. Raises ValueError with what PostgreSQL said."""
        return self._ask(sql) if unit is None else self.neighbours.answer(sql, unit, self.alone)

    def alone(self, sql: str, unit: int | str) -> pa.Table:
        return self._ask(sql.replace('"main".', f'"beside_{unit}".'))

    def _ask(self, sql: str) -> pa.Table:
        try:
            cursor = self.connection.execute(sql.encode(), prepare=False)
        except psycopg.Error as error:
            raise ValueError(f"{error.sqlstate} {str(error)[:300]}") from None
        columns = cursor.description or ()
        types = [NUMBERS.get(OIDS.get(c.type_code, ""), pa.string()) for c in columns]
        rows = cursor.fetchall()
        arrays = [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
        return pa.table(arrays, names=[c.name for c in columns])

    def execute(self, sql: str) -> None:
        """Change the database itself, or what stands beside it."""
        self.connection.execute(sql.encode())
        self.neighbours.forget()

    def takes(self, sql: str) -> bool:
        """Whether PostgreSQL itself finds names and types of an analyst's statement in order, as the facade would."""
        self.connection.execute("SET search_path = main, pg_catalog")
        try:
            self.connection.execute(f"PREPARE asked AS {sql}".encode(), prepare=False)
            self.connection.execute("DEALLOCATE asked")
            return True
        except psycopg.Error:
            return False
        finally:
            self.connection.execute("SET search_path = pg_catalog")

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql.encode()).fetchall()


def readable(connection: psycopg.Connection[Any]) -> None:
    """Values that no Python type holds come as texts."""
    for type_ in ("numeric", "float8", "float4", "date", "timestamp", "timestamptz", "uuid", "text"):
        connection.adapters.register_loader(type_, _Text)
    connection.adapters.register_loader("interval", _Interval)


def ddl() -> str:
    """`shop_world.DDL` in PostgreSQL, in schema main; an amount has no limit of digits."""
    text = shop_world.DDL.replace("CREATE TABLE ", "CREATE TABLE main.").replace("DOUBLE", "DOUBLE PRECISION")
    return "CREATE SCHEMA main;" + text.replace("amount DECIMAL(12,2)", "amount NUMERIC")


def _fill(target: psycopg.Connection[Any], seed: int, trouble: bool) -> None:
    target.execute(ddl().encode())
    with duckdb.connect(":memory:") as source:
        shop_world.fill(source, seed, trouble=trouble)
        for table in shop_world.TABLES:
            rows = source.execute(f"SELECT COLUMNS(*)::VARCHAR FROM {table}").fetchall()
            with target.cursor().copy(f"COPY main.{table} FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(_held(row))
    if trouble:
        for table, column, type_, evil in (
            ("orders", "amount", "numeric", EVIL_NUMERICS), ("orders", "due", "date", EVIL_DATES),
            ("orders", "ts", "timestamp", EVIL_STAMPS), ("orders", "coupon", "text", EVIL_TEXTS),
        ):  # fmt: skip
            step, count = 4, evil.count(", ") + 1
            value = f"(ARRAY[{evil}]::{type_}[])[1 + order_id / {step} % {count}]"
            target.execute(f"UPDATE main.{table} SET {column} = {value} WHERE order_id % {step} = 0".encode())
    target.execute("ANALYZE")


def _held(row: Sequence[str | None]) -> list[str | None]:
    """Text forms that PostgreSQL reads."""
    return [None if value is None else _time(value) for value in row]


def _time(value: str) -> str:
    found = re.fullmatch(r"(\d{4,})-\d\d-\d\d( \d\d:\d\d:\d\d(?:\.\d+)?)?( \(BC\).*)?", value)
    if found is None:
        return value
    clock = found.group(2) or ""
    if found.group(3):
        return f"4714-11-24{' 00:00:00' if clock else ''} BC" if int(found.group(1)) > 4714 else value.replace("(BC)", "BC")
    return "5874897-12-31" if not clock and int(found.group(1)) > 5874897 else value
