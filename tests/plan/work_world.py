"""A shop in which one person has as many rows as is asked, in DuckDB and in PostgreSQL, and how many rows a statement goes through.

Knows: the shop's tables, both engines' EXPLAIN ANALYZE. Must not know: the planner. Rows are counted where they come out of an
operator, with those that a filter there throws away, as often as the operator runs; pairs that a nested loop tries, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import duckdb
import psycopg
from postgres_shop import ddl
from scratch_postgres import Scratch
from shop_world import DDL

from dpproxy.backends.postgres import DEFAULTS

OTHERS = 4
"""Other people, of two rows each."""
TOO_LONG = 10**12
"""Rows of a statement that was ended."""
_PAIRS = ("NESTED_LOOP_JOIN", "BLOCKWISE_NL_JOIN", "CROSS_PRODUCT")


class Work(Protocol):
    """An engine with a shop for each number of rows."""

    def rows(self, sql: str, size: int) -> int:
        """How many rows a generated statement goes through where the person has `size` rows in each table."""
        ...


def schema(size: int) -> str:
    return f"rows_{size}"


def filling(size: int) -> Iterator[str]:
    """Statements that fill the tables of a schema: person 1 has `size` rows in each, all numbers are different and above 0."""
    name = schema(size)
    people = f"generate_series(1, {OTHERS + 1})"
    rows = f"(SELECT CASE WHEN n <= {2 * OTHERS} THEN 2 + n % {OTHERS} ELSE 1 END AS c, n FROM generate_series(1, {2 * OTHERS + size}) AS s(n))"
    yield f"INSERT INTO {name}.customers (customer_id, score) SELECT c, c FROM {people} AS s(c)"
    yield f"INSERT INTO {name}.orders (order_id, customer_id, qty, big) SELECT n, c, n, n FROM {rows} AS r"
    yield f"INSERT INTO {name}.visits (customer_id, secs) SELECT c, n FROM {rows} AS r"


class DuckDBWork:
    def __init__(self, sizes: Sequence[int]) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        for size in sizes:
            self._connection.execute(f"CREATE SCHEMA {schema(size)}; USE {schema(size)}; {DDL}")
            for text in filling(size):
                self._connection.execute(text)

    def rows(self, sql: str, size: int) -> int:
        text = sql.replace('"main".', f'"{schema(size)}".')
        found = self._connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}").fetchall()
        (root,) = json.loads(found[0][1])["operator"]
        return max(map(_duckdb_rows, _nodes(root, "children")))


def _duckdb_rows(node: Mapping[str, Any]) -> int:
    below = [int(child["intermediate_rows"]) for child in node.get("children", ())]
    tried = below[0] * below[1] if node["type"] in _PAIRS else 0
    return max(int(node["intermediate_rows"]), tried)


class PostgresWork:
    def __init__(self, server: Scratch, sizes: Sequence[int]) -> None:
        with psycopg.connect(server.conninfo(), autocommit=True) as admin:
            admin.execute("CREATE DATABASE work")
        self._connection = psycopg.connect(server.conninfo("work"), autocommit=True)
        self._connection.execute("SET max_parallel_workers_per_gather = 0; SET statement_timeout = '20s'")
        for name in ("jit", "enable_nestloop"):
            self.set(name, DEFAULTS[name][1])
        for size in sizes:
            self._connection.execute(ddl().replace("main", schema(size)).encode())
            for text in filling(size):
                self._connection.execute(text.encode())
        self._connection.execute("ANALYZE")

    def close(self) -> None:
        self._connection.close()

    def set(self, name: str, value: str) -> None:
        self._connection.execute(f"SET {name} = {value}".encode())

    def rows(self, sql: str, size: int) -> int:
        text = sql.replace('"main".', f'"{schema(size)}".')
        try:
            found = self._connection.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {text}".encode()).fetchone()
        except psycopg.errors.QueryCanceled:
            return TOO_LONG
        assert found is not None
        return max(map(_postgres_rows, _nodes(found[0][0]["Plan"], "Plans")))


def _postgres_rows(node: Mapping[str, Any]) -> int:
    removed = sum(value for name, value in node.items() if name.startswith("Rows Removed by"))
    return round((node["Actual Rows"] + removed) * node["Actual Loops"])


def _nodes(node: Mapping[str, Any], below: str) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get(below, ()):
        yield from _nodes(child, below)
