"""Drafts: what is told from a schema, what is a TODO, what is never shown by mistake."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from dpproxy.amounts import ATTO
from dpproxy.authoring.draft import Decisions, Frame, candidates, draft, unit_name
from dpproxy.authoring.exact_counts import FAR
from dpproxy.authoring.schema_facts import Facts
from dpproxy.authoring.unit_links import Link
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.check import check
from dpproxy.policy.load import read_text
from dpproxy.policy.model import ColumnRole, Policy
from dpproxy.policy.people import make_verifier
from dpproxy.table_terms import TableName

FRAME = Frame("shop", "{ duckdb: shop.duckdb }", "ada", make_verifier("x"))


def name(text: str) -> TableName:
    return TableName("public", text)


def table(text: str, columns: str, primary: str = "") -> CatalogTable:
    made = tuple(CatalogColumn(c.split(":")[0], c.split(":")[0], c.split(":")[1]) for c in columns.split())
    return CatalogTable(name(text), ("main", text), made, (primary,) if primary else ())


SHOP = {
    t.name: t
    for t in (
        table(
            "customers",
            "customer_id:int4 first_name:text email:text vip:bool sex:text born:int2 income:numeric notes:text",
            "customer_id",
        ),
        table("orders", "order_id:int4 customer_id:int4 ts:timestamp amount:numeric", "order_id"),
        table("order_items", "order_id:int4 product_id:int4 quantity:int4"),
        table("products", "product_id:int4 title:text"),
        table("employees", "employee_id:int4 wage:numeric"),
    )
}
CATALOG = Catalog(SHOP)
UNIT = (name("customers"), "customer_id")
FACTS = {
    ("main", "customers", "sex"): Facts(("F", "M")),
    ("main", "customers", "born"): Facts(low=Decimal(1900), high=Decimal(2030)),
    ("main", "orders", "amount"): Facts(resolution=Decimal("0.01")),
}


def made(decisions: Decisions, facts: dict[tuple[str, str, str], Facts] | None = None) -> tuple[str, Policy]:
    """A draft and the policy it is; it passes check."""
    text = draft(CATALOG, decisions, facts or {}, FRAME)
    loaded = read_text(text, "p.yaml", Path("/data"), {})
    assert check(loaded.policy, CATALOG, loaded.file, loaded.positions) == ()
    return text, loaded.policy


def test_a_draft_of_nothing_but_names() -> None:
    text, policy = made(Decisions(UNIT, "customer"), FACTS)
    assert list(map(str, policy.tables)) == ["customers", "orders", "order_items"]
    people = policy.tables[name("customers")]
    assert people.one
    roles = {c.name: c.role for c in people.columns.values()}
    assert [roles[c] for c in ("customer_id", "first_name", "email", "notes")] == [ColumnRole.UNIT] + [ColumnRole.HIDDEN] * 3
    assert people.columns["sex"].values == ("F", "M")
    assert people.columns["vip"].values == (True, False)
    assert people.columns["born"].range == (Decimal(1900), Decimal(2030))
    assert people.columns["income"].range is None
    assert policy.tables[name("orders")].columns["amount"].resolution == Decimal("0.01")
    assert policy.tables[name("orders")].columns["order_id"].role is ColumnRole.KEY
    steps = policy.tables[name("order_items")].unit
    assert steps is not None
    assert [s.target for s in steps.steps] == [name("orders")]
    assert "# products: TODO left out" in text, "nobody has said that everybody may see it"
    assert "# employees: TODO left out" in text, "a table of people that nobody has called public is not shown"
    assert "unit: customer_id  # TODO a guess by the column's name" in text
    assert text.count("TODO") > 10


def test_what_is_decided_is_no_todo() -> None:
    orders = name("orders")
    text, policy = made(
        Decisions(
            UNIT,
            "customer",
            public=frozenset({name("employees")}),
            left_out=frozenset({name("order_items")}),
            links={orders: Link("customer_id")},
            keys=frozenset({(name("customers"), "email")}),
            hidden=frozenset({(name("customers"), "vip")}),
            shown=frozenset({(name("customers"), "notes")}),
            ranges={(orders, "amount"): ("0", "500"), (orders, "ts"): ("2024-01-01", "2024-12-31")},
            values={(name("customers"), "sex"): ("F", "M", "X")},
            bounds={orders: (30, 5)},
            origins={(orders, "amount"): "measured", orders: "of most customers"},
        ),
        FACTS,
    )
    assert policy.tables[name("employees")].kind.shown
    assert name("order_items") not in policy.tables
    assert policy.tables[name("customers")].columns["email"].role is ColumnRole.KEY
    assert policy.tables[name("customers")].columns["vip"].role is ColumnRole.HIDDEN
    assert policy.tables[name("customers")].columns["sex"].values == ("F", "M", "X")
    assert policy.tables[name("customers")].columns["notes"].role is ColumnRole.PLAIN
    assert policy.tables[orders].bounds.rows == 30
    assert policy.tables[orders].columns["amount"].range == (Decimal(0), Decimal(500))
    assert "{ range: [0, 500], resolution: 0.01 }  # measured" in text
    assert "bounds: { rows_per_group: 30, groups: 5 }  # of most customers" in text


def test_a_table_of_events_has_many_rows_of_a_person() -> None:
    """Its first column is the person's number, and nothing says that there is one row each."""
    hits = Catalog({name("hits"): table("hits", "user_id:int4 page:text")})
    assert "unique: false" in draft(hits, Decisions((name("hits"), "user_id"), "user"), {}, FRAME)
    members = Catalog({name("members"): table("members", "nr:int4 page:text")})
    assert "unique: false" not in draft(members, Decisions((name("members"), "nr"), "member"), {}, FRAME)


def test_a_unit_in_a_table_of_many_rows() -> None:
    _, policy = made(Decisions((name("orders"), "customer_id"), "customer"))
    assert not policy.tables[name("orders")].one


@pytest.mark.parametrize(
    ("text", "column", "noun"),
    [
        ("customers", "customer_id", "customer"),
        ("hospital_patients", "id", "hospital patient"),
        ("hits", "hit_id", "hit"),
        ("hits", "user_id", "user"),
        ("hits", "UserID", "user"),
        ("ratings", "p_id", "rating"),
    ],
)
def test_nouns(text: str, column: str, noun: str) -> None:
    assert unit_name((name(text), column)) == noun


def test_who_may_be_meant() -> None:
    assert candidates(CATALOG)[0] == UNIT
    assert candidates(Catalog({name("t"): table("t", "age:int4 x:text")})) == []


def test_keys_of_other_private_tables_are_referred_to() -> None:
    """A payment of a rental of the same customer may be joined with it."""
    tables = (
        table("customers", "customer_id:int4 age:int4", "customer_id"),
        table("rentals", "rental_id:int4 customer_id:int4", "rental_id"),
        table("payments", "payment_id:int4 customer_id:int4 rental_id:int4 other_rental:int4", "payment_id"),
    )
    text = draft(Catalog({t.name: t for t in tables}), Decisions(UNIT, "customer"), {}, FRAME)
    policy = read_text(text, "p.yaml", Path("/data"), {}).policy
    columns = policy.tables[name("payments")].columns
    assert columns["rental_id"].references == (name("rentals"), "rental_id")
    assert columns["payment_id"].references is None
    assert columns["other_rental"].references is None


def test_ends_of_a_type_are_a_todo() -> None:
    facts = {("main", "customers", "income"): Facts(resolution=Decimal("0.01"), largest=Decimal("999.99"))}
    text, _ = made(Decisions(UNIT, "customer"), facts)
    assert "income: { range: [-999.99, 999.99], resolution: 0.01 }  # TODO the ends of the type" in text
    facts = {("main", "customers", "income"): Facts(low=Decimal(0), largest=Decimal("999.99"))}
    assert "income: { range: [0, 999.99] }  # TODO the ends of the type" in made(Decisions(UNIT, "customer"), facts)[0]


def test_what_is_returned_refers_to_what_was_sold() -> None:
    """By the number of the document, to the table named most alike; other numbers, and sales themselves, refer to nothing."""
    tables = (
        table("customers", "customer_id:int4 age:int4", "customer_id"),
        table("store_sales", "ss_customer_id:int4 ss_ticket_number:int8 ss_addr_sk:int4"),
        table("web_sales", "ws_customer_id:int4 ws_ticket_number:int8"),
        table("store_returns", "sr_customer_id:int4 sr_ticket_number:int8 sr_addr_sk:int4"),
    )
    numbers = {"store_sales": "ss_ticket_number", "web_sales": "ws_ticket_number", "store_returns": "sr_ticket_number"}
    keys = frozenset((name(t), column) for t, column in numbers.items())
    text = draft(Catalog({t.name: t for t in tables}), Decisions(UNIT, "customer", keys=keys), {}, FRAME)
    policy = read_text(text, "p.yaml", Path("/data"), {}).policy
    assert policy.tables[name("store_returns")].columns["sr_ticket_number"].references == (
        name("store_sales"),
        "ss_ticket_number",
    )
    assert policy.tables[name("store_returns")].columns["sr_addr_sk"].references is None
    assert policy.tables[name("web_sales")].columns["ws_ticket_number"].references is None


def test_a_drafts_own_delta_is_small_for_a_million_people() -> None:
    """`check --data` warns of a delta that is not far below one in the number of people: not of what `init` wrote itself."""
    unit = (TableName("public", "people"), "id")
    people = CatalogTable(unit[0], ("main", "people"), (CatalogColumn("id", "id", "int8"),), ("id",))
    policy = read_text(
        draft(Catalog({unit[0]: people}), Decisions(unit, "person"), {}, FRAME), "p.yaml", Path("/data"), {}
    ).policy
    deltas = [policy.budget.delta, *(role.budget.delta for role in policy.roles.values())]
    assert all(0 < delta * 1_000_000 * FAR < ATTO for delta in deltas)
