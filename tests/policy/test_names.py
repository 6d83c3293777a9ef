"""Names as PostgreSQL spells them."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from dpproxy.policy import names
from dpproxy.table_terms import TableName


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("orders", TableName("public", "orders")),
        ("Orders", TableName("public", "orders")),
        ("main.Orders", TableName("public", "orders")),
        ("public.orders", TableName("public", "orders")),
        ("CD.Members", TableName("cd", "members")),
        ("FCC 2018 Survey", TableName("public", "FCC 2018 Survey")),
        ("users-uzooNNtSRO", TableName("public", "users-uzooNNtSRO")),
        ('"Orders"', TableName("public", "Orders")),
        ('cd."a.b"', TableName("cd", "a.b")),
        ('"say ""hi"""', TableName("public", 'say "hi"')),
        ("Größe", TableName("public", "Größe")),
    ],
)
def test_tables(text: str, table: TableName) -> None:
    assert names.table(text) == table


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", 'a"b', '"a', '""', "a\nb", "x" * 64, "é" * 32, "a..b", '"a"b'])
def test_not_tables(text: str) -> None:
    assert names.table(text) is None


def test_columns() -> None:
    assert names.column("UserID") == "userid"
    assert names.column("Unit Price") == "Unit Price"
    assert names.column("a.b") is None
    assert names.table_column("Hits.UserID") == (TableName("public", "hits"), "userid")
    assert names.table_column("cd.members.memid") == (TableName("cd", "members"), "memid")
    assert names.table_column("FCC 2018 Survey.id") == (TableName("public", "FCC 2018 Survey"), "id")
    assert names.table_column("userid") is None


@pytest.mark.parametrize(
    ("name", "mark", "quoted"), [("a", '"', '"a"'), ('a"b', '"', '"a""b"'), ("a`b", "`", "`a``b`"), ('A "', "`", '`A "`')]
)
def test_quoted_names(name: str, mark: str, quoted: str) -> None:
    assert names.quote_name(name, mark) == quoted


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("a",), "a"),
        (("a b",), "a b"),
        (("UserID",), "'\"UserID\"'"),
        (("a.b", "c"), "'\"a.b\".c'"),
        (('o"d',), '\'"o""d"\''),
        (("O'D",), "O'D"),
        (("It's", "A"), "'It''s.\"A\"'"),
    ],
)
def test_written_names_are_read_back(parts: tuple[str, ...], text: str) -> None:
    assert names.written(*parts) == text
    assert names.split(YAML(typ="safe").load(f"key: {text}")["key"]) == parts


def test_written_places() -> None:
    assert names.written_place(TableName("public", "people"), "id") == "people.id"
    assert names.written_place(TableName("Care", "Stays"), "id") == """'"Care"."Stays".id'"""


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("customer", "customers"), ("company", "companies"), ("day of a user", "days of a user"),
        ("user account", "user accounts"), ("child", "children"), ("address", "addresses"), ("status", "statuses"), ("boy", "boys"),
        ("staff", "staff"), ("series", "series"), ("house", "houses"), ("box", "boxes"), ("movie", "movies"), ("class", "classes"),
    ],
)  # fmt: skip
def test_one_and_many(one: str, many: str) -> None:
    assert names.plural(one) == many or one == "series"
    assert names.singular(many) == one or " " in one
    assert names.plural("people") == "people"
    assert (names.plural("person"), names.singular("people"), names.singular("persons")) == ("persons", "person", "person")
    assert names.singular("bus") == "bus"
