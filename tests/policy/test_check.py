"""A policy against a catalog: what does not exist, what is of another type, and the SQL of the start-up check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpproxy.policy.catalog import SPELLINGS, Catalog
from dpproxy.policy.check import check, family
from dpproxy.policy.load import Loaded
from dpproxy.table_terms import TableName

from .good import GOOD, SHOP, catalog, loaded


def said(file: Loaded, data: Catalog) -> list[str]:
    return [str(p) for p in check(file.policy, data, file.file, file.positions)]


def test_a_fitting_policy() -> None:
    assert said(loaded(), catalog()) == []


@pytest.mark.parametrize(
    ("table", "old", "new", "expected"),
    [
        ("customers", "email", "e_mail", []),  # hidden, and gone or withheld by grants: nothing is missing
        ("customers", "region", "regio", ["13:7: table `customers` has no column `region`"]),
        (
            "customers",
            "birth_year int2",
            "birth_year text",
            ["15:7: column `birth_year` is of type text, which has no"],
        ),
        ("customers", "signup date", "signup int4", ["16:7: column `signup` is of type int4, which has no such range"]),
        ("customers", "signup date", "signup interval", ["16:7: column `signup` is of type interval, which has no such range"]),
        ("customers", "sex varchar", "sex int2", ["14:7: column `sex` is of type int2, and F in `values` is not"]),
        ("customers", "sex varchar", "sex text odd", ["14:7: column `sex` is of type text, and F in `values` is not"]),
        (
            "order_items",
            "quantity int4",
            "quantity text",
            ["29:48: column `quantity` is of type text, and 1 in `values`"],
        ),
        (
            "order_items",
            "order_id int4",
            "order_id text",
            ["27:11: the unit of `order_items` compares `order_items.order_id` (text) with `orders.order_id` (int8)"],
        ),
        (
            "orders",
            "customer_id int8",
            "customer_id uuid",
            [
                "19:11: the unit of `orders` compares `orders.customer_id` (uuid) with `customers.customer_id` (int8)",
            ],
        ),
        (
            "orders",
            "customer_id int8, ",
            "",
            [
                "19:11: the unit of `orders` needs `orders.customer_id`, which does not exist",
            ],
        ),
    ],
)
def test_mismatches(table: str, old: str, new: str, expected: list[str]) -> None:
    assert SHOP[table].count(old) == 1
    found = said(loaded(), catalog(**{table: SHOP[table].replace(old, new)}))
    assert len(found) == len(expected)
    for problem, start in zip(found, expected, strict=True):
        assert problem.startswith("p.yaml:" + start)
        assert "; fix: " in problem


def test_a_missing_table() -> None:
    data = catalog(order=SHOP["orders"])
    del data.tables[TableName("public", "orders")]  # type: ignore[attr-defined]
    assert said(loaded(), data) == ["p.yaml:18:3: the backend has no table `orders`; fix: did you mean `order`?"]


def test_a_view_must_not_hide_a_table() -> None:
    assert said(loaded(), catalog(recent="x int4")) == [
        "p.yaml:33:3: the backend has a table `recent` already; fix: rename the view"
    ]


@pytest.mark.parametrize(
    ("type_", "fitting", "wrong"),
    [
        ("int2", ["[1, 2]"], ["[32767, 32768]", "[a]", "[true]", "[1.5, 2]"]),
        ("int4", ["[1, 2.0]", "[32768, 1]"], ["[1.0, 2.5]", '["1"]']),
        ("float8", ["[0.5, 1]"], ["[a]"]),
        ("numeric", ["[0.5]", "[1]"], ["[false]"]),
        ("bool", ["[true, false]"], ["[0, 1]", '["true"]']),
        ("text", ["[a]", '["1"]', "[no, on]"], ["[1]", "[true]", "[2024-01-01]"]),
        ("date", ["[2024-01-01]"], ["[2024-01-01 10:00]", '["2024-01-01"]', "[1]"]),
        ("timestamp", ["[2024-01-01 10:00]", "[2024-01-01]"], ["[a]"]),
        ("uuid", ["[00000000-0000-0000-0000-000000000001]"], ["[x]", "[1]"]),
        ("interval", [], ["[a]", "[1]"]),
    ],
)
def test_values_are_of_the_columns_type(type_: str, fitting: list[str], wrong: list[str]) -> None:
    data = catalog(customers=SHOP["customers"].replace("sex varchar", f"sex {type_}"))
    for values in fitting + wrong:
        file = loaded(GOOD.replace("sex: { values: [F, M] }", f"sex: {{ values: {values} }}"))
        assert (said(file, data) == []) is (values in fitting), values


def test_length_needs_a_text() -> None:
    file = loaded(GOOD.replace("category: {}", "category: { length: 100 }"))
    assert said(file, catalog()) == []
    file = loaded(GOOD.replace("amount: { range: [0, 1000], resolution: 0.01 }", "amount: { length: 100 }"))
    assert [s.split(": ", 1)[1] for s in said(file, catalog())] == [
        "column `amount` is of type numeric, which has no length; fix: remove `length`"
    ]


def test_resolution_needs_a_number() -> None:
    file = loaded(GOOD.replace("category: {}", "category: { resolution: 1 }"))
    assert said(file, catalog()) == [
        "p.yaml:25:7: column `category` is of type text, which has no resolution; fix: remove `resolution`"
    ]


def test_families() -> None:
    assert family("int2") == family("float8") == "number"
    assert family("varchar") == family("text")
    assert family("uuid") == "uuid"


def test_a_unit_has_one_spelling() -> None:
    data = catalog()
    name = TableName("public", "customers")
    first, *rest = data.tables[name].columns
    spelled = replace(data.tables[name], columns=(replace(first, bounded=False, reason=SPELLINGS), *rest))
    found = said(loaded(), Catalog({**data.tables, name: spelled}))
    assert any(f"the unit of `orders` needs `customers.customer_id`: {SPELLINGS}" in line for line in found)


@pytest.mark.parametrize(("type_", "exact"), [("timestamptz", ""), ("timestamp", "TIMESTAMP_NS")])
def test_a_unit_is_no_moment_that_is_read_on_a_clock(type_: str, exact: str) -> None:
    """In the hour that a clock goes through twice, two orders would be one, and their items both persons'."""
    data = catalog()
    changed = {}
    for table, column in (("orders", "order_id"), ("order_items", "order_id")):
        known = data.tables[TableName("public", table)]
        columns = tuple(replace(c, type=type_, exact=exact) if c.name == column else c for c in known.columns)
        changed[known.name] = replace(known, columns=columns)
    found = said(loaded(), Catalog({**data.tables, **changed}))
    assert any("the unit of `order_items` needs `orders.order_id`: two moments may be one" in line for line in found)


def test_what_the_role_may_not_read_is_said() -> None:
    orders, customers = TableName("public", "orders"), TableName("public", "customers")
    data = catalog(customers=SHOP["customers"].replace("region text, ", ""))
    held = Catalog({n: t for n, t in data.tables.items() if n != orders}, {orders: frozenset(), customers: frozenset({"region"})})
    assert [p.partition("; fix: ")[0] for p in said(loaded(), held)] == [
        "p.yaml:13:7: the backend's role may not read column `region` of `customers`",
        "p.yaml:18:3: the backend's role may not read table `orders`",
    ]
