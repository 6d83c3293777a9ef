"""What SQL lets one exchange without changing a row: the single steps of the normal form.

Knows: relations, expressions. Must not know: names of columns, engines. Each step keeps the meaning on every database, NULLs
included; `canonical` decides which to take.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from dpproxy.plan.logical.expr import (
    FALSE,
    TRUE,
    Call,
    Expr,
    Lit,
    Relation,
    conjunction,
    conjuncts,
    references,
)
from dpproxy.plan.logical.relation import Filter, Join
from dpproxy.plan.properties.equivalence import equalities
from dpproxy.sql.types import INTEGERS

FOLDED: Mapping[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
INT32 = 2**31 - 1  # beyond, PostgreSQL may refuse what folding would allow


def gathered(node: Relation, leaves: list[Relation], conditions: list[Expr]) -> None:
    match node:
        case Filter(child=child, condition=condition):
            gathered(child, leaves, conditions)
            conditions += conjuncts(condition)
        case Join(kind="inner" | "cross", left=left, right=right, on=on):
            gathered(left, leaves, conditions)
            gathered(right, leaves, conditions)
            conditions += conjuncts(on)
        case _:
            leaves.append(node)


def chain(leaves: Sequence[Relation], conditions: Sequence[Expr]) -> tuple[Relation, tuple[Expr, ...]]:
    """A left-deep chain, equalities of columns where both are known, and the conditions that are left."""
    made, rest = leaves[0], list(conditions)
    for leaf in leaves[1:]:
        columns = (*made.columns, *leaf.columns)
        known = {c.id for c in columns}
        mine = [c for c in rest if equalities([c]) and all(r.id in known for r in references(c))]
        rest = [c for c in rest if c not in mine]
        made = Join(columns, "inner" if mine else "cross", made, leaf, conjunction(tuple(mine)))
    return made, tuple(rest)


def linked(leaf: Relation, known: set[int], conditions: Sequence[Expr]) -> bool:
    mine = {c.id for c in leaf.columns}
    return any((a.id in mine and b.id in known) or (b.id in mine and a.id in known) for a, b in equalities(conditions))


def flat(expr: Expr, op: str) -> tuple[Expr, ...]:
    if isinstance(expr, Call) and expr.op == op:
        return tuple(e for arg in expr.args for e in flat(arg, op))
    return (expr,)


def compared(expr: Call, a: Lit, b: Lit) -> Expr:
    """`1 = 1`. Different texts are different values of whole numbers and texts alone."""
    if a.text is None or b.text is None or a.type != b.type or expr.op not in ("=", "<>"):
        return expr
    same = int(a.text) == int(b.text) if a.type in INTEGERS else a.text == b.text
    if not same and a.type not in (*INTEGERS, "text", "varchar"):
        return expr
    return TRUE if same == (expr.op == "=") else FALSE


def folded(expr: Call, a: Lit, b: Lit) -> Expr:
    if a.text is None or b.text is None or a.type not in INTEGERS or b.type not in INTEGERS:
        return expr
    value = FOLDED[expr.op](int(a.text), int(b.text))
    return Lit(expr.type, str(value)) if abs(value) <= INT32 and expr.type != "int2" else expr
