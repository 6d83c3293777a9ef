"""What each step of a measurement makes of one row of a person: rows, bytes, and with which power of a person's rows they grow.

Knows: relations and expressions, keys of tables, sizes of public ones. Must not know: what is too much, and how it is counted for
whom: `amplification` says both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpproxy.plan.context import MAX_STAGED_ROWS, Context
from dpproxy.plan.properties import text_growth
from dpproxy.plan.properties.fanout import beside_values
from dpproxy.plan.properties.row_flows import (
    AGAIN,
    FAR,
    NONE,
    Flow,
    Ids,
    Region,
    distinct_parts,
    frame_width,
    ids_of,
    is_hashed,
    is_looked_up,
    join_product,
    join_repetitions,
    lengths_of,
    outer_reads,
    parts_reading,
    reads_of,
    scans,
    subqueries,
    ties_of,
)
from dpproxy.policy.catalog import CatalogTable
from dpproxy.policy.data_claims import found_by
from dpproxy.tree.expr import Column, Exists, Expr, InQuery, Ref, Relation, Scalar, Win, conjuncts, references
from dpproxy.tree.relation import Aggregate, Beside, Distinct, Filter, Join, Project, Public, Scan, Staged, Union, Values

ROWS = 30_000
"""More is refused."""
UNKNOWN = 10_000
"""Rows of a public table that nobody counted, and of the facade where nothing else says how many."""


@dataclass(frozen=True)
class Cost:
    """The cost of one measurement, at one cut: rows and size made of one private row, and rows made of public ones alone;
    how many rows the largest public table has; of a person of R rows, R to the power of what is gone through; bytes of texts that
    are built of one row, of people who may have more than one."""

    rows: int
    size: int
    public: int
    largest: int
    power: int = 0
    texts: int = 0

    def __add__(self, other: Cost) -> Cost:
        rows, size, public = self.rows + other.rows, self.size + other.size, self.public + other.public
        texts = min(self.texts + other.texts, FAR)
        largest, power = max(self.largest, other.largest), max(self.power, other.power)
        return Cost(min(rows, FAR), min(size, FAR), min(public, FAR), largest, power, texts)

    def times(self, flow: Flow) -> Cost:
        """Return the cost for each row of a flow: what is looked through for a private one, public rows too, is made of it."""
        if flow.private:
            rows, size, texts = ((n * flow.rows) for n in (self.rows + self.public, self.size, self.texts))
            made = replace(self, rows=min(rows, FAR), size=min(size, FAR), texts=min(texts, FAR), public=0)
            return replace(made, power=self.power + flow.power)
        return replace(self, public=min(self.public * flow.rows, FAR))


NOTHING = Cost(0, 0, 0, 0)


@dataclass
class Estimate:
    """Adds up what a relation and expressions over it cost."""

    context: Context
    given: Mapping[int, Beside]
    cut: int
    cost: Cost = NOTHING
    read: int = 0  # public rows looked at
    known: Ids = NONE  # columns of rows around a subquery
    later: Ids = NONE  # those of them that are computed wherever they are read
    late: dict[int, Cost] = field(default_factory=dict)  # what such columns cost, by number
    tables: Mapping[tuple[str, str], CatalogTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = self.tables or {t.source: t for t in self.context.catalog.tables.values()}

    def of(self, node: Relation, items: Sequence[Expr]) -> Cost:
        flow = self.flow(node)
        self._computed(items, flow)
        return self.cost

    # --- what is paid

    def _made(self, flow: Flow) -> Flow:
        """Rows that a step makes."""
        self.cost += Cost(flow.rows, 0, 0, 0, flow.power) if flow.private else Cost(0, 0, flow.rows, 0)
        return flow

    def _looked_at(self, flow: Flow) -> Flow:
        self.read += 0 if flow.private else flow.rows
        return flow

    def _computed(self, items: Iterable[Expr], flow: Flow, conditions: bool = False) -> list[Cost | None]:
        """Expressions computed in each row, subqueries in them included. Of public rows: each counts for what 100 sizes cost.
        `conditions`: they are those of a join. Returns what each costs again wherever it is computed."""
        size = sum(text_growth.made(e, flow.lengths, self.cut) for e in items)
        counted = flow.private or bool(self.known)  # public rows beside a private one around them may be made something of
        self.cost += Cost(0, size, 0, 0).times(flow) if counted else Cost(0, 0, size * flow.rows // 100, 0)
        again = [self._asked(expr, flow, conditions) for expr in items]
        costs = [each.times(flow) for each in again if each is not None]
        if self.known or flow.power:
            texts = sum(text_growth.built(e, flow.lengths, self.cut) for e in items)
            self.cost += Cost(0, 0, 0, 0, texts=min(flow.rows * texts, FAR))
        else:
            costs = [replace(each, texts=0) for each in costs]
        self.cost += sum(costs, NOTHING)
        return again

    def _asked(self, expr: Expr, flow: Flow, condition: bool) -> Cost | None:
        """Return what subqueries of an expression cost for each row that it is computed for; others are paid for once."""
        again = [self.late[i] for i in ids_of(references(expr)) & (flow.late | self.later)]
        for inner in subqueries(expr):
            cost, each = self._subquery(inner, flow, condition and inner is expr)
            if each:
                again.append(cost)
            else:
                self.cost += cost
        return sum(again[1:], again[0]) if again else None

    def _subquery(self, expr: InQuery | Exists | Scalar, outer: Flow, conjunct: bool) -> tuple[Cost, bool]:
        """Return what it costs, and whether for each row around it. One that refers to nothing outside is computed
        once and looked up by a hash of one value, and so is an EXISTS that is a join by equalities."""
        around = outer_reads(expr.relation)
        if isinstance(expr, InQuery):
            once = not around and ((conjunct and not expr.negated) or len(set(expr.args)) == 1)
        else:
            once = not around or (isinstance(expr, Exists) and self._is_join(expr, around, conjunct))
        inner = replace(self, cost=NOTHING, read=0, known=NONE, later=self.later | outer.late)
        inner.known = NONE if once else self.known | outer.columns
        flow = inner.joined(inner.region(expr.relation))
        inner._computed((expr.value,) if isinstance(expr, Scalar) else expr.columns if isinstance(expr, InQuery) else (), flow)
        return (inner.cost, False) if once else (inner.cost + Cost(0, 0, inner.read, 0), True)

    def _is_join(self, expr: Exists, around: Ids, conjunct: bool) -> bool:
        """An EXISTS among the conditions of a join, or one of public rows alone."""
        if conjunct and is_looked_up(expr.relation, around):
            return True
        private = any(self._is_private(self.tables[scan.source]) for scan in scans(expr.relation))
        return not private and all(map(is_hashed, parts_reading(expr.relation, around)))

    def _is_private(self, table: CatalogTable) -> bool:
        policy = self.context.policy.tables.get(table.name)
        return policy is not None and not policy.kind.shown

    # --- relations

    def flow(self, node: Relation) -> Flow:
        match node:
            case Scan() | Values() | Staged():
                return self._looked_at(self._source(node))
            case Public(child=child):
                return self.flow(child)
            case Join() | Filter():
                return self.joined(self.region(node))
            case Project():
                return self._project(node)
            case Aggregate(child=child, keys=keys, aggs=aggs):
                return self._aggregate(node, self.flow(child), keys, aggs)
            case Distinct(child=child):
                below = self.flow(child)
                self._computed([Ref(c.type, c) for c in child.columns if c.id in below.late], below)
                flow = self._renamed(below, zip(child.columns, node.columns, strict=True))
                return replace(flow, keys=(*flow.keys, frozenset(c.id for c in node.columns)))
            case Union(children=branches):
                return self._union(node, [self.flow(b) for b in branches])
        raise TypeError(f"unknown relation {type(node).__name__}")

    def _source(self, node: Scan | Values | Staged) -> Flow:
        match node:
            case Values(columns=columns):
                return _public(columns, beside_values(node))
            case Staged(columns=columns, index=index):
                return _public(columns, self.given.get(index))
        return self._scan(node)

    def _scan(self, scan: Scan) -> Flow:
        table = self.tables[scan.source]
        policy = self.context.policy.tables.get(table.name)
        ids = {n: c.id for n, c in zip(scan.names, scan.columns, strict=True)}
        named = {c.name: ids[c.source] for c in table.columns if c.source in ids}
        public = not self._is_private(table)
        claimed = sorted(found_by(self.context.policy, table.name)) if not public else ()
        keys = [*_unique(table), *claimed]
        known = tuple(frozenset(named[c] for c in key) for key in keys if all(c in named for c in key))
        most = {named[c.name]: c.most for c in table.columns if c.most is not None and c.name in named} if public else {}
        lengths = lengths_of(scan.columns)
        if not public:
            power = 0 if policy is not None and policy.one else 1
            self.cost += Cost(0, 0, 0, 0, power)
            return Flow(frozenset(ids.values()), 1, True, known, {}, lengths, power)
        rows = UNKNOWN if table.rows is None else max(table.rows, 1)
        self.cost += Cost(0, 0, 0, rows)
        return Flow(frozenset(ids.values()), rows, False, known, most, lengths)

    def _project(self, node: Project) -> Flow:
        below = self.flow(node.child)
        late = set(below.late)
        for column, item, again in zip(node.columns, node.items, self._computed(node.items, below), strict=False):
            self._framed(item, below)
            late.discard(column.id)
            if again is not None:
                self.late[column.id] = again
                late.add(column.id)
        lengths = {c.id: text_growth.length(e, below.lengths, self.cut) for c, e in zip(node.columns, node.items, strict=False)}
        same: dict[int, set[int]] = {}
        for column, item in zip(node.columns, node.items, strict=False):
            if isinstance(item, Ref):
                same.setdefault(item.column.id, set()).add(column.id)
        kept = ids_of(node.columns)
        own = {i: next(iter(same[i])) for i in same}
        keys = tuple(frozenset(own.get(i, i) for i in k) for k in below.keys if all(i in kept or i in own for i in k))
        most = {
            **{i: n for i, n in below.most.items() if i in kept},
            **{j: below.most[i] for i, js in same.items() if i in below.most for j in js},
        }
        return Flow(kept, below.rows, below.private, keys, most, {**below.lengths, **lengths}, below.power, late=frozenset(late))

    def _framed(self, item: Expr, below: Flow) -> None:
        """Frames of windows that begin anew for each row are gone through again for each."""
        for window in (e for e in distinct_parts(item) if isinstance(e, Win)):
            width = frame_width(window.frame)
            if width != 1 and below.private:
                short = width is not None and width * below.rows <= ROWS
                self.cost += Cost(width if width and short else AGAIN, AGAIN, 0, 0, 0 if short else below.power).times(below)

    def _aggregate(self, node: Aggregate, below: Flow, keys: tuple[Expr, ...], aggs: tuple[Expr, ...]) -> Flow:
        self._computed((*keys, *aggs), below)
        lengths = {
            c.id: text_growth.length(e, below.lengths, self.cut) for c, e in zip(node.columns, (*keys, *aggs), strict=True)
        }
        ids = frozenset(c.id for c in node.columns[: len(keys)])
        unique = [ids]
        for key in below.keys:  # of keys that hold a key
            refs = {e.column.id: c.id for c, e in zip(node.columns, keys, strict=False) if isinstance(e, Ref)}
            unique += [frozenset(refs[i] for i in key)] if all(i in refs for i in key) else []
        rows, power = (below.rows, below.power) if keys else (1, 0)
        return self._made(Flow(ids_of(node.columns), rows, below.private, tuple(unique), {}, lengths, power))

    def _union(self, node: Union, branches: list[Flow]) -> Flow:
        lengths: dict[int, int] = {}
        late: set[int] = set()
        for child, flow in zip(node.children, branches, strict=True):
            for mine, its in zip(node.columns, child.columns, strict=True):
                lengths[mine.id] = max(lengths.get(mine.id, 0), flow.lengths.get(its.id, 0))
                if its.id in flow.late:
                    self.late[mine.id] = self.late.get(mine.id, NOTHING) + self.late[its.id]
                    late.add(mine.id)
        rows = min(sum(b.rows for b in branches), FAR)
        private, power = any(b.private for b in branches), max(b.power for b in branches)
        return self._made(Flow(ids_of(node.columns), rows, private, (), {}, lengths, power, late=frozenset(late)))

    @staticmethod
    def _renamed(flow: Flow, pairs: Iterable[tuple[Column, Column]]) -> Flow:
        names = {a.id: b.id for a, b in pairs}
        keys = tuple(frozenset(names[i] for i in k) for k in flow.keys if all(i in names for i in k))
        most = {names[i]: n for i, n in flow.most.items() if i in names}
        lengths = {names[i]: n for i, n in flow.lengths.items() if i in names}
        return Flow(frozenset(names.values()), flow.rows, flow.private, keys, most, lengths, flow.power)

    # --- joins

    def region(self, node: Relation) -> Region:
        """Relations joined inwardly, whatever their order, with all conditions on them; an outer join is a relation in it."""
        match node:
            case Filter(child=child, condition=condition):
                below = self.region(child)
                return Region(below.leaves, (*below.conditions, *conjuncts(condition)))
            case Join(kind="inner" | "cross", left=left, right=right, on=on):
                one, other = self.region(left), self.region(right)
                return Region((*one.leaves, *other.leaves), (*one.conditions, *other.conditions, *conjuncts(on)))
            case Join():
                return Region((self._outer(node),), ())
        return Region((self._source(node) if isinstance(node, Scan | Values | Staged) else self.flow(node),), ())

    def _outer(self, node: Join) -> Flow:
        """LEFT and FULL: what the inner join has, and rows that match nothing, in which a key of the other side is NULL."""
        left, right = self.joined(self.region(node.left)), self.joined(self.region(node.right))
        inner = self.joined(Region((left, right), conjuncts(node.on)))
        if left.private != inner.private:  # a public side whose unmatched rows are nobody's
            return inner
        often, more, _ = join_repetitions(right, ties_of(conjuncts(node.on), inner.late), left.columns | self.known)
        rows, power = min((inner.rows + left.rows, inner.power), (left.rows * max(often, 1), left.power + more))
        rows += right.rows if node.kind == "full" and right.private == inner.private else 0
        return replace(inner, rows=min(rows, FAR), power=max(power, left.power))  # a key that is NULL equals nothing

    def joined(self, region: Region) -> Flow:
        """Return one flow of a region, in a subquery for one row around it. A condition on one relation of it is computed for the
        rows of that one, another for those of the join."""
        flow = self._product(region.leaves, region.conditions)
        if len(region.leaves) > 1 or self.known:
            self._made(flow)
        ties, columns = ties_of(region.conditions, flow.late | self.later), region.columns | self.known
        self.read += sum(join_repetitions(x, ties, columns - x.columns)[0] for x in region.leaves if not x.private)
        for condition in region.conditions:
            reads = reads_of(condition)
            leaves = [leaf for leaf in region.leaves if leaf.columns & reads]
            single = len(leaves) == 1 and len(region.leaves) > 1 and bool(subqueries(condition) or reads & leaves[0].late)
            self._computed([condition], self._product(leaves, region.conditions) if single else flow, True)
        return flow

    def _product(self, leaves: Sequence[Flow], conditions: Sequence[Expr]) -> Flow:
        late = frozenset[int]().union(*(leaf.late for leaf in leaves))
        ties, private = ties_of(conditions, late | self.later), any(leaf.private for leaf in leaves)
        starts: list[Flow | None] = [None] if self.known else [leaf for leaf in leaves if leaf.private == private]
        rows, power = min(join_product(start, leaves, ties, self.known) for start in starts)
        single = leaves if len(leaves) == 1 else [x for x in leaves if join_product(x, leaves, ties, NONE)[0] == x.rows]
        keys = tuple(key for leaf in single for key in leaf.keys)  # every other relation adds at most one row to each of these
        most = {i: n for leaf in single for i, n in leaf.most.items()}
        lengths = {i: n for leaf in leaves for i, n in leaf.lengths.items()}
        columns = frozenset[int]().union(*(leaf.columns for leaf in leaves))
        return Flow(columns, rows, private, keys, most, lengths, power, late=late)


def _unique(table: CatalogTable) -> list[tuple[str, ...]]:
    return [key for key in (table.primary_key, *table.unique) if key]


def most_staged_rows(known: Beside | None) -> int:
    """Say how many rows the facade may hand over. Rows looked up by a key may be many; of others, lists too, any may meet any
    private row."""
    if known is None or known.size is not None or 0 < len(known.most) < len(known.columns):
        return MAX_STAGED_ROWS
    return UNKNOWN


def _public(columns: tuple[Column, ...], known: Beside | None) -> Flow:
    """Constants, and rows that the facade hands over."""
    size = known.size if known is not None else None
    most = dict(known.most) if known is not None else {}
    keys = [frozenset({i}) for i, n in most.items() if n == 1]
    keys += [frozenset()] if size == 1 else []
    rows = most_staged_rows(known) if size is None else max(size, 1)
    return Flow(ids_of(columns), rows, False, tuple(keys), most, lengths_of(columns), nulls=known is not None and known.nulls)
