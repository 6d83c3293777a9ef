"""Sums of one unit's fractional values are the same in whatever order, and among whomever else's rows, they are read.

Additions of doubles are not associative, and an engine reads rows in an order that depends on all of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import psycopg
import pytest
from scratch_postgres import scratch_server

from dpproxy.engines import engine
from dpproxy.engines.doubles import Quantum, quantum
from dpproxy.sql.template import Dialect
from dpproxy.tree.expr import Agg, Column, Ref, Win
from dpproxy.tree.interval import Interval

Run = Callable[[str], list[tuple[Any, ...]]]
FRAME = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
FLOAT = {"duckdb": "DOUBLE", "postgres": "float8"}
CALLS = ("sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
RANGES = [(0, 0), (0, 100), (-1, 0), (0, 2), (-2049, 1)]
NASTY = [1e100, -1e100, 1e99, 3.3, -0.1, 1e-9, 1e16, 1.0, -1e16, 0.1, 0.2, 0.3, 7e15, 1 / 3, -0.0, 0.0, 5e-324, 1e-90]
SPREAD = [random.Random(i).uniform(-1, 1) * 10 ** random.Random(1000 + i).uniform(-8, 12) for i in range(60)]
SEEDS = 6  # orders of rows: of two, plain sums already differ
NEAR = [random.Random(i).uniform(0, 100) for i in range(60)]


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dialect, Run]]:
    if request.param == "duckdb":
        connection = duckdb.connect()
        yield "duckdb", lambda sql: connection.execute(sql).fetchall()
        return
    with scratch_server(tmp_path_factory.mktemp("order")) as server, psycopg.connect(server.conninfo(), autocommit=True) as there:
        yield "postgres", lambda sql: there.execute(sql.encode()).fetchall()


def rows(values: Sequence[float], dialect: Dialect, seed: int) -> str:
    """The values, shuffled, as rows of unit 1 among rows of others: unit, value, its number."""
    dice = random.Random(seed)
    mixed = [(1, v, i) for i, v in enumerate(values)]
    mixed += [(dice.randrange(2, 9), dice.uniform(-1e9, 1e9), i) for i in range(dice.randrange(200))]
    dice.shuffle(mixed)
    cells = ", ".join(f"({u}, CAST('{v!r}' AS {FLOAT[dialect]}), {i})" for u, v, i in mixed)
    return f"(VALUES {cells}) AS t(u, x, i)"


X, UNIT = Ref("float8", Column(1, "x", "float8")), Ref("int4", Column(2, "u", "int4"))
NUMBER, TIED = Ref("int4", Column(3, "i", "int4")), Ref("int4", Column(4, "k", "int4"))
NAMES = {1: "x", 2: "u", 3: "i", 4: "i % 5"}


def aggregate(name: str, dialect: Dialect, x: Ref = X, *, distinct: bool = False) -> str:
    return engine(dialect).aggregate(Agg("float8", name, (x,), distinct), NAMES)


def window(name: str, dialect: Dialect, by: Ref | None, frame: str) -> str:
    order = ((by, False, False),) if by is not None else ()
    return engine(dialect).window(Win("float8", name, (X,), (UNIT,), order, frame), NAMES)


@pytest.mark.parametrize("values", [NASTY, SPREAD, NEAR], ids=["nasty", "spread", "near"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("distinct", [False, True])
def test_aggregates(name: str, values: list[float], distinct: bool, on: tuple[Dialect, Run]) -> None:
    dialect, run = on
    item = aggregate(name, dialect, distinct=distinct)
    found = set()
    for seed in range(SEEDS):
        found |= {x for u, x in run(f"SELECT u, {item} FROM {rows(values, dialect, seed)} GROUP BY u") if u == 1}
    assert len(found) == 1
    assert found == {run(f"SELECT {item} FROM {rows(values, dialect, 99)} WHERE u = 1")[0][0]}


@pytest.mark.parametrize("values", [NASTY, SPREAD, NEAR], ids=["nasty", "spread", "near"])
@pytest.mark.parametrize("name", ["sum", "avg"])
@pytest.mark.parametrize(("by", "frame"), [(None, ""), (TIED, ""), (NUMBER, FRAME), (TIED, FRAME.replace("ROWS", "RANGE"))])
def test_windows(name: str, values: list[float], by: Ref | None, frame: str, on: tuple[Dialect, Run]) -> None:
    dialect, run = on
    item = window(name, dialect, by, frame)
    found = set()
    for seed in range(SEEDS):
        made = run(f"SELECT i, w FROM (SELECT u, i, {item} AS w FROM {rows(values, dialect, seed)}) s WHERE u = 1")
        found.add(tuple(sorted(made)))
    assert len(found) == 1


@pytest.mark.parametrize("name", CALLS)
def test_the_plain_calls_would_fail(name: str, on: tuple[Dialect, Run]) -> None:
    """What this file shows is not true of the engines' own sums."""
    dialect, run = on
    found = {run(f"SELECT {name}(x) FROM {rows(SPREAD, dialect, seed)} WHERE u = 1")[0] for seed in range(12)}
    assert len(found) > 1


@pytest.mark.parametrize("bound", [None, Interval(Fraction(0), Fraction(100)), Interval(Fraction(0), Fraction(10) ** 12)])
def test_values(bound: Interval | None, on: tuple[Dialect, Run]) -> None:
    """The digits of a double are kept: as near to the exact sum as a double is (PostgreSQL: as 15 digits are)."""
    dialect, run = on
    x = X if bound is None else Ref("float8", Column(1, "x", "float8", bound=bound))
    total, mean = run(
        f"SELECT {aggregate('sum', dialect, x)}, {aggregate('avg', dialect, x)} FROM {rows(NEAR, dialect, 1)} WHERE u = 1"
    )[0]
    assert total == pytest.approx(math.fsum(NEAR), rel=1e-14)
    assert mean == pytest.approx(math.fsum(NEAR) / len(NEAR), rel=1e-14)


def test_far_out_of_range() -> None:
    """What is 500 times larger than the range is held there; the largest sum of as many rows as there may be fits."""
    assert [
        quantum(Ref("float8", Column(1, "x", "float8", bound=Interval(Fraction(lo), Fraction(hi))))) for lo, hi in RANGES
    ] == [Quantum(Fraction(2) ** (85 - e), "HUGEINT", 95) for e in (41, 7, 1, 2, 12)]
    assert quantum(Ref("numeric", Column(1, "x", "numeric", grid=Fraction(1, 100)))) == Quantum(100, "BIGINT", 62)
    assert quantum(Ref("numeric", Column(1, "x", "numeric", grid=Fraction(1, 8)))) == Quantum(1000, "BIGINT", 62)
    assert quantum(Ref("numeric", Column(1, "x", "numeric", grid=Fraction(1, 10**7)))) == Quantum(10**7, "HUGEINT", 95)
    assert 2**95 * 2**31 < 2**127


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf], math.inf),
        ([1.0, -math.inf], -math.inf),
        ([math.inf, 1.0, -math.inf], math.nan),
        ([1.0, math.nan, math.inf], math.nan),
        ([], None),
    ],
)
@pytest.mark.parametrize("name", ["sum", "avg"])
def test_what_is_not_finite(name: str, values: list[float], expected: float | None, on: tuple[Dialect, Run]) -> None:
    """As PostgreSQL adds float8."""
    dialect, run = on
    source = f"{rows(values, dialect, 1)} WHERE u = 1"
    (found,) = run(f"SELECT {aggregate(name, dialect)} FROM {source}")[0]
    assert found == expected or (found is not None and expected is not None and math.isnan(found) and math.isnan(expected))
    if dialect == "postgres":
        assert str(found) == str(run(f"SELECT {name}(x) FROM {source}")[0][0])
