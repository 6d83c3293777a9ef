"""Which columns tell the rows of a relation apart: no two rows share a value of such a column, other than NULL.

Knows: keys of catalogs, as they come through joins. Must not know: SQL text, engines, data. It decides what an aggregate means:
`count(DISTINCT key)` is then a count of rows. It never decides privacy: a count is bounded like any other, true or not.

A key of one private relation stays one in a join when each of its rows meets at most one row of every other relation: of one that
has one row a unit, since all units are equal, or of one that has a key which an equality fixes. How often public relations
repeat a row is `fanout`'s.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.plan.properties import fanout
from dpproxy.plan.properties.equivalence import equalities
from dpproxy.tree.expr import Expr, Ref
from dpproxy.tree.relation import Rows


def of_joined(parts: Sequence[Rows], conditions: Sequence[Expr]) -> frozenset[int]:
    """Return the ids of the keys of private relations that are keys of their inner join under the conditions, which makes all
    their units equal."""
    private = [p for p in parts if p.private]
    return frozenset().union(*(p.unique for p in private if p.unique and _meets_one(p, private, conditions)))


def _meets_one(part: Rows, private: Sequence[Rows], conditions: Sequence[Expr]) -> bool:
    """Whether each row of `part` meets at most one row of all others together."""
    fixed = {c.id for c in part.node.columns}
    waiting = [p for p in private if p is not part]
    pairs = equalities(conditions)
    sides = [(a.id, b.id) for a, b in pairs] + [(b.id, a.id) for a, b in pairs]
    while waiting:
        ready = [p for p in waiting if p.one or any(a in p.unique and b in fixed for a, b in sides)]
        if not ready:
            return False
        fixed |= {c.id for p in ready for c in p.node.columns}
        waiting = [p for p in waiting if p not in ready]
    return True


def tells_rows_apart(rows: Rows, value: Expr) -> bool:
    """Whether no two rows share a value of this expression."""
    if not isinstance(value, Ref) or value.column.id not in rows.unique:
        return False
    times = fanout.repetitions(rows)
    return len(times) == len(rows.beside) and all(most == 1 for _, most in times)
