"""The steps to the normal form, one by one; and that a step which breaks what is relied on is caught, whatever it breaks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import plan_harness
import pytest
from small_expressions import call, column, same
from small_expressions import ref as column_ref

from dpproxy.plan.measure import normal_form
from dpproxy.plan.measure.normal_steps import (
    STEPS,
    Block,
    Form,
    Step,
    chain,
    check_rows,
    check_step,
    gathered,
    left_deep,
    linked,
    normal_expressions,
    normal_sources,
    one_block,
    ordered_sources,
)
from dpproxy.policy.catalog import Catalog
from dpproxy.tree.expr import TRUE, Call, Column, Expr, Lit, Ref, Relation, Taint, conjuncts
from dpproxy.tree.relation import Aggregate, Filter, Join, Project, Rows, Scan, Union


def scan(name: str, number: int) -> Scan:
    columns = (
        Column(2 * number, "id", "int4", taint=Taint.UNIT),
        Column(2 * number + 1, "x", "int4"),
    )
    return Scan(columns, number, ("main", name), ("id", "x"))


A, B, C = scan("a", 0), scan("b", 1), scan("c", 2)
ONE = Lit("int4", "1")


def ref(source: Scan, place: int) -> Ref:
    return Ref("int4", source.columns[place])


def equal(a: Expr, b: Expr) -> Call:
    return Call("bool", "=", (a, b))


class Plain:
    """A form that sorts by names of tables and changes nothing else."""

    def relation(self, node: Relation) -> Relation:
        return node

    def expr(self, expr: Expr) -> Expr:
        return expr

    def sorted(self, conditions: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(conditions)

    def text(self, value: object) -> str:
        return value.source[1] if isinstance(value, Scan) else repr(value)


ALL = (*C.columns, *B.columns, *A.columns)
INNER = Filter(
    ALL,
    Join(ALL, "inner", Join(ALL[:4], "cross", C, B, None), A, equal(ref(A, 0), ref(C, 0))),
    Call("bool", "and", (equal(ref(B, 0), ref(C, 0)), Call("bool", ">", (ref(A, 1), ONE)))),
)


def test_the_steps_of_a_block() -> None:
    gathered = one_block(INNER, Plain())
    on = (equal(ref(A, 0), ref(C, 0)), equal(ref(B, 0), ref(C, 0)), Call("bool", ">", (ref(A, 1), ONE)))
    assert gathered == Block(ALL, (C, B, A), on)
    ordered = ordered_sources(gathered, Plain())
    assert ordered == Block(ALL, (A, C, B), on), "by name, each next to one it is joined with"
    joined = left_deep(ordered, Plain())
    first = Join((*A.columns, *C.columns), "inner", A, C, on[0])
    assert joined == Filter(ALL, Join((*A.columns, *C.columns, *B.columns), "inner", first, B, on[1]), on[2])


def test_a_block_of_one_source_is_that_source() -> None:
    node = Filter(A.columns, A, TRUE)
    made: Relation = node
    for step in STEPS:
        check_step(step, made, step(made, Plain()))
        made = step(made, Plain())
    assert made is A


def test_an_outer_join_under_no_condition_is_that_join() -> None:
    for kind in ("left", "inner"):
        made = Join((*A.columns, *B.columns), kind, A, B, equal(ref(A, 0), ref(B, 0)))
        block = Block(made.columns, (made,), ())
        check_step(left_deep, block, left_deep(block, Plain()))
        assert left_deep(block, Plain()) is made


ALWAYS = (
    "INTERVAL '30 days' = INTERVAL '30 days'",
    "DATE '2024-01-01' = DATE '2024-01-01'",
    "1 = 1",
    "'a' IN ('a', 'b')",
    "2 > 1",
)


@pytest.mark.parametrize("condition", ALWAYS)
@pytest.mark.parametrize(
    "rows",
    [
        "customers c LEFT JOIN orders o ON c.customer_id = o.customer_id",
        "customers c JOIN orders o ON c.customer_id = o.customer_id",
        "(SELECT customer_id FROM customers UNION ALL SELECT customer_id FROM orders) c",
        "(SELECT DISTINCT customer_id, status FROM orders) c",
        "(SELECT customer_id, count(*) AS n FROM orders GROUP BY 1) c",
        "customers c",
    ],
)
def test_conditions_that_are_always_true_are_none(rows: str, condition: str, shop_catalog: Catalog) -> None:
    for where in (condition, f"{condition} AND {condition}"):
        plan_harness.plan(f"SELECT count(*) FROM {rows} WHERE {where} HAVING count(*) > 2", shop_catalog)


def test_other_relations_are_no_blocks() -> None:
    left = Join((*A.columns, *B.columns), "left", A, B, equal(ref(A, 0), ref(B, 0)))
    for node in (A, left, Project(A.columns[1:], A, (ref(A, 1),)), Union(A.columns, (A, A))):
        for step in (one_block, ordered_sources, left_deep):
            assert step(node, Plain()) is node


class Swapped(Plain):
    """Puts `c` in place of sources, and 1 in place of expressions: who asks the form is seen."""

    def relation(self, node: Relation) -> Relation:
        return C

    def expr(self, expr: Expr) -> Expr:
        return ONE

    def sorted(self, conditions: Iterable[Expr]) -> tuple[Expr, ...]:
        return (ONE,)


def test_what_is_below_and_beside_goes_through_the_form() -> None:
    form = Swapped()
    project = Project(A.columns[1:], A, (ref(A, 1),))
    groups = Aggregate(A.columns, A, (ref(A, 0),), (ref(A, 1),))
    left = Join((*A.columns, *B.columns), "left", A, B, equal(ref(A, 0), ref(B, 0)))
    block = Block(ALL, (A, B), (TRUE,))
    assert normal_sources(project, form) == replace(project, child=C)
    assert normal_sources(left, form) == replace(left, left=C, right=C)
    assert normal_sources(block, form) == replace(block, sources=(C, C))
    assert normal_sources(Union(A.columns, (A, B)), form) == Union(A.columns, (C, C))
    assert normal_expressions(project, form) == replace(project, items=(ONE,))
    assert normal_expressions(groups, form) == replace(groups, keys=(ONE,), aggs=(ONE,))
    assert normal_expressions(left, form) == replace(left, on=ONE)
    assert normal_expressions(block, form) == replace(block, conditions=(ONE,))


# --- joins, run on all small tables

RUN = [column(i) for i in range(1, 7)]
R, S, T = (Scan(tuple(RUN[2 * i : 2 * i + 2]), i, ("main", f"t{i}"), ("x", "y")) for i in range(3))
ON = [same(RUN[0], RUN[2]), same(RUN[3], RUN[4]), call("<", column_ref(RUN[1]), column_ref(RUN[5]))]


def held(condition: Expr | None, row: dict[int, int]) -> bool:
    for part in conjuncts(condition):
        assert isinstance(part, Call)
        a, b = (row[x.column.id] for x in part.args if isinstance(x, Ref))
        if not (a == b if part.op == "=" else a < b):
            return False
    return True


def rows(node: Relation) -> list[dict[int, int]]:
    """The rows of a small relation, whose tables hold all pairs of 0 and 1."""
    if isinstance(node, Scan):
        return [{c.id: v for c, v in zip(node.columns, pair, strict=True)} for pair in itertools.product((0, 1), repeat=2)]
    if isinstance(node, Filter):
        return [row for row in rows(node.child) if held(node.condition, row)]
    assert isinstance(node, Join)
    return [{**a, **b} for a in rows(node.left) for b in rows(node.right) if held(node.on, {**a, **b})]


def multiset(found: Sequence[dict[int, int]]) -> list[tuple[tuple[int, int], ...]]:
    return sorted(tuple(sorted(row.items())) for row in found)


@pytest.mark.parametrize("leaves", list(itertools.permutations((R, S, T))))
@pytest.mark.parametrize("count", range(4))
def test_a_chain_has_the_rows_of_what_it_is_made_of(leaves: tuple[Scan, ...], count: int) -> None:
    conditions = ON[:count]
    made, rest = chain(leaves, conditions)
    product = [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*(rows(leaf) for leaf in leaves))]
    assert multiset([r for r in rows(made) if all(held(c, r) for c in rest)]) == multiset(
        [r for r in product if all(held(c, r) for c in conditions)]
    )
    assert all(part.op != "=" for part in rest if isinstance(part, Call)), "equalities of columns stand where both are known"


def test_joins_are_taken_apart() -> None:
    joined = Join((*R.columns, *S.columns), "inner", R, S, ON[0])
    node = Filter(joined.columns, joined, call("and", ON[1], ON[2]))
    leaves: list[Relation] = []
    conditions: list[Expr] = []
    gathered(node, leaves, conditions)
    assert (leaves, conditions) == ([R, S], ON)
    made, rest = chain(leaves, conditions[:1])
    assert (made, rest) == (joined, ())


def test_an_outer_join_stays_whole() -> None:
    outer = Join((*R.columns, *S.columns), "left", R, S, ON[0])
    leaves: list[Relation] = []
    conditions: list[Expr] = []
    gathered(Join((*outer.columns, *T.columns), "cross", outer, T, None), leaves, conditions)
    assert (leaves, conditions) == ([outer, T], [])


def test_what_an_equality_leads_to() -> None:
    known = {c.id for c in R.columns}
    assert linked(S, known, ON)
    assert not linked(T, known, ON), "`<` leads nowhere"
    assert linked(T, known | {c.id for c in S.columns}, ON)


# --- planted steps

PROJECT = Project((Column(9, "y", "int4"), Column(10, "z", "int4")), A, (ref(A, 1), ONE))
BLOCK = one_block(INNER, Plain())
assert isinstance(BLOCK, Block)
UNIT = A.columns[0]

PLANTED: dict[str, tuple[Relation, Relation, str]] = {
    "a column is lost": (PROJECT, replace(PROJECT, columns=PROJECT.columns[:1], items=PROJECT.items[:1]), "changed the columns"),
    "columns change places": (PROJECT, replace(PROJECT, columns=PROJECT.columns[::-1]), "changed the columns"),
    "a column is another": (A, replace(A, columns=(replace(UNIT, id=7), A.columns[1])), "changed the columns"),
    "a column has another type": (A, replace(A, columns=(replace(UNIT, type="int8"), A.columns[1])), "changed the columns"),
    "a unit's id is no secret": (A, replace(A, columns=(replace(UNIT, taint=Taint.NONE), A.columns[1])), "changed the columns"),
    "padded rows are a unit's": (A, replace(A, columns=(replace(UNIT, optional=True), A.columns[1])), "changed the columns"),
    "a source is lost": (BLOCK, replace(BLOCK, sources=(C, A)), "reads other sources"),
    "a source is there twice": (BLOCK, replace(BLOCK, sources=(C, B, A, B)), "reads other sources"),
    "a source is another": (PROJECT, replace(PROJECT, child=B), "reads other sources"),
    "a branch is lost": (Union(A.columns, (A, B)), Union(A.columns, (A,)), "reads other sources"),
    "a condition reads another column": (BLOCK, replace(BLOCK, conditions=(equal(ref(B, 1), ONE),)), "reads other columns"),
    "an output reads another column": (PROJECT, replace(PROJECT, items=(ref(A, 0), ONE)), "reads other columns"),
    "an output has another type": (PROJECT, replace(PROJECT, items=(ref(A, 1), Lit("text", "1"))), "changed the types"),
}


@pytest.mark.parametrize(("before", "after", "says"), PLANTED.values(), ids=PLANTED.keys())
def test_a_step_that_breaks_something_is_caught(before: Relation, after: Relation, says: str) -> None:
    def planted(node: Relation, form: Form) -> Relation:
        return after

    check_step(planted, before, before)
    with pytest.raises(AssertionError, match=f"^planted {says}"):
        check_step(planted, before, planted(before, Plain()))


def a_source_short(node: Relation, form: Form) -> Relation:
    return replace(node, sources=node.sources[:1]) if isinstance(node, Block) and len(node.sources) > 1 else node


def other_columns(node: Relation, form: Form) -> Relation:
    return replace(node, columns=node.columns[::-1]) if isinstance(node, Aggregate) else node


@pytest.mark.parametrize(
    ("step", "sql"),
    [
        (a_source_short, "SELECT count(*) FROM customers JOIN orders USING (customer_id)"),
        (other_columns, "SELECT avg(n) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY 1) t"),
    ],
)
def test_no_plan_is_made_by_a_planted_step(step: Step, sql: str, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_harness.plan(sql, shop_catalog)
    for place in range(1, len(STEPS)):
        monkeypatch.setattr(normal_form, "STEPS", (*STEPS[:place], step, *STEPS[place:]))
        with pytest.raises(AssertionError, match=f"^{step.__name__} "):
            plan_harness.plan(sql, shop_catalog)


def test_the_normal_form_of_rows_says_whose_they_are() -> None:
    rows = Rows(node=A, unit=UNIT, conditions=(equal(ref(A, 1), ONE),))
    check_rows(rows, rows)
    wrong = {
        "lost the unit": replace(rows, unit=None),
        "unit of another kind": replace(rows, unit=A.columns[1]),
        "no column of its rows": replace(rows, unit=B.columns[0]),
        "read other columns": replace(rows, conditions=(equal(ref(A, 0), ONE),)),
    }
    for says, made in wrong.items():
        with pytest.raises(AssertionError, match=says):
            check_rows(rows, made)
