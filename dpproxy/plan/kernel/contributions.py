"""What one unit can change of a query's answer: one rule for each node above the relation (`plan.logical.measured`).

Knows: nodes, `Owned`. Must not know: the planner's claims, SQL text, noise. A node it does not know is refused.

A unit's contribution to a group is a number within [lo, hi], which the nodes enforce: by a clamp in each row, by cutting what it
adds up to, or by scaling all its groups down to a norm. Released columns are sums of contributions over units, or counts of
distinct values of which each unit gives few: without a unit they change by its contributions alone (Wilson et al. 2019, section
4: bounded user contributions; Tumult Core: truncation and grouping by ID and key). Sums are of integers, which no order changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpproxy.plan.kernel.allowed import OF_NULL
from dpproxy.plan.kernel.domains import combinations
from dpproxy.plan.kernel.leaves import Unproven
from dpproxy.plan.kernel.owned import Owned
from dpproxy.plan.kernel.owners import Owners
from dpproxy.plan.logical.expr import Call, Cast, Expr, conjuncts
from dpproxy.plan.logical.measured import (
    Added,
    Beyond,
    Buckets,
    Contributions,
    CountCut,
    Counted,
    Declared,
    DistinctCount,
    DistinctSum,
    Filled,
    Fresh,
    MeasuredRows,
    NoTotal,
    Numbered,
    One,
    Order,
    Part,
    PartSum,
    Picked,
    Present,
    RowBucket,
    RowCount,
    RowValue,
    Scaled,
    ShareCut,
    Statement,
    Sums,
    Total,
    TotalCut,
    UnitGroups,
    ValueCount,
    ValueSum,
)


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


class Deriving:
    """Derives `Found` of queries."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    def of(self, tree: Statement) -> Found:
        match tree:
            case Sums():
                return self._sums(tree)
            case Filled(child=child, groups=declared):
                return self._filled(self._sums(child), declared)
            case Numbered(child=child, order=order):
                found = self._sums(child)
                _check_order(order, found.keys)
                return found
            case Buckets():
                return self._buckets(tree)
            case Beyond(rows=rows):
                self._rows(rows)
                return Found(0, 1, True, (Reach(0, 1), Reach(0, 1)))
            case _:
                raise Unproven(f"no rule for {type(tree).__name__}")

    # --- rows

    def _rows(self, rows: MeasuredRows) -> tuple[Owned, frozenset[int]]:
        """Whose the rows are, and which keys differ among those of a unit. Rows of nobody are not there."""
        found = self._owners.of(rows.child)
        if not found.private or rows.unit.id not in found.owner:
            raise Unproven("what is measured are no rows of units")
        if not found.owner & found.present:
            raise Unproven("rows of nobody are measured")
        check = self._owners.expressions.check
        varying = frozenset(i for i, key in enumerate(rows.keys) if not check(key, found))
        for value in rows.values:
            for expr in (value.value, value.where) if value is not None else ():
                if expr is not None:
                    check(expr, found)
        return found, frozenset() if found.one else varying

    def _filled(self, found: Found, declared: Declared) -> Found:
        """Groups that are not declared are dropped by the join, whatever the rows hold."""
        if declared.width != found.keys or sorted(i for part in declared.parts for i, _ in part.keys) != list(range(found.keys)):
            raise Unproven("declared groups of other keys")
        size = combinations(declared, self._owners, found.varying)
        return replace(found, groups=min((n for n in (found.groups, size) if n is not None), default=None), declared=True)

    # --- all units

    def _sums(self, node: Sums) -> Found:
        stage: object = node.child
        rows = _rows_of(stage)
        owned, varying = self._rows(rows)
        groups = None if varying else 1
        if isinstance(stage, MeasuredRows):
            if not owned.one:
                raise Unproven("rows are added up as if a unit had one")
            columns = tuple(_alone(total, rows) for total in node.totals)
            return Found(len(rows.keys), groups, not rows.keys, columns, varying, node.least)
        parts: dict[int, Reach] = {}
        while not isinstance(stage, UnitGroups):
            if isinstance(stage, Contributions):
                fresh = isinstance(stage.child, Fresh)
                parts = {i: _part(i, p, stage, fresh) for i, p in enumerate(stage.parts) if p is not None}
            elif isinstance(stage, Picked | Fresh):
                _check_order(stage.order, len(rows.keys))
                if isinstance(stage, Picked):
                    groups = stage.most if groups is None else min(groups, stage.most)
            else:
                raise Unproven(f"no rule for {type(stage).__name__}")
            stage = stage.child
        columns = tuple(_total(total, parts, rows) for total in node.totals)
        return Found(len(rows.keys), groups, not rows.keys, columns, varying, node.least)

    def _buckets(self, node: Buckets) -> Found:
        """Each unit's values in a group, the first `most` of them; all where it has one row."""
        owned, varying = self._rows(node.rows)
        groups = None if varying else 1
        if node.most is None and not owned.one:
            raise Unproven("values are counted as if a unit had one")
        if node.picked is not None:
            if not isinstance(node.picked.child, UnitGroups) or node.picked.child.rows != node.rows:
                raise Unproven("groups are picked of other rows")
            _check_order(node.picked.order, len(node.rows.keys))
            groups = node.picked.most if groups is None else min(groups, node.picked.most)
        (bucket,) = node.rows.values
        if not isinstance(bucket, RowBucket):
            raise Unproven("values fall in no bucket")
        return Found(len(node.rows.keys), groups, not node.rows.keys, (Reach(0, node.most or 1),), varying, size=bucket.size)


def _rows_of(node: object) -> MeasuredRows:
    while not isinstance(node, MeasuredRows):
        match node:
            case UnitGroups(rows=rows):
                node = rows
            case Picked(child=child) | Fresh(child=child) | Contributions(child=child):
                node = child
            case _:
                raise Unproven(f"no rule for {type(node).__name__}")
    return node


def _check_order(order: Order, keys: int) -> None:
    """By all keys: then no two groups of a unit are alike, and which come first follows from the unit's own rows."""
    if sorted(order.keys) != list(range(keys)):
        raise Unproven("groups are picked in an order that leaves ties")


# --- rows of which a unit has one


def _alone(total: Total, rows: MeasuredRows) -> Reach:
    """A row comes or goes."""
    match total:
        case RowCount():
            return Reach(0, 1)
        case ValueCount(index=i):
            _value(rows, i)
            return Reach(0, 1)
        case ValueSum(index=i, shift=shift):
            lo, hi = _held(rows, i)
            if total.distinct and shift:
                raise Unproven("distinct values with a shift")
            return Reach(min(lo - shift, 0), max(hi - shift, 0))
        case NoTotal():
            return Reach(0, 0)
        case _:
            raise Unproven(f"no rule for {type(total).__name__} of rows")


def _value(rows: MeasuredRows, i: int) -> RowValue:
    value = rows.values[i] if 0 <= i < len(rows.values) else None
    if not isinstance(value, RowValue):
        raise Unproven("a column of a value that is not there")
    return value


def _held(rows: MeasuredRows, i: int) -> tuple[int, int]:
    """Between what row value i is held."""
    held = _value(rows, i).held
    if held is None or held.lo > held.hi:
        raise Unproven("a value is added up that nothing holds within bounds")
    return held.lo, held.hi


# --- groups of units


def _total(total: Total, parts: dict[int, Reach], rows: MeasuredRows) -> Reach:
    """The sum over units of parts, one row each; or values of which a unit gives `most`, each once."""
    match total:
        case RowCount():
            return Reach(0, 1)
        case PartSum(index=i, steps=steps):
            if i not in parts or parts[i].steps != steps:
                raise Unproven("a column of a part that is not there")
            return parts[i]
        case DistinctCount(index=i, most=most):
            _value(rows, i)
            if most < 0:
                raise Unproven("less than no values")
            if not total.norm:
                return Reach(0, most)
            _check_order(total.order, len(rows.keys))
            return Reach(0, most, total.norm, total.rows**total.norm)
        case DistinctSum(index=i, most=most):
            lo, hi = _held(rows, i)
            if most < 0:
                raise Unproven("less than no values")
            low, high = most * min(lo, 0), most * max(hi, 0)
            if not total.norm:
                return Reach(low, high)
            _check_order(total.order, len(rows.keys))
            return Reach(low, high, total.norm, (total.rows * max(-lo, hi, 0)) ** total.norm)
        case NoTotal():
            return Reach(0, 0)
        case _:
            raise Unproven(f"no rule for {type(total).__name__} of groups")


def _totals(node: Contributions) -> UnitGroups:
    stage: object = node.child
    while not isinstance(stage, UnitGroups):
        if not isinstance(stage, Picked | Fresh):
            raise Unproven(f"no rule for {type(stage).__name__}")
        stage = stage.child
    return stage


def _part(place: int, part: Part, node: Contributions, fresh: bool) -> Reach:
    """What a unit adds to a group."""
    groups = _totals(node)
    match part:
        case One():
            return Reach(0, 1)
        case Present(index=i):
            _counted(groups, i)
            return Reach(0, 1)
        case CountCut(index=i, rows=k):
            _counted(groups, i)
            return Reach(0, max(k, 0))
        case TotalCut(index=i, lo=lo, hi=hi):
            _added(groups, i)
            if not lo <= 0 <= hi:
                raise Unproven("a cut that lets nobody add nothing")
            return Reach(lo, hi)
        case ShareCut(index=i, counter=counter, rows=k):
            added = _added(groups, i)
            if (part.lo, part.hi, part.shift) != (added.lo, added.hi, added.shift):
                raise Unproven("a share is cut by other bounds than the total's")
            _check_counter(groups, i, counter)
            return Reach(k * min(added.lo, 0), k * max(added.hi, 0))
        case Scaled():
            return _scaled(place, part, node, groups, fresh)
        case _:
            raise Unproven(f"no rule for {type(part).__name__}")


def _counted(groups: UnitGroups, i: int) -> None:
    _value(groups.rows, i)
    if Counted(i) not in groups.totals:
        raise Unproven("a part of a count that is not taken")


def _added(groups: UnitGroups, i: int) -> Added:
    """A total of whole numbers, each held within the bounds it says: no order of rows changes it."""
    found = next((t for t in groups.totals if isinstance(t, Added) and t.index == i), None)
    if found is None:
        raise Unproven("a part of a total that is not taken")
    _row_bounds(groups, found)
    return found


def _row_bounds(groups: UnitGroups, added: Added) -> None:
    lo, hi = _held(groups.rows, added.index)
    if lo - added.shift < added.lo or hi - added.shift > added.hi:
        raise Unproven("a total of values that are not held within its bounds")


def _check_counter(groups: UnitGroups, i: int, counter: int) -> None:
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


def _scaled(place: int, part: Scaled, node: Contributions, groups: UnitGroups, fresh: bool) -> Reach:
    """The lemma of `plan.engines.norm_scaling`: x as it is while its norm is at most B, else x * B / norm(x), each number rounded
    towards 0. Of 0 and 1 in `rows` groups the l1 norm is `rows`, the square of the l2 norm as well."""
    if part.index != place or part.norm not in (1, 2) or part.fine < 1 or part.rows < 1:
        raise Unproven("a scaling of another part")
    if part.fresh and not fresh:
        raise Unproven("groups of an earlier round that nobody looked for")
    most = max(part.bound, 1) * part.fine
    if part.kind in ("weight", "units"):
        if part.counter != place or part.steps != 1 or part.mean:
            raise Unproven("units are scaled by another column")
        if part.tested:
            _counted(groups, place)
        rows = part.rows if part.kind == "units" else 1
        return Reach(0, part.fine, part.norm, rows * part.fine if part.norm == 1 else rows * part.fine**2)
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


def _check_sized(part: Scaled, node: Contributions) -> None:
    """The size that a mean is scaled by is that of a count of rows, in the same norm."""
    by = node.parts[part.counter] if 0 <= part.counter < len(node.parts) else None
    counts = isinstance(by, Scaled) and (by.kind == "count" or by.mean) and by.counter == part.counter
    if not counts or not isinstance(by, Scaled) or (by.norm, by.rows) != (part.norm, part.rows):
        raise Unproven("a mean is scaled by a size that counts no rows")
