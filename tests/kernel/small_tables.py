"""A small dataset for rules of the kernel: people (one row each), orders of theirs, items of orders, and regions."""

from __future__ import annotations

from small_expressions import column, ref

from dpproxy.kernel.leaves import Kind, Leaf, Leaves, Way
from dpproxy.tree.expr import Call, Column, Expr, Lit, Relation, conjunction
from dpproxy.tree.relation import Filter, Join, Scan

PERSON, NICK, HOME = column(1), column(2, "text"), column(3)
ORDER, BUYER, SIZE = column(10), column(11), column(12)
PART_OF, ITEM = column(20), column(21)
REGION, SALES = column(30), column(31)

PEOPLE = Scan((PERSON, NICK, HOME), 0, ("main", "people"), ("id", "nick", "home"))
ORDERS = Scan((ORDER, BUYER, SIZE), 1, ("main", "orders"), ("id", "person", "size"))
ITEMS = Scan((PART_OF, ITEM), 2, ("main", "items"), ("order_id", "item"))
REGIONS = Scan((REGION, SALES), 3, ("main", "regions"), ("id", "sales"))

_ID = (frozenset(("id",)),)


def kinds(scan: Scan) -> dict[str, Kind]:
    return {name: (column.type, column.exact) for name, column in zip(scan.names, scan.columns, strict=True)}


LEAVES: Leaves = {
    ("main", "people"): Leaf("id", None, True, frozenset(), frozenset(("id",)), _ID, kinds=kinds(PEOPLE)),
    ("main", "orders"): Leaf("person", None, False, frozenset(("id",)), keys=_ID, kinds=kinds(ORDERS)),
    ("main", "items"): Leaf(None, Way("order_id", ("main", "orders"), "id"), kinds=kinds(ITEMS)),
    ("main", "regions"): Leaf(rows=4, most={"sales": 3}, kinds=kinds(REGIONS)),
}


def equal(a: Column, b: Column) -> Expr:
    return Call("bool", "=", (ref(a), ref(b)))


def joined(kind: str, left: Relation, right: Relation, *on: Expr) -> Join:
    return Join((*left.columns, *right.columns), kind, left, right, conjunction(on))


def where(child: Relation, *conditions: Expr) -> Filter:
    condition = conjunction(conditions)
    assert condition is not None
    return Filter(child.columns, child, condition)


def there(given: Column) -> Expr:
    return Call("bool", "is_not_null", (ref(given),))


ONE = Lit("int4", "1")
