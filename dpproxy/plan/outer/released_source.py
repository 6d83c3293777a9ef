"""The released arrays of a SELECT as one source for its outer query: of one measurement, or of several put together.

Knows: grouping sets, compiled measurements. Must not know: engines, noise. Several are one source where a SELECT has grouping
sets - each measured, or the finest added up, or all made to add up - and where what is in no released group is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.plan.bind import joins
from dpproxy.plan.intervals.columns import Adjusted, error_columns
from dpproxy.plan.intervals.ends import column_ends
from dpproxy.plan.intervals.numbers import DEVIATION
from dpproxy.plan.measure.charge_division import MOST_GROUPS
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.outer import hidden_cells, margins, rollup
from dpproxy.plan.outer.measured_select import SelectRewriter
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.outer.staged_rows import Branch, array_source, filtered_source, session_local, sets_source, with_columns
from dpproxy.privacy.epsilon_split import LEAST
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.types import wire_type
from dpproxy.tree.expr import Call, Column, Exists, Ref, conjunction
from dpproxy.tree.relation import Filter, Rows, Staged

NOTES = ("each grouping set is measured by itself", "the other grouping sets are added up from the finest")
HELD = "all values of a key that are not declared are one cell more, which totals are made of; it is not shown"
ADJUSTED = "each grouping set is measured by itself, then all are adjusted to add up (least squares)"


def released_source(registry: Registry, measured: SelectRewriter, rows: Rows) -> exp.Expr:
    """Write the released arrays as a source: one measurement, or one for each grouping set, or the finest added up."""
    compiled = registry.compile_sets(measured.request, rows, measured.request.sets)
    if len(compiled) == 1 and _others(registry, measured, compiled[0]):
        return _with_other(registry, measured, rows, compiled[0])
    if len(compiled) == 1:
        source = registry.set_source(measured.alias, compiled[0], measured.request.sets[0])
        more = error_columns(measured.interval_writer, compiled[0], registry.register(compiled[0]), 1)
        return with_columns(source, measured.alias, more) if more else source
    compiled = _holding(registry, measured, rows, compiled)
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
        source = _shown(registry.set_source(f"{measured.alias}_{i}", chosen, keys), chosen, keys, members)
        summed = finest is not None and members != keys
        cells = _size(chosen) // _size(compiled[i]) if summed else 1
        number = registry.register(chosen)
        registry.in_sets.add(number)
        more = error_columns(measured.interval_writer, chosen, number, cells, summed)
        branches.append((source, members, summed, more))
    return _branched(measured, branches)


def _consistent(registry: Registry, measured: SelectRewriter, compiled: list[Compiled], order: list[int]) -> exp.Expr:
    """Levels measured by themselves, then made to add up (`rollup`)."""
    noted, levels = _levels(registry, measured, compiled, order)
    ctes, names = rollup.consistent(levels, [f"b{i}" for i in range(len(measured.request.specs))])
    moved = [rollup.rounding(n, len(levels)) for n in range(len(levels))]
    return _adjusted(registry, measured, noted, names, moved, ctes, order)


def _agreeing(
    registry: Registry, measured: SelectRewriter, compiled: list[Compiled], dimensions: list[frozenset[margins.Factor]]
) -> exp.Expr:
    """Grouping sets measured by themselves, then made to agree (`margins`)."""
    order = list(range(len(compiled)))
    noted, levels = _levels(registry, measured, compiled, order)
    ctes, names = margins.consistent(levels, dimensions, [f"b{i}" for i in range(len(measured.request.specs))])
    return _adjusted(registry, measured, noted, names, [margins.rounding(len(d)) for d in dimensions], ctes, order)


def _levels(
    registry: Registry, measured: SelectRewriter, compiled: list[Compiled], order: list[int]
) -> tuple[list[Compiled], list[rollup.Level]]:
    noted = [replace(c, bounding=replace(c.bounding, notes=(*c.bounding.notes, ADJUSTED))) for c in compiled]
    levels = []
    for i in order:
        source = to_sql(registry.set_source(f"{measured.alias}_{i}", noted[i], measured.request.sets[i]))
        number, keys = registry.register(noted[i]), tuple(f"k{k}" for k in measured.request.sets[i])
        variances = (f"power({DEVIATION}({number}, {basis}, 1), 2)" for basis, _ in enumerate(noted[i].specs))
        levels.append(rollup.Level(source, keys, tuple(variances)))
    return noted, levels


def _adjusted(
    registry: Registry,
    measured: SelectRewriter,
    made: list[Compiled],
    names: list[str],
    moved: Sequence[float],
    ctes: str,
    order: list[int],
) -> exp.Expr:
    """The source of adjusted levels, with their own errors. `moved`: by how much each is, by rounding."""
    measurements, branches, sets = tuple(map(registry.register, made)), list[Branch](), measured.request.sets
    registry.in_sets.update(measurements)
    registry.averaged.update(measurements)
    for i, name, rounding in zip(order, names, moved, strict=True):
        adjusted = Adjusted(measurements, rounding)
        more, members = error_columns(measured.interval_writer, made[i], measurements[i], 1, adjusted=adjusted), sets[i]
        branches.append((_shown(exp.to_table(name), made[i], members, members), members, False, more))
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


def _holding(registry: Registry, measured: SelectRewriter, rows: Rows, compiled: list[Compiled]) -> list[Compiled]:
    """The grouping sets with cells for values that are not declared (`hidden_cells`), where they then hold every row, and a unit
    reaches as many cells as before; else as they are."""
    request = measured.request
    if not _alike(measured, compiled) or all(c.holds_all for c in compiled if c.keys):
        return compiled
    hidden = [hidden_cells.with_rest(key) for _, key in request.keys]
    held = [(label, one.key if one is not None else key) for one, (label, key) in zip(hidden, request.keys, strict=True)]
    try:
        made = registry.compile_sets(replace(request, keys=held), rows, request.sets)
    except Refusal:  # they are too many, say
        return compiled
    grown = any(m.bounding.reach != c.bounding.reach for m, c in zip(made, compiled, strict=True))
    if grown or not _exact_levels(measured, made):
        return compiled
    found = []
    for members, old, new in zip(request.sets, compiled, made, strict=True):
        unshown = tuple((n, one.value) for n, i in enumerate(members) if (one := hidden[i]) is not None)
        notes = (*new.bounding.notes, *([HELD] if unshown else []))
        found.append(replace(new, left_out=old.left_out, unshown=unshown, bounding=replace(new.bounding, notes=notes)))
    return found


def _shown(source: exp.Expr, made: Compiled, keys: tuple[int, ...], members: tuple[int, ...]) -> exp.Expr:
    """A source of a measurement's cells without those that are not shown: where a cell is a sum of others, those of its keys."""
    tests = [hidden_cells.shown_test(f"k{keys[n]}", value) for n, value in made.unshown if keys[n] in members]
    return filtered_source(source, tests) if tests else source


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
    first = registry.first_parameter(registry.register(compiled))
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
    totals), and additive bases. Both roads cost the same charge; the product of all sets' variances decides (`_apart`). Added up,
    a cell of a set of n is a sum of n_f / n cells of noise L0 of the finest.
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
    apart = _apart(compiled, known, finest, _exact_levels(measured, compiled))
    together = [_reach(compiled[finest]) ** 2 * known[finest] / size for size in known]
    return finest if sum(map(math.log, together)) <= sum(map(math.log, apart)) else None


def _apart(compiled: Sequence[Compiled], sizes: Sequence[int], finest: int, agree: bool) -> list[float]:
    """The variances of sets measured apart, by Laplace noise. Epsilon is divided as `charge_division` does it: a cell of n groups
    holds about 1 / sqrt(n) of all, so that a set has a share for its L0 * sqrt(n), and `LEAST` of an equal one at least. Where
    sets are made to `agree`, a cell is known from the finest cells in it as well."""
    weights = [_reach(c) * math.sqrt(min(size, MOST_GROUPS)) for c, size in zip(compiled, sizes, strict=True)]
    shares = [max(weight / sum(weights), LEAST / len(weights)) for weight in weights]
    own = [(_reach(c) / share) ** 2 for c, share in zip(compiled, shares, strict=True)]
    if not agree:
        return own
    below = [own[finest] * sizes[finest] / size for size in sizes]
    return [v if i == finest else 1 / (1 / v + 1 / w) for i, (v, w) in enumerate(zip(own, below, strict=True))]


def _exact_levels(measured: SelectRewriter, compiled: list[Compiled]) -> bool:
    """Whether the true cells of all sets add up: they are of every row as well."""
    return _alike(measured, compiled) and all(c.holds_all for c in compiled if c.keys)


def _alike(measured: SelectRewriter, compiled: list[Compiled]) -> bool:
    """Whether cells of all sets are of the same rows, but for rows that are in no cell: additive columns of declared groups, of
    which bounds cut nothing: what they cut of one set they may leave in another."""
    request = measured.request
    additive = bool(request.specs) and all(s.kind in ("count", "sum") for s in request.specs) and not request.selections
    declared = all(c.bounding.dense is not None and c.bounding.dense.size is not None for c in compiled if c.keys)
    return additive and declared and not any(column_ends(c, spec).any_cut for c in compiled for spec in c.specs)


def _reach(compiled: Compiled) -> int:
    return 1 if compiled.bounding.norm else compiled.bounding.l0
