"""The facade as SQL: what a role does not see is not there, and what comes from outside is quoted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpproxy.facade import ddl
from dpproxy.facade.account import FacadeError
from dpproxy.facade.ddl import NAME_LIMIT, Shown
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.model import Bounds, ColumnPolicy, ColumnRole, Policy, TablePolicy, UnitPath
from dpproxy.sql.virtual_tables import VIRTUAL_TABLES
from dpproxy.table_terms import TableName
from tests.worlds.scripted import PEOPLE, SHOPS, policy

ODD = TableName("care", "visits")


def rules(**roles: frozenset[TableName] | None) -> Policy:
    base = policy()
    visits = {"person": ColumnPolicy("person", ColumnRole.UNIT), "shop": ColumnPolicy("shop", ColumnRole.KEY)}
    people = {"email": ColumnPolicy("email", ColumnRole.HIDDEN), "region": ColumnPolicy("region")}
    tables = {
        PEOPLE: replace(base.tables[PEOPLE], columns=people),
        SHOPS: base.tables[SHOPS],
        ODD: TablePolicy(ODD, UnitPath("person"), False, Bounds(2, 2), visits),
    }
    some = {name: replace(base.roles["analyst"], name=name, tables=seen) for name, seen in (roles or {"analyst": None}).items()}
    return replace(base, tables=tables, roles=some)


def catalog() -> Catalog:
    def columns(*names: str) -> tuple[CatalogColumn, ...]:
        return tuple(CatalogColumn(name, name, "int4") for name in names)

    return Catalog(
        {
            PEOPLE: CatalogTable(PEOPLE, ("m", "p"), columns("id", "email", "region", "new"), ("id",), (("email",), ("region",))),
            SHOPS: CatalogTable(SHOPS, ("m", "s"), columns("id", "name"), ("id",), comment="it's"),
            ODD: CatalogTable(
                ODD, ("m", "v"), columns("person", "shop"),
                foreign_keys=(ForeignKey(("person",), PEOPLE, ("id",)), ForeignKey(("shop",), SHOPS, ("id",))),
            ),
        }
    )  # fmt: skip


def shown(role: str = "analyst", given: Policy | None = None) -> Shown:
    made = given or rules()
    return Shown(made, catalog(), made.roles[role])


def test_names_and_texts_are_quoted() -> None:
    assert ddl.quoted('a"b') == '"a""b"'
    assert ddl.literal("it's") == "'it''s'"
    assert ddl.literal("a\\'b") == " E'a\\\\''b'"
    assert ddl.qualified(TableName('o"dd', "x")) == '"o""dd"."x"'
    assert ddl.quoted("é" * (NAME_LIMIT // 2))
    for name in ("", "a\0b", "é" * (NAME_LIMIT // 2 + 1)):
        with pytest.raises(FacadeError, match="cannot be a PostgreSQL name"):
            ddl.quoted(name)
    with pytest.raises(FacadeError):
        ddl.role_name("r" * 40, "d" * 40)


def test_types_that_the_facade_has() -> None:
    for type_, expected in (("int4", "int4"), ("jsonb[]", "jsonb[]"), ("geometry", "text"), ("geometry[]", "text")):
        assert ddl.column_type(rules().tables[SHOPS], CatalogColumn("c", "c", type_)) == expected


def test_columns_that_are_seen() -> None:
    """Of a private table those the policy lists and does not hide, and its own unit; of a public one all but hidden ones."""
    made, known = rules(), catalog()
    seen = {t.name: [c.name for c in ddl.visible_columns(t, known.tables[t.name])] for t in made.tables.values()}
    assert seen == {PEOPLE: ["id", "region"], SHOPS: ["id", "name"], ODD: ["person", "shop"]}


def test_keys_of_what_is_seen_alone() -> None:
    assert list(ddl.keys_script(shown())) == [
        'ALTER TABLE "public"."people" ADD PRIMARY KEY ("id");',
        'ALTER TABLE "public"."people" ADD UNIQUE ("region");',
        'ALTER TABLE "public"."shops" ADD PRIMARY KEY ("id");',
        'ALTER TABLE "care"."visits" ADD FOREIGN KEY ("person") REFERENCES "public"."people" ("id") NOT VALID;',
        'ALTER TABLE "care"."visits" ADD FOREIGN KEY ("shop") REFERENCES "public"."shops" ("id") NOT VALID;',
    ]
    narrow = shown("narrow", rules(narrow=frozenset({ODD, SHOPS})))
    assert not any("people" in statement for statement in ddl.keys_script(narrow))


def test_a_role_has_its_tables_and_no_trace_of_others() -> None:
    narrow = shown("narrow", rules(narrow=frozenset({SHOPS})))
    made = "".join((*ddl.tables_script(narrow), *ddl.grants_script(narrow, "shop", frozenset())))
    assert 'CREATE TABLE "public"."shops"' in made
    assert "COMMENT ON TABLE \"public\".\"shops\" IS 'it''s';" in made
    assert not any(word in made for word in ("people", "visits", "care", "email"))


def test_the_virtual_schema_says_what_its_columns_mean() -> None:
    made = "".join(ddl.tables_script(shown()))
    assert "CREATE TABLE dpproxy.budget (role text, scope text," in made
    for name, table in VIRTUAL_TABLES.items():
        assert f"COMMENT ON TABLE dpproxy.{name} IS {ddl.literal(table.meaning)};" in made
        assert all(f"COMMENT ON COLUMN dpproxy.{name}.{c.name} IS {ddl.literal(c.meaning)};" in made for c in table.columns)
    assert "Private: rows of persons" in made
    assert "'Says whose row it is: may be counted and joined on, never shown (person)'" in made


def test_what_is_granted() -> None:
    granted = list(ddl.grants_script(shown(), "shop", frozenset()))
    columns = '("id", "region")'
    assert f'GRANT SELECT {columns}, REFERENCES {columns} ON "public"."people" TO PUBLIC;' in granted
    assert 'GRANT SELECT, REFERENCES ON "public"."shops" TO PUBLIC;' in granted, "in slices of ctid, as tools read it"
    assert 'GRANT CONNECT, TEMPORARY ON DATABASE "shop" TO PUBLIC;' in granted
    assert 'ALTER ROLE "analyst@shop" IN DATABASE "shop" SET dpproxy.epsilon = \'0.1\';' in granted
    withheld = list(ddl.grants_script(shown(), "shop", frozenset({SHOPS})))
    assert not any("shops" in statement for statement in withheld)


def test_a_role_that_is_made_can_do_nothing_else() -> None:
    script = "".join(ddl.role_script(shown(), "SCRAM-SHA-256$x"))
    assert "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD 'SCRAM-SHA-256$x'" in script
    assert "PASSWORD NULL" in "".join(ddl.role_script(shown()))
    assert "SET log_statement = none" in script


def test_what_is_withdrawn() -> None:
    before, same = shown(), shown()
    assert list(ddl.withdrawal_script(before, same)) == []
    made = rules()
    hidden = {**made.tables[PEOPLE].columns, "region": ColumnPolicy("region", ColumnRole.HIDDEN)}
    now = shown(given=replace(made, tables={**made.tables, PEOPLE: replace(made.tables[PEOPLE], columns=hidden)}))
    assert list(ddl.withdrawal_script(before, now)) == [
        'REVOKE SELECT, REFERENCES ON "public"."people" FROM PUBLIC;',
        'REVOKE SELECT ("id", "region"), REFERENCES ("id", "region") ON "public"."people" FROM PUBLIC;',
        'GRANT SELECT ("id") ON "public"."people" TO PUBLIC;',
    ]
    gone = "".join(ddl.withdrawal_script(before, None))
    assert gone.count("REVOKE SELECT, REFERENCES ON") == 3
    assert "GRANT" not in gone


def test_what_is_behind_views_goes() -> None:
    recent, old = TableName("public", "recent"), TableName("care", "old")
    made = replace(rules(narrow=frozenset({recent})), views={recent: "SELECT 1", old: "SELECT 2"})
    narrow = shown("narrow", made)
    assert ddl.hidden(narrow) == ['"public"."people"', '"public"."shops"', '"care"."visits"', '"care"."old"']
    script = list(ddl.hiding_script(narrow))
    assert script[0] == 'DROP TABLE IF EXISTS "public"."people" CASCADE;'
    assert script[3:] == ['DROP VIEW IF EXISTS "care"."old" CASCADE;', 'DROP SCHEMA IF EXISTS "care";']
    nothing = shown("narrow", replace(made, roles={"narrow": replace(made.roles["narrow"], tables=frozenset())}))
    assert ddl.hidden(nothing) == [], "nothing was made for views"


def test_a_table_that_the_backend_has_not() -> None:
    with pytest.raises(FacadeError, match=r"the backend has no table `care\.visits`"):
        _ = Shown(rules(), Catalog({k: v for k, v in catalog().tables.items() if k != ODD}), rules().roles["analyst"]).tables
