"""A small town for authors of policies: the policy's text, and its data, which have a shape and no rows."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dpproxy.policy.people import make_verifier

TOWN = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 10, delta: 1e-6, every: year }
tables:
  people:
    unit: id
    columns: { id: unit, region: { values: [east, west] }, income: { range: [0, 1000], resolution: 1 }, email: hidden, job: {} }
  visits:
    unit: person_id
    bounds: { rows: 5 }
    columns: { person_id: unit, day: { range: [2024-01-01, 2024-12-31] }, cost: { range: [0, 100], resolution: 1 } }
  shops: { public: true }
views:
  easterners: SELECT id, income FROM people WHERE region = 'east'
roles:
  analyst: { budget: { epsilon: 5, delta: 1e-7, every: month }, query: { epsilon: 0.5, max_epsilon: 1 } }
  intern: { budget: { epsilon: 1, every: month }, query: { epsilon: 0.1 }, tables: [people, shops], min_units: 20 }
users:
  ada: { role: analyst, password: "VERIFIER" }
"""


def town_text() -> str:
    return TOWN.replace("VERIFIER", make_verifier("sesame"))


def town_data(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people (id INT PRIMARY KEY, region TEXT, income INT, email TEXT, job TEXT)")
        connection.execute("CREATE TABLE visits (person_id INT, day DATE, cost INT)")
        connection.execute("CREATE TABLE shops AS SELECT i AS shop_id, 'street' AS place FROM range(3) AS t(i)")
