"""Whose row each row is: each rule by an example that it takes, and by one that it must not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.owners import Owners
from dpproxy.tree.expr import Agg, Call, Exists, Expr, InQuery, Lit, Relation, Scalar, Win, conjunction
from dpproxy.tree.relation import Aggregate, Distinct, Project, Public, Scan, Staged, Union, Values
from tests.kernel.small_tables import (
    BUYER,
    HOME,
    ITEMS,
    LEAVES,
    NICK,
    ONE,
    ORDER,
    ORDERS,
    PART_OF,
    PEOPLE,
    PERSON,
    REGION,
    REGIONS,
    SIZE,
    equal,
    joined,
    there,
    where,
)

NEW, OTHER, UNIT = column(50), column(51), column(52)
COUNT = Agg("int4", "count", ())
NUMBER = Win("int4", "row_number", (), (ref(BUYER),), tuple((ref(c), False, False) for c in ORDERS.columns))


def project(child: Relation, *items: Expr) -> Project:
    return Project((*(replace(c, type=i.type) for c, i in zip((NEW, OTHER), items, strict=False)), *child.columns), child, items)


def grouped(child: Relation, *keys: Expr) -> Aggregate:
    columns = tuple(k.column if hasattr(k, "column") else NEW for k in keys)
    return Aggregate((*columns, OTHER), child, keys, (COUNT,))


def alias(child: Relation, *given: object, first: int = 60) -> Project:
    """These columns alone, under new numbers."""
    columns = tuple(replace(c, id=first + i) for i, c in enumerate(given))  # type: ignore[type-var]
    return Project(columns, child, tuple(ref(c) for c in given))  # type: ignore[arg-type]


BOTH = joined("inner", PEOPLE, ORDERS, equal(PERSON, BUYER))
SIDES = (alias(PEOPLE, PERSON, HOME), alias(ORDERS, BUYER, SIZE, first=70))
FULL = joined("full", PEOPLE, ORDERS, equal(PERSON, BUYER))
EITHER = Call("int4", "coalesce", (ref(PERSON), ref(BUYER)))
FIRSTS = where(project(ORDERS, NUMBER), call("=", ref(NEW), ONE))

TAKEN: dict[str, tuple[Relation, set[int], bool, set[int]]] = {
    "a table of people": (PEOPLE, {1}, True, {1, 2, 3}),
    "a table of theirs": (ORDERS, {11}, False, set()),
    "a filter": (where(ORDERS, call(">", ref(SIZE), ONE)), {11}, False, set()),
    "a join by the unit": (BOTH, {1, 11}, False, {1, 2, 3}),
    "a join with public rows": (joined("inner", PEOPLE, REGIONS, equal(HOME, REGION)), {1}, False, {1, 2, 3}),
    "a public row beside": (joined("left", PEOPLE, REGIONS, equal(HOME, REGION)), {1}, False, {1, 2, 3}),
    "a way that is joined": (joined("inner", ITEMS, ORDERS, equal(PART_OF, ORDER)), {11}, False, set()),
    "a way and its way": (
        joined("inner", joined("inner", ITEMS, ORDERS, equal(PART_OF, ORDER)), PEOPLE, equal(BUYER, PERSON)),
        {11, 1}, False, {1, 2, 3},
    ),
    "people who may have orders": (joined("left", PEOPLE, ORDERS, equal(PERSON, BUYER)), {1}, False, {1, 2, 3}),
    "whichever side has one": (Project((UNIT, *FULL.columns), FULL, (EITHER,)), {52}, False, set()),
    "a group a person": (grouped(ORDERS, ref(BUYER)), {11}, True, {11, 51}),
    "a group a person and size": (grouped(ORDERS, ref(BUYER), ref(SIZE)), {11}, False, set()),
    "a group a person and nick": (grouped(BOTH, ref(PERSON), ref(NICK)), {1}, True, {1, 2, 51}),
    "distinct people": (Distinct((PERSON,), Project((PERSON,), BOTH, (ref(PERSON),))), {1}, True, {1}),
    "distinct rows": (Distinct(ORDERS.columns, ORDERS), {11}, False, set()),
    "both sides of a union": (Union((UNIT, OTHER), SIDES), {52}, False, {52}),
    "each once": (Distinct((UNIT,), Union((UNIT,), tuple(alias(s, s.columns[0], first=80 + 5 * i) for i, s in enumerate(SIDES)))),
                  {52}, True, {52}),
    "a constant beside": (project(PEOPLE, call("+", ref(HOME), ONE, type_="int4")), {1}, True, {1, 2, 3, 50}),
    "each one's first order": (FIRSTS, {11}, True, {10, 11, 12, 50}),
    "own orders": (where(PEOPLE, Exists("bool", where(ORDERS, equal(BUYER, PERSON)))), {1}, True, {1, 2, 3}),
    "own order among": (
        where(PEOPLE, InQuery("bool", (ref(HOME), ref(PERSON)), where(ORDERS, there(BUYER)), (ref(SIZE), ref(BUYER)), True)),
        {1}, True, {1, 2, 3},
    ),
    "own orders counted": (
        project(PEOPLE, Scalar("int4", Aggregate((OTHER,), where(ORDERS, equal(BUYER, PERSON)), (), (COUNT,)), ref(OTHER))),
        {1}, True, {1, 2, 3, 50},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_whose_rows_these_are(name: str) -> None:
    node, owner, one, constant = TAKEN[name]
    found = Owners(LEAVES).of(node)
    assert (found.private, set(found.owner), found.one) == (True, owner, one)
    assert set(found.constant) >= constant - owner
    assert not (set(found.constant) - constant - owner) & {c.id for c in node.columns}


AGAIN = replace(ORDERS, columns=tuple(replace(c, id=c.id + 80) for c in ORDERS.columns))
OWN_OR_NOT = Union(
    (UNIT, OTHER), (alias(where(ORDERS, equal(BUYER, PERSON)), BUYER, SIZE, first=70), alias(AGAIN, *AGAIN.columns[1:]))
)
"""A side of the row around it, and one of everybody."""
SLIDING = Win("int8", "sum", (ref(SIZE),), (ref(BUYER),), NUMBER.order[:1], "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW")
SPANS = tuple(replace(c, type="interval") for c in (NEW, OTHER))
SPANNED = tuple(Project(tuple(replace(c, id=c.id + 30 + 5 * i) for c in (UNIT, *SPANS)), s, (ref(s.columns[0]), Lit("interval", "1 0 0"),
                Lit("interval", "0 30 0"))) for i, s in enumerate(SIDES))  # fmt: skip
OTHERS = where(ORDERS, call(">", ref(SIZE), ONE))
AROUND = where(ORDERS, call("=", ref(BUYER), ref(BUYER)))
REFUSED: dict[str, Relation] = {
    "rows of different units": joined("inner", PEOPLE, ORDERS, equal(HOME, SIZE)),
    "rows of different units ": joined("cross", PEOPLE, ORDERS),
    "not joined, but kept": joined("left", PEOPLE, ORDERS, equal(HOME, SIZE)),
    "a public row for want of a private one": joined("left", REGIONS, PEOPLE, equal(HOME, REGION)),
    "a condition that is not written": replace(BOTH, kind="cross"),
    "one column twice": joined("inner", ORDERS, ORDERS, equal(BUYER, BUYER)),
    "another way": joined("inner", ITEMS, ORDERS, equal(PART_OF, SIZE)),
    "groups of several": grouped(ORDERS, ref(SIZE)),
    "groups of a side that may be missing": grouped(joined("left", PEOPLE, ORDERS, equal(PERSON, BUYER)), ref(BUYER)),
    "one group": grouped(ORDERS),
    "distinct sizes": Distinct((SIZE,), Project((SIZE,), ORDERS, (ref(SIZE),))),
    "sides in another order": Union((UNIT, OTHER), (SIDES[0], replace(SIDES[1], columns=SIDES[1].columns[::-1],
                                                                        items=SIDES[1].items[::-1]))),
    "private and public": Union((UNIT, OTHER), (SIDES[0], alias(REGIONS, REGION, REGION, first=90))),
    "another operation": Union((UNIT, OTHER), SIDES, "union"),
    "rows of everybody": where(PEOPLE, Exists("bool", OTHERS)),
    "rows of everybody in public ones": joined("inner", PEOPLE, where(REGIONS, Exists("bool", OTHERS)), equal(HOME, REGION)),
    "among everybody's": where(PEOPLE, InQuery("bool", (ref(HOME),), where(ORDERS, there(BUYER)), (ref(SIZE),))),
    "a NULL among them": where(
        PEOPLE, InQuery("bool", (ref(HOME), ref(PERSON)), ORDERS, (ref(SIZE), ref(BUYER)), True)
    ),
    "everybody's orders counted": project(PEOPLE, Scalar("int4", Aggregate((OTHER,), ORDERS, (), (COUNT,)), ref(OTHER))),
    "rows that have the numbers of those around them": where(ORDERS, Exists("bool", AROUND)),
    "a column in the place of the unit": Project((BUYER, SIZE), ORDERS, (ref(SIZE),)),
    "sides that are made numbers": Union((replace(UNIT, type="float8"), OTHER), SIDES),
    "several rows": project(PEOPLE, Scalar("int4", where(ORDERS, equal(BUYER, PERSON)), ref(SIZE))),
    "a window over everybody": project(ORDERS, replace(NUMBER, partition=(ref(SIZE),))),
    "a window with ties": project(ORDERS, replace(NUMBER, order=NUMBER.order[:1])),
    "a side of rows of everybody": where(PEOPLE, Exists("bool", OWN_OR_NOT)),
    "a sliding sum with ties": project(ORDERS, SLIDING),
    "one of equal intervals": Union((UNIT, *SPANS), SPANNED, "intersect"),
    "a condition that is a number": where(ORDERS, ref(SIZE)),
    "a condition of a join that is a number": replace(BOTH, on=conjunction((equal(PERSON, BUYER), ref(SIZE)))),
    "a column of nothing": where(ORDERS, call("=", ref(column(999)), ONE)),
    "constants of another kind": joined("inner", PEOPLE, Values((OTHER,), ((Lit("text", "x"),),)), equal(HOME, OTHER)),
    "sides of other kinds": Union((UNIT, replace(OTHER, type="text")), SIDES),
    "an unknown function": project(PEOPLE, call("pg_sleep", ONE)),
    "an unknown frame": project(ORDERS, replace(NUMBER, frame="GROUPS BETWEEN CURRENT ROW AND CURRENT ROW")),
    "an unknown window": project(ORDERS, replace(NUMBER, name="percent_rank")),
    "an unknown aggregate": Aggregate((BUYER, OTHER), ORDERS, (ref(BUYER),), (replace(COUNT, name="array_agg"),)),
    "an unknown table": Scan((UNIT,), 9, ("main", "elsewhere"), ("x",)),
    "an unknown relation": Relation((UNIT,)),
    "a table without its unit": Scan((SIZE,), 1, ("main", "orders"), ("size",)),
    "a private table called public": Public((PERSON,), 0, PEOPLE),
    "FULL JOIN without a unit": joined("inner", FULL, alias(PEOPLE, PERSON), equal(PERSON, replace(PERSON, id=60))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_rule_takes(name: str) -> None:
    with pytest.raises(Unproven):
        Owners(LEAVES).of(REFUSED[name])


@pytest.mark.parametrize("node", [REGIONS, Values((UNIT,), ((ONE,),)), Staged((UNIT,), 0), Public((REGION,), 0, REGIONS)])
def test_public_rows_are_nobodys(node: Relation) -> None:
    assert not Owners(LEAVES).of(node).private


def test_what_is_nearly_refused_is_taken() -> None:
    """A sum over the whole partition needs no order, one that slides needs one without ties; intervals may be put together."""
    for sums in (
        replace(SLIDING, order=NUMBER.order),
        replace(SLIDING, frame="ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"),
    ):
        assert Owners(LEAVES).of(project(ORDERS, sums)).owner == {BUYER.id}
    assert Owners(LEAVES).of(Union((UNIT, *SPANS), SPANNED)).owner == {UNIT.id}


def test_first_is_one_alone() -> None:
    """The second row of each is one as well, but no rule says so; the first two are not."""
    for test in (call("=", ref(NEW), lit("2")), call("<=", ref(NEW), ONE)):
        assert not Owners(LEAVES).of(where(project(ORDERS, NUMBER), test)).one
    by_size = replace(NUMBER, partition=(ref(BUYER), ref(SIZE)))
    assert not Owners(LEAVES).of(where(project(ORDERS, by_size), call("=", ref(NEW), ONE))).one


def test_a_first_row_that_meets_several_is_several() -> None:
    """Rows are numbered, then joined: the number 1 stands beside every row that the first one meets."""
    numbered, first = project(ORDERS, NUMBER), call("=", ref(NEW), ONE)
    found = Owners(LEAVES).of(where(joined("left", numbered, REGIONS, equal(SIZE, REGION)), first))
    assert (found.owner, found.one) == ({BUYER.id}, False)
    others = replace(ORDERS, columns=tuple(replace(c, id=c.id + 60) for c in ORDERS.columns))
    found = Owners(LEAVES).of(where(joined("left", numbered, others, equal(BUYER, others.columns[1])), first))
    assert (found.owner, found.one) == ({BUYER.id}, False)
    assert Owners(LEAVES).of(where(joined("left", numbered, PEOPLE, equal(BUYER, PERSON)), first)).one


def test_columns_of_a_side_that_may_be_missing_say_nothing() -> None:
    """P2 of the findings: a column that a FULL or LEFT JOIN may leave NULL has two values in a unit's rows."""
    orders_first = joined("left", ORDERS, PEOPLE, equal(BUYER, PERSON), call(">", ref(SIZE), ONE))
    found = Owners(LEAVES).of(orders_first)
    assert (found.owner, found.one, found.constant) == ({BUYER.id}, False, frozenset())
    assert NICK.id not in Owners(LEAVES).of(Project((UNIT, *FULL.columns), FULL, (EITHER,))).constant
