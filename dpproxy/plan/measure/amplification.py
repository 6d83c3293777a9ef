"""What a measurement makes of one row of a person: how many rows, and how many bytes. More than a limit is refused.

Knows: relations and expressions, the very trees that are rendered, keys of tables, sizes of public ones. Must not know: SQL text,
data, noise. It decides before the charge, by the statement and the policy alone.

Why. A person's rows may be chosen by any condition. If a statement can make much of little - a row joined with ten million, a
letter replaced by a page - then it takes a second longer, or runs out of memory, exactly when that person is there. Noise on the
answer hides nothing of that. Whatever a condition chooses, CASE and ON included, is taken to be there.

What is promised. One row of a table becomes at most `ROWS` rows in all steps of a measurement together, and at most `SIZE`
bytes are made of it, for all expressions together and in all these rows. A person of R rows costs at most
R times that. Joins of public tables alone, which an engine may leave out where no private row is, make at most
`PUBLIC` rows, or four times those of the largest of these tables.

How it is counted. A relation joined in repeats a row once where equalities fix a key of it, else as often as a value comes at
most (public tables, whose numbers are known), else as often as it has rows. A person's rows joined with other rows of the same
person count as `AGAIN` for each, and may be joined so once (`JOINED`): a person of R rows may then have R rows for each of R,
and not R for each of these again. Rows that the facade hands over, and whose number is not known beforehand, are at most
`UNKNOWN`, which their query sees to. A text is as long as its form tells; a column's without a declared length counts as
`text_growth.USUAL`, since what the data hold they hold with or without the statement; where longer texts are made of columns,
these are cut (`engines.text_cuts`), and count as the cut. The longest cut that keeps within `SIZE` is taken.

What is not promised. That time and memory do not depend on a person at all: they do, by what is promised above, by how many
rows and how long texts a person has, by how an engine finds rows (one that has no index may look through a table for each row),
and by its thresholds (a hash table doubles). `timing.quantum` hides time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, Refusal
from dpproxy.plan.context import MAX_STAGED_ROWS, Context
from dpproxy.plan.logical.expr import Column, Exists, Expr, InQuery, Ref, Relation, Scalar, Win, conjuncts, references
from dpproxy.plan.logical.relation import Aggregate, Beside, Distinct, Filter, Join, Project, Public, Scan, Staged, Union, Values
from dpproxy.plan.properties import text_growth
from dpproxy.plan.properties.fanout import beside_values
from dpproxy.plan.properties.row_flows import (
    AGAIN,
    FAR,
    Flow,
    Ids,
    Region,
    distinct_parts,
    ids_of,
    is_hashed,
    join_product,
    join_repetitions,
    lengths_of,
    outer_reads,
    parts_reading,
    subqueries,
    ties_of,
)
from dpproxy.policy.catalog import CatalogTable
from dpproxy.policy.data_claims import found_by

ROWS = 30_000
SIZE = 1_000_000
PUBLIC = 1_000_000
JOINED = 1
UNKNOWN = 10_000


@dataclass(frozen=True)
class Cost:
    """This is the cost of one measurement, at one cut: rows and size made of one private row, and rows made of public ones alone;
    how many rows the largest public table has; how often rows of a person are joined with others of theirs."""

    rows: int
    size: int
    public: int
    largest: int
    again: int = 0

    def __add__(self, other: Cost) -> Cost:
        rows, size, public = self.rows + other.rows, self.size + other.size, self.public + other.public
        return Cost(
            min(rows, FAR), min(size, FAR), min(public, FAR), max(self.largest, other.largest), max(self.again, other.again)
        )

    def times(self, rows: int, private: bool) -> Cost:
        """Return the cost for each of so many rows: what is looked through for a private one, public rows too, is made of it."""
        if private:
            return replace(self, rows=min((self.rows + self.public) * rows, FAR), size=min(self.size * rows, FAR), public=0)
        return replace(self, public=min(self.public * rows, FAR))


NOTHING = Cost(0, 0, 0, 0)


def chosen_cut(node: Relation, items: Iterable[Expr], context: Context, given: Mapping[int, Beside]) -> tuple[int, Cost]:
    """Return the cut of texts with which a measurement stays within the limits, and what it costs. Raises Refusal 54000."""
    items = tuple(items)
    for cut in text_growth.CUTS:
        cost = Estimate(context, given, cut).of(node, items)
        if cost.size <= SIZE:
            break
    unit = context.policy.unit_name
    if cost.rows > ROWS:
        raise _refused(f"one row of a {unit} would become {_number(cost.rows)} rows, of at most {ROWS:,}", _FEWER)
    if cost.again > JOINED:
        raise _refused(f"rows of a {unit} would be joined {cost.again} times with others of theirs, of at most {JOINED}", _FEWER)
    if cost.size > SIZE:
        raise _refused(f"of one row of a {unit} {_number(cost.size)} bytes would be made, of at most {SIZE:,}", _SHORTER)
    if cost.public > max(PUBLIC, 4 * cost.largest):
        raise _refused(f"joins of public tables would make {_number(cost.public)} rows, of at most {PUBLIC:,}", _FEWER)
    return cut, cost


_FEWER = "Join by equalities with unique columns, join fewer tables or shorter series, or aggregate before joining."
_SHORTER = "Use `left(x, n)`, declare `length` of text columns in the policy, or put fewer such texts into one statement."


def _refused(what: str, hint: str) -> Refusal:
    return Refusal(PROGRAM_LIMIT_EXCEEDED, f"this statement could take too much work: {what}", hint=hint)


def _number(n: int) -> str:
    return f"{n:,}" if n < FAR else "more than a million million"


@dataclass
class Estimate:
    """Adds up what a relation and expressions over it cost."""

    context: Context
    given: Mapping[int, Beside]
    cut: int
    cost: Cost = NOTHING
    read: int = 0  # public rows looked at
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
        self.cost += Cost(flow.rows, 0, 0, 0, flow.again) if flow.private else Cost(0, 0, flow.rows, 0)
        return flow

    def _looked_at(self, flow: Flow) -> Flow:
        self.read += flow.rows
        return flow

    def _computed(self, items: Iterable[Expr], flow: Flow) -> None:
        """Expressions computed in each row, subqueries in them included. Of public rows: each counts for what 100 sizes cost."""
        size = sum(text_growth.made(e, flow.lengths, self.cut) for e in items)
        self.cost += (
            Cost(0, min(flow.rows * size, FAR), 0, 0) if flow.private else Cost(0, 0, min(flow.rows * size // 100, FAR), 0)
        )
        for expr in items:
            for inner in subqueries(expr):
                self._subquery(inner, flow)

    def _subquery(self, expr: InQuery | Exists | Scalar, outer: Flow) -> None:
        """One that refers to nothing outside is computed once; another for each row around it, unless equalities alone tie it."""
        inner = replace(self, cost=NOTHING, read=0)
        around = outer_reads(expr.relation)
        region = inner.region(expr.relation)
        tying = [e for e in region.conditions if any(c.id in around for c in references(e))]
        shallow = around <= {c.id for e in tying for c in references(e)}
        flow = inner.joined(region, outer.columns if around and shallow else frozenset())
        inner._computed((expr.value,) if isinstance(expr, Scalar) else expr.columns if isinstance(expr, InQuery) else (), flow)
        cost = inner.cost
        hashed = not isinstance(expr, InQuery) and all(map(is_hashed, parts_reading(expr.relation, around)))
        if around and not hashed:
            cost = (cost + Cost(0, 0, inner.read, 0)).times(outer.rows, outer.private)
        self.cost += cost

    # --- relations

    def flow(self, node: Relation) -> Flow:
        match node:
            case Scan():
                return self._scan(node)
            case Values(columns=columns):
                return self._looked_at(_public(columns, beside_values(node)))
            case Staged(columns=columns, index=index):
                return self._looked_at(_public(columns, self.given.get(index)))
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
                flow = self._renamed(below, zip(child.columns, node.columns, strict=True))
                return replace(flow, keys=(*flow.keys, frozenset(c.id for c in node.columns)))
            case Union(children=branches):
                return self._union(node, [self.flow(b) for b in branches])
        raise TypeError(f"unknown relation {type(node).__name__}")

    def _scan(self, scan: Scan) -> Flow:
        table = self.tables[scan.source]
        policy = self.context.policy.tables.get(table.name)
        ids = {n: c.id for n, c in zip(scan.names, scan.columns, strict=True)}
        named = {c.name: ids[c.source] for c in table.columns if c.source in ids}
        public = policy is None or policy.public
        claimed = sorted(found_by(self.context.policy, table.name)) if policy is not None and not public else ()
        keys = [*_unique(table), *((name,) for name in claimed)]
        known = tuple(frozenset(named[c] for c in key) for key in keys if all(c in named for c in key))
        most = {named[c.name]: c.most for c in table.columns if c.most is not None and c.name in named} if public else {}
        lengths = lengths_of(scan.columns)
        if not public:
            return Flow(frozenset(ids.values()), 1, True, known, {}, lengths)
        rows = UNKNOWN if table.rows is None else max(table.rows, 1)
        self.cost += Cost(0, 0, 0, rows)
        return self._looked_at(Flow(frozenset(ids.values()), rows, False, known, most, lengths))

    def _project(self, node: Project) -> Flow:
        below = self.flow(node.child)
        self._computed(node.items, below)
        windows = sum(isinstance(e, Win) and "PRECEDING AND" in e.frame for item in node.items for e in distinct_parts(item))
        if windows and below.private:  # a frame may be looked through again for each row
            self.cost += Cost(0, min(below.rows * AGAIN * windows, FAR), 0, 0)
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
        return Flow(kept, below.rows, below.private, keys, most, {**below.lengths, **lengths}, below.again)

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
        return self._made(
            Flow(ids_of(node.columns), below.rows if keys else 1, below.private, tuple(unique), {}, lengths, below.again)
        )

    def _union(self, node: Union, branches: list[Flow]) -> Flow:
        lengths: dict[int, int] = {}
        for child, flow in zip(node.children, branches, strict=True):
            for mine, its in zip(node.columns, child.columns, strict=True):
                lengths[mine.id] = max(lengths.get(mine.id, 0), flow.lengths.get(its.id, 0))
        rows = min(sum(b.rows for b in branches), FAR)
        return self._made(
            Flow(ids_of(node.columns), rows, any(b.private for b in branches), (), {}, lengths, max(b.again for b in branches))
        )

    @staticmethod
    def _renamed(flow: Flow, pairs: Iterable[tuple[Column, Column]]) -> Flow:
        names = {a.id: b.id for a, b in pairs}
        keys = tuple(frozenset(names[i] for i in k) for k in flow.keys if all(i in names for i in k))
        most = {names[i]: n for i, n in flow.most.items() if i in names}
        lengths = {names[i]: n for i, n in flow.lengths.items() if i in names}
        return Flow(frozenset(names.values()), flow.rows, flow.private, keys, most, lengths, flow.again)

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
        return Region((self.flow(node),), ())

    def _outer(self, node: Join) -> Flow:
        """LEFT and FULL: what the inner join has, and rows that match nothing, in which a key of the other side is NULL."""
        left, right = self.joined(self.region(node.left)), self.joined(self.region(node.right))
        inner = self.joined(Region((left, right), conjuncts(node.on)))
        if left.private != inner.private:  # a public side whose unmatched rows are nobody's
            return inner
        often, more, _ = join_repetitions(right, ties_of(conjuncts(node.on)), left.columns)
        rows, again = min((inner.rows + left.rows, inner.again), (left.rows * max(often, 1), left.again + more))
        rows += right.rows if node.kind == "full" and right.private == inner.private else 0
        return replace(inner, rows=min(rows, FAR), again=again)  # a key that is NULL equals nothing

    def joined(self, region: Region, known: Ids = frozenset()) -> Flow:
        """Return one flow of a region. `known`: columns of a row around it, for each of which it is looked through."""
        leaves, ties = list(region.leaves), ties_of(region.conditions)
        private = any(leaf.private for leaf in leaves)
        starts: list[Flow | None] = [None] if known else [leaf for leaf in leaves if leaf.private == private]
        rows, again = min(join_product(start, leaves, ties, known) for start in starts)
        single = leaves if len(leaves) == 1 else [x for x in leaves if join_product(x, leaves, ties, frozenset())[0] == x.rows]
        keys = tuple(key for leaf in single for key in leaf.keys)  # every other relation adds at most one row to each of these
        most = {i: n for leaf in single for i, n in leaf.most.items()}
        lengths = {i: n for leaf in leaves for i, n in leaf.lengths.items()}
        flow = Flow(region.columns, rows, private, keys, most, lengths, again)
        if len(leaves) > 1 or known:
            self._made(flow)
        self._computed(region.conditions, flow)
        return flow


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
