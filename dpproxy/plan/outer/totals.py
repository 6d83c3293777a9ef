"""Totals and parts that one statement measures apart, made to agree: each column that several of its measurements have in common.

Knows: compiled measurements and their names, scales of noise, sizes of what is declared. Must not know: data, engines. `SELECT
(SELECT count(*) FROM t), region, count(*) FROM t GROUP BY region` asks for a total and for its parts, each with noise of its own.
Where the true parts add up to the true total, what is nearest to all that was released has the least variance: as of the grouping
sets of one SELECT (`margins`, which writes the SQL), and free of charge as well, since it is made of released numbers alone.

Columns are *one and the same* where all of this holds, by what names of measurements say (`privacy.measurement.Names`):

- the same rows (`base`, `accepts`), the same value of each and the same bounds on it (`totals`), in groups of declared keys;
- every row is in one of the groups (`Compiled.holds_all`), and no bound cuts anything that it leaves elsewhere: of several rows
  a unit only where the statement itself bounds them (`plan.intervals.ends`). Numbers of units do where each has one row;
- the measurement is of no SELECT with grouping sets, which are adjusted by themselves, decides no other measurement, and has
  noise on its groups, not on sums of them (`measure.request`).

Whether it is done is decided by the plan: where rounding to whole numbers would cost any of the columns more than it gains
(`AS_GOOD`), by sizes of declared keys and scales of noise, all stay as they are. What is stated of errors is of the adjusted
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dpproxy.plan.intervals.ends import column_ends
from dpproxy.plan.intervals.numbers import AdjustedNoise
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.outer import margins
from dpproxy.plan.outer.margins import Factor
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.outer.rollup import Level
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_error import deviation, each, told_half
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.nodes import every
from dpproxy.sql.types import wire_type

NOTE = "adjusted with other measurements of the statement, so that parts add up to their total (least squares)"

MOST_CELLS = 10_000
"""Of all declared keys together: a total is hardly better for so many parts, and adjusting them takes a tenth of a second."""

AS_GOOD = 1.01
"""Parts of which there are many gain next to nothing, and rounding may cost that again: within a hundredth they are as good."""

Sizes = Mapping[Factor, int]


@dataclass(frozen=True)
class Member:
    """One measurement of a column: its number there, and what the keys are called in all measurements of the column."""

    measurement: int
    basis: int
    keys: tuple[str, ...]
    factors: frozenset[Factor]


@dataclass(frozen=True)
class SharedColumn:
    """A column that several measurements have in common, with what its cells' noise is once they are adjusted."""

    members: tuple[Member, ...]
    noise: tuple[AdjustedNoise, ...]


@dataclass(frozen=True)
class Totals:
    """Which columns of a statement's measurements are adjusted."""

    columns: tuple[SharedColumn, ...]

    @property
    def noise(self) -> dict[tuple[int, int], AdjustedNoise]:
        """Return what is known of adjusted columns, by measurement and basis."""
        return {(m.measurement, m.basis): noise for c in self.columns for m, noise in zip(c.members, c.noise, strict=True)}

    @property
    def measurements(self) -> frozenset[int]:
        return frozenset(m.measurement for column in self.columns for m in column.members)


def found(registry: Registry, measurements: Sequence[Measurement], confidence: Fraction) -> Totals:
    """Return what of a statement's measurements shall be made to agree."""
    if len(registry.compiled) < 2:
        return Totals(())
    groups: dict[Hashable, list[tuple[Member, Sizes]]] = {}
    deciding = {number for given in registry.inputs for number in given.measurements}
    for number, made in enumerate(registry.compiled):
        sums = any(basis.running is not None for basis in measurements[number].bases)  # whose groups' noise is not independent
        if number not in deciding and number not in registry.in_sets and not sums:
            for what, member, sizes in _columns(number, made):
                groups.setdefault(what, []).append((member, sizes))
    columns = (_shared(group, measurements, each(confidence)) for group in groups.values() if len(group) > 1)
    return Totals(tuple(column for column in columns if column is not None))


def noted(measurements: Sequence[Measurement], registry: Registry, totals: Totals) -> list[Measurement]:
    """Return the measurements, those that are averaged with others marked as such."""
    told = [replace(m, notes=(*m.notes, NOTE)) if i in totals.measurements else m for i, m in enumerate(measurements)]
    averaged = totals.measurements | registry.averaged
    return [replace(m, independent=True) if i in averaged else m for i, m in enumerate(told)]


def _columns(number: int, made: Compiled) -> list[tuple[Hashable, Member, Sizes]]:
    """The columns of a measurement that may be parts or totals of others; what tells which of them are the same."""
    names, dense = made.names, made.bounding.dense
    if names is None or not names.complete or (made.keys and not made.holds_all) or (dense is not None and dense.size is None):
        return []
    keys = tuple(repr((key, groups.source)) for key, groups in zip(names.keys, names.groups, strict=True))
    parts = [] if dense is None else [tuple(sorted(keys[n] for n, _ in part.keys)) for part in dense.parts]
    sizes = {part: size or 1 for part, size in zip(parts, dense.sizes if dense is not None else (), strict=True)}
    rows = (names.base, names.accepts, names.bound)
    return [
        ((rows, names.totals[basis]), Member(number, basis, keys, frozenset(parts)), sizes)
        for basis, spec in enumerate(made.specs)
        if names.totals[basis] is not None
        and (spec.kind in ("count", "sum") or (spec.kind == "units" and not names.bound))
        and not column_ends(made, spec).any_open
    ]


def _shared(
    group: Sequence[tuple[Member, Sizes]], measurements: Sequence[Measurement], confidence: Fraction
) -> SharedColumn | None:
    """The column, None where it is better left as it is."""
    members, sizes = _named([member for member, _ in group], {f: s for _, known in group for f, s in known.items()})
    members, sizes = _together(members, sizes)
    every = frozenset[Factor]().union(*(m.factors for m in members))
    keys = [key for factor in every for key in factor]
    if len(keys) > len(set(keys)) or math.prod(sizes.values()) > MOST_CELLS:
        return None
    if max(len(m.factors) for m in members) > margins.MOST_FACTORS:
        return None
    bases = tuple(measurements[m.measurement].bases[m.basis] for m in members)
    variances = margins.variances([m.factors for m in members], sizes, [deviation(b) for b in bases])
    roundings = [margins.rounding(len(m.factors)) for m in members]
    noise = tuple(AdjustedNoise(bases, v, r) for v, r in zip(variances, roundings, strict=True))
    worse = any(
        n.deviation > AS_GOOD * deviation(b) or n.half(confidence) > AS_GOOD * told_half(b, confidence)
        for n, b in zip(noise, bases, strict=True)
    )
    return None if worse else SharedColumn(members, noise)


def _named(members: Sequence[Member], sizes: Sizes) -> tuple[tuple[Member, ...], Sizes]:
    """The same with short names of keys."""
    names: dict[str, str] = {}
    for member in members:
        for key in member.keys:
            names.setdefault(key, f"k{len(names)}")

    def named(factor: Factor) -> Factor:
        return tuple(sorted(names[key] for key in factor))

    short = [Member(m.measurement, m.basis, tuple(names[k] for k in m.keys), frozenset(map(named, m.factors))) for m in members]
    return tuple(short), {named(factor): size for factor, size in sizes.items()}


def _together(members: Sequence[Member], sizes: Sizes) -> tuple[tuple[Member, ...], Sizes]:
    """The same with keys that stand in the same measurements as one factor: of fewer factors rounding moves less."""
    alike: dict[tuple[bool, ...], list[Factor]] = {}
    for factor in sizes:
        alike.setdefault(tuple(factor in member.factors for member in members), []).append(factor)
    whole = {factor: tuple(sorted(key for one in some for key in one)) for some in alike.values() for factor in some}
    merged = tuple(replace(m, factors=frozenset(whole[factor] for factor in m.factors)) for m in members)
    return merged, {whole[some[0]]: math.prod(sizes[factor] for factor in some) for some in alike.values()}


# --- as SQL


def adjusted(tree: exp.Expr, registry: Registry, totals: Totals, measurements: Sequence[Measurement]) -> exp.Expr:
    """Return the outer query with adjusted columns in the place of released ones. The tree is changed."""
    sources = {registry.first_parameter(number): number for number in totals.measurements}
    for node in every(tree, exp.Unnest) if sources else ():
        first = node.expressions[0].find(exp.Parameter)
        number = sources.get(int(first.name)) if first is not None else None
        if number is not None:
            node.replace(exp.Var(this=_source(node, number, registry, totals, measurements)))
    return tree


def _source(node: exp.Expr, number: int, registry: Registry, totals: Totals, measurements: Sequence[Measurement]) -> str:
    """What stands in the place of a measurement's arrays: its rows in their order. Both sides of a join have all rows; a full
    join is never done by nested loops, which PostgreSQL would take for so few rows as it expects of what is computed."""
    alias = node.args["alias"]
    columns = [c.name for c in alias.columns]
    items, joins = {name: f"r.{name}" for name in columns}, []
    for place, column in enumerate(totals.columns):
        for n, member in enumerate(column.members):
            if member.measurement == number:
                name, other = f"b{member.basis}", f"a{place}"
                items[name] = f"CAST(COALESCE({other}.b0, r.{name}) AS int8)"
                same = " AND ".join(_same(f"r.{columns[i]}", f"{other}.{key}") for i, key in enumerate(member.keys))
                agreed = f"({_agreed(registry, column, n, measurements)}) AS {other}"
                joins.append(f" FULL JOIN {agreed} ON {same}" if same else f" LEFT JOIN {agreed} ON TRUE")
    rows = f"{to_sql(exp.Unnest(expressions=node.expressions))} WITH ORDINALITY AS r({', '.join([*columns, 'dpproxy_n'])})"
    shown = ", ".join(f"{item} AS {name}" for name, item in items.items())
    return f"(SELECT {shown} FROM {rows}{''.join(joins)} ORDER BY r.dpproxy_n) AS {alias.name}"


def _agreed(registry: Registry, column: SharedColumn, which: int, measurements: Sequence[Measurement]) -> str:
    """The cells of one member, adjusted, as `b0`."""
    levels = []
    for member in column.members:
        first, keys = registry.first_parameter(member.measurement), registry.compiled[member.measurement].keys
        arrays = [f"${first + i}::{wire_type(type_)}[]" for i, (_, type_) in enumerate(keys)]
        arrays.append(f"${first + len(keys) + member.basis}::int8[]")
        source = f"unnest({', '.join(arrays)}) AS r({', '.join([*member.keys, 'b0'])})"
        variance = deviation(measurements[member.measurement].bases[member.basis]) ** 2
        levels.append(Level(source, member.keys, (f"{variance!r}::float8",)))
    ctes, names = margins.consistent(levels, [member.factors for member in column.members], ["b0"])
    return f"WITH {ctes} SELECT * FROM {names[which]}"


def _same(key: str, other: str) -> str:
    """NULL is a key like any other; in words that PostgreSQL can hash."""
    return f"({key} IS NULL) = ({other} IS NULL) AND COALESCE({key}::text, '') = COALESCE({other}::text, '')"
