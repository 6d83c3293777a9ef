"""What stored tables are made of: groups of units in the trees of measurements, those of the same rows and keys put together.

Knows: trees. Must not know: which questions are worth a table (`acceleration.preparation`), data. A measurement has two stages
that are worth keeping: its groups of units as they are counted and added up, and what all units add to each group once that is
bounded. One table holds a stage of several measurements, side by side: a column for each value, or sum, that is not there yet.
Where a unit's weight depends on what an earlier round finds, which groups of it are picked is kept as well; and buckets of
selections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from dpproxy.plan.context import StoredTable
from dpproxy.plan.properties.key_codings import coded_keys
from dpproxy.tree.expr import TableDomain, ValuesDomain
from dpproxy.tree.measured import (
    Added,
    Buckets,
    Contributions,
    Counted,
    Declared,
    DistinctCount,
    DistinctSum,
    Filled,
    Fresh,
    MeasuredRows,
    Numbered,
    One,
    Order,
    Part,
    PartSum,
    Picked,
    RowCount,
    RowValue,
    Scaled,
    ShareCut,
    Stage,
    Statement,
    StoredGroups,
    Sums,
    UnitGroups,
    Written,
    contributions_of,
)
from dpproxy.tree.spelling import Speller


@dataclass(frozen=True)
class Definition:
    """What a table is to hold, what it is called in words, and how many groups are declared, where they are listed."""

    written: Written
    label: str
    size: int | None = None


def stored_table(made: Definition, speller: Speller) -> StoredTable:
    """Return the table that holds what is defined; its name follows from its query."""
    sql = speller.query(made.written).text
    return StoredTable(f"s{blake2b(sql.encode(), digest_size=16).hexdigest()}", made.label, sql, made.written, made.size)


def definitions(trees: Iterable[tuple[str, Statement]]) -> list[Definition]:
    """Return what can be stored of measurements: groups of units, and what these add; of the same rows and keys together, under
    the label of the first."""
    found: dict[Written, tuple[Definition, _Columns]] = {}
    for label, tree in trees:
        size = _size(tree.groups) if isinstance(tree, Filled) else None
        for written in _stored(tree):
            _, columns = found.setdefault(_with_columns(written, _Columns()), (Definition(written, label, size), _Columns()))
            columns.add(written)
    return [replace(made, written=_with_columns(bare, columns)) for bare, (made, columns) in found.items()]


def _size(groups: Declared) -> int | None:
    """How many groups are declared at most; None where they are in a table."""
    size = 1
    for part in groups.parts:
        for _, domain in part.columns:
            if part.scans or isinstance(domain, TableDomain):
                return None
            size *= len(domain.values) if isinstance(domain, ValuesDomain) else domain.hi - domain.lo + 1
    return size


def _stored(tree: Statement) -> Iterator[Written]:
    if isinstance(tree, Buckets):
        yield Written(tree)
    sums = sums_of(tree)
    if sums is None or isinstance(sums.child, MeasuredRows):
        return
    chain = list(stages(sums.child))
    groups = chain[-1]
    if not isinstance(groups, UnitGroups):
        return
    yield Written(groups)
    made, fresh = without_fresh(sums.child)
    if made is not None and not looks_again(sums):
        coded = coded_keys(made, tree.groups) if isinstance(tree, Filled) else {}
        yield Written(Sums(made, ()), tuple(coded.items()))
        if fresh is not None and isinstance(made.child, Picked):
            yield Written(members(made.child))


def members(stage: Picked | UnitGroups) -> Picked | UnitGroups:
    """Return which groups each unit is in, and nothing of what it has there."""
    if isinstance(stage, UnitGroups):
        return UnitGroups(replace(stage.rows, values=()))
    assert isinstance(stage.child, UnitGroups)
    return replace(stage, child=members(stage.child))  # type: ignore[arg-type]


def without_fresh(stage: Stage) -> tuple[Contributions | Picked | None, tuple[Order, Scaled] | None]:
    """Return what of a stage was known before an earlier round has found any groups, none where that is nothing, and the weight
    that is not, with the order of the groups' numbers."""
    match stage:
        case Contributions(child=Fresh(child=child, order=order), parts=parts):
            weights = [p for p in parts if isinstance(p, Scaled) and p.fresh]
            known = tuple(None if part in weights else part for part in parts)
            return (Contributions(child, known), (order, weights[0])) if len(weights) == 1 else (None, None)
        case Contributions() | Picked() if not any(isinstance(s, Fresh) for s in stages(stage)):
            return stage, None
        case _:
            return None, None


@dataclass
class _Columns:
    """The columns of a table: row values, what is taken of each, and parts, which have the numbers of their values."""

    values: list[RowValue] = field(default_factory=list)
    totals: list[Counted | Added] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    _places: dict[object, int] = field(default_factory=dict)

    def add(self, written: Written) -> None:
        if isinstance(written.child, Buckets):
            return
        groups = groups_of(written.child)
        for i, value in enumerate(groups.rows.values):
            if isinstance(written.child, UnitGroups) and isinstance(value, RowValue):
                self._value(i, groups)
            elif isinstance(written.child, Sums):
                self._part(i, contributions_of(written.child).parts, groups)

    def _value(self, i: int, groups: UnitGroups) -> None:
        """Make a place for value i and what is taken of it: no count of what is only added up, which each row would pay for."""
        own = [t for t in groups.totals if t.index == i]
        value = groups.rows.values[i]
        assert isinstance(value, RowValue)
        self._place((value, frozenset(replace(t, index=0) for t in own)), value, own)

    def _part(self, i: int, parts: Sequence[Part | None], groups: UnitGroups) -> int:
        """The place of part i, whose counter is there first."""
        part, value = parts[i], groups.rows.values[i]
        if part is None or not isinstance(value, RowValue):
            return -1
        own = [t for t in groups.totals if t.index == i]
        counter = getattr(part, "counter", i)
        counted = -1 if counter == i else self._part(counter, parts, groups)
        key = (numbered(part, -1, counted), value, frozenset(replace(t, index=0) for t in own))
        place = self._place(key, value, own)
        if place == len(self.parts):
            self.parts.append(numbered(part, place, place if counted == -1 else counted))
        return place

    def _place(self, key: object, value: RowValue, totals: Sequence[Counted | Added]) -> int:
        if key not in self._places:
            place = self._places[key] = len(self.values)
            self.values.append(value)
            self.totals += [replace(t, index=place) for t in totals]
        return self._places[key]


def numbered(part: Part, index: int, counter: int) -> Part:
    """Return the part under other numbers."""
    match part:
        case One():
            return part
        case ShareCut() | Scaled():
            return replace(part, index=index, counter=counter)
        case _:
            return replace(part, index=index)


def _with_columns(written: Written, columns: _Columns) -> Written:
    """The same stages, with these columns."""

    def changed(stage: object) -> object:
        match stage:
            case Buckets():
                return stage
            case Sums(child=child):
                sums = (PartSum(i, getattr(part, "steps", 1)) for i, part in enumerate(columns.parts))
                return Sums(changed(child), (RowCount(), *sums))  # type: ignore[arg-type]
            case UnitGroups(rows=rows):
                return UnitGroups(replace(rows, values=tuple(columns.values)), tuple(columns.totals))
            case Contributions(child=child):
                return Contributions(changed(child), tuple(columns.parts))  # type: ignore[arg-type]
            case Picked(child=child):
                return replace(stage, child=changed(child))  # type: ignore[arg-type]
            case _:
                raise TypeError(f"{type(stage).__name__} is not stored")

    return replace(written, child=changed(written.child))  # type: ignore[arg-type]


# --- stages


def sums_of(tree: Statement) -> Sums | None:
    """Return what is added up, in a statement that adds up."""
    match tree:
        case Sums():
            return tree
        case Filled(child=Sums() as sums) | Numbered(child=Sums() as sums):
            return sums
        case _:
            return None


def stages(stage: object) -> Iterator[Stage]:
    """Yield the stages from the last to the groups as they are made, or read."""
    while isinstance(stage, Contributions | Picked | Fresh):
        yield stage
        stage = stage.child
    assert isinstance(stage, UnitGroups | StoredGroups)
    yield stage


def groups_of(stage: object) -> UnitGroups:
    """Return the groups that a stage, or what is added up of one, is made of."""
    *_, groups = stages(stage.child if isinstance(stage, Sums) else stage)
    if isinstance(groups, StoredGroups):
        return groups.groups
    assert isinstance(groups, UnitGroups)
    return groups


def looks_again(sums: Sums) -> bool:
    """Tell whether rows are looked at once more, for distinct values."""
    return any(isinstance(total, DistinctCount | DistinctSum) for total in sums.totals)
