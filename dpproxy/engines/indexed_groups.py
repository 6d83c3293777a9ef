"""Which groups of units an engine may index instead of hashing them (`sql.template.INDEXED`).

Knows: nodes, what DuckDB's sums take, how many values keys have. Must not know: how many rows there are, how much memory: that is
known where it is decided (`backends.duckdb_stages`). An index has a cell for each unit and value, whether or not there is such a
group: it pays where cells are small and most rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpproxy.engines.duckdb_types import adds_in_64_bits
from dpproxy.tree.expr import Call, Expr, Ref, Relation, conjuncts
from dpproxy.tree.measured import Added, Coding, Contributions, Counted, Node, Scaled, UnitGroups
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Union

COUNT, SUM = 8, 16
MOST_BYTES = 24
"""Of a cell: a count and a sum. With two sums and a count an index takes longer than hashing."""
USUAL_BITS, MOST_BITS = 20, 24
"""Of an index that is made without being asked for, and of any."""


def cell(stage: Node, coded: Mapping[int, Coding]) -> int | None:
    """Return the bytes of the sums of a unit and one of the `coded` values of its only key, None where these are to be hashed.
    What is grouped after that, by key and steps, is to be indexed only if it would be without."""
    if not isinstance(stage, Contributions) or not isinstance(stage.child, UnitGroups) or len(coded) != 1:
        return None
    groups = stage.child
    (values,) = coded.values()
    steps = [part.steps for part in stage.parts if isinstance(part, Scaled) and part.steps > 1]
    bits = (values.size + 1).bit_length() + sum(steps)
    apart = bits < USUAL_BITS or bits - len(steps) - 1 > MOST_BITS
    size = sum(map(_bytes, groups.totals))
    small = apart and len(groups.rows.keys) == 1 and size <= MOST_BYTES
    return size if small and _whole(groups.rows.child) else None


def _whole(relation: Relation) -> bool:
    """Tell whether no condition leaves rows out, of a joined relation neither: nobody knows how many."""
    match relation:
        case Filter(child=child, condition=condition):
            return _whole(child) and all(isinstance(c, Call) and c.op == "is_not_null" for c in conjuncts(condition))
        case Join(left=left, right=right, on=on):
            return _whole(left) and _whole(right) and all(map(_of_columns, conjuncts(on)))
        case Project(child=child) | Aggregate(child=child) | Distinct(child=child):
            return _whole(child)
        case Union(children=children):
            return all(map(_whole, children))
        case _:
            return True


def _of_columns(condition: Expr) -> bool:
    return isinstance(condition, Call) and condition.op == "=" and all(isinstance(arg, Ref) for arg in condition.args)


def _bytes(total: Counted | Added) -> int:
    if isinstance(total, Counted):
        return COUNT
    return SUM if adds_in_64_bits(total.lo, total.hi, total.shift) else 2 * SUM + COUNT
