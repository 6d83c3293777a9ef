"""From how contributions are bounded to the tree of a measurement's query: rows of units in, bounded integers by group out.

Knows: PRIVACY.md section 3, basis columns, the nodes of `tree.measured`. Must not know: policies, how bounds were chosen,
noise, SQL text but for the order of keys. The order of bounding is fixed: rows (values clamped, on their grid) -> per unit and
group -> groups per unit -> across units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpproxy.plan.measure.specs import BasisSpec, Bounding, SelectionSpec
from dpproxy.tree.expr import Column, Expr, Ref
from dpproxy.tree.measured import (
    Added,
    Beyond,
    Buckets,
    Contributions,
    CountCut,
    Counted,
    DistinctCount,
    DistinctSum,
    Filled,
    Fresh,
    Held,
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
    Sums,
    Test,
    Total,
    TotalCut,
    UnitGroups,
    ValueCount,
    ValueSum,
)
from dpproxy.tree.spelling import SpelledRows


@dataclass(frozen=True)
class Builder:
    """Builds the queries of one measurement over the rows of `source`, whose unit is in column `unit`."""

    source: SpelledRows
    unit: Column
    bounding: Bounding
    specs: tuple[BasisSpec, ...]
    pick_key: int

    def query(self, keys: Sequence[Expr], min_units: int) -> Sums | Filled:
        bounding = self.bounding
        if not bounding.per_unit:  # one row per unit: every row is a whole contribution
            rows = self._rows(keys, tuple(map(self._value_alone, self.specs)))
            sums = Sums(rows, tuple(self._total_alone(i, spec) for i, spec in enumerate(self.specs)), min_units)
        else:
            totals = tuple(self._total(i, spec, keys) for i, spec in enumerate(self.specs))
            sums = Sums(self._contributions(keys), totals, min_units)
        return sums if bounding.dense is None else Filled(sums, bounding.dense.declared)

    def first_round(self, keys: Sequence[Expr], min_units: int) -> Numbered:
        """Return the query of `k0.., b0, h`: what each group weighs, and its number (`fresh`). With the parts of the other round,
        whose weight is that of all groups as long as none is found: who can keep what both add up does."""
        *_, weight = (i for i, spec in enumerate(self.specs) if spec.round == 2)
        parts = [self._part(i, replace(spec, round=0) if spec.round == 2 else spec) for i, spec in enumerate(self.specs)]
        made = Contributions(self._kept_groups(keys), tuple(parts))
        return Numbered(Sums(made, (PartSum(weight),), min_units), self._order(keys))

    def buckets(self, keys: Sequence[Expr], spec: SelectionSpec) -> Buckets:
        """Return the query of `k0.., bucket, n`: how many contributions fall on each grid point, at most `rows` of each unit and
        group."""
        bounding = self.bounding
        rows = self._rows(keys, (RowBucket(spec.value, spec.where, spec.lo, spec.hi, spec.grid, spec.values),))
        picked = bounding.per_unit and bounding.pick
        groups = Picked(UnitGroups(rows), bounding.l0, self._order(keys)) if picked else None
        return Buckets(rows, bounding.rows if bounding.per_unit else None, groups, Order(self.pick_key))

    def beyond(self, keys: Sequence[Expr], tests: tuple[Test, ...]) -> Beyond:
        """Return the query that counts the units, and how many of these are beyond bounds."""
        return Beyond(self._rows(keys, ()), self.bounding.norm, tests)

    # --- rows

    def _rows(self, keys: Sequence[Expr], values: tuple[RowValue | RowBucket | None, ...]) -> MeasuredRows:
        return MeasuredRows(self.source.relation, self.unit, tuple(keys), values)

    def _value(self, spec: BasisSpec, *, native: bool = False) -> RowValue:
        """What a row adds, NULL for nothing. Centres are subtracted from sums."""
        if spec.value is None or spec.kind not in ("sum", "distinct_sum"):
            return RowValue(spec.value, spec.where)
        lo, hi = spec.held
        return RowValue(spec.value, spec.where, Held(lo + spec.shift, hi + spec.shift, spec.grid, native))

    def _value_alone(self, spec: BasisSpec) -> RowValue | None:
        return None if _counts_all(spec) else self._value(spec, native=spec.kind == "sum" and isinstance(spec.value, Ref))

    @staticmethod
    def _total_alone(i: int, spec: BasisSpec) -> Total:
        if _counts_all(spec):
            return RowCount()
        if spec.kind in ("sum", "distinct_sum"):
            return ValueSum(i, spec.shift, spec.distinct)
        return ValueCount(i, spec.kind == "distinct")

    # --- a unit in its groups

    def _contributions(self, keys: Sequence[Expr]) -> Contributions | Picked:
        """Each group's parts; of those that are scaled down together, groups are picked first."""
        parts = tuple(self._part(i, spec) for i, spec in enumerate(self.specs))
        if not any(isinstance(part, Scaled) for part in parts):
            made = Contributions(self._groups(keys), parts)
            return Picked(made, self.bounding.l0, self._order(keys)) if self.bounding.pick else made
        kept = self._kept_groups(keys)
        second = any(spec.round == 2 for spec in self.specs)
        return Contributions(Fresh(kept, self._order(keys)) if second else kept, parts)

    def _groups(self, keys: Sequence[Expr]) -> UnitGroups:
        counted = tuple(t for i, spec in enumerate(self.specs) for t in self._counted(i, spec))
        return UnitGroups(self._rows(keys, tuple(self._value(spec) for spec in self.specs)), counted)

    def _kept_groups(self, keys: Sequence[Expr]) -> UnitGroups | Picked:
        groups = self._groups(keys)
        return Picked(groups, self.bounding.l0, self._order(keys)) if self.bounding.pick else groups

    def _counted(self, i: int, spec: BasisSpec) -> list[Counted | Added]:
        """What all rows of a unit in a group add up to, before it is bounded, and how many they are."""
        if spec.distinct or spec.kind == "weight" or (spec.kind == "units" and spec.where is None and spec.value is None):
            return []
        if spec.kind != "sum":
            return [Counted(i)]
        total = Added(i, *spec.held, spec.shift)
        return [Counted(i), total] if spec.mean and self._counter(i) == i else [total]

    def _counter(self, i: int) -> int:
        """The basis whose count goes with `i`, a count or the sum of a mean: of the values it adds up, or of a few more (NaN is
        counted, not summed)."""
        spec = self.specs[i]
        same = (j for j, s in enumerate(self.specs[:i]) if s.kind == "count" and (s.value, s.where) == (spec.counted, spec.where))
        return next(same, i) if spec.mean and spec.kind == "sum" else i

    def _part(self, i: int, spec: BasisSpec) -> Part | None:
        """A unit's contribution to a group, clamped (the Linf bound; of means, see BasisSpec)."""
        k = self.bounding.rows
        if spec.distinct or spec.round == 1:
            return None
        if spec.norm(self.bounding):
            return self._scaled(i, spec)
        if spec.kind == "units":
            return One() if spec.where is None and spec.value is None else Present(i)
        if spec.kind == "count":
            return CountCut(i, k)
        if spec.mean:  # as the count is cut to k rows, so is the sum: a clamped sum of n > k rows would move the mean
            return ShareCut(i, self._counter(i), k, spec.lo, spec.hi, spec.shift)
        return TotalCut(i, k * min(spec.lo, 0), k * max(spec.hi, 0))

    def _scaled(self, i: int, spec: BasisSpec) -> Scaled:
        bounding, kind = self.bounding, _KINDS[spec.kind]
        row = max(abs(spec.lo), abs(spec.hi))
        tested = kind == "units" and not (spec.where is None and spec.value is None)
        return Scaled(
            i, kind, spec.norm(bounding), bounding.rows, row, spec.fine(bounding), self._counter(i), spec.steps(bounding),
            spec.mean and kind == "sum", spec.round == 2, tested,
        )  # fmt: skip

    def _order(self, keys: Sequence[Expr]) -> Order:
        """By the keys' texts: any order of keys picks the same groups."""
        texts = [self.source.key(key) for key in keys]
        return Order(self.pick_key, tuple(sorted(range(len(keys)), key=texts.__getitem__)))

    # --- across units

    def _total(self, i: int, spec: BasisSpec, keys: Sequence[Expr]) -> Total:
        bounding = self.bounding
        if spec.distinct:
            overall = spec.norm(bounding) if bounding.spread else 0
            order = self._order(keys) if overall else Order(self.pick_key)
            total = DistinctCount if spec.kind == "distinct" else DistinctSum
            return total(i, spec.kept(bounding.rows), order, overall, bounding.rows if overall else 0)
        if spec.round == 1:
            return NoTotal()
        if spec.kind == "units" and spec.where is None and spec.value is None and not spec.norm(bounding):
            return RowCount()
        return PartSum(i, spec.steps(bounding))


_KINDS: Mapping[str, Literal["weight", "units", "count", "sum"]] = {
    "weight": "weight", "units": "units", "count": "count", "sum": "sum"
}  # fmt: skip
"""Columns that can be scaled down."""


def _counts_all(spec: BasisSpec) -> bool:
    return spec.kind in ("count", "units") and spec.value is None and spec.where is None
