"""Each of DuckDB's own types, with the ends of each: whatever the rows hold, no statement that is accepted fails.

The shop of the other tests has the usual types. A statement that fails for some row tells whether there is such a row.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import duckdb
import plan_harness
import pytest

from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines import engine
from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend, Policy
from dpproxy.sql.template import Dialect
from dpproxy.tree.expr import Call, Column, Expr, Ref

COLUMNS = {
    "tiny": ("TINYINT", "127", "-128"), "utiny": ("UTINYINT", "255"), "uint": ("UINTEGER", "4294967295"),
    "ubig": ("UBIGINT", "18446744073709551615"), "big": ("BIGINT", "9223372036854775807", "-9223372036854775808"),
    "huge": ("HUGEINT", "170141183460469231731687303715884105727", "-170141183460469231731687303715884105728"),
    "uhuge": ("UHUGEINT", "340282366920938463463374607431768211455"),
    "wide": ("DECIMAL(38,0)", "99999999999999999999999999999999999999"), "fine": ("DECIMAL(38,38)", "0.5", "-0.5"),
    "middle": ("DECIMAL(38,10)", "9999999999999999999999999999.9999999999"), "small": ("DECIMAL(4,4)", "0.9999"),
    "single": ("FLOAT", "'NaN'", "'-inf'", "3.4e38", "1e-45", "-0.0"), "dbl": ("DOUBLE", "'inf'", "1e308"),
    "clock": ("TIME", "'00:00:00'", "'24:00:00'"), "day": ("DATE", "'infinity'", "'5881580-07-10'", "'5877642-06-25 (BC)'"),
    "usual": ("TIMESTAMP", "'-infinity'", "'294246-12-31 23:59:59'", "'290000-01-01 (BC) 00:00:00'"),
    "nano": ("TIMESTAMP_NS", "'2262-04-11 23:47:16.854775806'", "'1677-09-22 00:12:43.145224193'"),
    "milli": ("TIMESTAMP_MS", "'infinity'", "'200000-01-01'"), "secs": ("TIMESTAMP_S", "'infinity'", "'200000-01-01'"),
    "instant": ("TIMESTAMPTZ", "'infinity'", "'294246-12-31 23:59:59+00'", "'290000-01-01 (BC) 00:00:00+00'"),
    "span": ("INTERVAL", "'178000000 years'", "'30 days'", "'1 month'"),
    "uid": ("UUID", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"), "kind": ("ENUM('a', 'b')", "'a'"), "word": ("VARCHAR", "'x'", "''"),
}  # fmt: skip
NUMBERS = ("tiny", "ubig", "big", "huge", "uhuge", "wide", "fine", "middle", "single")
MOMENTS = ("day", "usual", "nano", "milli", "secs", "instant")
POLICY = """
version: 1
dataset: types
backend: {{ duckdb: types.duckdb }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 100, delta: 1e-3 }}
tables:
  people: {{ unit: id, columns: {{ id: unit }} }}
  things: {{ unit: id, bounds: {{ rows_per_group: 3, groups: 2 }}, columns: {{ id: unit, {columns} }} }}
roles: {{ analyst: {{ budget: {{ epsilon: 100, delta: 1e-4 }}, query: {{ epsilon: 1, max_epsilon: 10, delta: 1e-6 }} }} }}
users: {{}}
"""
World = tuple[Policy, Catalog, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("types")
    path = folder / "types.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("SET TimeZone = 'UTC'")
        made.execute("CREATE TABLE people AS SELECT i AS id FROM range(4) AS t(i)")
        made.execute(f"CREATE TABLE things (id BIGINT, {', '.join(f'{n} {t}' for n, (t, *_) in COLUMNS.items())})")
        for name, (_, *values) in COLUMNS.items():
            for value in values:
                made.execute(f"INSERT INTO things (id, {name}) VALUES (1, {value})")
        for values in itertools.islice(zip(*(itertools.cycle(v) for _, *v in COLUMNS.values()), strict=False), 8):
            made.execute(f"INSERT INTO things VALUES (2, {', '.join(values)})")
    (folder / "types.yaml").write_text(POLICY.format(columns=", ".join(f"{n}: {{}}" for n in COLUMNS)))

    async def introspected() -> Catalog:
        backend = DuckDB(DuckDBBackend(str(path)))
        found = await backend.introspect()
        await backend.close()
        return found

    found = asyncio.run(introspected())
    connection = duckdb.connect(str(path), read_only=True)
    connection.execute("SET TimeZone = 'UTC'")
    return load_file(Path(folder / "types.yaml")).policy, found, connection


def answered(world: World, sql: str) -> bool:
    """Whether it is accepted; raises what the engine raises."""
    policy, found, connection = world
    try:
        made = plan_harness.plan(sql, found, policy)
    except Refusal:
        return False
    for measurement in made.measurements:
        for query in plan_harness.queries(measurement, plan_harness.values_of(made)):
            connection.sql(query).fetchall()
    return True


@pytest.fixture(autouse=True)
def on_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_harness, "engine", "duckdb")


@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.long)], ids=["one order", "both orders"])
@pytest.mark.parametrize("family", [NUMBERS, MOMENTS], ids=["numbers", "moments"])
def test_two_columns(world: World, family: tuple[str, ...], both: bool) -> None:
    """Compared, put together, looked up in one another: each pair in one order, every other one in the reverse."""
    for (i, a), (j, b) in itertools.product(enumerate(family), repeat=2):
        if not both and (i > j) != (i + j) % 2:
            continue
        tests = [f"{a} {op} {b}" for op in ("=", "<", "IS DISTINCT FROM", "-")]
        tests += [f"coalesce({a}, {b})", f"greatest({a}, {b})", f"CASE WHEN id > 1 THEN {a} ELSE {b} END", f"nullif({a}, {b})"]
        for test in tests:
            answered(world, f"SELECT count(*) FROM things WHERE ({test}) IS NULL")
        assert answered(
            world, f"SELECT x, count(*) FROM (SELECT id, {a} AS x FROM things UNION ALL SELECT id, {b} FROM things) t GROUP BY 1"
        )
        assert answered(world, f"SELECT count(*) FROM things a JOIN things b ON a.id = b.id AND a.{a} = b.{b}")
        assert answered(world, f"SELECT count(*) FROM things a WHERE a.{a} IN (SELECT b.{b} FROM things b WHERE b.id = a.id)")
        assert answered(world, f"SELECT count(*) FROM things WHERE (id, {a}) IN (SELECT id, {b} FROM things)")


ONE = (
    "{0}::text", "{0}::int", "{0}::numeric(5,2)", "{0}::float8", "{0}::date", "{0}::timestamp", "{0}::timestamptz", "{0}::time",
    "abs({0})", "{0} + 1", "{0} * {0}", "{0} / 3", "{0} % 7", "round({0}, 2)", "floor({0})", "sqrt({0})", "exp({0})", "ln({0})",
    "extract(year FROM {0})", "extract(week FROM {0})", "extract(epoch FROM {0})", "date_trunc('week', {0})", "date_trunc('hour', {0})",
    "{0} + interval '1 month'", "{0} - interval '3 hours'", "to_char({0}, 'YYYY-MM')", "{0} AT TIME ZONE 'Europe/Paris'", "age({0})",
    "length({0}::text)", "{0} || 'x'", "date_bin('15 minutes', {0}, timestamp '2020-01-01')",
)  # fmt: skip


@pytest.mark.parametrize("each", [2, pytest.param(1, marks=pytest.mark.long)], ids=["every other form", "every form"])
@pytest.mark.parametrize("name", COLUMNS)
def test_one_column(world: World, name: str, each: int) -> None:
    """Forms that one column leaves out are tried with the next."""
    for form in ONE[list(COLUMNS).index(name) % each :: each]:
        expression = form.format(name)
        answered(world, f"SELECT {expression} AS k, count(*), count(DISTINCT {expression}) FROM things GROUP BY 1")
        answered(world, f"SELECT sum(least(greatest({expression}, -100), 100)) FROM things")
    for aggregate in ("max", "sum", "avg", "stddev", "count"):
        answered(world, f"SELECT k, count(*) FROM (SELECT id, {aggregate}({name}) AS k FROM things GROUP BY id) t GROUP BY 1")
    assert answered(world, f"SELECT {name}, count(*) FROM things GROUP BY 1")


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("op", ["round", "sqrt", "exp", "ln", "abs", "sign", "+", "*", "trunc"])
def test_a_text_is_never_made_a_number(dialect: Dialect, op: str) -> None:
    """Whatever PostgreSQL took the function for: for a text that is no number the cast would raise."""
    text: Expr = Ref("text", Column(1, "x", "text"))
    args = (text, text) if op in ("+", "*") else (text,)
    for type_ in ("float8", "numeric"):
        with pytest.raises(Refusal):
            engine(dialect).expr(Call(type_, op, args), {1: "t.x"})
