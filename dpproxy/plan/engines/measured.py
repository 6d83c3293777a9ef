"""The tree of a measurement's query as SQL: the only place where such a query is written.

Knows: the nodes of `plan.logical.measured`, an engine's spelling. Must not know: policies, how bounds were chosen, noise. A text
follows from its tree alone, and a `Query` holds the two together. Sums are of
integers (or of DECIMALs on the grid), so that no order of addition changes them; a centre is subtracted from a sum, not from
each value, which costs nothing and is exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpproxy.plan.engines import norm_scaling
from dpproxy.plan.engines.base import FOUND, Engine
from dpproxy.plan.engines.key_domains import declared_text
from dpproxy.plan.engines.relations import Block, Renderer
from dpproxy.plan.logical.expr import Column, Expr, Ref, Relation
from dpproxy.plan.logical.measured import (
    MAX_SIZE,
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

HELD = -1  # id of a held column: counters start at 0
_COLUMN = re.compile(r'\w+\.("([^"]|"")*"|\w+)(::\w+)?')  # a column as it is: nothing to compute, wherever it is named
_STAGES = (UnitGroups, Picked, Fresh, Contributions)
_Stage = UnitGroups | Picked | Fresh | Contributions


@dataclass(frozen=True)
class Source:
    """A relation and its FROM, which is written once for all statements of one measurement."""

    relation: Relation
    block: Block
    renderer: Renderer

    @classmethod
    def of(cls, relation: Relation, engine: Engine) -> Source:
        renderer = Renderer(engine)
        return cls(relation, renderer.block(relation), renderer)

    def key(self, key: Expr) -> str:
        """Spell a key, for its place among others."""
        return self.renderer.resumed().key(key, self.block.names)


@dataclass(frozen=True)
class Query:
    """A tree and its text. Texts tell queries apart."""

    tree: Statement = field(compare=False)
    text: str

    @classmethod
    def of(cls, tree: Statement, source: Source) -> Query:
        return cls(tree, _Writing(source.renderer.resumed(), source, rows_of(tree)).statement(tree))


def rows_of(tree: Statement | _Stage) -> MeasuredRows:
    """Return the rows that a query is made of."""
    node: object = tree
    while not isinstance(node, MeasuredRows):
        match node:
            case UnitGroups(rows=rows) | Buckets(rows=rows) | Beyond(rows=rows):
                node = rows
            case Sums(child=child) | Filled(child=child) | Numbered(child=child) | Picked(child=child) | Fresh(child=child):
                node = child
            case Contributions(child=child):
                node = child
            case _:
                raise TypeError(f"unknown node {type(node).__name__}")
    return node


@dataclass
class _Inner:
    """Rows with the value of each expression in a column of its own, v0, v1, ...: what repeats it costs a look-up only."""

    renderer: Renderer
    block: Block
    _texts: dict[str, str] = field(default_factory=dict)

    def _name(self, expr: Expr) -> str:
        return self._texts.setdefault(self.renderer.output(expr, self.block.names), f"v{len(self._texts)}")

    def held(self, expr: Expr) -> tuple[Ref, dict[int, str]]:
        """Return the expression as a reference to its column, and the column's name in scope."""
        column = expr.column if isinstance(expr, Ref) else Column(HELD, "held", expr.type)
        return Ref(expr.type, column), {column.id: self._name(expr)}

    def where(self, condition: Expr | None, text: str) -> str:
        """Write `text` in rows that satisfy the condition, NULL in others."""
        return text if condition is None else f"CASE WHEN {self._name(condition)} THEN {text} END"

    def select(self, plain: list[str], items: list[str]) -> str:
        """Write `plain` (`expression AS name`) and items over held columns. To be called last."""
        names = [text.rpartition(" AS ")[2] for text in plain]
        held = [f"{text} AS {name}" for text, name in self._texts.items()]
        rows = f"SELECT {', '.join([*plain, *held]) or '1 AS one'} FROM {self.block.source}{self.block.where_text}"
        if not items:
            return rows
        begin, end = self.renderer.engine.fence if any(not _COLUMN.fullmatch(text) for text in self._texts) else ("", "")
        return f"SELECT {', '.join([*names, *items])} FROM ({begin}{rows}{end}) AS v"


@dataclass
class _Writing:
    """One statement over the rows of `source`. `factors`: of values in the engine's own type, grid units in one of it."""

    renderer: Renderer
    source: Source
    rows: MeasuredRows
    ctes: list[str] = field(default_factory=list)
    factors: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rows.child is not self.source.relation:
            raise ValueError("these are rows of another relation")
        self.block = self.source.block
        self.unit = self.block.names[self.rows.unit.id]
        self.keys = [f"k{i}" for i in range(len(self.rows.keys))]
        self.types = {f"k{i}": "text" if k.type == "interval" else k.type for i, k in enumerate(self.rows.keys)}

    @property
    def engine(self) -> Engine:
        return self.renderer.engine

    @property
    def group(self) -> list[str]:
        return ["u", *self.keys]

    def statement(self, tree: Statement) -> str:
        match tree:
            case Sums():
                body = self.sums(tree)
                order = f" ORDER BY {', '.join(self.keys)}" if self.keys else ""
                return f"{self._with()}{body}{order}"
            case Filled(child=child, groups=groups):
                return self._filled(child, groups)
            case Numbered(child=child, order=order):
                plain, names = self.statement(child), ", ".join(self.keys)
                return f"SELECT {names}, b0, {self._number(order)} AS h FROM ({plain}) AS weights ORDER BY {names}"
            case Buckets():
                return self._buckets(tree)
            case Beyond():
                return self._beyond(tree)

    def _with(self) -> str:
        return f"WITH {', '.join(self.ctes)} " if self.ctes else ""

    # --- rows

    def _key_items(self) -> list[str]:
        return [f"{self.renderer.key(k, self.block.names)} AS k{i}" for i, k in enumerate(self.rows.keys)]

    def _value(self, i: int, value: RowValue | RowBucket | None, inner: _Inner) -> list[str]:
        """Row value i, where there is one."""
        if value is None:
            return []
        if isinstance(value, RowBucket):
            return [f"{self._bucket(value, inner)} AS bucket"]
        if value.value is None:
            return [f"{inner.where(value.where, '1')} AS x{i}"]
        column, names = inner.held(value.value)
        text, held = names[column.column.id], value.held
        if held is not None and held.native:
            text, self.factors[i] = self.engine.addend(column, held.lo, held.hi, held.grid, names)
        elif held is not None:
            text = self.engine.fixed(column, held.lo, held.hi, held.grid, Fraction(0), names)
        return [f"{inner.where(value.where, text)} AS x{i}"]

    def _bucket(self, bucket: RowBucket, inner: _Inner) -> str:
        value, names = inner.held(bucket.value)
        text = names[value.column.id]
        if bucket.values:
            arms = " ".join(f"WHEN {text} = {self.engine.literal(value.type, v)} THEN {i}" for i, v in enumerate(bucket.values))
            text = f"CAST(CASE {arms} END AS BIGINT)"
        else:
            text = self.engine.fixed(value, bucket.lo, bucket.hi, bucket.grid, Fraction(0), names)
            text = f"CAST({text} AS BIGINT) - ({bucket.lo})"
        return inner.where(bucket.where, text)

    def _select(self, plain: list[str]) -> str:
        inner = _Inner(self.renderer, self.block)
        items = [text for i, value in enumerate(self.rows.values) for text in self._value(i, value, inner)]
        return inner.select(plain, items)

    # --- stages, each a common table expression

    def _stage(self, node: _Stage) -> str:
        """Write a stage and those below it; return its name."""
        match node:
            case UnitGroups(totals=totals):
                group = ", ".join(self.group)
                self.ctes.append(f"r AS ({self._select([f'{self.unit} AS u', *self._key_items()])})")
                items = [f"count(x{t.index}) AS n{t.index}" if isinstance(t, Counted) else self._added(t) for t in totals]
                self.ctes.append(f"g AS (SELECT {', '.join([group, *items])} FROM r GROUP BY {group})")
                return "g"
            case Picked(child=child, most=most, order=order):
                self.ctes.append(self._picked(self._stage(child), most, order))
                return "q"
            case Fresh(child=child, order=order):
                source = self._stage(child)
                found = f"CASE WHEN {self._number(order)} IN (NULL{FOUND}) THEN 0 ELSE 1 END"
                self.ctes.append(f"f AS (SELECT *, {found} AS fresh FROM {source})")
                return "f"
            case Contributions(child=child, parts=parts):
                return self._contributions(self._stage(child), parts, scaled=node.scaled)

    def _added(self, total: Added) -> str:
        return f"{self.engine.unit_total(f'x{total.index}', total.lo, total.hi, total.shift)} AS t{total.index}"

    def _contributions(self, source: str, parts: tuple[Part | None, ...], *, scaled: bool) -> str:
        texts = [f"{self._part(part)} AS p{i}" for i, part in enumerate(parts) if part is not None]
        if not scaled:
            self.ctes.append(f"p AS (SELECT {', '.join([*self.group, *texts])} FROM {source})")
            return "p"
        own = [p for p in parts if isinstance(p, Scaled) and p.counter == p.index]
        norms = [f"{norm_scaling.norm(p)} AS s{p.index}" for p in own]
        steps = [f"{text} AS m{p.index}" for p in own if (text := norm_scaling.step(p))]
        sizes = f"SELECT {', '.join(['u', *norms])} FROM {source} GROUP BY u"
        self.ctes.append(f"w AS (SELECT {', '.join(['*', *steps])} FROM ({sizes}) AS sizes)" if steps else f"w AS ({sizes})")
        columns = [f"{source}.{name}" for name in self.group]
        columns += [f"w.m{p.index}" for p in parts if isinstance(p, Scaled) and p.steps > 1]
        self.ctes.append(f"p AS (SELECT {', '.join([*columns, *texts])} FROM {source} JOIN w ON {source}.u = w.u)")
        return "p"

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
                return norm_scaling.partial(part)

    def _hash(self, order: Order, columns: list[str]) -> str:
        return self.engine.pick_hash(columns, order.key)

    def _number(self, order: Order) -> str:
        return self.engine.group_number([f"k{i}" for i in order.keys], order.key)

    def _picked(self, source: str, most: int, order: Order) -> str:
        names = [f"k{i}" for i in order.keys]
        by = f"{self._hash(order, ['u', *names])}, {', '.join(names)}"
        ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY {by}) AS rank FROM {source}"
        return f"q AS (SELECT * FROM ({ranked}) AS ranked WHERE rank <= {most})"

    # --- all units

    def sums(self, node: Sums) -> str:
        if isinstance(node.child, MeasuredRows):
            source = f"({self._select(self._key_items())}) AS r"
        else:
            source = self._with_distinct(self._stage(node.child), node)
        sums = [text for i, total in enumerate(node.totals) for text in self._total(i, total)]
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        having = f" HAVING count(*) >= {node.least}" if node.least > 1 and self.keys else ""
        return f"SELECT {', '.join([*self.keys, *sums]) or 'count(*) * 0 AS one'} FROM {source}{group}{having}"

    def _total(self, i: int, total: Total) -> list[str]:
        match total:
            case RowCount():
                return [f"count(*) AS b{i}"]
            case ValueCount(index=x, distinct=distinct):
                return [f"count({'DISTINCT ' if distinct else ''}x{x}) AS b{i}"]
            case ValueSum(index=x, distinct=True):
                return [f"{self._sum_of_each(f'x{x}')} AS b{i}"]
            case ValueSum(index=x, shift=shift):
                factor = self.factors.get(x, 1)
                return [f"{self.engine.saturated(self.engine.total(f'x{x}', shift, factor))} AS b{i}"]
            case PartSum(index=p, steps=1):
                return [f"{self.engine.wide_sum(f'p{p}')} AS b{i}"]
            case PartSum(index=p, steps=steps):
                parts = (f"CASE WHEN m{p} = {1 << j} THEN p{p} END" for j in range(steps))
                return [f"{self.engine.wide_sum(part)} AS b{i}s{j}" for j, part in enumerate(parts)]
            case DistinctCount() | DistinctSum():
                return [f"coalesce(max(n{i}), 0) AS b{i}"]
            case NoTotal():
                return [f"CAST(0 AS BIGINT) AS b{i}"]

    def _with_distinct(self, source: str, node: Sums) -> str:
        """Beside each unit's group the numbers, or sums, of distinct values of the group, which are of all units."""
        distinct = {i: total for i, total in enumerate(node.totals) if isinstance(total, DistinctCount | DistinctSum)}
        if not distinct:
            return source
        for i, total in distinct.items():
            self.ctes.append(self._distinct(i, total, source))
        text = f"{source} AS m"
        for i in distinct:
            text += f" LEFT JOIN d{i} ON {self._same('m', f'd{i}', self.keys) or 'TRUE'}"
        stage: _Stage | MeasuredRows = node.child
        while not isinstance(stage, Contributions):
            assert isinstance(stage, Picked)
            stage = stage.child
        partials = [f"m.p{i} AS p{i}" for i, part in enumerate(stage.parts) if part is not None]
        counts = [f"d{i}.n AS n{i}" for i in distinct]
        counts += [f"m.m{p.index} AS m{p.index}" for p in stage.parts if isinstance(p, Scaled) and p.steps > 1]
        items = [*(f"m.{k} AS {k}" for k in self.keys), "m.u AS u", *partials, *counts]
        return f"(SELECT {', '.join(items)} FROM {text}) AS j"

    def _distinct(self, i: int, total: DistinctCount | DistinctSum, source: str) -> str:
        """COUNT(DISTINCT x), SUM(DISTINCT x): as many distinct values of each unit as its bound allows, then distinct across
        units."""
        group, x = self.group, f"x{total.index}"
        join = f" JOIN (SELECT {', '.join(group)} FROM {source}) AS s ON {self._same('r', 's', group)}"
        base = f"SELECT DISTINCT {', '.join(f'r.{g}' for g in group)}, r.{x} FROM r{join} WHERE r.{x} IS NOT NULL"
        order = f"{self._hash(total.order, ['u', x])}, {x}"
        ranked = f"SELECT *, row_number() OVER (PARTITION BY {', '.join(group)} ORDER BY {order}) AS rank FROM ({base}) AS v"
        within = f"SELECT * FROM ({ranked}) AS w WHERE rank <= {total.most}"
        if total.norm:
            within = self._distinct_overall(total, within)
        keys = "".join(f"{k}, " for k in self.keys)
        by = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        n = f"count(DISTINCT {x})" if isinstance(total, DistinctCount) else self._sum_of_each(x)
        return f"d{i} AS (SELECT {keys}{n} AS n FROM ({within}) AS kept{by})"

    def _sum_of_each(self, column: str) -> str:
        """Add up a column's values, each once."""
        return self.engine.saturated(self.engine.total(f"DISTINCT {column}", 0))

    def _distinct_overall(self, total: DistinctCount | DistinctSum, within: str) -> str:
        """Values of all groups of a unit in turn, each group's first ones before any second ones, for as long as their numbers a
        group have a norm of at most `rows`: the r-th value of a group adds 1 to the l1 norm, r**2 - (r - 1)**2 to the square
        of the l2 norm."""
        added, most = ("1", total.rows) if total.norm == 1 else ("2 * rank - 1", total.rows**2)
        names = [f"k{i}" for i in total.order.keys]
        order = f"rank, {self._hash(total.order, ['u', *names])}, {', '.join(names)}"
        running = f"sum({added}) OVER (PARTITION BY u ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
        return f"SELECT * FROM (SELECT *, {running} AS filled FROM ({within}) AS turns) AS whole WHERE filled <= {most}"

    def _same(self, a: str, b: str, names: Sequence[str]) -> str:
        """The same unit and keys in two relations; the unit is never NULL."""
        pairs = ((n, f"{a}.{n}", f"{b}.{n}") for n in names)
        return " AND ".join(f"{x} = {y}" if n == "u" else self.engine.same(x, y, self.types[n]) for n, x, y in pairs)

    # --- whole statements

    def _filled(self, child: Sums, groups: Declared) -> str:
        """Every declared group in a fixed order, empty ones as zeros."""
        body = self.sums(child)
        domain = self.renderer.whole(groups, lambda renderer: declared_text(groups, renderer))
        order = ", ".join(f"d.{k}" for k in self.keys)
        if not child.totals:
            keys = ", ".join(f"d.{k} AS {k}" for k in self.keys)
            return f"SELECT {keys} FROM ({domain}) AS d ORDER BY {', '.join(self.keys)}"
        bases = [f"coalesce(a.{b}, 0) AS {b}" for i, total in enumerate(child.totals) for b in _columns(i, total)]
        items = ", ".join([*(f"d.{k} AS {k}" for k in self.keys), *bases])
        self.ctes += [f"a AS ({body})", f"d AS ({domain})"]
        return f"{self._with()}SELECT {items} FROM d LEFT JOIN a ON {self._same('d', 'a', self.keys)} ORDER BY {order}"

    def _buckets(self, node: Buckets) -> str:
        """The query of `k0.., bucket, n`: how many contributions fall on each grid point."""
        self.ctes.append(f"r AS ({self._select([f'{self.unit} AS u', *self._key_items()])})")
        group, source = self.group, "r"
        if node.picked is not None:
            self.ctes.append(f"p AS (SELECT {', '.join(group)} FROM r GROUP BY {', '.join(group)})")
            self.ctes.append(self._picked("p", node.picked.most, node.picked.order))
            self.ctes.append(f"s AS (SELECT r.* FROM r JOIN q ON {self._same('r', 'q', group)})")
            source = "s"
        if node.most is not None:
            order = f"{self._hash(node.order, ['u', 'bucket'])}, bucket"
            window = f"row_number() OVER (PARTITION BY {', '.join(group)} ORDER BY {order}) AS turn"
            ranked = f"SELECT *, {window} FROM {source} WHERE bucket IS NOT NULL"
            source = f"(SELECT * FROM ({ranked}) AS turns WHERE turn <= {node.most}) AS kept"
        by = ", ".join([*self.keys, "bucket"])
        body = f"SELECT {by}, CAST(count(*) AS BIGINT) AS n FROM {source} WHERE bucket IS NOT NULL GROUP BY {by}"
        return f"{self._with()}{body}"

    def _beyond(self, node: Beyond) -> str:
        """Count the units, and how many of these are beyond bounds."""
        items = [f"{self.unit} AS u"]
        items += [f"{self.renderer.output(k, self.block.names)} AS k{i}" for i, k in enumerate(self.rows.keys)]
        rows = f"SELECT {', '.join(items)} FROM {self.block.source}{self.block.where_text}"
        n = f"least(count(*), {MAX_SIZE})"
        groups = f"SELECT u, {n} AS n FROM ({rows}) AS r GROUP BY {', '.join(self.group)}"
        size = "sum(n)" if node.norm == 1 else "sum(n * n)"
        units = f"SELECT max(n) AS most, {size} AS size, count(*) AS groups FROM ({groups}) AS g GROUP BY u"
        condition = " OR ".join(f"{what} > {limit}" for what, limit in node.tests)
        return f"SELECT count(*) AS b0, count(CASE WHEN {condition} THEN 1 END) AS b1 FROM ({units}) AS p"


def _columns(i: int, total: Total) -> list[str]:
    """Name what basis i is returned as (`privacy.measurement.Basis`)."""
    steps = total.steps if isinstance(total, PartSum) else 1
    return [f"b{i}"] if steps == 1 else [f"b{i}s{j}" for j in range(steps)]
