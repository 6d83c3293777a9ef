"""Names of aggregates: all that PostgreSQL has, as its own catalog lists them."""

from __future__ import annotations

from typing import Any

import psycopg

from dpproxy.sql.trees import AGGREGATES


def test_every_aggregate_of_postgresql_is_known(postgres: psycopg.Connection[Any]) -> None:
    """One that is taken for a plain function would be computed of a unit's row, and its answer would not be one of many."""
    rows = postgres.execute(
        "SELECT DISTINCT proname FROM pg_proc WHERE prokind = 'a' AND pronamespace = 'pg_catalog'::regnamespace"
    )
    found = {name for (name,) in rows}
    strict = {name for name in found if name.endswith(("_strict", "_unique", "_unique_strict"))}  # of JSON, refused as unknown
    assert found - strict <= AGGREGATES


def test_no_plain_function_is_taken_for_one(postgres: psycopg.Connection[Any]) -> None:
    rows = postgres.execute(
        "SELECT DISTINCT proname FROM pg_proc WHERE prokind = 'f' AND pronamespace = 'pg_catalog'::regnamespace"
    )
    assert not {name for (name,) in rows} & AGGREGATES


def test_names_are_folded() -> None:
    assert all(name == name.lower() for name in AGGREGATES)
