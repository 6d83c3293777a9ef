"""How far a unit's share of a relation grows: rules by themselves, and beside what the planner reckons."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest
from small_expressions import call, column, lit, ref

from dpproxy.kernel.growth import HANDED, Growth
from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.shares import Size
from dpproxy.kernel.verdict import derived
from dpproxy.plan.measure import amplification
from dpproxy.plan.measure.row_costs import NOTHING
from dpproxy.plan.properties import text_growth
from dpproxy.policy.catalog import Catalog
from dpproxy.tree.expr import Agg, Exists, Expr, InQuery, Relation, Scalar, Win
from dpproxy.tree.relation import Aggregate, Beside, Distinct, Project, Staged, Union, Values
from tests.kernel.recorded import recorded
from tests.kernel.small_tables import (
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


# --- subqueries


MINE = equal(BUYER, PERSON)
ORDER2, BUYER2, SIZE2 = AGAIN.columns
OF_ORDER = equal(BUYER2, BUYER)
LATER = call("<", ref(SIZE2), ref(SIZE))


def counted(*conditions: Expr, of: Relation = AGAIN) -> Scalar:
    total = Aggregate((OTHER,), where(of, *conditions), (), (Agg("int8", "count", ()),))
    return Scalar("int8", total, ref(OTHER))


def positive(value: Expr) -> Expr:
    return call(">", value, lit("0"))


EXISTS = Exists("bool", where(AGAIN, OF_ORDER))
PAIRS = joined("inner", AGAIN, replace(AGAIN, columns=(column(70), column(71), column(72))), equal(BUYER2, column(71)))
SUBQUERIES = [
    (where(PEOPLE, positive(counted(equal(BUYER2, PERSON)))), Size(1), "once for a row of which there is one"),
    (where(ORDERS, positive(counted(OF_ORDER))), Size(2), "again for each, equalities or not"),
    (where(ORDERS, positive(counted(equal(ORDER2, ORDER)))), Size(2), "a table may be gone through for a key"),
    (where(joined("cross", ORDERS, PEOPLE), positive(counted(OF_ORDER, LATER))), Size(2), "for rows of one source"),
    (where(ORDERS, EXISTS), Size(1), "a join by equalities"),
    (where(ORDERS, Exists("bool", where(AGAIN, OF_ORDER, LATER))), Size(2), "no join by equalities alone"),
    (where(ORDERS, call("or", EXISTS, positive(ref(SIZE)))), Size(2), "no condition of a join"),
    (where(ORDERS, InQuery("bool", (ref(BUYER),), AGAIN, (ref(BUYER2),))), Size(1), "one value in a hash table"),
    (where(ORDERS, InQuery("bool", (ref(BUYER), ref(SIZE)), AGAIN, (ref(BUYER2), ref(SIZE2)))), Size(1), "a join"),
    (where(ORDERS, InQuery("bool", (ref(BUYER), ref(SIZE)), AGAIN, (ref(BUYER2), ref(SIZE2)), True)), Size(2), "NULL is none"),
    (where(ORDERS, InQuery("bool", (ref(SIZE),), where(AGAIN, OF_ORDER), (ref(SIZE2),))), Size(2), "it reads a row around it"),
    (where(ORDERS, positive(counted(equal(REGION, SIZE), of=REGIONS))), Size(1, 4), "nothing is known of its values"),
    (where(ORDERS, positive(counted(equal(SALES, SIZE), of=REGIONS))), Size(1, 3), "public rows of a value"),
    (where(ORDERS, positive(counted(call("<", ref(SALES), ref(SIZE)), of=REGIONS))), Size(1, 4), "all public rows"),
    (Aggregate((NUMBER,), ORDERS, (positive(counted(OF_ORDER)),), ()), Size(2), "as a key"),
    (Project((NUMBER,), ORDERS, (counted(OF_ORDER),)), Size(2), "as a column"),
    (where(PEOPLE, positive(counted(equal(BUYER2, PERSON), of=PAIRS))), Size(2), "pairs, for one row"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "size", "why"), SUBQUERIES)
def test_subqueries(node: Relation, size: Size, why: str) -> None:
    growth = Growth(LEAVES, {})
    growth.of(node)
    assert growth.largest == size, why


LATE = Project((NUMBER, *ORDERS.columns), ORDERS, (counted(OF_ORDER),))
THIRD = replace(AGAIN, columns=(column(80), column(81), column(82)))
ALONE = replace(ORDERS, columns=(column(90), column(91), column(92)))
TOO_MUCH = [
    where(ORDERS, positive(counted(equal(BUYER2, BUYER), of=PAIRS))),
    where(joined("inner", ORDERS, ALONE, equal(BUYER, column(91))), positive(counted(OF_ORDER, call("<", ref(SIZE2), ref(column(92)))))),
    where(ORDERS, positive(counted(OF_ORDER, positive(Scalar("int8", Aggregate((NUMBER,), where(THIRD, equal(column(81), BUYER2)), (), ()), ref(NUMBER)))))),
    joined("inner", LATE, THIRD, equal(BUYER, column(81)), call("<", ref(column(82)), ref(NUMBER))),
    joined("inner", LATE, THIRD, equal(BUYER, column(81)), call("=", ref(column(82)), ref(NUMBER))),
    where(LATE, Exists("bool", where(THIRD, equal(column(81), BUYER), call("<", ref(column(82)), ref(NUMBER))))),
]  # fmt: skip


@pytest.mark.parametrize("node", TOO_MUCH)
def test_subqueries_for_each_pair_are_refused(node: Relation) -> None:
    with pytest.raises(Unproven, match="paired again"):
        Growth(LEAVES, {}).of(node)


def test_a_column_is_computed_where_it_is_read() -> None:
    """Beside one row a unit as often as without; where groups hold its values, not again."""
    for node in (joined("inner", LATE, PEOPLE, MINE, positive(ref(NUMBER))), Distinct(LATE.columns, LATE)):
        growth = Growth(LEAVES, {})
        growth.of(node)
        assert growth.largest == Size(2)
    assert Growth(LEAVES, {}).of(LATE).late == {NUMBER.id: Size(1)}
    assert Growth(LEAVES, {}).of(Distinct(LATE.columns, LATE)).late == {}


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        ("", Size(1)),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", Size(1)),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW", Size(2)),
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", Size(2)),
        ("RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", Size(2)),
        ("ROWS BETWEEN 3 PRECEDING AND 4 FOLLOWING", Size(1, 8)),
        ("ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING", Size(1, 4)),
        ("ROWS BETWEEN 30000 PRECEDING AND CURRENT ROW", Size(2)),
    ],
)
def test_frames(frame: str, size: Size) -> None:
    growth = Growth(LEAVES, {})
    growth.of(Project((NUMBER,), ORDERS, (Win("int4", "max", (ref(SIZE),), (ref(BUYER),), (), frame),)))
    assert growth.largest == size


def test_frames_over_pairs_are_refused() -> None:
    window = Win("int4", "max", (ref(SIZE2),), (ref(BUYER2),), (), "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING")
    with pytest.raises(Unproven, match="paired again"):
        Growth(LEAVES, {}).of(Project((NUMBER,), PAIRS, (window,)))


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(Unproven, match="no rule"):
        grown(Relation((PERSON,)))


@pytest.mark.parametrize(
    "name",
    [
        "two series",
        "a list",
        "outer joins",
        "a branch each",
        "rows of one again and again",
        "a subquery for each pair",
        "a frame of pairs",
        "a series for each pair",
    ],
)
def test_a_planner_that_does_not_look_is_stopped(name: str, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amplification, "chosen_cut", lambda *_: (text_growth.CUTS[-1], NOTHING))
    with pytest.raises(plan_harness.Unproved, match="cannot prove"):
        plan_harness.plan(REFUSED[name], shop_catalog)


def test_it_is_derived_of_plans(shop_catalog: Catalog) -> None:
    made = recorded("SELECT d::date, count(*) FROM customers JOIN generate_series(date '2024-01-01', date '2024-12-31', "
                    "interval '1 day') d ON signup <= d GROUP BY 1", shop_catalog)  # fmt: skip
    assert derived(made.trees, made.leaves, made.handed).growth == Size(0, 366)
