"""A folder with the least that can be served: one table of a hundred people, one user."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dpproxy.policy.people import make_verifier
from tests.worlds.wire_client import PASSWORD

POLICY = """
version: 1
dataset: shop
backend: { duckdb: data.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 10, delta: 1e-6, every: never }
tables: { people: { unit: id, columns: { id: unit } } }
roles: { analyst: { budget: { epsilon: 10, delta: 0, every: never }, query: { epsilon: 0.1, max_epsilon: 1 } } }
users: { ada: { role: analyst, password: "VERIFIER" } }
"""


def written(folder: Path) -> Path:
    """The folder, with data and `shop.yaml`."""
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id FROM range(100) AS t(i)")
    (folder / "shop.yaml").write_text(POLICY.replace("VERIFIER", make_verifier(PASSWORD)))
    return folder
