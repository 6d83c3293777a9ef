"""A table with a column of every type, of values at the ends of what the type holds, on DuckDB and on PostgreSQL.

Knows: how each engine writes them. Must not know: operations. Rows are drawn, so that columns meet in most combinations.
"""

from __future__ import annotations

import random

from dpproxy.engines.base import Engine
from dpproxy.tree.expr import Column

INTEGERS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
TEXTS = ["", " ", "abc", "äß-ẞ", "12", "-7.5e3", "2020-02-30", "2021-03-04", "a%b_\\", "%\\", "true", "x" * 3000, "1.00", "NaN"]
TEXTS += ["0000-01-01", "12:00", "\u0130stanbul \u03a3", "123e4567-e89b-12d3-a456-426614174000", "99999999999999999999"]
_UUIDS = ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]
_FLOATS = ["0", "-0", "1.5", "-1", "1e308", "-1e308", "5e-324", "Infinity", "-Infinity", "NaN"]
_TIMES = ["00:00:00", "12:30:00", "23:59:59.999999"]
_COMMON: dict[str, list[str]] = {
    **{type_: [str(n) for n in (-top, 1 - top, -1, 0, 1, 2, top - 1)] for type_, top in INTEGERS.items()},
    "float8": _FLOATS, "float4": ["0", "-0", "1.5", "3.4e38", "1e-45", "Infinity", "-Infinity", "NaN"],
    "text": TEXTS, "varchar": TEXTS, "bool": ["true", "false"], "time": _TIMES, "uuid": _UUIDS,
}  # fmt: skip
VALUES: dict[str, dict[str, list[str]]] = {
    "duckdb": {
        **_COMMON,
        "numeric": ["0", "1.50", "-1", "99999999999999999999999999999.999999999", "-99999999999999999999999999999.999999999", "0.000000001"],
        "date": ["infinity", "-infinity", "5877642-06-25 (BC)", "5881580-07-10", "0001-01-01", "9999-12-31", "2020-02-29", "4713-12-31 (BC)"],
        "timestamp": ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806", "0001-01-01", "9999-12-31", "2020-02-29"],
        "timestamptz": ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00+00", "294247-01-10 04:00:54.775806+00", "0001-01-01 00:00:00+00", "2020-02-29 00:00:00+00"],
        "interval": ["0 days", "1 month", "30 days", "-178956970 years", "178956970 years", "2147483647 days", "-106751991 days 04:00"],
    },
    "postgres": {
        **_COMMON,
        "time": [*_TIMES, "24:00:00"],
        "numeric": ["0", "1.50", "1.5", "-1", "NaN", "Infinity", "-Infinity", "1e1000", "-1e1000", "1e-1000", "1e100000"],
        "date": ["infinity", "-infinity", "4713-01-01 BC", "5874897-12-31", "0001-01-01", "9999-12-31", "2020-02-29"],
        "timestamp": ["infinity", "-infinity", "4713-01-01 BC", "294276-12-31 23:59:59.999999", "0001-01-01", "9999-12-31", "2020-02-29"],
        "timestamptz": ["infinity", "-infinity", "4713-01-02 BC", "294276-12-31 00:00:00+00", "0001-01-01 00:00:00+00", "2020-02-29 00:00:00+00"],
        "interval": ["0", "1 month", "30 days", "-178000000 years", "178000000 years", "2147483647 days", "-106751991 days 04:00"],
    },
}  # fmt: skip
_NATIVE = {"int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "REAL", "float8": "DOUBLE PRECISION", "text": "TEXT",
           "varchar": "VARCHAR(4000)", "bool": "BOOLEAN"}  # fmt: skip
COLUMNS = {type_: Column(i, type_, type_) for i, type_ in enumerate(VALUES["duckdb"])}
OTHERS = {type_: Column(100 + i, f"{type_}_2", type_) for i, type_ in enumerate(VALUES["duckdb"])}
"""A second column of each type."""


def statements(dialect: str, rows: int, seed: int) -> list[str]:
    """Make and fill the table `hostile`."""
    rng, columns = random.Random(seed), [*COLUMNS.values(), *OTHERS.values()]
    native = {**_NATIVE, "numeric": "DECIMAL(38, 9)" if dialect == "duckdb" else "NUMERIC"}
    kinds = ", ".join(f"{c.name} {native.get(c.type, c.type.upper())}" for c in columns)

    def value(type_: str) -> str:
        text = rng.choice([*VALUES[dialect][type_], None])
        return "NULL" if text is None else f"CAST('{text}' AS {native.get(type_, type_.upper())})"

    drawn = (f"({', '.join(value(c.type) for c in columns)})" for _ in range(rows))
    return [f"CREATE TABLE hostile ({kinds})", f"INSERT INTO hostile VALUES {', '.join(drawn)}"]


def names(engine: Engine) -> dict[int, str]:
    """The text of each column as an engine reads it."""
    return {c.id: engine.column(c, f"hostile.{engine.identifier(c.name)}") for c in (*COLUMNS.values(), *OTHERS.values())}
