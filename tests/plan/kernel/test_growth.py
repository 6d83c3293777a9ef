"""How far a unit's share of a relation grows: rules by themselves, and beside what the planner reckons."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest
from small_expressions import call, column, lit, ref

from dpproxy.plan.kernel.growth import HANDED, Growth, Size
from dpproxy.plan.kernel.leaves import Unproven
from dpproxy.plan.kernel.verdict import derived
from dpproxy.plan.logical.expr import Exists, Relation
from dpproxy.plan.logical.relation import Aggregate, Beside, Distinct, Staged, Union, Values
from dpproxy.plan.measure import amplification
from dpproxy.plan.properties import text_growth
from dpproxy.policy.catalog import Catalog
from tests.plan.kernel.recorded import recorded
from tests.plan.kernel.small_tables import (
    BUYER,
    HOME,
    ITEMS,
    LEAVES,
    ORDER,
    ORDERS,
    PART_OF,
    PEOPLE,
    PERSON,
    REGION,
    REGIONS,
    SALES,
    SIZE,
    equal,
    joined,
    where,
)
from tests.plan.measure.test_amplification import REFUSED

NUMBER, OTHER = column(50), column(51)
OWNED = equal(PERSON, BUYER)
AGAIN = replace(ORDERS, columns=(column(60), column(61), column(62)))


def numbers(*texts: str) -> Values:
    return Values((NUMBER,), tuple((lit(t),) for t in texts))


def handed(size: int | None, *most: tuple[int, int], columns: int = 1) -> tuple[Relation, dict[int, Beside]]:
    ids = frozenset((NUMBER.id, OTHER.id)[:columns])
    return Staged((NUMBER, OTHER)[:columns], 0), {0: Beside(ids, size, most)}


def grown(node: Relation, known: dict[int, Beside] | None = None) -> Size:
    return Growth(LEAVES, known or {}).of(node).size


RELATIONS = [
    (PEOPLE, Size(0)),
    (ORDERS, Size(1)),
    (REGIONS, Size(0, 4)),
    (where(ORDERS, call(">", ref(SIZE), lit("1"))), Size(1)),
    (joined("inner", PEOPLE, ORDERS, OWNED), Size(1)),
    (joined("inner", ORDERS, ITEMS, equal(PART_OF, ORDER)), Size(1)),
    (joined("inner", ORDERS, ITEMS, call("is_not_distinct", ref(PART_OF), ref(ORDER))), Size(2)),
    (joined("left", ITEMS, ORDERS, equal(PART_OF, ORDER)), Size(1)),
    (joined("left", ORDERS, ITEMS, equal(PART_OF, ORDER)), Size(1, 2)),
    (joined("left", PEOPLE, ORDERS, OWNED), Size(1)),
    (joined("full", PEOPLE, ORDERS, OWNED), Size(1, 2)),
    (joined("cross", PEOPLE, REGIONS), Size(0, 4)),
    (joined("inner", PEOPLE, REGIONS, equal(HOME, REGION)), Size(0, 4)),
    (joined("inner", PEOPLE, REGIONS, equal(HOME, SALES)), Size(0, 3)),
    (joined("inner", PEOPLE, REGIONS, call("<", ref(HOME), ref(SALES))), Size(0, 4)),
    (joined("cross", ORDERS, numbers("1", "2", "2")), Size(1, 3)),
    (joined("inner", ORDERS, numbers("1", "2", "2"), equal(SIZE, NUMBER)), Size(1, 2)),
    (joined("inner", ORDERS, numbers("1", "01", "001"), equal(SIZE, NUMBER)), Size(1, 3)),
    (joined("cross", PEOPLE, joined("inner", ORDERS, AGAIN, equal(ORDER, AGAIN.columns[0]))), Size(1)),
    (Distinct(ORDERS.columns, ORDERS), Size(1)),
    (Aggregate((NUMBER,), ORDERS, (ref(BUYER),), ()), Size(1)),
    (Aggregate((), ORDERS, (), ()), Size(0)),
    (joined("inner", PEOPLE, Aggregate((NUMBER,), ORDERS, (ref(BUYER),), ()), equal(PERSON, NUMBER)), Size(0)),
    (Union((NUMBER,), (PEOPLE, ORDERS, ORDERS)), Size(1, 3)),
]


@pytest.mark.parametrize(("node", "size"), RELATIONS)
def test_relations(node: Relation, size: Size) -> None:
    assert grown(node) == size


def test_rows_of_the_facade() -> None:
    tie = equal(SIZE, NUMBER)
    for size, most, columns, found in [
        (7, (), 1, 7), (None, (), 1, HANDED), (None, ((NUMBER.id, 1),), 2, 1), (1, (), 2, 1), (7, ((NUMBER.id, 2),), 1, 2),
    ]:  # fmt: skip
        node, known = handed(size, *most, columns=columns)
        assert grown(joined("inner", ORDERS, node, tie), known).times == found
    with pytest.raises(Unproven, match="more than 30000 rows"):
        grown(joined("cross", ORDERS, handed(None)[0]))
    node, known = handed(None, (NUMBER.id, 1), columns=2)
    with pytest.raises(Unproven, match="more than 30000 rows"):
        grown(joined("cross", ORDERS, node), known)


def test_pairs_are_not_paired_again() -> None:
    three = joined("cross", joined("cross", ORDERS, ITEMS), Distinct((column(60),), ITEMS))
    with pytest.raises(Unproven, match="paired again"):
        grown(three)
    with pytest.raises(Unproven, match="paired again"):
        grown(where(PEOPLE, Exists("bool", three)))


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(Unproven, match="no rule"):
        grown(Relation((PERSON,)))


@pytest.mark.parametrize("name", ["two series", "a list", "outer joins", "a branch each", "rows of one again and again"])
def test_a_planner_that_does_not_look_is_stopped(name: str, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amplification, "chosen_cut", lambda *_: (text_growth.CUTS[-1], amplification.NOTHING))
    with pytest.raises(plan_harness.Unproved, match="cannot prove"):
        plan_harness.plan(REFUSED[name], shop_catalog)


def test_it_is_derived_of_plans(shop_catalog: Catalog) -> None:
    made = recorded("SELECT d::date, count(*) FROM customers JOIN generate_series(date '2024-01-01', date '2024-12-31', "
                    "interval '1 day') d ON signup <= d GROUP BY 1", shop_catalog)  # fmt: skip
    assert derived(made.trees, made.leaves, made.handed).growth == Size(0, 366)
