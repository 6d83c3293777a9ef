"""When an operation is NULL: what rows of the catalogue say is true of DuckDB's results, for values at the ends of every type.

Generated: each operation is tried with operands of kinds that it takes, one of them NULL in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import duckdb
import pytest

from dpproxy.engines import engine
from dpproxy.engines.duckdb_operations import TYPES
from dpproxy.errors import Refusal
from dpproxy.kernel import kinds
from dpproxy.kernel.allowed import CONSTANT, OPERATIONS
from dpproxy.plan.operations.catalogue import CATALOGUE
from dpproxy.plan.operations.operation import Nulls, Operation
from dpproxy.tree.expr import Call, Ref, references
from tests.kernel.hostile_values import COLUMNS, OTHERS, names, statements
from tests.kernel.test_kinds import made, passes

EACH = 12
"""Calls of an operation."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        for statement in statements("duckdb", 100, 3):
            connection.execute(statement)
        yield connection


def calls(name: str) -> list[Call]:
    """Calls that the kernel takes, of the kinds that it lists, spread over all of them."""
    built = made(name, OPERATIONS[name], lambda type_, args: Call(type_, name, args))
    taken = [c for c in itertools.islice(built, 3_000) if isinstance(c, Call) and passes(c, kinds.check_call)]
    return taken[:: max(len(taken) // EACH, 1)]


def wrong(row: Operation, connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Calls of which the row says that they are NULL, or are not, and some value is otherwise."""
    duck, columns = engine("duckdb"), {c.id: c for c in (*COLUMNS.values(), *OTHERS.values())}
    known, tests = names(duck), dict[str, str]()
    for call in calls(row.name):
        for operand in call.args:
            if not isinstance(operand, Ref) or not row.nulls.decides(call.args.index(operand)):
                continue
            none = {**known, operand.column.id: duck.literal(columns[operand.column.id].type, None)}
            try:
                tests[f"{call.op} of {[a.type for a in call.args]}: {operand.column.name}"] = (
                    f"({duck.expr(call, none)}) IS NOT NULL"
                )
            except Refusal:
                continue
        if row.nulls is Nulls.NEVER and references(call):
            tests[f"{call.op} of {[a.type for a in call.args]}"] = f"({duck.expr(call, known)}) IS NULL"
    if not tests:
        return []
    counts = connection.execute(f"SELECT {', '.join(f'count_if({test})' for test in tests.values())} FROM hostile").fetchone()
    assert counts is not None
    return [name for name, count in zip(tests, counts, strict=True) if count]


TAME = {
    "int2": "-1", "int4": "2", "int8": "3", "float8": "-0.5", "float4": "1.5", "text": "'abc'", "varchar": "'b'", "bool": "TRUE",
    "time": "TIME '12:30:00'", "uuid": "'00000000-0000-0000-0000-000000000000'", "numeric": "1.50", "date": "DATE '2020-02-29'",
    "timestamp": "TIMESTAMP '2021-03-04 05:06:07'", "timestamptz": "TIMESTAMP '1969-03-04 05:06:07'", "interval": "INTERVAL 3 DAY",
}  # fmt: skip
"""A value of each type that a policy can declare."""
SURE = [name for name, row in CATALOGUE.items() if row.nulls is Nulls.OPERAND and name not in CONSTANT]


def made_null(name: str) -> list[str]:
    """Calls over values that a policy can declare, none of them NULL, that are NULL."""
    duck, columns = engine("duckdb"), (*COLUMNS.values(), *OTHERS.values())
    texts = {c.id: f"CAST({TAME[c.type]} AS {TYPES[c.type]})" for c in columns}
    tests = []
    for call in calls(name):
        with suppress(Refusal):
            tests.append(f"({duck.expr(call, texts)}) IS NULL")
    with duckdb.connect(config={"threads": 1}) as connection:
        found = connection.execute(f"SELECT {', '.join(tests)}").fetchone()
    assert found is not None
    return [test for test, null in zip(tests, found, strict=True) if null]


@pytest.mark.parametrize("name", SURE)
def test_what_is_null_with_an_operand_alone_is_not_otherwise(name: str) -> None:
    """Else a group for NULL would be missing."""
    assert made_null(name) == []


def test_what_is_null_for_other_values_is_found() -> None:
    assert made_null("sqrt"), "of a number below 0"


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_nulls_are_as_rows_say(name: str, hostile: duckdb.DuckDBPyConnection) -> None:
    assert calls(name), "no call of it is tried"
    assert wrong(CATALOGUE[name], hostile) == []


@pytest.mark.parametrize("name", ["coalesce", "least", "and", "is_null", "nullif", "concat_ws"])
def test_operations_that_make_something_of_null_are_found(name: str, hostile: duckdb.DuckDBPyConnection) -> None:
    assert wrong(replace(CATALOGUE[name], nulls=Nulls.OPERAND), hostile) != []


def test_an_operation_that_may_be_null_is_found(hostile: duckdb.DuckDBPyConnection) -> None:
    assert wrong(replace(CATALOGUE["length"], nulls=Nulls.NEVER), hostile) != []
