"""Columns that equalities of a WHERE or ON make one.

Knows: conjuncts. Must not know: units, SQL text, engines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dpproxy.plan.logical.expr import Call, Column, Expr, Ref
from dpproxy.policy.catalog import same_kind


def equalities(conditions: Iterable[Expr]) -> list[tuple[Column, Column]]:
    """List the pairs of columns that hold equal values."""
    return [
        (e.args[0].column, e.args[1].column)
        for e in conditions
        if isinstance(e, Call) and e.op == "=" and isinstance(e.args[0], Ref) and isinstance(e.args[1], Ref)
        if same_kind(e.args[0].column, e.args[1].column)
    ]


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
