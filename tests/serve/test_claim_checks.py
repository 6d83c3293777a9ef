"""What a policy claims of rows is held against the data: what rests on it is then true, and what breaks it is named to the operator."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import duckdb
import pytest

from dpproxy.answers.plan_cache import private_names
from dpproxy.backends.base import Backend
from dpproxy.backends.duckdb_catalog import introspected
from dpproxy.engines import literal
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import Loaded, load_file, read_text
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import PolicyError
from dpproxy.privacy.measurement import Measurement
from dpproxy.serve.data_checks import broken_claims, checked_catalog, open_backend
from dpproxy.sql.statements import split

ROWS = 3
POLICY = f"""
version: 1
dataset: shop
backend: {{ duckdb: shop.duckdb }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 10, delta: 0, every: year }}
tables:
  people: {{ unit: id, columns: {{ id: unit }} }}
  orders:
    unit: {{ via: people.id, column: pid }}
    bounds: {{ rows_per_group: {ROWS}, groups: 1 }}
    columns: {{ pid: unit, ref: key }}
  items:
    unit: {{ via: orders.ref }}
    bounds: {{ rows_per_group: {ROWS}, groups: 1 }}
    columns: {{ ref: key, lot: key, price: {{ range: [0, 10] }} }}
  parts:
    unit: {{ via: items.lot }}
    bounds: {{ rows_per_group: {ROWS}, groups: 1 }}
    columns: {{ lot: key }}
roles: {{ analyst: {{ budget: {{ epsilon: 5, delta: 0, every: month }}, query: {{ epsilon: 0.5, max_epsilon: 1 }} }} }}
users: {{ ada: {{ role: analyst, password: "{make_verifier("x")}" }} }}
"""
TABLES = "CREATE TABLE people (id INT); CREATE TABLE orders (pid INT, ref INT); CREATE TABLE items (ref INT, lot INT, price INT);"
TABLES += "CREATE TABLE parts (lot INT);"


class World:
    """A shop in memory, as far as `broken_claims` needs an engine, and as plans measure it."""

    dialect = "duckdb"

    def __init__(self, rows: str) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute(TABLES + rows)

    async def violations(self, checks: Sequence[str], aside: bool) -> tuple[int, ...]:
        return tuple(self._one(check)[0] for check in checks)

    async def broken(self) -> list[tuple[str, int]]:
        found = await broken_claims(loaded().policy, shapes(), cast(Backend, self))
        return [(claim.key, rows) for claim, rows in found.items()]

    def change(self, measurement: Measurement, person: int) -> int:
        """By how much the measured numbers change when a person's rows are deleted."""
        (template,) = measurement.queries
        query = template.render((), literal)
        self._connection.execute("BEGIN")
        before = self._one(query)
        mine = f"SELECT ref FROM orders WHERE pid = {person}"
        self._connection.execute(f"DELETE FROM parts WHERE lot IN (SELECT lot FROM items WHERE ref IN ({mine}))")
        self._connection.execute(f"DELETE FROM items WHERE ref IN ({mine})")
        self._connection.execute(f"DELETE FROM orders WHERE pid = {person}; DELETE FROM people WHERE id = {person}")
        after = self._one(query)
        self._connection.execute("ROLLBACK")
        return max(abs(a - b) for a, b in zip(before, after, strict=True))

    def _one(self, query: str) -> tuple[int, ...]:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return row


@cache
def loaded() -> Loaded:
    return read_text(POLICY, "shop.yaml", Path())


@cache
def shapes() -> Catalog:
    """The catalog, whatever the rows are."""
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        return introspected(connection)


@cache
def planned(sql: str) -> Measurement:
    policy = loaded().policy
    (statement,) = split(sql, private_names(policy))
    (made,) = planning(policy, shapes(), "duckdb")(statement, policy.roles["analyst"], {"search_path": "public"}, ()).measurements
    return made


async def opened(folder: Path, rows: str) -> Catalog:
    """What a start says of a file with these rows. Raises PolicyError."""
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(TABLES + rows)
    (folder / "shop.yaml").write_text(POLICY)
    found = load_file(folder / "shop.yaml")
    backend = open_backend(found)
    try:
        return await checked_catalog(found, backend)
    finally:
        await backend.close()


SHARED = """INSERT INTO people SELECT i FROM range(501) t(i);
INSERT INTO orders SELECT i, 0 FROM range(501) t(i);
INSERT INTO items VALUES (0, 1, 10);"""
"""500 people have an order 0, and one has an order 0 and an item of it."""


async def test_an_item_of_an_order_that_many_have_stops_the_start(tmp_path: Path) -> None:
    """Each of the many would be its owner: the plan says that a person changes three rows, and one changes 501."""
    made = planned("SELECT count(*) FROM items")
    assert made.bases[0].linf == ROWS
    assert World(SHARED).change(made, 500) == 501, "the claim is what the plan rests on"
    with pytest.raises(PolicyError) as stopped:
        await opened(tmp_path, SHARED)
    (problem,) = stopped.value.problems
    assert (problem.code, problem.severity, problem.line) == ("not-unique", "error", 14)
    assert problem.what == (
        "`orders.ref`, on the path from `items` to its person, is not unique: up to 501 rows of `orders` share one value"
    )
    assert problem.fix == "lead the path of `items` over a unique key of `orders`, or make `ref` unique"


async def test_each_step_of_a_path_is_looked_at(tmp_path: Path) -> None:
    rows = "INSERT INTO people VALUES (1), (2); INSERT INTO orders VALUES (1, 1), (2, 2);"
    world = World(rows + "INSERT INTO items VALUES (1, 7, 1), (2, 7, 1), (2, NULL, 1), (1, NULL, 1)")
    assert await world.broken() == [("items.lot", 2)]
    rows += "INSERT INTO people VALUES (2); INSERT INTO orders VALUES (1, 2), (1, 2)"
    assert await World(rows).broken() == [("people.id", 2), ("orders.ref", 3)]
    with pytest.raises(PolicyError) as stopped:
        await opened(tmp_path, rows)
    assert [p.line for p in stopped.value.problems] == [8, 14]


def worlds(count: int) -> Iterator[str]:
    """Shops of a few people, whose keys are now and then the same, and now and then NULL."""
    for seed in range(count):
        chance = random.Random(seed)

        def key(most: int, chance: random.Random = chance) -> str:
            return chance.choice(["NULL", *map(str, range(most))])

        orders = [f"({chance.randrange(4)}, {key(chance.choice((6, 40)))})" for _ in range(chance.randrange(1, 6))]
        items = [f"({key(6)}, {key(chance.choice((6, 40)))}, {chance.randrange(11)})" for _ in range(chance.randrange(1, 7))]
        parts = [f"({key(6)})" for _ in range(chance.randrange(1, 12))]
        rows = f"INSERT INTO orders VALUES {', '.join(orders)}; INSERT INTO items VALUES {', '.join(items)};"
        yield f"INSERT INTO people FROM range(4); {rows} INSERT INTO parts VALUES {', '.join(parts)}"


async def test_where_claims_hold_nobody_changes_more_than_the_plan_says() -> None:
    """And where one is broken somebody may: the claims are what the plans rest on, and all of it."""
    told = {True: 0, False: 0}
    exceeded = False
    for rows in worlds(80):
        world = World(rows)
        whole = not await world.broken()
        told[whole] += 1
        for sql in ("SELECT count(*) FROM items", "SELECT sum(price) FROM items", "SELECT count(*) FROM parts"):
            made = planned(sql)
            most = max(basis.linf for basis in made.bases)
            change = max(world.change(made, person) for person in range(4))
            assert not whole or change <= most, (rows, sql)
            exceeded = exceeded or (not whole and change > most)
    assert exceeded
    assert min(told.values()) > 20, told
