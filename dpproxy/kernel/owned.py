"""What is derived of a relation: whose its rows are, and what is known of a unit's rows.

Knows: numbers of columns. Must not know: how any of it is derived (`owners` has the rules).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpproxy.kernel.classes import NONE, Ids
from dpproxy.kernel.leaves import Source, Way

Origin = tuple[int, Source, str]
"""A column that stands in a table as it is, the table, and its name there."""


@dataclass(frozen=True)
class Owned:
    """What is true of a relation R over a database D. D_v is D with the rows of unit v alone, and all public tables.

    `owner`: columns u. For each unit v the rows of R(D) where u = v are those of R(D_v): they follow from v's own rows. Of rows
    where u is NULL nothing is said. `one`: no unit has two rows. `constant`: columns that have one value in all rows of a unit.
    `way`: instead of an owner, the column that leads to the unit's row, which is not joined yet. `origins`: where one is not
    NULL, its table's row is the unit's. `equal`: columns of the same value in every row. `present`: columns that are not NULL in
    any row. `numbers`: columns in which no two rows of a unit have one number. `fixed`: of a subquery, all rows are of the unit
    of the row around it. `either`: of FULL JOIN, the owners of its sides."""

    private: bool = False
    owner: Ids = NONE
    one: bool = False
    constant: Ids = NONE
    way: tuple[int, Way] | None = None
    origins: frozenset[Origin] = frozenset()
    equal: tuple[Ids, ...] = ()
    present: Ids = NONE
    numbers: Ids = NONE
    fixed: bool = False
    either: tuple[Ids, Ids] | None = None

    def holding(self, ids: Ids) -> Owned:
        """Return what is true of these columns alone."""
        classes = tuple(c & ids for c in self.equal)
        return replace(
            self,
            owner=self.owner & ids,
            constant=self.constant & ids,
            way=None,
            origins=frozenset(),
            equal=tuple(c for c in classes if len(c) > 1),
            present=self.present & ids,
            numbers=NONE,
            either=None,
        )
