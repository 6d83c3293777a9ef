"""The tree of a measurement's query as SQL: the only place where such a query is written.

Knows: the nodes of `tree.measured`, an engine's spelling. Must not know: policies, how bounds were chosen, noise. A text
follows from its tree alone, and a `tree.spelling.Query` holds the two together. Sums are of
integers (or of DECIMALs on the grid), so that no order of addition changes them; a centre is subtracted from a sum, not from
each value, which costs nothing and is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpproxy.engines import key_stages, norm_scaling, partial_groups, stored_stages, unit_stages
from dpproxy.engines.base import Engine
from dpproxy.engines.key_stages import KeyCodes, declared_text, sum_of_each, with_distinct
from dpproxy.engines.relations import Block, Renderer
from dpproxy.engines.row_texts import RowTexts
from dpproxy.engines.unit_stages import GroupNames, Members, Units, basis_columns
from dpproxy.plan.properties.key_codings import coded_keys
from dpproxy.sql.template import FOUND, INDEXED, KEPT
from dpproxy.tree.expr import Column, Expr, Relation
from dpproxy.tree.measured import (
    MAX_SIZE,
    Beyond,
    Buckets,
    Contributions,
    CountCut,
    Declared,
    DistinctCount,
    DistinctSum,
    Filled,
    Fresh,
    FreshSums,
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
    Scaled,
    ShareCut,
    Stage,
    Statement,
    StoredBuckets,
    StoredGroups,
    StoredSums,
    Sums,
    Total,
    TotalCut,
    UnitGroups,
    ValueCount,
    ValueSum,
    Written,
    rows_of,
)
from dpproxy.tree.spelling import Query


@dataclass(frozen=True)
class Source:
    """A relation and its FROM, which is written once for all statements of one measurement (`tree.spelling.SpelledRows`)."""

    relation: Relation
    block: Block
    renderer: Renderer

    @classmethod
    def of(cls, relation: Relation, engine: Engine) -> Source:
        renderer = Renderer(engine)
        return cls(relation, renderer.block(relation), renderer)

    @property
    def text(self) -> str:
        return self.block.source + self.block.where_text

    def query(self, tree: Statement) -> Query:
        return Query(tree, _Writing(self.renderer.resumed(), self, rows_of(tree)).statement(tree))

    def column(self, column: Column) -> str:
        return self.block.names[column.id]

    def key(self, key: Expr) -> str:
        return self.renderer.resumed().key(key, self.block.names)

    def value(self, value: Expr) -> str:
        return self.renderer.resumed().output(value, self.block.names)


@dataclass
class _Writing:
    """One statement over the rows of `source`. `first`: the query of a first round. `stored`: it makes a table. `again`: rows are
    read beside what units have. `cell`: bytes of a unit's sums that may be indexed."""

    renderer: Renderer
    source: Source
    rows: MeasuredRows
    ctes: list[str] = field(default_factory=list)
    first: bool = False
    stored: bool = False
    again: bool = False
    cell: int | None = None

    def __post_init__(self) -> None:
        if self.rows.child is not self.source.relation:
            raise ValueError("these are rows of another relation")
        self.names = GroupNames.of(self.engine, self.rows.keys)
        self.texts = RowTexts(self.renderer, self.source.block, self.rows)
        self.codes = KeyCodes(self.texts)
        self.keys, self.group = self.names.keys, self.names.group

    @property
    def engine(self) -> Engine:
        return self.renderer.engine

    def statement(self, tree: Statement) -> str:
        match tree:
            case Sums() | StoredSums() | FreshSums():
                body = self.sums(tree)
                order = f" ORDER BY {', '.join(self.keys)}" if self.keys else ""
                return f"{self._with()}{body}{order}"
            case Filled(child=child, groups=groups):
                return self._filled(child, groups)
            case Numbered(child=child, order=order):
                self.first = True
                plain, names = self.statement(child), ", ".join(self.keys)
                return f"SELECT {names}, b0, {self.names.number(order)} AS h FROM ({plain}) AS weights ORDER BY {names}"
            case Buckets():
                return self._buckets(tree)
            case StoredBuckets(table=table):
                return stored_stages.buckets(table, self.keys)
            case Beyond():
                return self._beyond(tree)
            case Written():
                return self._written(tree)

    def _with(self) -> str:
        return f"WITH {', '.join(self.ctes)} " if self.ctes else ""

    # --- stages, each a common table expression

    def _stage(self, node: Stage) -> str:
        """Write a stage and those below it; return its name."""
        match node:
            case UnitGroups():
                parts = partial_groups.stages(node, self.renderer) if self.engine.parts and not self.again else None
                if parts is not None:
                    self.ctes += parts
                    return "g"
                group = ", ".join(self.group)
                self.ctes.append(f"r AS ({self.texts.with_units()})")
                items = partial_groups.totals(self.texts, node, self.engine)
                mark = INDEXED.format(self.cell) if self.cell is not None else ""
                self.ctes.append(
                    f"g AS (SELECT {', '.join([group, *items])} FROM r{self.codes.declared()} GROUP BY {group}{mark})"
                )
                return "g"
            case Picked(child=child, most=most, order=order):
                self.ctes += unit_stages.picked(self._stage(child), most, self.names.turn(order), self.engine.words)
                return "q"
            case Fresh(child=child, order=order):
                return self._fresh(self._stage(child), order)
            case Contributions():
                return self._contributions(node)
            case StoredGroups():
                self.ctes.append(stored_stages.groups(node, self.texts.codes, self.codes.declared()))
                return "g"

    def _kept(self, node: Stage, number: int) -> str:
        """A stage that both rounds read, and nothing below it."""
        source = self._stage(node)
        self.ctes[-1] += KEPT.format(source, number)
        return source

    def _fresh(self, source: str, order: Order) -> str:
        found = f"CASE WHEN {self.names.number(order)} IN (NULL{FOUND}) THEN 0 ELSE 1 END"
        self.ctes.append(f"f AS (SELECT *, {found} AS fresh FROM {source})")
        return "f"

    def _contributions(self, node: Contributions) -> str:
        groups = self._picked_at_once(node)
        if groups is None:
            return self._parts(self._stage(node.child), node)
        source = self._stage(groups.child)
        source = self._fresh(source, node.child.order) if isinstance(node.child, Fresh) else source
        self.ctes += self._picked_and_scaled(source, groups, node)
        return "p"

    def _picked_at_once(self, node: Contributions) -> Picked | None:
        """The groups that are picked in the look that sizes them, if they are."""
        groups = node.child.child if isinstance(node.child, Fresh) else node.child
        return groups if isinstance(groups, Picked) and node.scaled and self.keys and self.engine.words.still else None

    def _picked_and_scaled(self, source: str, groups: Picked, node: Contributions) -> list[str]:
        turn, texts = self.names.turn(groups.order), self._part_items(node.parts)
        return unit_stages.picked_and_scaled(source, groups.most, turn, self.group, node.parts, texts, self.engine.words)

    def _parts(self, source: str, node: Contributions) -> str:
        texts = self._part_items(node.parts)
        if node.scaled:
            self.ctes += unit_stages.scaled(source, self.group, node.parts, texts, self.engine.words)
        else:
            self.ctes.append(f"p AS (SELECT {', '.join([*self.group, *texts])} FROM {source})")
        return "p"

    def _part_items(self, parts: Sequence[Part | None]) -> list[str]:
        return [f"{self._part(part)} AS p{i}" for i, part in enumerate(parts) if part is not None]

    def _part(self, part: Part) -> str:
        match part:
            case One():
                return "1"
            case Present(index=i):
                return f"CASE WHEN n{i} > 0 THEN 1 ELSE 0 END"
            case CountCut(index=i, rows=k):
                return f"CASE WHEN n{i} > {k} THEN {k} ELSE n{i} END"
            case TotalCut(index=i, lo=lo, hi=hi):
                return self.engine.clamped(f"t{i}", lo, hi)
            case ShareCut(index=i, counter=counter, rows=k):
                cut = self.engine.share(f"t{i}", k, f"n{counter}", part.lo, part.hi, part.shift)
                return f"CAST(CASE WHEN n{counter} > {k} THEN {cut} ELSE coalesce(t{i}, 0) END AS BIGINT)"
            case Scaled():
                return norm_scaling.partial(part, self.engine.words)

    # --- all units

    def sums(self, node: Sums | StoredSums | FreshSums) -> str:
        if isinstance(node, StoredSums):
            return stored_stages.sums(node)
        if isinstance(node, FreshSums):
            return self._fresh_sums(node)
        self.again = any(isinstance(t, DistinctCount | DistinctSum) for t in node.totals)
        both = key_stages.both(node, first=self.first)
        if both is not None and self.engine.keeps and not self.again:
            return self._of_two_rounds(node, both)
        node = key_stages.alone(node) if self.first else node
        if isinstance(node.child, MeasuredRows):
            units = Units(f"({self.texts.keyed()}) AS r")
        else:
            units = self._by_step(self._stage(node.child), node)
        sums = [text for i, total in enumerate(node.totals) for text in self._total(i, total, units.count)]
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        having = f" HAVING {units.count} >= {node.least}" if node.least > 1 and self.keys else ""
        return f"SELECT {', '.join([*self.keys, *sums]) or 'count(*) * 0 AS one'} FROM {units.source}{group}{having}"

    def _by_step(self, source: str, node: Sums) -> Units:
        """What is summed: a unit a group, or fewer rows that add up to the same."""
        if not isinstance(node.child, Contributions) or any(isinstance(t, DistinctCount | DistinctSum) for t in node.totals):
            stages, read = with_distinct(source, node, self.names, self.texts.values)
            self.ctes += stages
            return Units(read)
        used = dict.fromkeys(total.index for total in node.totals if isinstance(total, PartSum))
        parts, words = node.child.parts, self.engine.words
        stages, units = unit_stages.by_step(source, self.keys, parts, list(used), words, apart=self.stored)
        self.ctes += stages
        return units

    def _fresh_sums(self, node: FreshSums) -> str:
        """Stored sums, and their weights: of groups in which no unit has one, nothing."""
        weight = node.weight.index
        self.ctes += [stored_stages.numbered(node.child), stored_stages.members(node)]
        known = [[f"s.{name} AS {name}" for name in basis_columns(i, total)] for i, total in enumerate(node.totals)]
        known[weight] = [f"{self._weight_of(node.weight)} AS b{weight}"]
        return self._weighed([Members("p")], node.order, node.weight, known, node.child.least)

    def _of_two_rounds(self, node: Sums, both: Contributions) -> str:
        """What a round reads of the sums that both rounds begin with; of the second, its weight as well."""
        members = self._sums_of_both(both)
        columns = [key_stages.column(i, total) for i, total in enumerate(node.totals)]
        fresh = key_stages.fresh(node)
        if fresh is None:
            return self._of_known(columns, node.least)
        order, weight = fresh
        found = [i for i, total in enumerate(node.totals) if isinstance(total, PartSum) and total.index == weight.index]
        columns = [[f"{self._weight_of(weight)} AS b{i}"] if i in found else column for i, column in enumerate(columns)]
        return self._weighed(members, order, weight, columns, node.least)

    def _sums_of_both(self, both: Contributions) -> list[Members]:
        """Write `s`, a row a group: sums under the numbers of their parts, how many `units` it has, its number `i`; return the
        groups of units it is made of."""
        groups, kept = self._picked_at_once(both), 1
        if groups is not None:
            source = self._kept(groups.child, 1)
            sizes, picked, weights, parts = self._picked_and_scaled(source, groups, both)
            self.ctes += [sizes + KEPT.format("c", 2), picked + KEPT.format("q", 3), weights, parts]
            kept = 3
            members = [Members(source, unit_stages.cut(groups.most, "sizes.u")), Members("q")]
        else:
            members = [Members(self._kept(both.child, 1))]
            self._parts(members[0].source, both)
        totals = [PartSum(i, getattr(part, "steps", 1)) for i, part in enumerate(both.parts) if part is not None]
        units = self._by_step("p", Sums(both, tuple(totals)))
        sums = [text for total in totals for text in self._total(total.index, total, units.count)]
        keys, numbers = ", ".join(self.keys), [f"{units.count} AS units", "row_number() OVER () AS i"]
        made = f"SELECT {', '.join([keys, *sums, *numbers])} FROM {units.source} GROUP BY {keys}"
        self.ctes.append(f"s AS MATERIALIZED ({made}){KEPT.format('s', kept + 1)}")
        return members

    def _weight_of(self, weight: Scaled) -> str:
        return self.engine.saturated(f"x.p{weight.index}")

    def _weighed(
        self, members: Sequence[Members], order: Order, weight: Scaled, columns: Sequence[Sequence[str]], least: int
    ) -> str:
        """What is known of each group, and what those weigh that no earlier round has found."""
        each = [(one, self.names.same(one.source, "h", self.keys)) for one in members]
        self.ctes += unit_stages.weights(self.keys, self.names.number(order), each, weight, self.engine.words)
        return self._of_known(columns, least, " LEFT JOIN x ON s.i = x.i")

    def _of_known(self, columns: Sequence[Sequence[str]], least: int, beside: str = "") -> str:
        items = [*(f"s.{key} AS {key}" for key in self.keys), *(item for column in columns for item in column)]
        enough = f" WHERE s.units >= {least}" if least > 1 else ""
        return f"SELECT {', '.join(items)} FROM s{beside}{enough}"

    def _total(self, i: int, total: Total, units: str) -> list[str]:
        match total:
            case RowCount():
                return [f"{units} AS b{i}"]
            case ValueCount(index=x, distinct=distinct):
                return [f"count({'DISTINCT ' if distinct else ''}{self.texts.values[x]}) AS b{i}"]
            case ValueSum(index=x, distinct=True):
                return [f"{sum_of_each(self.texts.values[x], self.engine)} AS b{i}"]
            case ValueSum(index=x, shift=shift):
                factor = self.texts.factors.get(x, 1)
                return [f"{self.engine.saturated(self.engine.total(self.texts.values[x], shift, factor))} AS b{i}"]
            case PartSum(index=p, steps=1):
                return [f"{self.engine.wide_sum(f'p{p}')} AS b{i}"]
            case PartSum(index=p, steps=steps):
                parts = (f"CASE WHEN m{p} = {1 << j} THEN p{p} END" for j in range(steps))
                return [f"{self.engine.wide_sum(part)} AS b{i}s{j}" for j, part in enumerate(parts)]
            case DistinctCount() | DistinctSum():
                return [f"coalesce(max(n{i}), 0) AS b{i}"]
            case NoTotal():
                return [f"CAST(0 AS BIGINT) AS b{i}"]

    # --- whole statements

    def _filled(self, child: Sums | StoredSums, groups: Declared) -> str:
        """Every declared group in a fixed order, empty ones as zeros."""
        counted = child if isinstance(child, StoredSums) else child.child
        self.codes.count(counted, coded_keys(counted, groups))
        if self.codes.values:
            self.cell = key_stages.cell(counted, self.codes.values)
        body = self.sums(child)
        domain = self.renderer.whole(groups, lambda renderer: declared_text(groups, renderer))
        order = ", ".join(f"d.{k}" for k in self.keys)
        if not child.totals:
            keys = ", ".join(f"d.{k} AS {k}" for k in self.keys)
            return f"SELECT {keys} FROM ({domain}) AS d ORDER BY {', '.join(self.keys)}"
        bases = [f"coalesce(a.{b}, 0) AS {b}" for i, total in enumerate(child.totals) for b in basis_columns(i, total)]
        items = ", ".join([*(f"d.{k} AS {k}" for k in self.keys), *bases])
        self.ctes += [f"a AS ({body})", f"d AS ({domain})"]
        return f"{self._with()}SELECT {items} FROM d LEFT JOIN a ON {self.codes.same('d', 'a', self.names)} ORDER BY {order}"

    def _written(self, node: Written) -> str:
        """What a table is made of. Its rows are in no order: to sort them costs more than it saves whoever reads them."""
        if isinstance(node.child, Buckets):
            return self._buckets(node.child)
        if isinstance(node.child, Sums):
            self.codes.count(node.child.child, dict(node.coded))
            self.stored = True
            body = self.sums(node.child)
            return f"{self._with()}{body}"
        name, columns = self._stage(node.child), [*self.group, *stored_stages.columns(node)]
        return f"{self._with()}SELECT {', '.join(columns)} FROM {name}"

    def _buckets(self, node: Buckets) -> str:
        """The query of `k0.., bucket, n`: how many contributions fall on each grid point."""
        self.ctes.append(f"r AS ({self.texts.with_units()})")
        group, source = self.group, "r"
        if node.picked is not None:
            self.ctes.append(f"p AS (SELECT {', '.join(group)} FROM r GROUP BY {', '.join(group)})")
            self.ctes += unit_stages.picked("p", node.picked.most, self.names.turn(node.picked.order), self.engine.words)
            self.ctes.append(f"s AS (SELECT r.* FROM r JOIN q ON {self.names.same('r', 'q', group)})")
            source = "s"
        if node.most is not None:
            size = max(value.size for value in node.rows.values if isinstance(value, RowBucket))
            hashed = self.names.hash(node.order, ["u", "bucket"])
            source = f"({unit_stages.first_buckets(source, group, hashed, node.most, size, self.engine.words)}) AS kept"
        by = ", ".join([*self.keys, "bucket"])
        body = f"SELECT {by}, CAST(count(*) AS BIGINT) AS n FROM {source} WHERE bucket IS NOT NULL GROUP BY {by}"
        return f"{self._with()}{body}"

    def _beyond(self, node: Beyond) -> str:
        """Count the units, and how many of these are beyond bounds."""
        items = [f"{self.texts.unit} AS u"]
        items += [f"{self.renderer.output(k, self.source.block.names)} AS k{i}" for i, k in enumerate(self.rows.keys)]
        rows = f"SELECT {', '.join(items)} FROM {self.source.block.source}{self.source.block.where_text}"
        n = f"least(count(*), {MAX_SIZE})"
        groups = f"SELECT u, {n} AS n FROM ({rows}) AS r GROUP BY {', '.join(self.group)}"
        size = self.engine.words.added.format("n" if node.norm == 1 else "n * n")
        units = f"SELECT max(n) AS most, {size} AS size, count(*) AS groups FROM ({groups}) AS g GROUP BY u"
        condition = " OR ".join(f"{what} > {limit}" for what, limit in node.tests)
        return f"SELECT count(*) AS b0, count(CASE WHEN {condition} THEN 1 END) AS b1 FROM ({units}) AS p"
