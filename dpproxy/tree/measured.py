"""The tree of a measurement's query, from its rows up: what bounding adds to a relation, as nodes.

Knows: relations, expressions, whole numbers. Must not know: SQL text, engines, policies, why a bound was chosen. A generated
query is one such tree and nothing else, written as SQL by `engines.measured`. Columns are known by number: key i, row value
i, count i (how many of a unit's rows in a group have value i), total i (what they add up to), part i (what the unit adds to the
group), basis i.

    MeasuredRows    rows with their unit, the keys they are grouped by, and what each adds: values on their grid
    UnitGroups      GROUP BY unit and keys: counts and totals
    Picked          as many groups of each unit as are to count, by a hash
    Fresh           whether an earlier round has found the group
    Contributions   parts: what a unit adds to a group, each clamped, or scaled down with the unit's other groups
    Sums            GROUP BY keys: what all units add
    Filled          LEFT JOIN of the declared groups with these
    Written         what a stored table is made of; StoredGroups, StoredSums, StoredBuckets: read from one
    FreshSums       StoredSums, and a weight over the groups that no earlier round has found
    ReportGroups: reports of devices by plain keys and what they say, a query by itself
    Numbered, Buckets, Beyond: the queries of a first round, of selections, of how much bounds cut
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Literal

from dpproxy.tree.expr import Column, Domain, Expr, Relation

MAX_SIZE = 2**31 - 1
"""Sizes of vectors are held here: their squares fit 64 bits, and what is held is also what is scaled."""


@dataclass(frozen=True)
class Node:
    """Base of all nodes above the relation."""


# --- rows


@dataclass(frozen=True)
class Held:
    """A number in units of `grid`, held within [lo, hi]; NaN becomes NULL. `native`: in the type that the engine adds up at
    least cost, where it has one."""

    lo: int
    hi: int
    grid: Fraction
    native: bool = False


@dataclass(frozen=True)
class RowValue:
    """What a row has for a column, in rows that satisfy `where`, NULL in others: 1 (no `value`), or the value, on its grid where
    it is `held`."""

    value: Expr | None
    where: Expr | None
    held: Held | None = None


@dataclass(frozen=True)
class RowBucket:
    """On which of `size` points a row's value falls, from 0: of a grid from `lo` on, or of declared `values`; NULL for none."""

    value: Expr
    where: Expr | None
    lo: int
    hi: int
    grid: Fraction
    values: tuple[str | None, ...] = ()

    @property
    def size(self) -> int:
        return len(self.values) if self.values else self.hi - self.lo + 1


@dataclass(frozen=True)
class MeasuredRows(Node):
    """Rows of units. `values[i]` is None where nothing is asked of the single row."""

    child: Relation
    unit: Column
    keys: tuple[Expr, ...]
    values: tuple[RowValue | RowBucket | None, ...] = ()


# --- a unit in a group


@dataclass(frozen=True)
class Counted:
    """Count i: how many rows have row value `index`."""

    index: int


@dataclass(frozen=True)
class Added:
    """Total i: the sum of row value `index` less `shift`, which lies within [lo, hi] in each row."""

    index: int
    lo: int
    hi: int
    shift: int


@dataclass(frozen=True)
class UnitGroups(Node):
    rows: MeasuredRows
    totals: tuple[Counted | Added, ...] = ()


@dataclass(frozen=True)
class StoredGroups(Node):
    """A `UnitGroups` that is read from `table`, where `definition` was `Written`: of its keys those in `keys`, of its row values
    those in `values`, by number. `summed`: rows that agree in the unit and in these keys are added up; else no two do."""

    table: str
    definition: UnitGroups
    keys: tuple[int, ...]
    values: tuple[int, ...]
    summed: bool

    @property
    def groups(self) -> UnitGroups:
        """What is read, as if it were made of rows: groups by fewer keys are sums of groups by more."""
        made, numbers = self.definition.rows, dict(enumerate(self.values))
        keys, values = tuple(made.keys[k] for k in self.keys), tuple(made.values[v] for v in self.values)
        totals = (replace(t, index=i) for i, v in numbers.items() for t in self.definition.totals if t.index == v)
        return UnitGroups(replace(made, keys=keys, values=values), tuple(totals))


@dataclass(frozen=True)
class Order:
    """A pseudo-random order by a hash with `key`; of groups, whose keys are taken in the order `keys` (their numbers)."""

    key: int
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class Picked(Node):
    """The first `most` groups of each unit in that order."""

    child: UnitGroups | StoredGroups | Contributions
    most: int
    order: Order


@dataclass(frozen=True)
class Fresh(Node):
    """The same groups; of each, 1 where no earlier round has found it, else 0."""

    child: UnitGroups | StoredGroups | Picked
    order: Order


# --- what a unit adds to a group


@dataclass(frozen=True)
class One:
    """1: the unit is there."""


@dataclass(frozen=True)
class Present:
    """1 where count `index` is not 0."""

    index: int


@dataclass(frozen=True)
class CountCut:
    """Count `index`, at most `rows`."""

    index: int
    rows: int


@dataclass(frozen=True)
class TotalCut:
    """Total `index` held within [lo, hi], around 0; 0 for NULL."""

    index: int
    lo: int
    hi: int


@dataclass(frozen=True)
class ShareCut:
    """Total `index` where count `counter` is at most `rows`, else that many rows' share of it, towards 0. Each row adds a number
    within [lo, hi]; `shift`: see `Added`."""

    index: int
    counter: int
    rows: int
    lo: int
    hi: int
    shift: int


@dataclass(frozen=True)
class Scaled:
    """A number of the unit in each of its groups, scaled down in all of them together until their l1 or l2 `norm` is `bound`:
    that of `rows` times `row`, what one row adds at most. In `fine` parts.

    `kind`: a `weight` is 1, or whether the group is `fresh`; `units` is 1, or where `tested` whether count `index` is not 0;
    `count` and `sum` are the count and the total. `counter`: the column whose size decides, of a sum one whose count is no
    smaller than the number of values added up (`mean`; else itself). Above 1 `steps`: the least power of two by which the vector
    is to be divided says in which column it is counted.
    """

    index: int
    kind: Literal["weight", "units", "count", "sum"]
    norm: int
    rows: int
    row: int
    fine: int
    counter: int
    steps: int = 1
    mean: bool = False
    fresh: bool = False
    tested: bool = False

    @property
    def bound(self) -> int:
        """Return the most one group has, before it is in `fine` parts."""
        return 1 if self.kind in ("weight", "units") else self.rows * self.row


Part = One | Present | CountCut | TotalCut | ShareCut | Scaled


@dataclass(frozen=True)
class Contributions(Node):
    """`parts[i]` is None for columns of distinct values, and for those that another round measures."""

    child: UnitGroups | StoredGroups | Picked | Fresh
    parts: tuple[Part | None, ...]

    @property
    def scaled(self) -> bool:
        return any(isinstance(part, Scaled) for part in self.parts)


# --- all units


@dataclass(frozen=True)
class RowCount:
    """The number of rows of what is summed: with a per-unit step, of units."""


@dataclass(frozen=True)
class ValueCount:
    """How many rows have row value `index`, or how many values there are of it; of rows alone."""

    index: int
    distinct: bool = False


@dataclass(frozen=True)
class ValueSum:
    """The sum of row value `index` less `shift`, or `distinct` of its values, each once, without a shift; of rows alone."""

    index: int
    shift: int
    distinct: bool = False


@dataclass(frozen=True)
class PartSum:
    """The sum of part `index`, a column for each of its `steps`."""

    index: int
    steps: int = 1


@dataclass(frozen=True)
class DistinctCount:
    """How many values there are of row value `index`, of each unit and group at most `most`, by a hash with `order.key`; where
    `norm` is set, of all groups of a unit in turn as many as keep the numbers of them within a norm of `rows`."""

    index: int
    most: int
    order: Order
    norm: int = 0
    rows: int = 0


@dataclass(frozen=True)
class DistinctSum:
    """The sum of these values, which are held. Fields: see `DistinctCount`."""

    index: int
    most: int
    order: Order
    norm: int = 0
    rows: int = 0


@dataclass(frozen=True)
class NoTotal:
    """0: the column of another round."""


Total = RowCount | ValueCount | ValueSum | PartSum | DistinctCount | DistinctSum | NoTotal


@dataclass(frozen=True)
class Sums(Node):
    """A row a group; groups of fewer than `least` rows of the child are left out."""

    child: MeasuredRows | Contributions | Picked
    totals: tuple[Total, ...]
    least: int = 1


@dataclass(frozen=True)
class Listed:
    """All texts that a key is in declared groups."""

    values: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.values)


PER_YEAR = {"year": 1, "quarter": 4, "month": 12}


def place(unit: str, day: date) -> int:
    """Return how many years, quarters or months are between the beginning of a year 0 and the one that a day is in."""
    return (day.year * 12 + day.month - 1) * PER_YEAR[unit] // 12


@dataclass(frozen=True)
class Calendar:
    """All beginnings of years, quarters or months (`unit`) that a key is in declared groups: `size` of them from `first` on."""

    unit: str
    first: date
    size: int

    @property
    def months(self) -> int:
        """From one to the next."""
        return 12 // PER_YEAR[self.unit]


Coding = Listed | Calendar
"""The values of a key, each of which has a number: a text one of the engine's, a beginning its place from 0."""


@dataclass(frozen=True)
class Written(Node):
    """What a stored table is made of, and never an answer: groups of units as they are, or which of them are picked, or what all
    units add to each group, which begins with their number; or buckets as they are. `coded`: keys, by number, that the engine may
    number; groups of other values are left out before anything is scaled."""

    child: UnitGroups | StoredGroups | Picked | Sums | Buckets
    coded: tuple[tuple[int, Coding], ...] = ()


@dataclass(frozen=True)
class StoredSums(Node):
    """`Sums` that are read from `table`, where `definition` was written: of its keys those in `keys`, which are all of them, as
    total i its total `columns[i]` (None: 0). Groups of fewer than `least` units are left out."""

    table: str
    definition: Written
    keys: tuple[int, ...]
    columns: tuple[int | None, ...]
    least: int = 1

    @property
    def made(self) -> Sums:
        """What the table holds."""
        assert isinstance(self.definition.child, Sums)
        return self.definition.child

    @property
    def totals(self) -> tuple[Total, ...]:
        return tuple(self.made.totals[c] if c is not None else NoTotal() for c in self.columns)

    @property
    def rows(self) -> MeasuredRows:
        """The rows it was made of, under the keys that are read; nothing is asked of the single row any more."""
        made = rows_of(self.definition)
        return replace(made, keys=tuple(made.keys[k] for k in self.keys), values=())

    @property
    def coded(self) -> dict[int, Coding]:
        """The keys that the engine may have numbered, by their numbers here."""
        known = dict(self.definition.coded)
        return {i: known[k] for i, k in enumerate(self.keys) if k in known}


@dataclass(frozen=True)
class FreshSums(Node):
    """Stored sums and, as total `weight.index`, which is none of them, a weight over those of each unit's groups that no earlier
    round has found (`Fresh`, whose numbers follow `order`): what that round found is known when the table is read. The groups
    are in `table`, where `definition` was written, under the keys in `keys`."""

    child: StoredSums
    table: str
    definition: Written
    keys: tuple[int, ...]
    order: Order
    weight: Scaled

    @property
    def totals(self) -> tuple[Total, ...]:
        return self.child.totals


# --- declared groups


Text = str | None


@dataclass(frozen=True)
class Strays:
    """The stray values of a column. A row of the values tried is a value, whether it is stray (column `stray`), and a result for
    each column of `tests`."""

    column: Column
    stray: Column
    tests: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]  # without the mark: all of them are stray


@dataclass(frozen=True)
class DeclaredPart:
    """Keys, by number, that share sources: the values of columns, public tables, where all conditions hold. `strays`: values
    outside of these."""

    keys: tuple[tuple[int, Expr], ...]
    columns: tuple[tuple[Column, Domain], ...]
    scans: tuple[Relation, ...]
    conditions: tuple[Expr, ...]
    strays: tuple[Strays, ...] = ()


@dataclass(frozen=True)
class Declared:
    """The product of the parts."""

    parts: tuple[DeclaredPart, ...]
    width: int


@dataclass(frozen=True)
class Filled(Node):
    """Each declared group once, with what `child` has of it, or zeros; the declared groups alone where nothing is summed."""

    child: Sums | StoredSums
    groups: Declared


# --- other queries


@dataclass(frozen=True)
class Numbered(Node):
    """The groups of a first round: of each its first basis, and a number."""

    child: Sums | StoredSums
    order: Order


@dataclass(frozen=True)
class Buckets(Node):
    """How many rows of each group fall in each bucket, of a unit and group at most `most`, by a hash (None: all, of rows of which
    a unit has one); of groups of a unit, those that are picked."""

    rows: MeasuredRows
    most: int | None
    picked: Picked | None
    order: Order


Test = tuple[Literal["most", "size", "groups"], int]
"""A number of a unit, and what it is beyond."""


@dataclass(frozen=True)
class StoredBuckets(Node):
    """`Buckets` that are read from `table`, where `definition` was written, as they are."""

    table: str
    definition: Written


@dataclass(frozen=True)
class Beyond(Node):
    """How many units there are, and how many of these are beyond one of `tests`: their `most` rows in a group, the `size` of
    their rows in all groups (of that `norm`), their `groups`."""

    rows: MeasuredRows
    norm: int
    tests: tuple[Test, ...]


Statement = Sums | StoredSums | FreshSums | Filled | Numbered | Buckets | StoredBuckets | Beyond | Written

Stage = UnitGroups | StoredGroups | Picked | Fresh | Contributions
"""Groups of units."""


def rows_of(tree: Statement | Stage) -> MeasuredRows:
    """Return the rows that a query is made of."""
    node: object = tree
    while not isinstance(node, MeasuredRows):
        match node:
            case UnitGroups(rows=rows) | Buckets(rows=rows) | Beyond(rows=rows):
                node = rows
            case StoredGroups():
                node = node.groups.rows
            case StoredSums():
                node = node.rows
            case StoredBuckets(definition=definition):
                node = definition
            case Sums(child=child) | Filled(child=child) | Numbered(child=child) | Picked(child=child) | Fresh(child=child):
                node = child
            case Contributions(child=child) | Written(child=child) | FreshSums(child=child):
                node = child
            case _:
                raise TypeError(f"unknown node {type(node).__name__}")
    return node


def contributions_of(sums: Sums) -> Contributions:
    """Return what each unit contributes, whichever groups of it are picked then."""
    node: object = sums.child
    while not isinstance(node, Contributions):
        if not isinstance(node, Picked):
            raise TypeError(f"no contributions in {type(node).__name__}")
        node = node.child
    return node


# --- reports of devices


@dataclass(frozen=True)
class ReportTotal:
    """What reports add up to: `value` (None: 1) of those that satisfy `where`."""

    value: Expr | None = None
    where: Expr | None = None


@dataclass(frozen=True)
class ReportGroups(Node):
    """Reports by their plain `keys`, the `version` of the claim, and their `cells`, as they are stored. It is no `Statement`,
    to which noise is added."""

    child: Relation
    keys: tuple[Expr, ...]
    version: Expr | None
    cells: tuple[Expr, ...]
    totals: tuple[ReportTotal, ...]


@dataclass(frozen=True)
class CandidateList(Node):
    """The first `count` values of a public relation, in an `order`."""

    child: Relation
    value: Expr
    order: tuple[Expr, ...]
    count: int


@dataclass(frozen=True)
class Weighing:
    """What candidates weigh by an expression over their `column` and values that are known when the statement runs, times `unit`.
    `candidates`: None where only those that are named differ from others."""

    expr: Expr
    column: Column
    candidates: tuple[str, ...] | None
    unit: int


ReadingQuery = ReportGroups | CandidateList
