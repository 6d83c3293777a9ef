"""Which stored table a measurement can be read from instead of being made of rows, and how.

Knows: trees, their text, stored tables. Must not know: who makes these tables, what reading one costs, data.
There are two kinds: groups of units (counts and totals, before anything is bounded), which also give groups by fewer keys; and
sums (what all units add, bounded), which are right for the same keys and bounds alone. Either way the same integers are added up
as from scratch, so that answers are shared by all shapes: what is read was made of the same rows, keys and values, as their SQL
tells. Privacy does not rest on that: the kernel derives what a unit can change from the table's own definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from dpproxy.plan.context import StoredTable
from dpproxy.plan.measure.stored_definitions import groups_of, looks_again, members, numbered, stages, sums_of, without_fresh
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.key_codings import coded_keys
from dpproxy.tree.expr import Expr
from dpproxy.tree.measured import (
    Added,
    Buckets,
    Coding,
    Contributions,
    Declared,
    Filled,
    FreshSums,
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
    Stage,
    Statement,
    StoredBuckets,
    StoredGroups,
    StoredSums,
    Sums,
    Total,
    UnitGroups,
    Written,
    contributions_of,
    rows_of,
)
from dpproxy.tree.spelling import Query, SpelledRows, Speller

# What it costs to read a measurement from a stored table, as far as public facts tell: the model that chooses between shapes.
#
# Knows: how many groups are declared. Must not know: rows, users, how large a table is: the choice is printed by EXPLAIN, and
# would tell of them. So costs are of one unit, in the time that reading a stored row takes, and only compared with each other.
# Rows are never fewer than the groups they are in, so a stored table that has what is asked for is never worse than they are.
#
# Figures were measured in DuckDB over two million groups of 200,000 units (docs/benchmarks.md).


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
    return Cost(
        _group_count(size) if weighed else 0.0, "bounded and added up" + (", but for who is in new groups" if weighed else "")
    )


def of_groups(size: int | None, keys: int | None) -> Cost:
    """Return the cost of groups of units in a table of `size` declared groups, as they are, or added up by so many `keys`."""
    groups = _group_count(size)
    told = f"at most {size} for each" if size is not None else "not declared"
    if keys is None:
        return Cost(groups * (1 + BOUNDED), f"{told}, to be bounded")
    added = groups * (1 + (ADDED_BY_KEY if keys else ADDED_BY_UNIT))
    return Cost(added + (groups if keys else 1) * BOUNDED, f"{told}, to be added up and bounded")


def _group_count(size: int | None) -> float:
    return GUESSED if size is None else max(size, 1)


@dataclass(frozen=True)
class _Told:
    """The text of rows: of FROM and WHERE, of the unit, of keys, of values."""

    source: str
    unit: str
    keys: tuple[str, ...]
    values: tuple[str, ...]

    @classmethod
    def of(cls, rows: MeasuredRows, source: SpelledRows) -> _Told:
        return cls(
            source.text,
            source.column(rows.unit),
            tuple(map(source.key, rows.keys)),
            tuple(_value_text(value, source) for value in rows.values),
        )


def _value_text(value: object, source: SpelledRows) -> str:
    if not isinstance(value, RowValue):
        return repr(value)
    held = value.held

    def text(expr: Expr | None) -> str:
        return source.value(expr) if expr is not None else ""

    return f"{text(value.value)} where {text(value.where)} {'' if held is None else f'{held.lo} to {held.hi} by {held.grid}'}"


@dataclass(frozen=True)
class _Table:
    """A stored table as it is compared with what is asked for."""

    name: str
    label: str
    written: Written
    source: SpelledRows
    size: int | None

    @cached_property
    def told(self) -> _Told:
        return _Told.of(rows_of(self.written), self.source)

    @cached_property
    def columns(self) -> dict[str, int]:
        """The numbers of stored totals, by the text of the parts that they are of."""
        assert isinstance(self.written.child, Sums)
        texts = _part_texts(contributions_of(self.written.child), self.told)
        of = {total.index: i for i, total in enumerate(self.written.child.totals) if isinstance(total, PartSum)}
        return {text: of[i] for i, text in enumerate(texts) if text is not None}

    @cached_property
    def bounding(self) -> str:
        assert isinstance(self.written.child, Sums)
        return _bounding(_stage(self.written.child))

    @cached_property
    def constant(self) -> frozenset[str]:
        """The keys that have one value in all rows of a unit."""
        keys = zip(self.told.keys, rows_of(self.written).keys, strict=True)
        return frozenset(text for text, key in keys if facts(key).constant)

    @cached_property
    def coded(self) -> frozenset[tuple[str, Coding]]:
        return frozenset((self.told.keys[i], values) for i, values in self.written.coded)


@lru_cache(maxsize=1024)
def _known(table: StoredTable, uncut: Speller) -> _Table:
    """Tables stay as long as the policy they follow from."""
    return _Table(table.name, table.label, table.written, uncut.rows(rows_of(table.written).child), table.size)


@dataclass(frozen=True)
class Shape:
    """Where a measurement is read from, as EXPLAIN says it: the query that reads a stored table, or none, and why."""

    told: str
    query: Query | None = None


def shape(tree: Statement, source: SpelledRows, speller: Speller, tables: Sequence[StoredTable]) -> Shape:
    """Choose where to read a measurement from: what costs least."""
    sums = sums_of(tree)
    if sums is None or isinstance(sums.child, MeasuredRows):
        return Shape("rows: a unit has one")
    if looks_again(sums):
        return Shape("rows: distinct values are looked for")
    told = _Told.of(rows_of(tree), source)
    known = [_known(table, speller.uncut) for table in tables]
    same = [t for t in known if _has(t.told, told)]
    if not same:
        return Shape("rows: no stored table is of the same ones and these keys")
    declared = tree.groups if isinstance(tree, Filled) else None
    found = [choice for table in same if (choice := _choice(tree, sums, told, declared, table, same)) is not None]
    if not found:
        return Shape("rows: stored tables of these keys lack a column")
    best = min(found, key=lambda choice: choice.cost)
    return Shape(f"{best.kind} of {best.table.label}: {best.cost.why}", speller.query(best.tree))


def side(query: Query, speller: Speller, tables: Sequence[StoredTable]) -> Query:
    """Return the query of a selection, read from the table that it has made, where there is one."""
    table = next((table for table in tables if isinstance(table.written.child, Buckets) and table.sql == query.text), None)
    return query if table is None else speller.query(StoredBuckets(table.name, table.written))


@dataclass(frozen=True)
class _Choice:
    """One way to read a measurement."""

    kind: str
    table: _Table
    tree: Statement
    cost: Cost


def _choice(
    tree: Statement, sums: Sums, told: _Told, declared: Declared | None, table: _Table, same: Sequence[_Table]
) -> _Choice | None:
    read = _sums(sums, told, declared, table, same)
    if read is not None:
        weighed = isinstance(read, FreshSums)
        return _Choice("stored sums", table, _with_sums(tree, read), of_sums(table.size, weighed))
    stage = _groups(_stage(sums), told, table)
    if stage is None:
        return None
    *_, groups = stages(stage)
    assert isinstance(groups, StoredGroups)
    cost = of_groups(table.size, len(told.keys) if groups.summed else None)
    return _Choice("stored groups", table, _with_sums(tree, _over(sums, stage)), cost)


def from_groups(table: StoredTable, made: Sequence[StoredTable], speller: Speller) -> tuple[StoredTable, Written]:
    """Return the table, made of others that are there before it where that is less work than to make it of rows, and the tree
    that it is made by."""
    source = speller.rows(rows_of(table.written).child)
    told, child = _Told.of(rows_of(table.written), source), table.written.child
    if isinstance(child, Buckets):
        return table, table.written
    known = [_known(other, speller.uncut) for other in made]
    same = [t for t in known if _has(t.told, told)]
    for other in sorted(same, key=lambda t: len(t.told.keys)):
        stage = _groups(_stage(child) if isinstance(child, Sums) else child, told, other)
        if stage is not None:
            written = _over(child, stage) if isinstance(child, Sums) else stage
            tree = replace(table.written, child=written)  # type: ignore[arg-type]
            return replace(table, sql=speller.query(tree).text), tree
    return table, table.written


# --- sums


def _sums(
    asked: Sums, told: _Told, declared: Declared | None, table: _Table, same: Sequence[_Table]
) -> StoredSums | FreshSums | None:
    """The same sums, of the same groups."""
    stage, fresh = without_fresh(_stage(asked))
    if stage is None or not isinstance(table.written.child, Sums) or set(told.keys) != set(table.told.keys):
        return None
    if _bounding(stage) != table.bounding:
        return None
    coded = coded_keys(stage, declared) if declared is not None else {}
    if frozenset((told.keys[i], values) for i, values in coded.items()) != table.coded:
        return None
    texts = _part_texts(contributions_of(Sums(stage, ())), told)
    added = {texts[total.index] for total in asked.totals if isinstance(total, PartSum)}
    if not added - {None} <= table.columns.keys():
        return None
    columns = tuple(_column(total, texts, table) for total in asked.totals)
    read = StoredSums(table.name, table.written, _places(told, table), columns, asked.least)
    return read if fresh is None else _beside(read, *fresh, told, same)


def _column(total: Total, texts: Sequence[str | None], table: _Table) -> int | None:
    """The stored total that is this one; none for what is not known yet, or never will be."""
    if isinstance(total, RowCount):
        return 0
    text = texts[total.index] if isinstance(total, PartSum) else None
    return None if text is None else table.columns[text]


def _beside(read: StoredSums, order: Order, weight: Scaled, told: _Told, same: Sequence[_Table]) -> FreshSums | None:
    """Sums, and the weight of groups that are found in the table that says which groups each unit is in."""
    groups = contributions_of(read.made).child
    assert isinstance(groups, UnitGroups | Picked)
    wanted = members(groups)
    for table in same:
        child = table.written.child
        if isinstance(child, UnitGroups | Picked) and members(child) == wanted:
            return FreshSums(read, table.name, table.written, _places(told, table), order, weight)
    return None


def _part_texts(made: Contributions, told: _Told) -> list[str | None]:
    """What each part is made of, whatever its number."""
    groups = groups_of(made)

    def text(part: Part | None, nested: bool = False) -> str | None:
        if part is None or isinstance(part, One):
            return None if part is None else repr(part)
        own = f"{numbered(part, 0, 0)!r} of {told.values[part.index]} {sorted(_totals(groups, part.index))}"
        counter = getattr(part, "counter", part.index)
        if counter == part.index or nested:
            return own
        return f"{own} beside {told.values[counter]} {text(made.parts[counter], nested=True)}"

    return [text(part) for part in made.parts]


def _bounding(stage: Stage) -> str:
    """Which groups of a unit are there, and when they were picked."""
    return " of ".join(f"{s.most} by {s.order.key}" if isinstance(s, Picked) else type(s).__name__ for s in stages(stage))


# --- groups


def _groups(stage: Stage, told: _Told, table: _Table) -> Stage | None:
    """Counts and totals, of groups by as many keys or more."""
    *above, groups = stages(stage)
    if not isinstance(table.written.child, UnitGroups) or not isinstance(groups, UnitGroups):
        return None
    values = tuple(_value(groups, told, i, table.written.child, table.told) for i in range(len(told.values)))
    if None in values:
        return None
    left = set(table.told.keys) - set(told.keys)
    chosen = tuple(v for v in values if v is not None)
    read: Stage = StoredGroups(table.name, table.written.child, _places(told, table), chosen, not left <= table.constant)
    for node in reversed(above):
        read = replace(node, child=read)  # type: ignore[arg-type]
    return read


def _value(groups: UnitGroups, told: _Told, i: int, made: UnitGroups, stored: _Told) -> int | None:
    """The stored value that is value i, with all that is taken of it; any where nothing is."""
    wanted = set(_totals(groups, i))
    same = (v for v, text in enumerate(stored.values) if not wanted or text == told.values[i])
    return next((v for v in same if wanted <= set(_totals(made, v))), None)


def _totals(groups: UnitGroups, i: int) -> list[str]:
    """What is taken of value i, whatever its number."""
    of = (t for t in groups.totals if t.index == i)
    return [f"{t.lo} to {t.hi} less {t.shift}" if isinstance(t, Added) else "counted" for t in of]


# --- both


def _has(stored: _Told, told: _Told) -> bool:
    """Whether a table is of the same rows and has the keys: each that is read under one text as often as it has it, since keys of
    one text (casts that change nothing in SQL) are different ones in its tree."""
    if (stored.source, stored.unit) != (told.source, told.unit):
        return False
    return all(0 < stored.keys.count(key) <= told.keys.count(key) for key in told.keys)


def _places(told: _Told, table: _Table) -> tuple[int, ...]:
    """Of several keys of one text the first is read as the first, and so on; the last of them as any further ones."""
    found: list[int] = []
    for i, key in enumerate(told.keys):
        same = [k for k, stored in enumerate(table.told.keys) if stored == key]
        found.append(same[min(told.keys[:i].count(key), len(same) - 1)])
    return tuple(found)


def _stage(sums: Sums) -> Contributions | Picked:
    """What is added up, of groups of units."""
    assert not isinstance(sums.child, MeasuredRows)
    return sums.child


def _over(sums: Sums, stage: Stage) -> Sums:
    assert isinstance(stage, Contributions | Picked)
    return replace(sums, child=stage)


def _with_sums(tree: Statement, sums: Sums | StoredSums | FreshSums) -> Statement:
    return replace(tree, child=sums) if isinstance(tree, Filled | Numbered) else sums  # type: ignore[arg-type]
