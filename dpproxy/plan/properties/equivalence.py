"""Columns that equalities of a WHERE or ON make one.

Knows: conjuncts. Must not know: units, SQL text, engines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dpproxy.table_terms import same_kind
from dpproxy.tree.expr import Call, Column, Expr, Ref


def equalities(conditions: Iterable[Expr]) -> list[tuple[Column, Column]]:
    """List the pairs of columns that hold equal values."""
    return [
        (e.args[0].column, e.args[1].column)
        for e in conditions
        if isinstance(e, Call) and e.op == "=" and isinstance(e.args[0], Ref) and isinstance(e.args[1], Ref)
        if same_kind(e.args[0].column, e.args[1].column)
    ]


def strict(conditions: Iterable[Expr], filled: Collection[int]) -> list[Expr]:
    """Write null-safe equalities among conditions that rows must satisfy as plain ones, where a column of `filled` is compared,
    which is never NULL: no pair of NULLs is lost then. Others become one IS NOT DISTINCT FROM."""
    return [_strict(c, filled) for c in conditions]


def _strict(condition: Expr, filled: Collection[int]) -> Expr:
    pair = null_safe(condition)
    if pair is None:
        return condition
    plain = any(isinstance(e, Ref) and e.column.id in filled for e in pair)
    return Call("bool", "=" if plain else "is_not_distinct", pair)


def null_safe(condition: Expr) -> tuple[Expr, Expr] | None:
    """The sides of `a IS NOT DISTINCT FROM b` and of `a = b OR a IS NULL AND b IS NULL`; None for other conditions."""
    match condition:
        case Call(op="is_not_distinct", args=(a, b)):
            return a, b
        case (
            Call(op="or", args=(Call(op="=", args=(a, b)), Call(op="and", args=both)))
            | Call(op="or", args=(Call(op="and", args=both), Call(op="=", args=(a, b))))
        ):
            missing = [e.args[0] for e in both if isinstance(e, Call) and e.op == "is_null"]
            return (a, b) if len(both) == len(missing) == 2 and missing in ([a, b], [b, a]) else None
    return None


def same_values(conditions: Iterable[Expr]) -> list[tuple[Column, Column]]:
    """List the pairs of columns that hold equal values, or NULL both."""
    found = list(conditions)
    pairs = [pair for c in found if (pair := null_safe(c)) is not None]
    return [*equalities(found), *equalities(Call("bool", "=", pair) for pair in pairs)]


class EquivalenceClasses:
    """Union-find over column ids."""

    def __init__(self, equal: Iterable[tuple[Column, Column]] = ()) -> None:
        self._parent: dict[int, int] = {}
        for a, b in equal:
            self.union(a.id, b.id)

    def find(self, x: int) -> int:
        while self._parent.get(x, x) != x:
            x = self._parent[x]
        return x

    def union(self, a: int, b: int) -> None:
        self._parent[self.find(a)] = self.find(b)


def equal_to(ids: Collection[int], conditions: Sequence[Expr]) -> frozenset[int]:
    """These columns and all that are equal to one of them in every row that satisfies the conditions."""
    pairs = equalities(conditions)
    classes = EquivalenceClasses(pairs)
    roots = {classes.find(i) for i in ids}
    return frozenset({*ids, *(c.id for pair in pairs for c in pair if classes.find(c.id) in roots)})
