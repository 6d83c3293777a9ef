"""What stays known of rows when they are grouped: conditions, keys, where columns come from, bounds of a unit's aggregates.

Knows: relations of units, expressions. Must not know: SQL trees, engines, noise. Everything here is a statement about
a group that rests on what was known of its rows; what is not said here is not known of groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dpproxy.plan.context import Counter
from dpproxy.plan.properties.equivalence import equal_to
from dpproxy.plan.properties.facts import facts, of_rows
from dpproxy.plan.properties.fanout import contribution, most_rows
from dpproxy.tree.expr import Agg, Call, Column, Expr, Ref, Taint, rebuilt, references
from dpproxy.tree.relation import ContributionLimits, Origin, Rows


def equal_ids(rows: Rows) -> set[int]:
    """Return the unit's column and all that the conditions of the rows make equal to it. `rows` must belong to units."""
    assert rows.unit is not None
    return set(equal_to({rows.unit.id}, rows.conditions))


def conditions_on(rows: Rows, known: set[int]) -> tuple[Expr, ...]:
    """Return the conditions that speak of these columns alone, and those that make one of them the unit id by way of others."""
    kept = tuple(c for c in rows.conditions if all(r.id in known for r in references(c)))
    unit = rows.unit
    if unit is None or unit.id not in known:
        return kept
    same = equal_ids(rows) & known
    columns = {c.id: c for e in rows.conditions for c in references(e) if c.id in same and c.id != unit.id}
    found = (Call("bool", "=", (Ref(c.type, c), Ref(unit.type, unit))) for c in columns.values())
    return tuple(dict.fromkeys((*kept, *found)))


def unit_ids(rows: Rows) -> set[int]:
    """Return columns that fix the unit of a row."""
    if rows.unit is None:
        return set()
    return {rows.unit.id, *rows.determinants, *equal_ids(rows)}


def column_origins(rows: Rows, known: set[int], chosen: Mapping[Column, Column] = MappingProxyType({})) -> tuple[Origin, ...]:
    """Where columns that are left come from, and those that are chosen among others."""
    before = (*rows.identity.tables, *rows.identity.origins)
    kept = tuple(o for o in before if o[1].id in known)
    return (*kept, *((t, c, n) for c, of in chosen.items() for t, column, n in before if column.id == of.id))


def lift_aggregates(
    exprs: Sequence[Expr], rows: Rows, counter: Counter, keys: dict[Expr, Column] | None = None, constant: bool = False
) -> tuple[list[tuple[Column, Agg]], list[Expr]]:
    """Replace aggregate calls and key expressions by columns of an `Aggregate` relation.

    `constant`: each unit has one group, so that the aggregates are the same in all rows of a unit.
    """
    found: dict[Agg, Column] = {}
    keys = keys or {}
    limits, most = contribution(rows, list(keys)), most_rows(rows, list(keys))

    def lift(expr: Expr) -> Expr:
        if expr in keys:
            column = keys[expr]
            return Ref(column.type, column)
        if isinstance(expr, Agg):
            if expr not in found:
                found[expr] = _agg_column(counter, expr, rows, (limits, most), constant)
            return Ref(expr.type, found[expr])
        return rebuilt(expr, lift)

    lifted = [lift(e) for e in exprs]
    return [(c, a) for a, c in found.items()], lifted


def _agg_column(counter: Counter, agg: Agg, rows: Rows, counted: tuple[ContributionLimits, int | None], constant: bool) -> Column:
    """Bounds of one unit's aggregate, from how many rows there are (PRIVACY.md: bounds flow through). It is computed of all rows
    of the unit: how many of them contribution bounds let count elsewhere is no bound of it (`Limited`)."""
    known, (limits, most) = facts(agg), counted
    bound, limited = known.bound, known.limited
    if rows.private and agg.name in ("count", "sum"):
        bound, limited = of_rows(agg.name, [facts(a) for a in agg.args], limits.rows, most, limits.by)
    nullable = agg.name != "count"
    taint = Taint.NONE if agg.name in ("count",) else known.taint
    chosen = agg.args[0] if agg.name in ("min", "max") else None
    exact = chosen.column.exact if isinstance(chosen, Ref) else ""  # one of the values, as it is
    declared = agg.name != "count" and any(c.declared for c in references(agg))
    return Column(
        counter.column(), agg.name, agg.type, bound, known.grid, taint, constant, nullable, nulls=nullable, limited=limited,
        exact=exact, declared=declared,
    )  # fmt: skip
