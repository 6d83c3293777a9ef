"""Invented rows: of the policy's shape, within what it declares, as many and as unlike as was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpproxy.facade.sample import Size, rows_of_own_keys, sample
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.joined_keys import spelled, with_joined
from dpproxy.policy.load import load_text, read_text
from dpproxy.policy.model import Policy
from dpproxy.review.verdicts import Bench
from dpproxy.table_terms import TableName
from tests.worlds.authored_town import town_text

PLACES = {TableName("public", "shops"): pa.table({"shop_id": [1, 2], "place": ["a", "b"]})}


def rows(policy: Policy, catalog: Catalog, size: Size, publics: dict[TableName, pa.Table] | None = None) -> dict[str, pa.Table]:
    return {str(shape.name): table for shape, table in sample(policy, catalog, publics or {}, size)}


def test_declared_values_and_ranges_alone(bench: Bench) -> None:
    made = rows(bench.policy, bench.catalog, Size(units=500), PLACES)
    people, visits = made["people"].to_pydict(), made["visits"].to_pydict()
    assert len(set(people["id"])) == 500
    assert set(people["region"]) == {"east", "west"}
    assert all(0 <= int(income) <= 1000 for income in people["income"])
    assert set(people["email"]) == {None}
    assert all("2024-01-01" <= day <= "2024-12-31" for day in visits["day"])
    assert all(0 <= int(cost) <= 100 for cost in visits["cost"])
    assert set(visits["person_id"]) <= set(people["id"])
    assert made["shops"] is PLACES[TableName("public", "shops")]


def test_the_same_seed_the_same_rows(bench: Bench) -> None:
    first, again, other = (rows(bench.policy, bench.catalog, Size(units=50, seed=s))["visits"] for s in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(("skew", "least", "most"), [(0.0, 0.01, 0.02), (1.0, 0.06, 0.13), (2.0, 0.25, 0.55)])
def test_skew_is_the_share_of_the_busiest(skew: float, least: float, most: float, bench: Bench) -> None:
    made = rows(bench.policy, bench.catalog, Size(units=4000, rows=20, skew=skew))["visits"]
    _, counts = np.unique(made["person_id"].to_numpy(), return_counts=True)
    share = np.sort(counts)[-40:].sum() / counts.sum()
    assert least < share < most
    assert 15 < made.num_rows / 4000 < 25


CHAIN = town_text().replace(
    "  shops: { public: true }",
    """  shops: { public: true }
  receipts:
    unit: { via: visits.visit_id }
    bounds: { rows: 5 }
    columns: { receipt_id: key, visit_id: key, shop_id: {}, friend: { references: people.id } }""",
)


def chained() -> tuple[Policy, Catalog]:
    def table(name: str, columns: dict[str, str], **more: object) -> CatalogTable:
        shape = tuple(CatalogColumn(c, c, t) for c, t in columns.items())
        return CatalogTable(TableName("public", name), ("main", name), shape, **more)  # type: ignore[arg-type]

    key = ForeignKey(("shop_id",), TableName("public", "shops"), ("shop_id",))
    tables = [
        table("people", {"id": "uuid", "region": "text", "income": "int4", "email": "text", "job": "text"}),
        table("visits", {"visit_id": "text", "person_id": "uuid", "day": "date", "cost": "int4"}),
        table("shops", {"shop_id": "int4", "place": "text"}, primary_key=("shop_id",)),
        table("receipts", {"receipt_id": "int8", "visit_id": "text", "shop_id": "int4", "friend": "uuid"}, foreign_keys=(key,)),
    ]
    text = CHAIN.replace("columns: { person_id: unit,", "columns: { visit_id: key, person_id: unit,")
    return load_text(text, "town.yaml", Path("/town")), Catalog({t.name: t for t in tables})


def test_paths_and_references_lead_to_the_same_unit() -> None:
    policy, catalog = chained()
    made = rows(policy, catalog, Size(units=60, rows=3), PLACES)
    owner = dict(zip(made["visits"]["visit_id"].to_pylist(), made["visits"]["person_id"].to_pylist(), strict=True))
    receipts = made["receipts"].to_pydict()
    assert len(owner) == made["visits"].num_rows
    assert len(set(receipts["receipt_id"])) == len(receipts["receipt_id"]) > 100
    assert [owner[visit] for visit in receipts["visit_id"]] == receipts["friend"]
    assert set(receipts["shop_id"]) == {"1", "2"}


def test_rows_share_no_listed_key() -> None:
    """Not even those of tables whose other rows lead over them; a key with a NULL is none."""
    policy, catalog = chained()
    visits = TableName("public", "visits")
    listed = replace(policy.tables[visits], keys=(("person_id", "cost"), ("day",)))
    keyed = replace(policy, tables={**policy.tables, visits: listed})
    one, other = (rows(p, catalog, Size(units=60, rows=3), PLACES) for p in (policy, keyed))
    pairs = list(zip(*(other["visits"][name].to_pylist() for name in ("person_id", "cost")), strict=True))
    days = [day for day in other["visits"]["day"].to_pylist() if day is not None]
    assert len(set(pairs)) == len(pairs) < one["visits"].num_rows
    assert len(set(days)) == len(days) > 5
    assert set(other["receipts"]["visit_id"].to_pylist()) <= set(other["visits"]["visit_id"].to_pylist())
    columns = {"person_id": ["a", "a", "a", None, None], "cost": ["1", "1", None, "1", "1"], "day": ["x", "y", "x", None, None]}
    assert rows_of_own_keys(listed, columns) == [0, 3, 4]


JOINED = """
version: 1
dataset: saas
backend: { duckdb: d.duckdb }
privacy_unit: { name: user, key: [members.tenant, members.user_no] }
budget: { epsilon: 1, delta: 0, every: never }
tables:
  members: { unit: [tenant, user_no], columns: { tenant: {} } }
  orders: { unit: [tenant, user_no], bounds: { rows: 3 }, columns: { tenant: {} } }
  items:
    unit: { via: [orders.tenant, orders.order_id], column: [tenant, order_no] }
    bounds: { rows: 3 }
    columns: { tenant: {} }
roles: { analyst: { budget: { epsilon: 1, delta: 0, every: never }, query: { epsilon: 0.1, max_epsilon: 1 } } }
users: {}
"""


def test_keys_of_several_columns_find_their_rows() -> None:
    """By all their columns, as in the data; and the text that stands for them is what an engine would make of these."""
    shapes = {
        "members": (("tenant", "text"), ("user_no", "int4")),
        "orders": (("tenant", "text"), ("order_id", "int4"), ("user_no", "int4")),
        "items": (("tenant", "text"), ("order_no", "int4")),
    }
    tables = {
        TableName("public", name): CatalogTable(
            TableName("public", name), ("main", name), tuple(CatalogColumn(c, c, t) for c, t in columns)
        )
        for name, columns in shapes.items()
    }
    policy = read_text(JOINED, "p.yaml", Path("/data"), {}).policy
    catalog = with_joined(policy, Catalog(tables))
    made = {shape.name.name: (shape, rows) for shape, rows in sample(policy, catalog, {}, Size(20, 3.0))}

    def pairs(table: str, column: str) -> set[tuple[str, str]]:
        rows = made[table][1]
        return set(zip(rows.column("tenant").to_pylist(), rows.column(column).to_pylist(), strict=True))

    assert len(pairs("members", "user_no")) == 20
    assert pairs("orders", "user_no") <= pairs("members", "user_no")
    assert pairs("items", "order_no") <= pairs("orders", "order_id")
    with duckdb.connect() as connection:
        for name, (shape, rows) in made.items():
            assert [c.name for c in shape.columns] == [c for c, _ in shapes[name]], "the backend has no joined column"
            connection.register(name, rows)
            for column in catalog.tables[shape.name].columns:
                if column.parts:
                    asked = f"SELECT count(*) FROM {name} WHERE {spelled(column.source, chr(34))} IS DISTINCT FROM {column.name}"
                    assert connection.execute(asked).fetchall() == [(0,)]
