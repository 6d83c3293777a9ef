"""What a database looks like, read from rows that a catalogue would give: types, keys, what the role may not see, ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpproxy.backends import postgres_catalog
from dpproxy.backends.base import COUNTED, BackendError
from dpproxy.backends.postgres_catalog import introspect, public_rows, state, with_ranges
from dpproxy.policy.catalog import SPELLINGS, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.table_terms import TableName

PEOPLE, VISITS = TableName("public", "people"), TableName("Care", "visits")


def column(
    table: TableName, oid: int, number: int, name: str, type_: str, *, schema: str = "pg_catalog", kind: str = "b",
    element: str | None = None, array: bool = False, not_null: bool = False, comment: str | None = None, exact: bool = True,
    other: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    about = "all of them" if table is PEOPLE else None
    return (
        table.schema,
        table.name,
        name,
        type_,
        schema,
        kind,
        element,
        array,
        not_null,
        comment,
        about,
        oid,
        number,
        exact,
        other,
        type_,
    )


class Connection:
    """A database by what it answers: lists of rows by a word of the query, single values in order."""

    def __init__(self, **rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows
        self.values: list[Any] = ["UTF8"]
        self.asked: list[str] = []
        self.row: Callable[[str], Any] = lambda query: None

    async def fetch(self, query: str) -> list[tuple[Any, ...]]:
        names = {"COLUMNS": postgres_catalog._COLUMNS, "KEYS": postgres_catalog._KEYS, "FOREIGN": postgres_catalog._FOREIGN}
        word = next((word for word, text in names.items() if text == query), "WITHHELD")
        return self.rows.get(word, [])

    async def fetchval(self, query: str) -> Any:
        self.asked.append(query)
        return self.values.pop(0)

    async def fetchrow(self, query: str) -> Any:
        self.asked.append(query)
        return self.row(query)


async def columns_of(*rows: tuple[Any, ...]) -> list[CatalogColumn]:
    catalog = await introspect(Connection(COLUMNS=list(rows)))
    return list(catalog.tables[PEOPLE].columns)


@pytest.mark.parametrize(
    ("type_", "options", "shown", "reason"),
    [
        ("int4", {}, "int4", ""),
        ("name", {}, "text", ""),
        ("oid", {}, "int8", ""),
        ("jsonb", {}, "jsonb", "of type jsonb, which has no bounds"),
        ("tsvector", {}, "text", "of type tsvector, which has no bounds"),
        ("mood", {"schema": "public", "kind": "e"}, "text", ""),
        ("int4", {"schema": "public"}, "text", "of type int4, which is not one of PostgreSQL's own"),
        ("text", {"exact": False}, "text", SPELLINGS),
        ("_int4", {"array": True, "element": "int4"}, "int4[]", "arrays have no bounds"),
        ("_name", {"array": True, "element": "name"}, "text", "arrays have no bounds"),
        ("_mood", {"array": True}, "text", "arrays have no bounds"),
    ],
)
async def test_types(type_: str, options: dict[str, Any], shown: str, reason: str) -> None:
    (found,) = await columns_of(column(PEOPLE, 1, 1, "c", type_, **options))
    assert (found.type, found.bounded, found.reason) == (shown, not reason, reason)


async def test_a_column_with_all_that_is_known_of_it() -> None:
    numbers = column(PEOPLE, 1, 1, "n", "int2", not_null=True, comment="how many")
    texts = column(PEOPLE, 1, 2, "t", "varchar", other=True)
    found = await columns_of(numbers, texts)
    assert found == [
        CatalogColumn("n", "n", "int2", False, True, "how many", exact="numeric"),
        CatalogColumn("t", "t", "varchar", collated=True),
    ]


async def test_keys_whose_columns_may_all_be_seen() -> None:
    connection = Connection(
        COLUMNS=[
            column(PEOPLE, 1, 1, "id", "int4"), column(PEOPLE, 1, 3, "email", "text"),
            column(VISITS, 2, 1, "visit", "int4"), column(VISITS, 2, 2, "person", "int4"),
        ],
        KEYS=[(1, True, [1]), (1, False, [3]), (1, False, [1, 2]), (2, False, [1, 2])],
        FOREIGN=[(2, [2], 1, [1], True), (2, [1], 9, [1], True)],
        WITHHELD=[("public", "people", ["income"]), ("public", "secret", ["a", "b"])],
    )  # fmt: skip
    catalog = await introspect(connection)
    people, visits = catalog.tables[PEOPLE], catalog.tables[VISITS]
    assert (people.primary_key, people.unique, people.comment) == (("id",), (("email",),), "all of them")
    assert (visits.primary_key, visits.unique, visits.comment) == ((), (("visit", "person"),), None)
    assert visits.foreign_keys == (ForeignKey(("person",), PEOPLE, ("id",)),)
    assert catalog.withheld == {PEOPLE: frozenset({"income"}), TableName("public", "secret"): frozenset({"a", "b"})}


async def test_texts_of_no_known_encoding_are_no_database() -> None:
    connection = Connection()
    connection.values = ["SQL_ASCII"]
    with pytest.raises(BackendError, match="SQL_ASCII"):
        await introspect(connection)


SHOPS = CatalogTable(
    TableName("public", "shops"),
    ("public", 'sho"ps'),
    (
        CatalogColumn("id", "id", "int4"),
        CatalogColumn("score", "score", "float8"),
        CatalogColumn("about", "about", "jsonb", bounded=False),
    ),
)


async def test_ranges_and_sizes() -> None:
    connection = Connection()
    connection.values = [20]
    connection.row = lambda query: ("1", "9", True, "0", "NaN", False) if "min(" in query else (1, 7)
    found = await with_ranges(connection, SHOPS)
    assert found.rows == 20
    assert [(c.public_range, c.most) for c in found.columns] == [(("1", "9"), 1), (None, 7), (None, None)]
    assert all('FROM "public"."sho""ps"' in query for query in connection.asked)
    assert "bool_and(\"score\" NOT IN ('NaN'" in connection.asked[-1]


async def test_a_large_table_is_not_counted_by_value() -> None:
    connection = Connection()
    connection.values = [COUNTED + 1]
    connection.row = lambda query: ("1", "9", True, "0", "5", True)
    found = await with_ranges(connection, SHOPS)
    assert (found.rows, {c.most for c in found.columns}) == (COUNTED + 1, {None})
    assert not any("GROUP BY" in query for query in connection.asked)


async def test_a_state_names_the_rows_or_of_very_many_what_plans_know() -> None:
    connection = Connection()
    connection.values = [20, 4711]
    assert await state(connection, SHOPS) == "20 4711"
    connection.values = [COUNTED + 1, COUNTED + 1]
    connection.row = lambda query: ("1", "9", True, "0", "5", True)
    assert await state(connection, SHOPS) == f"{COUNTED + 1} [('1', '9'), ('0', '5'), None]"


def test_rows_of_a_public_table() -> None:
    assert public_rows(SHOPS, ["score", "id"], 10) == ('SELECT "score" AS "score", "id" AS "id" FROM "public"."sho""ps" LIMIT 11')
    with pytest.raises(BackendError, match="no such column"):
        public_rows(SHOPS, ["id", "nothing"], 10)
