"""Which columns' ranges clamp what is added up, and whether rows of a unit can be more than their bound: what may be cut at all.

Knows: expressions, conditions, what joins and windows say of rows. Must not know: data, noise, SQL text. A bound cuts nothing
where the statement itself keeps values within it (`least(greatest(x, 0), 100)`, `WHERE x BETWEEN 0 AND 100`, a test of `x`), or
leaves a unit no more rows than it allows. This decides what is said, never what is done: the bound is there in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from dpproxy.plan.measure.specs import BasisSpec, SelectionSpec
from dpproxy.plan.properties import rows_per_value
from dpproxy.plan.properties.facts import Facts, facts
from dpproxy.plan.properties.narrowing import narrowed_bound
from dpproxy.tree.expr import Call, Case, Column, Expr, InList, Ref, Scalar, children, references
from dpproxy.tree.interval import OPEN, Interval, meet
from dpproxy.tree.relation import Rows


def clamped_columns(
    specs: Sequence[BasisSpec], selections: Sequence[SelectionSpec], conditions: Sequence[Expr]
) -> tuple[str, ...]:
    """Name the columns whose declared range may cut something of a value that is added up or chosen."""
    values = [(s.value, _ends(s.lo + s.shift, s.hi + s.shift, s.grid)) for s in specs if s.kind == "sum" and s.value is not None]
    values += [(s.value, _ends(s.lo, s.hi, s.grid)) for s in selections if not s.values]
    names = (
        c.name
        for value, ends in values
        for c in _made_of(value)
        if c.lasts.closed or (not _within(value, ends) and _clamps(c, conditions))  # `lasts` clamps within the value
    )
    return tuple(dict.fromkeys(names))


def limited_columns(specs: Sequence[BasisSpec], selections: Sequence[SelectionSpec]) -> tuple[str, ...]:
    """Say what contribution bounds hold of values that are added up or chosen: a bound, a column, and where it is held."""
    told = []
    held: list[BasisSpec | SelectionSpec] = [s for s in specs if s.kind in ("sum", "distinct_sum")]
    for spec in (*held, *(s for s in selections if not s.values)):
        if spec.value is None or all(spec.sure):
            continue
        chosen = _ends(spec.lo, spec.hi, spec.grid) if isinstance(spec, SelectionSpec) and isinstance(spec.value, Ref) else None
        classes = isinstance(spec, BasisSpec) and bool(spec.doublings)
        columns = [(c, facts(Ref(c.type, c))) for c in _made_of(spec.value)]
        found = [_held(c.name, known, chosen, classes) for c, known in columns if known.limited is not None]
        known = facts(spec.value)
        told += found or ([_held("a value", known, chosen, classes)] if known.limited is not None else [])
    return tuple(dict.fromkeys(told))


def _held(name: str, known: Facts, chosen: Interval | None, classes: bool) -> str:
    """One bound and what it does to a column: of values in classes noise may hide those of a class."""
    assert known.limited is not None
    range_, by = chosen or known.reach, " and ".join(known.limited.by) or "a bound of rows"
    if classes:
        return f"{by}, beyond which noise may hide {name}"
    ends = [end for end, sure in zip((range_.lo, range_.hi), known.sure, strict=True) if not sure and end is not None]
    return f"{by}, which holds {name} at {' and '.join(f'{float(end):g}' for end in ends)}"


def _ends(lo: int, hi: int, grid: Fraction) -> Interval:
    return Interval(lo * grid, hi * grid)


def _within(value: Expr, bound: Interval) -> bool:
    """Whether the value's type and its own clamps keep it within the bound, whatever the data."""
    span = facts(value).span
    return span.closed and span.ends[0] >= bound.ends[0] and span.ends[1] <= bound.ends[1]


def _made_of(value: Expr) -> Iterator[Column]:
    """The columns a value is computed from; tests choose between values, and are none."""
    match value:
        case Ref(column=column):
            yield column
        case Case(whens=whens, default=default):
            for part in (*(result for _, result in whens), *([default] if default is not None else [])):
                yield from _made_of(part)
        case Call() | InList() if value.type == "bool":
            return
        case Scalar(value=inner):
            yield from _made_of(inner)
        case _:
            for part in children(value):
                yield from _made_of(part)


def _clamps(column: Column, conditions: Sequence[Expr]) -> bool:
    """Whether rows may hold values beyond the column's bound, which WHERE may have narrowed."""
    if not column.bound.closed or not column.declared:
        return False
    said = OPEN
    for same in dict.fromkeys(c for e in conditions for c in references(e) if c.id == column.id):  # bounds differ by place
        said = meet(said, narrowed_bound(Ref(same.type, same), conditions))
    return not said.closed or said.ends[0] < column.bound.ends[0] or said.ends[1] > column.bound.ends[1]


def rows_within(rows: Rows, keys: Sequence[Expr], bound: int) -> bool:
    """Tell whether the statement itself leaves a unit at most `bound` rows in a group."""
    return any(entry.rows <= bound and entry.beside == rows.beside for entry in rows_per_value.in_group(rows, keys))
