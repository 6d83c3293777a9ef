"""What an extract holds of which column, and which keys it is known to have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpproxy.acceleration.extract_tables import ExtractTable, described, extract_tables, held_catalog
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.load import load_text
from dpproxy.policy.model import Policy
from dpproxy.table_terms import TableName

POLICY = """
version: 1
dataset: town
backend: { postgres: "postgresql://reader@db/town" }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit, '"Name"': hidden, code: {}, doc: {}, at: {} } }
  '"People"': { unit: { via: people.id, column: person }, bounds: { rows: 1 }, columns: { amount: { range: [0, 1], resolution: 0.000000000001 }, person: unit } }
  stuff.shops: { public: true, columns: { secret: hidden } }
roles: { analyst: { budget: { epsilon: 1, delta: 0 }, query: { epsilon: 1, max_epsilon: 1 } } }
users: {}
"""
PEOPLE, OTHERS, SHOPS = TableName("public", "people"), TableName("public", "People"), TableName("stuff", "shops")


def column(name: str, type_: str, nullable: bool = True, **more: object) -> CatalogColumn:
    return replace(CatalogColumn(name, name, type_, nullable), **more)  # type: ignore[arg-type]


CATALOG = Catalog(
    {
        PEOPLE: CatalogTable(
            PEOPLE,
            ("public", "people"),
            (
                column("id", "int8", False, exact="numeric"),
                column("Name", "text"),
                column("name", "text"),
                column("code", "bpchar", False, collated=True),
                column("doc", "jsonb", bounded=False, reason="of type jsonb"),
                column("at", "timestamptz", False),
            ),
            primary_key=("id",),
            unique=(("at",), ("code",), ("id", "name")),
        ),
        OTHERS: CatalogTable(
            OTHERS,
            ("public", "People"),
            (column("person", "int8"), column("amount", "numeric", False, exact="numeric")),
            unique=(("amount",),),
            foreign_keys=(ForeignKey(("person",), PEOPLE, ("id",)), ForeignKey(("amount",), PEOPLE, ("name",))),
        ),
        SHOPS: CatalogTable(
            SHOPS,
            ("stuff", "shops"),
            (
                column("Id", "numeric", exact="numeric"),
                column("id", "int4", exact="numeric"),
                column("secret", "text"),
                column("tags", "text[]", bounded=False),
            ),
            primary_key=("Id",),
        ),
    }
)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_text(POLICY, "town.yaml", Path("."))


@pytest.fixture(scope="module")
def tables(policy: Policy) -> dict[TableName, ExtractTable]:
    return {t.held.name: t for t in extract_tables(policy, CATALOG, {(SHOPS, "Id"): (10, 2)})}


def test_what_postgresql_is_asked(tables: dict[TableName, ExtractTable]) -> None:
    """Columns in use, under names that DuckDB tells apart; what is hidden or is not computed with stays where it is."""
    assert tables[PEOPLE].query == 'SELECT "id", "code"::text, NULL::text, "at" FROM "public"."people"'
    assert tables[OTHERS].query == 'SELECT "person", "amount" FROM "public"."People"'
    assert tables[SHOPS].query == 'SELECT "Id", "id", NULL::text, "tags" FROM "stuff"."shops"'
    assert tables[PEOPLE].read == ("int8", "text", "text", "text")
    assert [t.held.source for t in tables.values()] == [("main", "people"), ("main", "People~2"), ("main", "stuff.shops")]
    assert [(c.name, c.source) for c in tables[SHOPS].held.columns] == [
        ("Id", "Id"), ("id", "id~2"), ("secret", "secret"), ("tags", "tags"),
    ]  # fmt: skip


def test_what_is_known_of_it(tables: dict[TableName, ExtractTable]) -> None:
    """Only keys that no value can have been lost of."""
    held = held_catalog(tuple(tables.values())).tables
    assert (held[PEOPLE].primary_key, held[PEOPLE].unique) == (("id",), (("code",),))
    assert (held[OTHERS].unique, held[SHOPS].primary_key) == ((), ("Id",))
    assert held[OTHERS].foreign_keys == (ForeignKey(("person",), PEOPLE, ("id",)),), "the other leads to what is not read"
    assert {c.name: (c.type, c.exact, c.nullable, c.bounded) for c in held[PEOPLE].columns} == {
        "id": ("int8", "", False, True),
        "code": ("bpchar", "", False, True),
        "doc": ("jsonb", "", True, False),
        "at": ("timestamptz", "", False, True),
    }
    assert not any(c.collated for t in held.values() for c in t.columns)
    kinds = {c.name: (c.exact, c.nullable) for t in (OTHERS, SHOPS) for c in held[t].columns if c.type == "numeric"}
    assert kinds == {"amount": ("DECIMAL(38,12)", True), "Id": ("DECIMAL(10,2)", True)}


def test_a_key_by_which_a_value_may_be_lost_is_not_enforced(policy: Policy) -> None:
    people = replace(CATALOG.tables[PEOPLE], foreign_keys=(ForeignKey(("at",), PEOPLE, ("at",)),))
    (table, *_) = extract_tables(policy, Catalog({**CATALOG.tables, PEOPLE: people}), {})
    assert [key.enforced for key in table.held.foreign_keys] == [False]


def test_other_places_make_another_extract(policy: Policy, tables: dict[TableName, ExtractTable]) -> None:
    before = list(described(tuple(tables.values())))
    assert list(described(extract_tables(policy, CATALOG, {(SHOPS, "Id"): (10, 2)}))) == before
    assert list(described(extract_tables(policy, CATALOG, {(SHOPS, "Id"): (10, 3)}))) != before


VALUES = {
    "timestamp": {
        "2024-02-29 12:00:00.5": "2024-02-29 12:00:00.5", "infinity": "infinity", "-infinity": "-infinity",
        "294276-12-31 23:59:59.999999": "294247-01-10 04:00:54.775806", "4714-11-24 00:00:00 BC": "4714-11-24 (BC) 00:00:00",
    },
    "timestamptz": {"2024-02-29 12:00:00+00": "2024-02-29 12:00:00+00", "0044-03-15 01:02:03 BC": "0044-03-15 (BC) 01:02:03+00"},
    "date": {"5874897-12-31": "5874897-12-31", "4714-11-24 BC": "4714-11-24 (BC)", "infinity": "infinity"},
    "interval": {
        "-1 years -2 mons +3 days -04:05:06.789": "-1 year -2 months 3 days -04:05:06.789", "infinity": None,
        "178000000 years": "178000000 years", "1 mon -1 days": "1 month -1 day", "-00:00:01": "-00:00:01",
    },
    "time": {"24:00:00": "24:00:00", "23:59:59.999999": "23:59:59.999999"},
    "float8": {"NaN": "nan", "-Infinity": "-inf", "5e-324": "5e-324", "-0": "-0.0"},
    "float4": {"3.4028235e+38": "3.4028235e+38"},
    "numeric": {"1.50": "1.500000000", "NaN": None, "Infinity": None, "1e131071": None, "0.0000000014": "0.000000001"},
    "uuid": {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
    "bool": {"t": "true"},
}  # fmt: skip
"""Type -> what PostgreSQL writes -> what DuckDB holds."""


@pytest.mark.parametrize("type_", VALUES)
def test_no_value_fails(type_: str, policy: Policy) -> None:
    table = replace(CATALOG.tables[PEOPLE], columns=(column("id", "int8"), column("code", type_)))
    (made, *_) = extract_tables(policy, Catalog({**CATALOG.tables, PEOPLE: table}), {})
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for text, wanted in VALUES[type_].items():
            row = connection.execute(
                f'SELECT "code"::VARCHAR FROM (SELECT {made.items[1]} FROM (SELECT ? AS c1))', [text]
            ).fetchone()
            assert row == (wanted,), text
