"""Which groups of units an engine may index instead of hashing them (`sql.template.INDEXED`).

Knows: nodes, what DuckDB's sums take, how many values keys have. Must not know: how many rows there are, how much memory: that is
known where it is decided (`backends.group_index`). An index has a cell for each unit and value, whether or not there is such a
group: it pays where cells are small and most rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpproxy.plan.engines.duckdb_types import adds_in_64_bits
from dpproxy.plan.logical.measured import Added, Contributions, Counted, Node, Scaled, UnitGroups

COUNT, SUM = 8, 16
MOST_BYTES = 24
"""Of a cell: a count and a sum. With two sums and a count an index takes longer than hashing."""
USUAL_BITS, MOST_BITS = 20, 24
"""Of an index that is made without being asked for, and of any."""


def cell(stage: Node, listed: Mapping[int, Sequence[str]], where: Sequence[str]) -> int | None:
    """Return the bytes of the sums of a unit and one of the `listed` values of its only key, None where these are to be hashed.
    `where`: conditions on rows. What is grouped after that, by key and steps, is to be indexed only if it would be without."""
    if not isinstance(stage, Contributions) or not isinstance(stage.child, UnitGroups) or len(listed) != 1:
        return None
    groups = stage.child
    whole = all(condition.endswith("IS NOT NULL)") for condition in where)
    (values,) = listed.values()
    steps = [part.steps for part in stage.parts if isinstance(part, Scaled) and part.steps > 1]
    bits = (len(values) + 1).bit_length() + sum(steps)
    apart = bits < USUAL_BITS or bits - len(steps) - 1 > MOST_BITS
    size = sum(map(_bytes, groups.totals))
    return size if whole and apart and len(groups.rows.keys) == 1 and size <= MOST_BYTES else None


def _bytes(total: Counted | Added) -> int:
    if isinstance(total, Counted):
        return COUNT
    return SUM if adds_in_64_bits(total.lo, total.hi, total.shift) else 2 * SUM + COUNT
