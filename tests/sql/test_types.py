"""Types as PostgreSQL names them: of casts, of what operators yield, by OID."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import psycopg
import pytest

from dpproxy.sql.statements import parse
from dpproxy.sql.types import NUMBERS, OIDS, TEXTS, TIMES, arithmetic, common, type_length, type_name


@pytest.mark.parametrize(
    ("text", "name", "length"),
    [
        ("int", "int4", ()), ("bigint", "int8", ()), ("numeric(10, 2)", "numeric", (10, 2)), ("varchar(3)", "varchar", (3,)),
        ("double precision", "float8", ()), ("timestamp with time zone", "timestamptz", ()), ("timestamp", "timestamp", ()),
        ("text[]", "text[]", ()), ("char(2)", "bpchar", (2,)),
        ("real", "float4", ()), ("float", "float8", ()), ("date", "date", ()), ("xml", None, ()),
    ],
)  # fmt: skip
def test_type_names(text: str, name: str | None, length: tuple[int, ...]) -> None:
    node = parse(f"SELECT CAST(NULL AS {text})").expressions[0].to
    assert type_name(node) == name
    assert type_length(node) == length


def test_types_of_operations() -> None:
    assert common(["unknown", "int4", "numeric"]) == "numeric"
    assert common(["unknown", "unknown"]) == "text"
    assert common(["date", "timestamptz"]) == "timestamptz"
    assert common(["varchar", "bpchar"]) == "text"
    assert (arithmetic("int2", "int8"), arithmetic("int4", "float4"), arithmetic("numeric", "float8")) == (
        "int8",
        "float8",
        "float8",
    )


KINDS = [NUMBERS, TIMES, [t for t in TEXTS if t != "name"]]
ALIKE = [pair for kind in KINDS for pair in permutations(kind, 2)]


@pytest.mark.parametrize(("a", "b"), ALIKE)
def test_common_types_are_postgresqls(a: str, b: str, postgres: psycopg.Connection[Any]) -> None:
    """PostgreSQL's own rule keeps the first of several text types; ours says text, which holds the same values."""
    found = postgres.execute(f"SELECT pg_typeof(coalesce(NULL::{a}, NULL::{b}))::oid".encode()).fetchone()
    assert found is not None
    told = OIDS[int(found[0])]
    assert common([a, b]) == (told if a not in TEXTS else "text")
    assert common(["unknown", a, "unknown"]) == a


@pytest.mark.parametrize(("a", "b"), list(permutations(NUMBERS, 2)))
def test_sums_have_postgresqls_types(a: str, b: str, postgres: psycopg.Connection[Any]) -> None:
    found = postgres.execute(f"SELECT pg_typeof(1::{a} + 1::{b})::oid".encode()).fetchone()
    assert found is not None
    assert arithmetic(a, b) == OIDS[int(found[0])]


def test_oids_are_postgresqls(postgres: psycopg.Connection[Any]) -> None:
    rows = postgres.execute("SELECT oid::int, typname, typelem::int FROM pg_type").fetchall()
    names = {oid: name for oid, name, _ in rows}
    element = {oid: names.get(of, "") for oid, name, of in rows if name.startswith("_")}
    others = {26: "int8", 18: "text", 19: "text"}  # oid, "char" and name, which are handed on as what holds them
    for oid, name in OIDS.items():
        assert name == others.get(oid, f"{element[oid]}[]" if oid in element else names[oid])
