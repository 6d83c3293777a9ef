"""The kernel's list of operations is written by hand, and holds what the engines spell: neither more nor less."""

from __future__ import annotations

from types import ModuleType

from dpproxy.engines import duckdb_operations, postgres_operations
from dpproxy.engines.duckdb import DuckDB
from dpproxy.engines.postgres import Postgres
from dpproxy.kernel import allowed

COMMON = {"and", "or", "coalesce", "least", "greatest", "nullif", "is_distinct", "is_not_distinct"}
ARITHMETIC = {"+", "-", "*", "/", "int/", "%"}
NO_OPERATION = {"limit"}  # `_op_limit` is what shifts of PostgreSQL are held within


def spelled(file: ModuleType, spelling: type, *tables: str) -> set[str]:
    methods = {name.removeprefix("_op_") for name in dir(spelling) if name.startswith("_op_")}
    return (methods - NO_OPERATION).union(COMMON, *(getattr(file, table) for table in tables))


def test_what_both_engines_spell_is_allowed() -> None:
    duckdb, postgres = duckdb_operations, postgres_operations
    one = spelled(duckdb, DuckDB, "_COMPARE", "_NUMERIC_UNARY", "_EXTRACT", "_SIMPLE", "FUNCTIONS", "GROWING") | ARITHMETIC
    other = spelled(postgres, Postgres, "_COMPARE", "ARITHMETIC", "_PARTS", "_SIMPLE", "FUNCTIONS", "GROWING")
    assert one == other == allowed.OPERATIONS.keys(), "a new operation is added to plan.kernel.allowed by hand, once it is total"


def test_lists_are_apart() -> None:
    assert allowed.WINDOWS.keys() > allowed.BY_PLACE
    assert allowed.OPERATIONS.keys() > allowed.OF_NULL
    assert allowed.CONSTANT.keys() < allowed.OPERATIONS.keys() | allowed.WINDOWS.keys()
    assert not allowed.OPERATIONS.keys() & (allowed.WINDOWS.keys() | allowed.AGGREGATES.keys())
