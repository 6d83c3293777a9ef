"""What it costs to read a measurement from a stored table, as far as public facts tell: the model that chooses between shapes.

Knows: how many groups are declared. Must not know: rows, users, how large a table is: the choice is printed by EXPLAIN, and
would tell of them. So costs are of one unit, in the time that reading a stored row takes, and only compared with each other. Rows
are never fewer than the groups they are in, so a stored table that has what is asked for is never worse than they are.

Figures were measured in DuckDB over two million groups of 200,000 units (docs/benchmarks.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field

GUESSED = 100
"""Groups of a unit, where nobody declares how many there are."""
ADDED_BY_UNIT, ADDED_BY_KEY = 1.0, 8.0
"""What a stored row costs more that is added up to fewer groups: by the unit alone, whose number indexes a table; by a key as
well, where DuckDB hashes both."""
BOUNDED = 6.0
"""What one group of a unit costs more: to find the unit's size, join it, scale the group, and add it up."""


@dataclass(frozen=True, order=True)
class Cost:
    """What a unit costs, and why, in words."""

    units: float
    why: str = field(compare=False)


def of_sums(size: int | None, weighed: bool) -> Cost:
    """Return the cost of sums over all units. `weighed`: groups of units are looked at once, and few of them again."""
    return Cost(_groups(size) if weighed else 0.0, "bounded and added up" + (", but for who is in new groups" if weighed else ""))


def of_groups(size: int | None, keys: int | None) -> Cost:
    """Return the cost of groups of units in a table of `size` declared groups, as they are, or added up by so many `keys`."""
    groups = _groups(size)
    told = f"at most {size} for each" if size is not None else "not declared"
    if keys is None:
        return Cost(groups * (1 + BOUNDED), f"{told}, to be bounded")
    added = groups * (1 + (ADDED_BY_KEY if keys else ADDED_BY_UNIT))
    return Cost(added + (groups if keys else 1) * BOUNDED, f"{told}, to be added up and bounded")


def _groups(size: int | None) -> float:
    return GUESSED if size is None else max(size, 1)
