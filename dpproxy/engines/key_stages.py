"""Stages of a measurement that are about its keys: which groups there may be, which there are, and what each counts once.

Knows: the nodes of `tree.measured`, how an engine spells relations, expressions and constants, what a domain consists of. Must
not know: which keys have a domain or numbers (`properties.key_domains` decides that), what noise does, how much memory there is.
A part for each: groups that declared domains allow, keys by number, the two rounds of undeclared groups, indexed groups, distinct
values. What enumerates declared groups reads constants and public tables alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dpproxy.engines import stored_stages, unit_stages
from dpproxy.engines.base import Engine
from dpproxy.engines.duckdb_operations import adds_in_64_bits
from dpproxy.engines.relations import Renderer
from dpproxy.engines.row_texts import RowTexts
from dpproxy.engines.unit_stages import GroupNames, basis_columns
from dpproxy.tree.expr import Call, Column, Domain, Expr, Ref, Relation, SeriesDomain, ValuesDomain, conjuncts
from dpproxy.tree.measured import (
    Added,
    Calendar,
    Coding,
    Contributions,
    Counted,
    Declared,
    DeclaredPart,
    DistinctCount,
    DistinctSum,
    Fresh,
    MeasuredRows,
    Node,
    NoTotal,
    Order,
    Part,
    PartSum,
    Picked,
    RowCount,
    Scaled,
    Stage,
    StoredGroups,
    StoredSums,
    Strays,
    Sums,
    Total,
    UnitGroups,
)
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Union


def declared_text(groups: Declared, renderer: Renderer) -> str:
    """Write `SELECT k0, ... ` of all possible groups."""
    items: dict[int, str] = {}
    sources = []
    for i, part in enumerate(groups.parts):
        alias = f"g{i}"
        sources.append(f"({part_text(part, renderer)}) AS {alias}")
        items.update({index: f"{alias}.k{index} AS k{index}" for index, _ in part.keys})
    return f"SELECT {', '.join(items[i] for i in range(groups.width))} FROM {' CROSS JOIN '.join(sources)}"


def part_text(part: DeclaredPart, renderer: Renderer) -> str:
    """Write `SELECT DISTINCT k0, ...` of the groups that keys of common sources allow."""
    names: dict[int, str] = {}
    sources = []
    for scan in part.scans:
        block = renderer.block(scan)
        names.update(block.names)
        sources.append(block.source)
    strays = {s.column.id: s for s in part.strays}
    for i, (column, domain) in enumerate(part.columns):
        text = _values_text(column, domain, renderer)
        names[column.id] = f"v{i}.v"
        if (beside := strays.get(column.id)) is not None:
            text = _marked(text, beside, renderer.engine)
            names[beside.stray.id] = f"v{i}.stray"
            names.update({test.id: f"v{i}.t{j}" for j, test in enumerate(beside.tests)})
        sources.append(f"({text}) AS v{i}")
    where = [renderer.expr(c, names) for c in part.conditions]
    keys = ", ".join(f"{renderer.key(key, names)} AS k{index}" for index, key in part.keys)
    text = f"SELECT DISTINCT {keys}"
    if sources:
        text += f" FROM {' CROSS JOIN '.join(sources)}"
    return text + (f" WHERE {' AND '.join(where)}" if where else "")


def _marked(declared: str, beside: Strays, engine: Engine) -> str:
    """The declared values, which are not stray, and those that are."""
    results = "".join(f", {engine.literal('bool', None)} AS t{j}" for j in range(len(beside.tests)))
    rows = [
        (engine.literal(beside.column.type, value), engine.literal("bool", "true"), *(engine.literal("bool", r) for r in tests))
        for value, *tests in beside.rows
    ]
    names = ["v", "stray", *(f"t{j}" for j in range(len(beside.tests)))]
    stray = f"SELECT {', '.join(names)} FROM {engine.values(rows, 'strays', names)}"
    return f"SELECT v, {engine.literal('bool', 'false')} AS stray{results} FROM ({declared}) AS declared UNION ALL {stray}"


def _values_text(column: Column, domain: Domain, renderer: Renderer) -> str:
    engine = renderer.engine
    if isinstance(domain, ValuesDomain):
        rows: list[tuple[str, ...]] = [(engine.literal(column.type, v),) for v in domain.values]
        return f"SELECT v FROM {engine.values(rows, 'declared', ['v'])}"
    assert isinstance(domain, SeriesDomain)
    null = f" UNION ALL SELECT {engine.literal(column.type, None)}" if domain.nulls else ""
    series = engine.series(domain.lo, domain.hi, domain.kind)
    text = "v" if domain.kind not in ("day", "month") or column.type == "date" else "CAST(v AS TIMESTAMP)"
    return f"SELECT {text} AS v FROM {series} AS series{null}"


# Keys that are counted by the number of their value: what stands for such a key, which rows have one, and the key again.
#
# Knows: the keys of measured rows and their values, how an engine spells a number. Must not know: which keys have numbers,
# what is counted. Rows of other values are in no group that is asked for: they are left out first.


@dataclass
class KeyCodes:
    """Keys of rows, which give the number that stands for a key. `values`: of each key that is counted so."""

    texts: RowTexts
    values: dict[int, Coding] = field(default_factory=dict)

    @property
    def _engine(self) -> Engine:
        return self.texts.renderer.engine

    def count(self, stage: object, values: Mapping[int, Coding]) -> None:
        """Count these keys of a stage by number, where the engine has numbers for their values."""
        groups = stage.child if isinstance(stage, Contributions) else stage
        for i, coding in values.items():
            if isinstance(stage, StoredSums):
                self.values[i] = coding
            elif (text := self._engine.coded(self._uncoded(groups, i, coding), coding)) is not None:
                self.values[i], self.texts.codes[i] = coding, text

    def _uncoded(self, groups: object, i: int, values: Coding) -> str:
        """Key i as it is; of a beginning what it is the beginning of, which begins with the same."""
        if isinstance(groups, StoredGroups):
            return stored_stages.key(groups, i)
        key = self.texts.rows.keys[i]
        if isinstance(values, Calendar) and isinstance(key, Call):
            return self.texts.renderer.expr(key.args[1], self.texts.block.names)
        return self.texts.key(i)

    def declared(self) -> str:
        """Write WHERE, of rows whose keys have numbers; empty where none is counted so."""
        tests = [self._engine.declared(f"k{i}", values) for i, values in self.values.items()]
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def same(self, whole: str, counted: str, names: GroupNames) -> str:
        """Write whether two relations have the same keys: one as they are, one by number."""
        decoded = self._engine.decoded
        coded = [f"{whole}.k{i} = {decoded(f'{counted}.k{i}', values)}" for i, values in self.values.items()]
        others = [k for i, k in enumerate(names.keys) if i not in self.values]
        return " AND ".join([*coded, names.same(whole, counted, others)] if others else coded)


# What both rounds of a measurement of undeclared groups add up: all but the weight of groups that the first has not found.
#
# Knows: nodes, names of columns. Must not know: engines, noise, how a round decides (`mechanisms.key_rounds`). The first round
# asks what each group weighs, the second for everything else and what the groups weigh that are new by then. Until some are
# found all of them are new, so that sums of one kind, made once, answer the first and all of the second but that weight.


def both(node: Sums, *, first: bool) -> Contributions | None:
    """Return what units contribute in both rounds, as if no group were found yet; None for what is neither."""
    match node.child:
        case Contributions(child=Fresh(child=child), parts=parts) if fresh(node) is not None:
            return Contributions(child, tuple(map(_unfound, parts)))
        case Contributions() as made if first:
            return made
        case _:
            return None


def _unfound(part: Part | None) -> Part | None:
    return replace(part, fresh=False) if isinstance(part, Scaled) else part


def fresh(node: Sums) -> tuple[Order, Scaled] | None:
    """Return the weight of new groups and the order of their numbers, in a second round with one such weight."""
    if not isinstance(node.child, Contributions) or not isinstance(node.child.child, Fresh):
        return None
    weights = [part for part in node.child.parts if isinstance(part, Scaled) and part.fresh]
    return (node.child.child.order, weights[0]) if len(weights) == 1 else None


def alone(node: Sums) -> Sums:
    """Return the sums without parts that nothing adds up, for engines that keep nothing for the other round."""
    if not isinstance(node.child, Contributions):
        return node
    used = {total.index for total in node.totals if isinstance(total, PartSum)}
    used |= {getattr(node.child.parts[i], "counter", i) for i in used}
    parts = tuple(part if i in used else None for i, part in enumerate(node.child.parts))
    return replace(node, child=replace(node.child, parts=parts))


def column(i: int, total: Total) -> list[str]:
    """Write total i as it is read from the sums of both rounds, in `s`, which are under the numbers of their parts."""
    match total:
        case PartSum(index=part):
            pairs = zip(basis_columns(part, total), basis_columns(i, total), strict=True)
            return [f"s.{there} AS {name}" for there, name in pairs]
        case RowCount():
            return [f"s.units AS b{i}"]
        case NoTotal():
            return [f"CAST(0 AS BIGINT) AS b{i}"]
        case _:
            raise TypeError(f"no sum of both rounds: {type(total).__name__}")


# Which groups of units an engine may index instead of hashing them (`sql.template.INDEXED`).
#
# Knows: nodes, what DuckDB's sums take, how many values keys have. Must not know: how many rows there are, how much memory:
# that is known where it is decided (`backends.duckdb_stages`). An index has a cell for each unit and value, whether or not
# there is such a group: it pays where cells are small and most rows are read.


COUNT, SUM = 8, 16
MOST_BYTES = 24
"""Of a cell: a count and a sum. With two sums and a count an index takes longer than hashing."""
USUAL_BITS, MOST_BITS = 20, 24
"""Of an index that is made without being asked for, and of any."""


def cell(stage: Node, coded: Mapping[int, Coding]) -> int | None:
    """Return the bytes of the sums of a unit and one of the `coded` values of its only key, None where these are to be hashed.
    What is grouped after that, by key and steps, is to be indexed only if it would be without."""
    if not isinstance(stage, Contributions) or not isinstance(stage.child, UnitGroups) or len(coded) != 1:
        return None
    groups = stage.child
    (values,) = coded.values()
    steps = [part.steps for part in stage.parts if isinstance(part, Scaled) and part.steps > 1]
    bits = (values.size + 1).bit_length() + sum(steps)
    apart = bits < USUAL_BITS or bits - len(steps) - 1 > MOST_BITS
    size = sum(map(_bytes, groups.totals))
    small = apart and len(groups.rows.keys) == 1 and size <= MOST_BYTES
    return size if small and _whole(groups.rows.child) else None


def _whole(relation: Relation) -> bool:
    """Tell whether no condition leaves rows out, of a joined relation neither: nobody knows how many."""
    match relation:
        case Filter(child=child, condition=condition):
            return _whole(child) and all(isinstance(c, Call) and c.op == "is_not_null" for c in conjuncts(condition))
        case Join(left=left, right=right, on=on):
            return _whole(left) and _whole(right) and all(map(_of_columns, conjuncts(on)))
        case Project(child=child) | Aggregate(child=child) | Distinct(child=child):
            return _whole(child)
        case Union(children=children):
            return all(map(_whole, children))
        case _:
            return True


def _of_columns(condition: Expr) -> bool:
    return isinstance(condition, Call) and condition.op == "=" and all(isinstance(arg, Ref) for arg in condition.args)


def _bytes(total: Counted | Added) -> int:
    if isinstance(total, Counted):
        return COUNT
    return SUM if adds_in_64_bits(total.lo, total.hi, total.shift) else 2 * SUM + COUNT


# COUNT(DISTINCT x) and SUM(DISTINCT x) as SQL: as many distinct values of each unit as its bound allows, then distinct across
# units.
#
# Knows: the nodes of `tree.measured`, an engine's spelling. Must not know: how rows are read, policies, noise. `r` are the
# rows, each with its unit, keys and values.


def sum_of_each(column: str, engine: Engine) -> str:
    """Add up a column's values, each once."""
    return engine.saturated(engine.total(f"DISTINCT {column}", 0))


def with_distinct(source: str, node: Sums, names: GroupNames, values: Mapping[int, str]) -> tuple[list[str], str]:
    """Write what `node` adds up, which is in `source`, with the numbers, or sums, of distinct values of its group next to each
    unit's group. `values`: the columns of row values. Return the common table expressions this takes, and what to read."""
    distinct = {i: total for i, total in enumerate(node.totals) if isinstance(total, DistinctCount | DistinctSum)}
    if not distinct:
        return [], source
    stages = [_distinct(i, total, source, names, values[total.index]) for i, total in distinct.items()]
    text = f"{source} AS m"
    for i in distinct:
        text += f" LEFT JOIN d{i} ON {names.same('m', f'd{i}', names.keys) or 'TRUE'}"
    stage: Stage | MeasuredRows = node.child
    while not isinstance(stage, Contributions):
        assert isinstance(stage, Picked)
        stage = stage.child
    partials = [f"m.p{i} AS p{i}" for i, part in enumerate(stage.parts) if part is not None]
    counts = [f"d{i}.n AS n{i}" for i in distinct]
    counts += [f"m.m{p.index} AS m{p.index}" for p in stage.parts if isinstance(p, Scaled) and p.steps > 1]
    items = [*(f"m.{k} AS {k}" for k in names.keys), "m.u AS u", *partials, *counts]
    return stages, f"(SELECT {', '.join(items)} FROM {text}) AS j"


def _distinct(i: int, total: DistinctCount | DistinctSum, source: str, names: GroupNames, x: str) -> str:
    group = names.group
    join = f" JOIN (SELECT {', '.join(group)} FROM {source}) AS s ON {names.same('r', 's', group)}"
    base = f"SELECT DISTINCT {', '.join(f'r.{g}' for g in group)}, r.{x} FROM r{join} WHERE r.{x} IS NOT NULL"
    order = f"{names.hash(total.order, ['u', x])}, {x}"
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {', '.join(group)} ORDER BY {order}) AS rank FROM ({base}) AS v"
    within = f"SELECT * FROM ({ranked}) AS w WHERE rank <= {total.most}"
    if total.norm:
        within = unit_stages.in_turn(within, total.norm, total.rows, f"rank, {names.turn(total.order)}")
    keys = "".join(f"{k}, " for k in names.keys)
    by = f" GROUP BY {', '.join(names.keys)}" if names.keys else ""
    n = f"count(DISTINCT {x})" if isinstance(total, DistinctCount) else sum_of_each(x, names.engine)
    return f"d{i} AS (SELECT {keys}{n} AS n FROM ({within}) AS kept{by})"
