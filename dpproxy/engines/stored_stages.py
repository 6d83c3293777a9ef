"""Groups of units that are read from stored tables, and what such a table is made of.

Knows: names of columns, which are those of `unit_stages`. A stored table has them under the numbers of its definition: `u` the
unit, `k{i}` its keys, and for each row value that is counted `n{i}`, that is added up `t{i}`; or of what all units add, without
`u`, the columns of an answer. Must not know: engines, what rows are. This SQL is common to all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpproxy.engines.unit_stages import basis_columns
from dpproxy.tree.measured import (
    Added,
    Buckets,
    Counted,
    FreshSums,
    Picked,
    StoredGroups,
    StoredSums,
    Sums,
    UnitGroups,
    Written,
)

DATABASE = "dpproxy_stored"
"""What stored tables are in, beside the data: its name on the connection."""
UNITS = "b0"
"""How many units a group has, in stored sums."""


def table(name: str) -> str:
    return f'"{DATABASE}"."main"."{name}"'


def columns(written: Written) -> list[str]:
    """Name a stored table's columns other than unit and keys."""
    child = written.child.groups if isinstance(written.child, StoredGroups) else written.child
    match child:
        case Sums(totals=totals):
            return [name for i, total in enumerate(totals) for name in basis_columns(i, total)]
        case Buckets():
            return ["bucket", "n"]
        case Picked():
            return []
        case UnitGroups(totals=taken):
            return [_total(t, t.index) for t in taken]


def _total(total: Counted | Added, number: int) -> str:
    return f"n{number}" if isinstance(total, Counted) else f"t{number}"


def key(node: StoredGroups, i: int) -> str:
    """Name key i where it is stored."""
    return f"k{node.keys[i]}"


def groups(node: StoredGroups, codes: Mapping[int, str], declared: str) -> str:
    """Write `g` of a stored table. `codes`: of keys that are counted by number, that number; `declared`: WHERE, if any is."""
    keys, totals = [f"k{i}" for i in range(len(node.keys))], node.groups.totals
    items = ["u", *(f"{codes.get(i) or key(node, i)} AS {k}" for i, k in enumerate(keys))]
    items += [f"{_total(t, node.values[t.index])} AS {_total(t, t.index)}" for t in totals]
    rows = f"(SELECT {', '.join(items)} FROM {table(node.table)}) AS r{declared}"
    if not node.summed:
        return f"g AS NOT MATERIALIZED (SELECT * FROM {rows})"
    group = ", ".join(["u", *keys])
    sums = [f"{_sum(t)} AS {_total(t, t.index)}" for t in totals]
    return f"g AS (SELECT {', '.join([group, *sums])} FROM {rows} GROUP BY {group})"


def _sum(total: Counted | Added) -> str:
    """Counts stay numbers of 64 bits."""
    return f"CAST(sum(n{total.index}) AS BIGINT)" if isinstance(total, Counted) else f"sum(t{total.index})"


def sums(node: StoredSums) -> str:
    """Write the query of a stored table of sums, in no order."""
    where = f" WHERE {UNITS} >= {node.least}" if node.least > 1 and node.keys else ""
    return f"SELECT {', '.join(_items(node)) or 'count(*) * 0 AS one'} FROM {table(node.table)}{where}"


def numbered(node: StoredSums) -> str:
    """Write `s`: all of them, each with a number `i` and how many `units` it has."""
    items = [*_items(node), f"{UNITS} AS units", "row_number() OVER () AS i"]
    return f"s AS MATERIALIZED (SELECT {', '.join(items)} FROM {table(node.table)})"


def _items(node: StoredSums) -> list[str]:
    items = [f"k{k} AS k{i}" for i, k in enumerate(node.keys)]
    for i, (column, total) in enumerate(zip(node.columns, node.totals, strict=True)):
        names = basis_columns(i, total)
        stored = basis_columns(column, total) if column is not None else ["CAST(0 AS BIGINT)"]
        items += [f"{there} AS {name}" for there, name in zip(stored, names, strict=True)]
    return items


def members(node: FreshSums) -> str:
    """Write `p`: which groups each unit is in."""
    keys = [f"k{k} AS k{i}" for i, k in enumerate(node.keys)]
    return f"p AS NOT MATERIALIZED (SELECT {', '.join(['u', *keys])} FROM {table(node.table)})"


def buckets(name: str, keys: Sequence[str]) -> str:
    """Write the query of a stored table of buckets."""
    return f"SELECT {', '.join([*keys, 'bucket', 'n'])} FROM {table(name)}"
