"""Columns that hold the same value in every row, as far as conditions say so.

Knows: conjuncts. Must not know: units, SQL text. Equal means: equal and not NULL, or both copied from one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpproxy.table_terms import same_kind
from dpproxy.tree.expr import Call, Column, Expr, Ref

Ids = frozenset[int]
NONE: Ids = frozenset()


def ids(columns: Sequence[Column]) -> Ids:
    return frozenset([c.id for c in columns])


class Classes:
    """Union-find over column ids."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def find(self, x: int) -> int:
        parent = self._parent
        while (above := parent.get(x, x)) != x:
            x = above
        return x

    def unite(self, ids: Iterable[int]) -> None:
        first = None
        for x in ids:
            self._parent.setdefault(x, x)
            if first is None:
                first = self.find(x)
            else:
                self._parent[self.find(x)] = first

    def members(self, x: int) -> Ids:
        root = self.find(x)
        return frozenset((x, *(y for y in self._parent if self.find(y) == root)))

    def all(self) -> tuple[Ids, ...]:
        """List the classes of more than one column."""
        found: dict[int, list[int]] = {}
        for x in self._parent:
            found.setdefault(self.find(x), []).append(x)
        return tuple(frozenset(ids) for ids in found.values() if len(ids) > 1)


def compared(condition: Expr) -> tuple[Column, Column] | None:
    """Return the two columns of a condition `a = b` that is true only of equal values; None for other conditions."""
    match condition:
        case Call(op="=", args=(Ref(column=a), Ref(column=b))) if same_kind(a, b):
            return a, b
        case _:
            return None


def present(condition: Expr) -> Ids:
    """Return columns that are not NULL where a condition is true."""
    match condition:
        case Call(op="=", args=(Ref(column=a), Ref(column=b))):
            return frozenset((a.id, b.id))
        case Call(op="is_not_null", args=(Ref(column=a),)):
            return frozenset((a.id,))
        case _:
            return NONE
