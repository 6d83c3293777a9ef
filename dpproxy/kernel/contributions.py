"""What one unit can change of a query's answer: one rule for each node above the relation (`tree.measured`).

Knows: nodes, `Owned`. Must not know: the planner's claims, SQL text, noise. A node it does not know is refused.

A unit's contribution to a group is a number within [lo, hi], which the nodes enforce: by a clamp in each row, by cutting what it
adds up to, or by scaling all its groups down to a norm. Released columns are sums of contributions over units, or counts of
distinct values of which each unit gives few: without a unit they change by its contributions alone (Wilson et al. 2019, section
4: bounded user contributions; Tumult Core: truncation and grouping by ID and key). Sums are of integers, which no order changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dpproxy.kernel.allowed import OF_NULL
from dpproxy.kernel.domains import combinations
from dpproxy.kernel.kinds import check_number, check_pair, kind
from dpproxy.kernel.leaves import Leaves, Unproven
from dpproxy.kernel.owned import Owned
from dpproxy.kernel.owners import Owners
from dpproxy.tree import measured as m
from dpproxy.tree.expr import Call, Cast, Expr, conjuncts


@dataclass(frozen=True)
class Reach:
    """What a unit can change a column by: in each group within [lo, hi]; where `norm` is 1 or 2, in all groups together `whole`
    in that norm (of norm 2 its square). `steps`: columns, of which it changes one."""

    lo: int
    hi: int
    norm: int = 0
    whole: int = 0
    steps: int = 1

    @property
    def most(self) -> int:
        return max(abs(self.lo), abs(self.hi))


@dataclass(frozen=True)
class Found:
    """What is derived of a query. `groups`: how many a unit can change, None where nothing bounds them. `declared`: the same
    groups are returned whatever the data. `varying`: keys, by number, that differ among a unit's rows. `least`: units of a
    group that is returned. `size`: of the buckets of a selection."""

    keys: int
    groups: int | None
    declared: bool
    columns: tuple[Reach, ...]
    varying: frozenset[int] = frozenset()
    least: int = 1
    size: int = 0


@dataclass(frozen=True)
class Units:
    """What is derived of groups of units: the rows they are of, keys that differ among a unit's rows, how many groups a unit has
    at most (None: nothing bounds them), and what it adds to a group, by part."""

    rows: m.MeasuredRows
    varying: frozenset[int]
    groups: int | None
    parts: Mapping[int, Reach] = field(default_factory=dict)


class Deriving:
    """Derives `Found` of queries. `stored`: what stored tables were made to hold, by their names. Rows of two queries, or of a
    stored table, have columns of their own, under whatever numbers."""

    def __init__(self, leaves: Leaves, stored: Mapping[str, m.Written] = MappingProxyType({})) -> None:
        self._leaves, self._stored = leaves, stored

    def of(self, tree: m.Statement) -> Found:
        match tree:
            case m.Sums() | m.StoredSums():
                return self._sums(tree)
            case m.FreshSums():
                return self._fresh_sums(tree)
            case m.Filled(child=child, groups=declared):
                return self._filled(self._sums(child), m.rows_of(child).keys, declared)
            case m.Numbered(child=child, order=order):
                found = self._sums(child)
                _check_order(order, found.keys)
                return found
            case m.Buckets():
                return self._buckets(tree)
            case m.StoredBuckets(definition=m.Written(child=m.Buckets() as made)):
                self._held(tree.table, tree.definition)
                return self._buckets(made)
            case m.Beyond(rows=rows):
                self._rows(rows)
                return Found(0, 1, True, (Reach(0, 1), Reach(0, 1)))
            case _:
                raise Unproven(f"no rule for {type(tree).__name__}")

    def table(self, node: m.Written) -> tuple[object, ...]:
        """Derive what a unit has in a stored table, or changes in it."""
        if isinstance(node.child, m.Sums | m.Buckets):
            return (self.of(node.child),)
        found = self._stage(node.child)
        return found.varying, found.groups, found.parts

    # --- rows

    def _rows(self, rows: m.MeasuredRows) -> tuple[Owned, frozenset[int]]:
        """Whose the rows are, and which keys differ among those of a unit. Rows of nobody are not there."""
        owners = Owners(self._leaves)
        found = owners.of(rows.child)
        if not found.private or rows.unit.id not in found.owner:
            raise Unproven("what is measured are no rows of units")
        if not found.owner & found.present:
            raise Unproven("rows of nobody are measured")
        owners.columns.read((rows.unit,))
        check = owners.expressions.check
        varying = frozenset(i for i, key in enumerate(rows.keys) if not check(key, found))
        for value in rows.values:
            if value is not None and value.value is not None:
                check(value.value, found)
            if (isinstance(value, m.RowValue) and value.held is not None) or (
                isinstance(value, m.RowBucket) and not value.values
            ):
                check_number(value.value)
            if value is not None and value.where is not None:
                owners.expressions.condition(value.where, found)
        return found, frozenset() if found.one else varying

    def _filled(self, found: Found, keys: Sequence[Expr], declared: m.Declared) -> Found:
        """Groups that are not declared are dropped by the join, whatever the rows hold."""
        if declared.width != found.keys or sorted(i for part in declared.parts for i, _ in part.keys) != list(range(found.keys)):
            raise Unproven("declared groups of other keys")
        for i, key in (pair for part in declared.parts for pair in part.keys):
            check_pair(keys[i], key)
            if (kind(keys[i].type) == "d") != (kind(key.type) == "d"):  # the join compares them as they are
                raise Unproven("declared groups of days beside moments: an engine would cast, and raise for some days")
        size = combinations(declared, Owners(self._leaves), found.varying)
        return replace(found, groups=min((n for n in (found.groups, size) if n is not None), default=None), declared=True)

    # --- all units

    def _sums(self, node: m.Sums | m.StoredSums) -> Found:
        if isinstance(node, m.StoredSums):
            return self._stored_sums(node)
        if isinstance(node.child, m.MeasuredRows):
            rows = node.child
            owned, varying = self._rows(rows)
            if not owned.one:
                raise Unproven("rows are added up as if a unit had one")
            columns = tuple(_alone(total, rows) for total in node.totals)
            return Found(len(rows.keys), None if varying else 1, not rows.keys, columns, varying, node.least)
        found = self._stage(node.child)
        columns = tuple(_total(total, found.parts, found.rows) for total in node.totals)
        keys = len(found.rows.keys)
        return Found(keys, found.groups, not keys, columns, found.varying, node.least)

    def _stored_sums(self, node: m.StoredSums) -> Found:
        """What a unit changes in a table of sums: what it changes in its definition, column by column. Nothing is added up any
        more, so all keys are read. Groups of few units are left out by their stored number."""
        self._held(node.table, node.definition)
        sums = node.definition.child
        if not isinstance(sums, m.Sums) or sums.least > 1:
            raise Unproven("stored sums of something else")
        made, keys = self._sums(sums), m.rows_of(sums).keys
        _check_numbers(node.keys, len(keys))
        _check_numbers([c for c in node.columns if c is not None], len(made.columns))
        if {keys[k] for k in node.keys} != set(keys):
            raise Unproven("stored sums of several groups are taken for one")
        if node.least > 1 and sums.totals[:1] != (m.RowCount(),):
            raise Unproven("groups of few units are left out by something else than their number")
        columns = tuple(made.columns[c] if c is not None else Reach(0, 0) for c in node.columns)
        varying = frozenset(i for i, k in enumerate(node.keys) if k in made.varying)
        return replace(made, keys=len(node.keys), columns=columns, varying=varying, least=node.least)

    def _fresh_sums(self, node: m.FreshSums) -> Found:
        """The groups of the weight are the unit's own, those of the sums, whatever was found before: a weight over some of them
        has its norm as over all, and groups that are in no sums are not there."""
        self._held(node.table, node.definition)
        found, weight = self._stored_sums(node.child), node.weight
        _check_order(node.order, found.keys)
        if node.keys != node.child.keys or _members(node.definition.child) != _members(node.child.made.child):
            raise Unproven("a weight over other groups than those of the sums")
        if weight.kind != "weight" or not weight.fresh or weight.tested or not 0 <= weight.index < len(found.columns):
            raise Unproven("a weight beside stored sums that is none")
        if node.child.columns[weight.index] is not None:
            raise Unproven("a weight in the place of a stored sum")
        columns = [*found.columns]
        columns[weight.index] = _spread(weight.index, weight)
        return replace(found, columns=tuple(columns))

    # --- groups of units

    def _stage(self, stage: object) -> Units:
        match stage:
            case m.UnitGroups(rows=rows):
                _, varying = self._rows(rows)
                return Units(rows, varying, None if varying else 1)
            case m.StoredGroups():
                return self._stored_groups(stage)
            case m.Picked(child=child, order=order) | m.Fresh(child=child, order=order):
                found = self._stage(child)
                _check_order(order, len(found.rows.keys))
                return replace(found, groups=_fewer(found.groups, stage.most)) if isinstance(stage, m.Picked) else found
            case m.Contributions(child=child, parts=parts):
                below, fresh = self._stage(child), isinstance(child, m.Fresh)
                return replace(below, parts={i: _part(i, p, stage, fresh) for i, p in enumerate(parts) if p is not None})
            case _:
                raise Unproven(f"no rule for {type(stage).__name__}")

    def _stored_groups(self, node: m.StoredGroups) -> Units:
        """A table holds what its definition is, in the epoch of the data it was made from. Groups by fewer keys are sums of
        groups by more; where nothing is added up, a unit must have one group for each of the keys that are left."""
        self._held(node.table, m.Written(node.definition))
        made = node.definition.rows
        _check_numbers(node.keys, len(made.keys))
        _check_numbers(node.values, len(made.values))
        if not node.summed and self._rows(made)[1] - set(node.keys):
            raise Unproven("stored groups of one unit are taken for different ones")
        found = self._stage(node.groups)
        return replace(found, rows=replace(found.rows, values=()))  # no rows are left to look at

    def _held(self, table: str, definition: m.Written) -> None:
        if self._stored.get(table) != definition:
            raise Unproven("a stored table that holds something else")

    def _buckets(self, node: m.Buckets) -> Found:
        """Each unit's values in a group, the first `most` of them; all where it has one row."""
        owned, varying = self._rows(node.rows)
        groups = None if varying else 1
        if node.most is None and not owned.one:
            raise Unproven("values are counted as if a unit had one")
        if node.picked is not None:
            if not isinstance(node.picked.child, m.UnitGroups) or node.picked.child.rows != node.rows:
                raise Unproven("groups are picked of other rows")
            _check_order(node.picked.order, len(node.rows.keys))
            groups = _fewer(groups, node.picked.most)
        (bucket,) = node.rows.values
        if not isinstance(bucket, m.RowBucket):
            raise Unproven("values fall in no bucket")
        return Found(len(node.rows.keys), groups, not node.rows.keys, (Reach(0, node.most or 1),), varying, size=bucket.size)


def _fewer(groups: int | None, most: int) -> int:
    return most if groups is None else min(groups, most)


def _members(stage: object) -> m.UnitGroups | m.Picked:
    """Which groups each unit is in, of what is made of them; nothing of what it has there."""
    match stage:
        case m.UnitGroups(rows=rows):
            return m.UnitGroups(replace(rows, values=()))
        case m.Picked(child=m.UnitGroups() as groups):
            return replace(stage, child=m.UnitGroups(replace(groups.rows, values=())))
        case m.Contributions(child=child):
            return _members(child)
        case _:
            raise Unproven(f"no rule for the groups of {type(stage).__name__}")


def _check_numbers(numbers: Sequence[int], size: int) -> None:
    if not all(0 <= n < size for n in numbers):
        raise Unproven("stored columns that are not there")


def _check_order(order: m.Order, keys: int) -> None:
    """By all keys: then no two groups of a unit are alike, and which come first follows from the unit's own rows."""
    if sorted(order.keys) != list(range(keys)):
        raise Unproven("groups are picked in an order that leaves ties")


# --- rows of which a unit has one


def _alone(total: m.Total, rows: m.MeasuredRows) -> Reach:
    """A row comes or goes."""
    match total:
        case m.RowCount():
            return Reach(0, 1)
        case m.ValueCount(index=i):
            _value(rows, i)
            return Reach(0, 1)
        case m.ValueSum(index=i, shift=shift):
            lo, hi = _held(rows, i)
            if total.distinct and shift:
                raise Unproven("distinct values with a shift")
            _check_centre(lo, hi, shift)
            return Reach(min(lo - shift, 0), max(hi - shift, 0))
        case m.NoTotal():
            return Reach(0, 0)
        case _:
            raise Unproven(f"no rule for {type(total).__name__} of rows")


def _value(rows: m.MeasuredRows, i: int) -> m.RowValue:
    value = rows.values[i] if 0 <= i < len(rows.values) else None
    if not isinstance(value, m.RowValue):
        raise Unproven("a column of a value that is not there")
    return value


def _held(rows: m.MeasuredRows, i: int) -> tuple[int, int]:
    """Between what row value i is held."""
    held = _value(rows, i).held
    if held is None or held.lo > held.hi:
        raise Unproven("a value is added up that nothing holds within bounds")
    return held.lo, held.hi


def _check_centre(lo: int, hi: int, shift: int) -> None:
    """A centre lies among the values, or is 0: then what is left of a value is no longer than values are, and the sum of a unit's
    rows fits what engines add values up in. About a centre far away it might not, for whoever has many rows."""
    if not min(lo, 0) <= shift <= max(hi, 0):
        raise Unproven("values about a centre that is none of them")


# --- groups of units


def _total(total: m.Total, parts: Mapping[int, Reach], rows: m.MeasuredRows) -> Reach:
    """The sum over units of parts, one row each; or values of which a unit gives `most`, each once."""
    match total:
        case m.RowCount():
            return Reach(0, 1)
        case m.PartSum(index=i, steps=steps):
            if i not in parts or parts[i].steps != steps:
                raise Unproven("a column of a part that is not there")
            return parts[i]
        case m.DistinctCount(index=i, most=most) | m.DistinctSum(index=i, most=most):
            lo, hi = _held(rows, i) if isinstance(total, m.DistinctSum) else (0, 1)
            _value(rows, i)
            if most < 0:
                raise Unproven("less than no values")
            low, high = most * min(lo, 0), most * max(hi, 0)
            if not total.norm:
                return Reach(low, high)
            _check_order(total.order, len(rows.keys))
            return Reach(low, high, total.norm, (total.rows * max(-lo, hi, 0)) ** total.norm)
        case m.NoTotal():
            return Reach(0, 0)
        case _:
            raise Unproven(f"no rule for {type(total).__name__} of groups")


def _totals(node: m.Contributions) -> m.UnitGroups:
    stage: object = node.child
    while not isinstance(stage, m.UnitGroups | m.StoredGroups):
        if not isinstance(stage, m.Picked | m.Fresh):
            raise Unproven(f"no rule for {type(stage).__name__}")
        stage = stage.child
    return stage.groups if isinstance(stage, m.StoredGroups) else stage


def _part(place: int, part: m.Part, node: m.Contributions, fresh: bool) -> Reach:
    """What a unit adds to a group."""
    groups = _totals(node)
    match part:
        case m.One():
            return Reach(0, 1)
        case m.Present(index=i):
            _counted(groups, i)
            return Reach(0, 1)
        case m.CountCut(index=i, rows=k) if k >= 0:
            _counted(groups, i)
            return Reach(0, k)
        case m.TotalCut(index=i, lo=lo, hi=hi):
            _added(groups, i)
            if not lo <= 0 <= hi:
                raise Unproven("a cut that lets nobody add nothing")
            return Reach(lo, hi)
        case m.ShareCut(index=i, counter=counter, rows=k) if k >= 0:
            added = _added(groups, i)
            if (part.lo, part.hi, part.shift) != (added.lo, added.hi, added.shift):
                raise Unproven("a share is cut by other bounds than the total's")
            _check_counter(groups, i, counter)
            return Reach(k * min(added.lo, 0), k * max(added.hi, 0))
        case m.Scaled():
            return _scaled(place, part, node, groups, fresh)
        case _:
            raise Unproven(f"no rule for {type(part).__name__}")


def _counted(groups: m.UnitGroups, i: int) -> None:
    _value(groups.rows, i)
    if m.Counted(i) not in groups.totals:
        raise Unproven("a part of a count that is not taken")


def _added(groups: m.UnitGroups, i: int) -> m.Added:
    """A total of whole numbers, each held within the bounds it says: no order of rows changes it."""
    found = next((t for t in groups.totals if isinstance(t, m.Added) and t.index == i), None)
    if found is None:
        raise Unproven("a part of a total that is not taken")
    lo, hi = _held(groups.rows, i)
    _check_centre(lo, hi, found.shift)
    if lo - found.shift < found.lo or hi - found.shift > found.hi:
        raise Unproven("a total of values that are not held within its bounds")
    return found


def _check_counter(groups: m.UnitGroups, i: int, counter: int) -> None:
    """A mean is cut by how many rows there are: every row that adds to the total must be among those that are counted."""
    _counted(groups, counter)
    if counter == i:
        return
    mine, other = _value(groups.rows, i), _value(groups.rows, counter)
    wheres = set(conjuncts(mine.where))
    if not set(conjuncts(other.where)) <= wheres:
        raise Unproven("a mean's rows are not among those that are counted")
    if other.value is not None and (mine.value is None or not _counted_with(mine.value, other.value)):
        raise Unproven("a mean's values are not among those that are counted")


_LENIENT = OF_NULL | {"and", "or", "coalesce", "least", "greatest", "concat", "concat_ws", "row"}
"""Operations that can make something of NULL."""


def _counted_with(value: Expr, other: Expr) -> bool:
    """Whether the other is not NULL wherever the value is not: an interval has a day as soon as it is one."""
    match other:
        case Call(op="day", args=(whole,)) if whole.type == "interval":
            return _strict(value, whole)
        case _:
            return _strict(value, other)


def _strict(value: Expr, of: Expr) -> bool:
    """Whether the value is NULL wherever the other is."""
    if value == of:
        return True
    match value:
        case Call(op=op, args=args):
            return op not in _LENIENT and any(_strict(a, of) for a in args)
        case Cast(arg=arg):
            return _strict(arg, of) or (isinstance(of, Cast) and _strict(value.arg, of))
        case _:
            return False


def _scaled(place: int, part: m.Scaled, node: m.Contributions, groups: m.UnitGroups, fresh: bool) -> Reach:
    """The lemma of `engines.norm_scaling`: x as it is while its norm is at most B, else x * B / norm(x), each number rounded
    towards 0. Of 0 and 1 in `rows` groups the l1 norm is `rows`, the square of the l2 norm as well."""
    if part.fresh and not fresh:
        raise Unproven("groups of an earlier round that nobody looked for")
    if part.kind in ("weight", "units"):
        if part.tested:
            _counted(groups, place)
        return _spread(place, part)
    _check_scaling(place, part)
    most = max(part.bound, 1) * part.fine
    whole = most if part.norm == 1 else most**2
    if part.kind == "count":
        _counted(groups, place)
        if part.counter != place or part.row != 1:
            raise Unproven("a count is scaled by another column")
        return Reach(0, most, part.norm, whole, part.steps)
    added = _added(groups, place)
    if part.mean:
        if part.row < max(abs(added.lo), abs(added.hi)) or part.steps != 1:
            raise Unproven("a mean is scaled by other bounds than its total's")
        _check_counter(groups, place, part.counter)
        _check_sized(part, node)
    elif part.counter != place:
        raise Unproven("a sum is scaled by another column")
    return Reach(0 if added.lo >= 0 else -most, most, part.norm, whole, part.steps)


def _spread(place: int, part: m.Scaled) -> Reach:
    """1, or 0, in each group, scaled down."""
    _check_scaling(place, part)
    if part.counter != place or part.steps != 1 or part.mean:
        raise Unproven("units are scaled by another column")
    rows = part.rows if part.kind == "units" else 1
    return Reach(0, part.fine, part.norm, rows * part.fine if part.norm == 1 else rows * part.fine**2)


def _check_scaling(place: int, part: m.Scaled) -> None:
    if part.index != place or part.norm not in (1, 2) or part.fine < 1 or part.rows < 1 or part.row < 0:
        raise Unproven("a scaling of another part")


def _check_sized(part: m.Scaled, node: m.Contributions) -> None:
    """The size that a mean is scaled by is that of a count of rows, in the same norm."""
    by = node.parts[part.counter] if 0 <= part.counter < len(node.parts) else None
    counts = isinstance(by, m.Scaled) and (by.kind == "count" or by.mean) and by.counter == part.counter
    if not counts or not isinstance(by, m.Scaled) or (by.norm, by.rows) != (part.norm, part.rows):
        raise Unproven("a mean is scaled by a size that counts no rows")
