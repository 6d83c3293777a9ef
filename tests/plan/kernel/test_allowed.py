"""The kernel's list of operations is written by hand, and holds what both engines spell: neither more nor less."""

from __future__ import annotations

from types import ModuleType

from dpproxy.plan.engines import duckdb_operations, postgres_operations
from dpproxy.plan.engines.duckdb import DuckDB
from dpproxy.plan.engines.postgres import Postgres
from dpproxy.plan.kernel import allowed

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
    assert one == other == allowed.OPERATIONS, "a new operation is added to plan.kernel.allowed by hand, once it is total"


def test_lists_are_apart() -> None:
    assert allowed.BY_PLACE < allowed.WINDOWS
    assert allowed.OF_NULL | allowed.BY_CONSTANTS < allowed.OPERATIONS
    assert not allowed.OPERATIONS & (allowed.WINDOWS | allowed.AGGREGATES)
