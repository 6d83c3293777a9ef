"""The policy of `good.yaml`, and a catalog that it fits."""

from __future__ import annotations

from pathlib import Path

from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.load import Loaded, PolicyError, read_text
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import Problem
from dpproxy.table_terms import TableName

GOOD = (Path(__file__).parent / "good.yaml").read_text().replace("VERIFIER", make_verifier("x"))
SHOP = {
    "customers": "customer_id int8, region text, sex varchar, birth_year int2, signup date, email text, token uuid",
    "orders": "order_id int8, customer_id int8, ts timestamptz, amount numeric, category text",
    "order_items": "order_id int4, product_id int8, quantity int4",
    "products": "product_id int8, name text",
}


def catalog(**changes: str) -> Catalog:
    tables = {}
    for name, columns in {**SHOP, **changes}.items():
        made = tuple(
            CatalogColumn(c.split()[0], c.split()[0].upper(), c.split()[1], bounded=c.split()[-1] != "odd")
            for c in columns.split(", ")
            if c
        )
        table = TableName("public", name)
        tables[table] = CatalogTable(table, ("main", name), made)
    return Catalog(tables)


def loaded(text: str = GOOD) -> Loaded:
    return read_text(text, "p.yaml", Path("/data"), {})


def table(name: str) -> TableName:
    return TableName("public", name)


def problems(text: str) -> tuple[Problem, ...]:
    """What is wrong with a policy; none when it can be read."""
    try:
        loaded(text)
    except PolicyError as error:
        return error.problems
    return ()
