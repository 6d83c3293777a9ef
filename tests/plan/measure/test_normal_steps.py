"""Single steps of the normal form: each keeps the rows on every database, tried by running both sides."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from small_expressions import call, column, lit, ref, same

from dpproxy.plan.logical.expr import FALSE, TRUE, Call, Expr, Lit, Ref, Relation, conjuncts
from dpproxy.plan.logical.relation import Filter, Join, Scan
from dpproxy.plan.measure.normal_steps import INT32, chain, compared, flat, folded, gathered, linked

COLUMNS = [column(i) for i in range(1, 7)]
A, B, C = (Scan(tuple(COLUMNS[2 * i : 2 * i + 2]), i, ("main", f"t{i}"), ("x", "y")) for i in range(3))
CONDITIONS = [same(COLUMNS[0], COLUMNS[2]), same(COLUMNS[3], COLUMNS[4]), call("<", ref(COLUMNS[1]), ref(COLUMNS[5]))]


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


@pytest.mark.parametrize("leaves", list(itertools.permutations((A, B, C))))
@pytest.mark.parametrize("count", range(4))
def test_a_chain_has_the_rows_of_what_it_is_made_of(leaves: tuple[Scan, ...], count: int) -> None:
    conditions = CONDITIONS[:count]
    made, rest = chain(leaves, conditions)
    product = [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*(rows(leaf) for leaf in leaves))]
    assert multiset([r for r in rows(made) if all(held(c, r) for c in rest)]) == multiset(
        [r for r in product if all(held(c, r) for c in conditions)]
    )
    assert all(part.op != "=" for part in rest if isinstance(part, Call)), "equalities of columns stand where both are known"


def test_joins_are_taken_apart() -> None:
    inner = Join((*A.columns, *B.columns), "inner", A, B, CONDITIONS[0])
    node = Filter(inner.columns, inner, call("and", CONDITIONS[1], CONDITIONS[2]))
    leaves: list[Relation] = []
    conditions: list[Expr] = []
    gathered(node, leaves, conditions)
    assert (leaves, conditions) == ([A, B], CONDITIONS)
    made, rest = chain(leaves, conditions[:1])
    assert (made, rest) == (inner, ())


def test_an_outer_join_stays_whole() -> None:
    outer = Join((*A.columns, *B.columns), "left", A, B, CONDITIONS[0])
    leaves: list[Relation] = []
    conditions: list[Expr] = []
    gathered(Join((*outer.columns, *C.columns), "cross", outer, C, None), leaves, conditions)
    assert (leaves, conditions) == ([outer, C], [])


def test_what_an_equality_leads_to() -> None:
    known = {c.id for c in A.columns}
    assert linked(B, known, CONDITIONS)
    assert not linked(C, known, CONDITIONS), "`<` leads nowhere"
    assert linked(C, known | {c.id for c in B.columns}, CONDITIONS)


def test_nested_operators_are_one_list() -> None:
    p, q, r = CONDITIONS
    assert flat(call("and", p, call("and", q, call("or", p, r))), "and") == (p, q, call("or", p, r))
    assert flat(p, "and") == (p,)


@pytest.mark.parametrize(
    ("a", "b", "type_", "equal"),
    [("1", "1", "int4", True), ("1", "01", "int4", True), ("1", "2", "int4", False), ("a", "a", "text", True), ("a", "b", "text", False),
     ("1.0", "1.00", "numeric", None), ("1.5", "1.5", "numeric", True), ("a", "a ", "bpchar", None), (None, "1", "int4", None), (None, None, "int4", None)],
)  # fmt: skip
def test_constants_are_compared_where_texts_say_it(a: str | None, b: str | None, type_: str, equal: bool | None) -> None:
    left, right = Lit(type_, a), Lit(type_, b)
    for op in ("=", "<>"):
        expr = call(op, left, right)
        assert compared(expr, left, right) == (expr if equal is None else TRUE if equal == (op == "=") else FALSE)
    other = call("<", left, right)
    assert compared(other, left, right) == other


@pytest.mark.parametrize("op", ["+", "-", "*"])
@pytest.mark.parametrize(("a", "b"), list(itertools.product((-INT32, -7, 0, 3, INT32), repeat=2)))
def test_arithmetic_is_folded_within_32_bits(op: str, a: int, b: int) -> None:
    expr = call(op, lit(str(a)), lit(str(b)), type_="int4")
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    assert folded(expr, lit(str(a)), lit(str(b))) == (Lit("int4", str(value)) if abs(value) <= INT32 else expr)
    small = call(op, lit(str(a)), lit(str(b)), type_="int2")
    assert folded(small, lit(str(a)), lit(str(b))) == small
    assert folded(expr, lit(None), lit(str(b))) == expr
