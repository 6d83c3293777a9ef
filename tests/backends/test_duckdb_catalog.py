"""What a DuckDB file holds, as PostgreSQL would tell it."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dpproxy.backends.duckdb import DuckDB
from dpproxy.policy.catalog import SPELLINGS
from dpproxy.policy.model import DuckDBBackend
from dpproxy.table_terms import TableName

from .test_duckdb import backend_fixture, path_fixture

__all__ = ["backend_fixture", "path_fixture"]

TYPES = {
    **dict.fromkeys(["a", "x", "y"], "int2"),
    **dict.fromkeys(["id", "b"], "int4"),
    **dict.fromkeys(["c", "z"], "int8"),
    **dict.fromkeys(["d", "e", "f", "w"], "numeric"),
    **dict.fromkeys(["i", "t"], "timestamp"),
    **dict.fromkeys(["Weird Name", "n", "o", "p", "q", "u", "v"], "text"),
    "g": "float4",
    "h": "float8",
    "j": "timestamptz",
    "k": "time",
    "l": "interval",
    "m": "uuid",
    "r": "bool",
    "s": "date",
}


async def test_introspection(backend: DuckDB) -> None:
    catalog = await backend.introspect()
    assert set(catalog.tables) == {
        TableName("public", "foo"),
        TableName("public", "bar"),
        TableName("public", "seen"),
        TableName("s2", "zed"),
    }
    foo, bar = catalog.tables[TableName("public", "foo")], catalog.tables[TableName("public", "bar")]
    assert {c.name: c.type for c in foo.columns} == TYPES
    assert {c.name for c in foo.columns if not c.bounded} == {"o", "p", "q", "u", "v"}
    assert {c.name for c in foo.columns if not c.nullable} == {"id", "Weird Name"}
    assert foo.source == ("main", "Foo")
    assert foo.columns[0].source == "Id"
    assert foo.primary_key == ("id",)
    assert foo.unique == (("Weird Name",),)
    assert bar.unique == (("u1", "u2"),)
    assert [(f.columns, f.target, f.target_columns) for f in bar.foreign_keys] == [(("foo_id",), foo.name, ("id",))]
    assert bar.comment == "hello"
    assert bar.columns[0].comment == "the id"
    assert not any(c.public_range for t in catalog.tables.values() for c in t.columns)


async def test_texts_of_many_spellings(tmp_path: Path) -> None:
    """Of 'Ab' and 'aB', equal to DuckDB, the one it meets first would stand for the group."""
    path = str(tmp_path / "spelled.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("""CREATE TABLE t(a VARCHAR COLLATE NOCASE, "b ""x" VARCHAR COLLATE DE.NOACCENT, c VARCHAR, d INTEGER,
            e VARCHAR COLLATE POSIX)""")
        connection.execute("CREATE VIEW v AS SELECT a, c, d FROM t; CREATE TABLE plain(a VARCHAR)")
    backend = DuckDB(DuckDBBackend(path))
    tables = (await backend.introspect()).tables
    await backend.close()
    found = {str(name): [c.source for c in table.columns if not c.bounded] for name, table in tables.items()}
    assert found == {"t": ["a", 'b "x'], "v": ["a", "c"], "plain": []}
    assert {c.reason for t in tables.values() for c in t.columns if not c.bounded} == {SPELLINGS}


async def test_what_views_read(tmp_path: Path) -> None:
    """Through views of views, whatever else is called AS something."""
    path = str(tmp_path / "views.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("""CREATE TABLE t("a AS b" INTEGER); CREATE SCHEMA s; CREATE TABLE s."x.y"(c INTEGER);
            CREATE VIEW one AS SELECT * FROM t; CREATE VIEW two("d AS e") AS WITH q AS (SELECT * FROM one) SELECT "a AS b" FROM q, s."x.y";
            CREATE VIEW none AS SELECT 1 AS n""")
    backend = DuckDB(DuckDBBackend(path))
    tables = (await backend.introspect()).tables
    await backend.close()
    read = {str(name): sorted(map(str, table.reads)) for name, table in tables.items() if table.reads}
    assert read == {"one": ["t"], "two": ["s.x.y", "t"]}


async def test_ranges_of_public_tables_only(backend: DuckDB) -> None:
    zed = TableName("s2", "zed")
    catalog = await backend.with_public_ranges(await backend.introspect(), frozenset({zed}))
    ranges = {c.name: c.public_range for c in catalog.tables[zed].columns}
    # NaN, no value at all, and text have no range
    assert ranges == {"x": ("-1", "3"), "y": None, "d": ("2020-01-02", "2021-01-02"), "t": None, "empty": None}
    assert catalog.tables[TableName("public", "foo")].columns[0].public_range is None
