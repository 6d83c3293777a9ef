"""The released arrays of a SELECT as one source for its outer query: of one measurement, or of several put together.

Knows: grouping sets, compiled measurements. Must not know: engines, noise. Several are one source where a SELECT has grouping
sets - each measured, or the finest added up, or all made to add up - and where what is in no released group is asked for.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpproxy.plan.bind import joins
from dpproxy.plan.logical.expr import Call, Column, Exists, Ref, conjunction
from dpproxy.plan.logical.relation import Filter, Rows, Staged
from dpproxy.plan.measure.bound_cuts import open_ends
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.outer import margins, rollup
from dpproxy.plan.outer.array_sources import Branch, array_source, session_local, sets_source, with_columns
from dpproxy.plan.outer.error_columns import Adjusted, error_columns
from dpproxy.plan.outer.measured_select import SelectRewriter
from dpproxy.plan.outer.registry import Registry
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.types import wire_type

NOTES = ("each grouping set is measured by itself", "the other grouping sets are added up from the finest")
ADJUSTED = "each grouping set is measured by itself, then all are adjusted to add up (least squares)"


def released_source(registry: Registry, measured: SelectRewriter, rows: Rows) -> exp.Expr:
    """Write the released arrays as a source: one measurement, or one for each grouping set, or the finest added up."""
    compiled = [registry.compile(measured.request, rows, members) for members in measured.request.sets]
    if len(compiled) == 1 and _others(registry, measured, compiled[0]):
        return _with_other(registry, measured, rows, compiled[0])
    if len(compiled) == 1:
        source = registry.set_source(measured.alias, compiled[0], measured.request.sets[0])
        more = error_columns(measured.interval_writer, compiled[0], registry.register(compiled[0]), 1)
        return with_columns(source, measured.alias, more) if more else source
    finest = _addable(measured, compiled)
    order = rollup.chain(measured.request.sets)
    if finest is None and _exact_levels(measured, compiled):
        if order is not None:
            return _consistent(registry, measured, compiled, order)
        dimensions = _dimensions(measured, compiled)
        if dimensions is not None:
            return _agreeing(registry, measured, compiled, dimensions)
    note = NOTES[finest is not None]
    compiled = [replace(c, bounding=replace(c.bounding, notes=(*c.bounding.notes, note))) for c in compiled]
    branches = []
    for i, members in enumerate(measured.request.sets):
        chosen, keys = (compiled[finest], measured.request.sets[finest]) if finest is not None else (compiled[i], members)
        source = registry.set_source(f"{measured.alias}_{i}", chosen, keys)
        summed = finest is not None and members != keys
        cells = _size(chosen) // _size(compiled[i]) if summed else 1
        more = error_columns(measured.interval_writer, chosen, registry.register(chosen), cells, summed)
        branches.append((source, members, summed, more))
    return _branched(measured, branches)


def _consistent(registry: Registry, measured: SelectRewriter, compiled: list[Compiled], order: list[int]) -> exp.Expr:
    """Levels measured by themselves, then made to add up (`rollup`)."""
    noted, levels = _levels(registry, measured, compiled, order)
    ctes, names = rollup.consistent(levels, [f"b{i}" for i in range(len(measured.request.specs))])
    moved = [rollup.rounding(n, len(levels)) for n in range(len(levels))]
    return _adjusted(measured, noted, levels, names, moved, ctes, order)


def _agreeing(
    registry: Registry, measured: SelectRewriter, compiled: list[Compiled], dimensions: list[frozenset[margins.Factor]]
) -> exp.Expr:
    """Grouping sets measured by themselves, then made to agree (`margins`)."""
    order = list(range(len(compiled)))
    noted, levels = _levels(registry, measured, compiled, order)
    ctes, names = margins.consistent(levels, dimensions, [f"b{i}" for i in range(len(measured.request.specs))])
    return _adjusted(measured, noted, levels, names, [margins.rounding(len(d)) for d in dimensions], ctes, order)


def _levels(
    registry: Registry, measured: SelectRewriter, compiled: list[Compiled], order: list[int]
) -> tuple[list[Compiled], list[rollup.Level]]:
    noted = [replace(c, bounding=replace(c.bounding, notes=(*c.bounding.notes, ADJUSTED))) for c in compiled]
    levels = []
    for i in order:
        source = to_sql(registry.set_source(f"{measured.alias}_{i}", noted[i], measured.request.sets[i]))
        levels.append(rollup.Level(source, tuple(f"k{k}" for k in measured.request.sets[i]), registry.register(noted[i])))
    return noted, levels


def _adjusted(
    measured: SelectRewriter,
    made: list[Compiled],
    levels: list[rollup.Level],
    names: list[str],
    moved: list[int],
    ctes: str,
    order: list[int],
) -> exp.Expr:
    """The source of adjusted levels, with their own errors. `moved`: by how much each is, by rounding."""
    measurements, branches = tuple(level.measurement for level in levels), list[Branch]()
    for i, level, name, rounding in zip(order, levels, names, moved, strict=True):
        adjusted = Adjusted(measurements, rounding)
        more = error_columns(measured.interval_writer, made[i], level.measurement, 1, adjusted=adjusted)
        branches.append((exp.to_table(name), measured.request.sets[i], False, more))
    return _branched(measured, branches, ctes)


def _dimensions(measured: SelectRewriter, compiled: list[Compiled]) -> list[frozenset[margins.Factor]] | None:
    """The dimensions of each grouping set: keys that vary together are one. None where they are not the same in all sets, or too
    many."""
    found: list[frozenset[margins.Factor]] = []
    for members, made in zip(measured.request.sets, compiled, strict=True):
        parts = made.bounding.dense.parts if made.bounding.dense is not None else ()
        found.append(frozenset(tuple(sorted(f"k{members[n]}" for n, _ in part.keys)) for part in parts))
    every = frozenset[margins.Factor]().union(*found)
    keys = [key for factor in every for key in factor]
    whole = all(sum(map(len, one)) == len(members) for one, members in zip(found, measured.request.sets, strict=True))
    alike = len(keys) == len(set(keys)) and len(set(found)) == len(found)
    return found if alike and whole and max(map(len, found)) <= margins.MOST_FACTORS else None


def _branched(measured: SelectRewriter, branches: list[Branch], ctes: str = "") -> exp.Expr:
    values = [f"b{i}" for i in range(len(measured.request.specs))]
    values += [f"s{i}_{j}" for i, s in enumerate(measured.request.selections) for j in range(s.columns)]
    values += measured.request.step_columns()
    return sets_source(measured.alias, branches, [wire_type(k.type) for _, k in measured.request.keys], values, ctes)


def _others(registry: Registry, measured: SelectRewriter, compiled: Compiled) -> bool:
    """Whether groups may be missing whose sum is asked for."""
    asked_for = bool(measured.request.specs or measured.request.selections)
    return registry.context.settings.other and compiled.threshold is not None and asked_for


def _with_other(registry: Registry, measured: SelectRewriter, rows: Rows, compiled: Compiled) -> exp.Expr:
    """The groups, and one row with NULL keys for all others: a measurement of its own, of the rows whose keys have not
    been released. Which these are is known by then; the two compose like any two statements."""
    members = measured.request.sets[0]
    source = registry.set_source(f"{measured.alias}_0", compiled, members)
    more = error_columns(measured.interval_writer, compiled, registry.register(compiled), 1)
    rest = registry.compile(measured.request, _unreleased(registry, rows, measured, compiled), ())
    notes = (*rest.bounding.notes, "all groups that have not been released, together")
    rest = replace(rest, bounding=replace(rest.bounding, notes=notes), rest=True)
    others = registry.set_source(f"{measured.alias}_1", rest, ())
    more_others = error_columns(measured.interval_writer, rest, registry.register(rest), 1)
    return _branched(measured, [(source, members, False, more), (others, (), False, more_others)])


def _unreleased(registry: Registry, rows: Rows, measured: SelectRewriter, compiled: Compiled) -> Rows:
    """The rows whose keys are not among those that a measurement released."""
    keys = [measured.request.keys[i][1] for i in measured.request.sets[0]]
    types = [(f"k{i}", key.type) for i, key in enumerate(keys)]
    first = len(registry.context.parameters) + 1 + registry.first_array[registry.register(compiled)]
    cells = ", ".join(f"{session_local(name, type_)}::text" for name, type_ in types)
    released = to_sql(array_source("dpproxy_keys", first, types))
    sql = f"(SELECT coalesce(json_agg(json_build_array({cells})), '[]') FROM {released})"
    hole = registry.input(sql, f"rows({','.join(type_ for _, type_ in types)})")
    columns = tuple(Column(registry.counter.column(), name, type_) for name, type_ in types)
    pairs = zip(columns, keys, strict=True)
    equal = conjunction(tuple(Call("bool", "is_not_distinct", (Ref(c.type, c), key)) for c, key in pairs))
    assert equal is not None
    return joins.filtered(rows, Exists("bool", Filter(columns, Staged(columns, hole.index), equal), True))


def _size(compiled: Compiled) -> int:
    """How many groups a measurement has when all are declared."""
    return (compiled.bounding.dense.size or 1) if compiled.bounding.dense is not None else 1


def _addable(measured: SelectRewriter, compiled: list[Compiled]) -> int | None:
    """The grouping set whose released cells shall be added up to all others, None to measure each set by itself.

    Adding up needs a set of all keys whose declared groups hold every row (else the rows of no group would be missing in
    totals), and additive bases. With S sets measured apart each has 1/S
    of the epsilon: noise S * L0 a cell. Added up, a cell of set s is a sum of n_f / n_s cells of noise L0 of the finest. The
    sum of variances over the sets decides; both roads cost the same charge.
    """
    everything = set(range(len(measured.request.keys)))
    finest = next((i for i, s in enumerate(measured.request.sets) if set(s) == everything), None)
    additive = all(s.kind in ("count", "sum") for s in measured.request.specs) and not measured.request.selections
    if finest is None or not additive or not compiled[finest].holds_all:
        return None
    sizes = [1 if not s else (c.bounding.dense.size if c.bounding.dense is not None else None)
             for s, c in zip(measured.request.sets, compiled, strict=True)]  # fmt: skip
    if any(size is None for size in sizes):
        return None
    known = [size or 1 for size in sizes]
    apart = sum((len(compiled) * _reach(c)) ** 2 for c in compiled)
    together = sum(_reach(compiled[finest]) ** 2 * known[finest] / size for size in known)
    return finest if together <= apart else None


def _exact_levels(measured: SelectRewriter, compiled: list[Compiled]) -> bool:
    """Whether the true cells of all sets add up: additive columns of declared groups that hold every row, of which bounds cut
    nothing: what they cut of one set they may leave in another."""
    request = measured.request
    additive = bool(request.specs) and all(s.kind in ("count", "sum") for s in request.specs) and not request.selections
    declared = all(c.bounding.dense is not None and c.bounding.dense.size is not None for c in compiled if c.keys)
    declared = declared and all(c.holds_all for c in compiled if c.keys)
    return additive and declared and not any(any(open_ends(c, spec)) for c in compiled for spec in c.specs)


def _reach(compiled: Compiled) -> int:
    return 1 if compiled.bounding.norm else compiled.bounding.l0
