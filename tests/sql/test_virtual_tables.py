"""The tables of schema dpproxy: their names and types are such as PostgreSQL takes in CREATE TABLE."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dpproxy.sql.types import OIDS
from dpproxy.sql.virtual_tables import VIRTUAL_TABLES


@pytest.mark.parametrize("name", VIRTUAL_TABLES)
def test_postgresql_takes_them_as_they_are(name: str, postgres: psycopg.Connection[Any]) -> None:
    columns = VIRTUAL_TABLES[name].columns
    postgres.execute(f"CREATE TEMP TABLE {name} ({', '.join(f'{c.name} {c.type}' for c in columns)})".encode())
    cursor = postgres.execute(f"SELECT {', '.join(c.name for c in columns)} FROM {name}".encode())
    assert cursor.description is not None
    assert [(c.name, OIDS[c.type_code]) for c in cursor.description] == [(c.name.strip('"'), c.type) for c in columns]


def test_what_clients_are_promised_is_there() -> None:
    """Clients' own queries name these."""
    names = {name: [c.name for c in table.columns] for name, table in VIRTUAL_TABLES.items()}
    assert set(names) == {"help", "budget", "answers", "policy", "tables", "estimate_remaining_dp_aggregates"}
    assert {"epsilon_left", "delta_spent", "resets"} <= set(names["budget"])
    assert {"asked", "epsilon", "reused", "outcome"} <= set(names["answers"])
