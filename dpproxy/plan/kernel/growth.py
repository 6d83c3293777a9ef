"""How far a unit's share of a statement can grow: how many rows are made of those that it has in tables.

Knows: relations, leaves, what is known of rows that the facade hands over. Must not know: what the planner reckons
(`plan.measure.amplification`), engines, texts. A relation that it does not know is refused.

Lemma. Let a unit have at most R rows in each table, R >= 1. Then each relation has at most `times` * R**`power` rows of it, and
one without private rows at most `times` rows: filters take rows away, projections keep their number, groups are no more than
rows. A join has for each row of one source as many as rows of the others meet it: one where equalities with what is there
already fix a key, else all (of public rows: all that share a value). That holds in any order; the best one found is taken. A
subquery is a relation by itself: conditions on the row around it are left out.

A unit whose rows become many is one whose presence costs time: beyond `TIMES` or `POWER` nothing runs, whoever is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpproxy.plan.kernel.classes import Ids, ids
from dpproxy.plan.kernel.leaves import Leaves, Unproven
from dpproxy.plan.kernel.owners import gathered, refuse
from dpproxy.plan.logical import relation as r
from dpproxy.plan.logical.expr import (
    Call,
    Exists,
    Expr,
    InQuery,
    Lit,
    Ref,
    Relation,
    Scalar,
    conjuncts,
    has_subquery,
    references,
    walk,
)

TIMES = 30_000
"""Rows of a relation for one row of a unit: the days of 80 years."""
POWER = 2
"""Rows of a unit may be paired with its others, and these pairs not with others again."""
UNCOUNTED = 10_000
"""What public tables count as that nobody counted."""
HANDED, LOOKED_UP = 10_000, 100_000
"""Rows that the facade hands over at most, and where a private row meets them by a key alone: it refuses more
(`plan.outer.staged_rows`)."""

Tie = tuple[int, Ids, bool]
"""A column that an equality makes a function of others, and whether NULL equals NULL in it."""


@dataclass(frozen=True, order=True)
class Size:
    """This is `times` * R**`power`."""

    power: int = 0
    times: int = 1

    def __mul__(self, other: Size) -> Size:
        return Size(self.power + other.power, self.times * other.times)

    def __add__(self, other: Size) -> Size:
        return Size(max(self.power, other.power), self.times + other.times)


@dataclass(frozen=True)
class Share:
    """What a relation has of a unit, or in all where it is public. `keys`: columns no two rows share all values of; `most`: how
    many public rows share a value of a column; `nulls`: NULL is a value of these."""

    columns: Ids
    private: bool
    size: Size
    keys: tuple[Ids, ...] = ()
    most: Mapping[int, int] = field(default_factory=dict)
    nulls: bool = False


class Growth:
    """Derives shares. `largest`: the size of the largest relation with private rows so far."""

    def __init__(self, leaves: Leaves, handed: Mapping[int, r.Beside]) -> None:
        self._leaves, self._handed, self.largest = leaves, handed, Size()

    def of(self, node: Relation) -> Share:
        share = self._of(node)
        if share.private:
            if share.size.times > TIMES or share.size.power > POWER:
                refuse(f"a row of a unit becomes more than {TIMES} rows, or pairs of its rows are paired again")
            self.largest = max(self.largest, share.size)
        return share

    def computed(self, exprs: Iterable[Expr]) -> None:
        """Go through the subqueries of expressions."""
        for part in (part for expr in exprs for part in walk(expr)):
            if isinstance(part, InQuery | Exists | Scalar):
                self.of(part.relation)
                self.computed(part.columns if isinstance(part, InQuery) else (part.value,) if isinstance(part, Scalar) else ())

    def _of(self, node: Relation) -> Share:
        match node:
            case r.Scan():
                return self._scan(node)
            case r.Values(columns=columns, rows=rows):
                cells = {c.id: _told_apart([row[i] for row in rows]) for i, c in enumerate(columns)}
                often = {i: max(Counter(texts).values(), default=0) for i, texts in cells.items() if texts is not None}
                return Share(ids(columns), False, Size(0, max(len(rows), 1)), (), often)
            case r.Staged(columns=columns, index=index):
                return _handed_over(ids(columns), self._handed.get(index))
            case r.Public(child=child):
                return self.of(child)
            case r.Filter() | r.Join(kind="inner") | r.Join(kind="cross", on=None):
                sources, conditions = gathered(node)
                self.computed(conditions)
                return _joined([self.of(source) for source in sources], conditions)
            case r.Join(kind="left" | "full"):
                return self._outer(node)
            case r.Project(child=child, columns=columns, items=items):
                self.computed(items)
                return _renamed(self.of(child), ids(columns), items, node)
            case r.Aggregate(child=child, columns=columns, keys=keys, aggs=aggs):
                self.computed((*keys, *aggs))
                named = ids(columns[: len(keys)])
                below = _renamed(self.of(child), named, keys, node)
                size = below.size if keys else Size()
                return Share(ids(columns), below.private, size, (named, *below.keys))
            case r.Distinct(child=child, columns=columns):
                below = self.of(child)
                return replace(below, keys=(*below.keys, ids(columns)))
            case r.Union(columns=columns, children=children):
                sides = [self.of(child) for child in children]
                return Share(ids(columns), any(s.private for s in sides), sum((s.size for s in sides), Size(0, 0)))
            case _:
                raise Unproven(f"no rule for how {type(node).__name__} grows")

    def _scan(self, scan: r.Scan) -> Share:
        leaf = self._leaves.get(scan.source)
        if leaf is None:
            refuse("a table that the policy does not know")
        named = {name: column.id for column, name in zip(scan.columns, scan.names, strict=True)}
        keys = tuple(frozenset(named[n] for n in key) for key in leaf.keys if key <= named.keys())
        if leaf.private:
            return Share(ids(scan.columns), True, Size(0 if leaf.one else 1), keys)
        rows = Size(0, UNCOUNTED if leaf.rows is None else max(leaf.rows, 1))
        return Share(ids(scan.columns), False, rows, keys, {named[n]: most for n, most in leaf.most.items() if n in named})

    def _outer(self, node: r.Join) -> Share:
        """What the inner join has, and rows that meet nothing: keys of the other side are NULL in these."""
        left, right, on = self.of(node.left), self.of(node.right), conjuncts(node.on)
        self.computed(on)
        inner = _joined([left, right], on)
        size = min(inner.size + left.size, left.size * _met(right, _ties(on), left.columns)[1])
        return replace(inner, size=size + right.size if node.kind == "full" else size)


def _told_apart(cells: Sequence[Expr]) -> list[object] | None:
    """Constants of types of which equal values are written alike; None for others."""
    if not all(isinstance(cell, Lit) and cell.type in ("int4", "int8", "text", "varchar", "bool") for cell in cells):
        return None
    return [int(cell.text) if cell.type.startswith("int") and cell.text else cell.text for cell in cells if isinstance(cell, Lit)]


def _handed_over(columns: Ids, known: r.Beside | None) -> Share:
    if known is None:
        return Share(columns, False, Size(0, LOOKED_UP))
    most = dict(known.most)
    unknown = LOOKED_UP if 0 < len(most) < len(known.columns) else HANDED
    keys = [frozenset((i,)) for i, n in most.items() if n == 1] + ([Ids()] if known.size == 1 else [])
    return Share(columns, False, Size(0, unknown if known.size is None else max(known.size, 1)), tuple(keys), most, known.nulls)


def _renamed(share: Share, columns: Ids, items: Sequence[Expr], node: Relation) -> Share:
    """The same rows under other columns; keys of which some are missing are none."""
    pairs = [(e.column.id, c.id) for c, e in zip(node.columns, items, strict=False) if isinstance(e, Ref)]
    names = {**dict(pairs), **{i: i for i in columns}}
    keys = tuple(frozenset(names[i] for i in key) for key in share.keys if key <= names.keys())
    most = {new: share.most[old] for old, new in (*pairs, *((i, i) for i in columns)) if old in share.most}
    return replace(share, columns=columns, keys=keys, most=most)


# --- joins


def _joined(sources: Sequence[Share], conditions: Sequence[Expr]) -> Share:
    if len(sources) == 1:
        return sources[0]
    ties, private = _ties(conditions), any(s.private for s in sources)
    sizes = [min(_begun_at(s, sources, ties, tied) for tied in (False, True)) for s in sources]
    size = min(size for size, s in zip(sizes, sources, strict=True) if s.private == private)
    once = [s for size, s in zip(sizes, sources, strict=True) if size == s.size]  # no other repeats its rows
    most = {i: n for s in once for i, n in s.most.items()}
    return Share(Ids().union(*(s.columns for s in sources)), private, size, tuple(k for s in once for k in s.keys), most)


def _begun_at(start: Share, sources: Sequence[Share], ties: Sequence[Tie], tied: bool) -> Size:
    """The rows of a join: each next source the one that repeats rows least, or `tied`, first those that equalities fix something
    of."""
    size, known, waiting = start.size, start.columns, [s for s in sources if s is not start]
    while waiting:
        found = [_met(source, ties, known) for source in waiting]
        at = min(range(len(waiting)), key=lambda i: (tied and found[i][0], found[i][1]))
        size, known = size * found[at][1], known | waiting.pop(at).columns
    return size


def _met(source: Share, ties: Sequence[Tie], known: Ids) -> tuple[bool, Size]:
    """Whether no equality fixes a column of a source, and how many of its rows meet one whose columns are known."""
    fixed = {c for c, others, nulls in ties if c in source.columns and others <= known and (source.nulls or not nulls)}
    if any(key <= fixed for key in source.keys):
        return False, Size()
    shared = [] if source.private else [Size(0, max(n, 1)) for i, n in source.most.items() if i in fixed]
    return not fixed, min([source.size, *shared])


def _ties(conditions: Sequence[Expr]) -> list[Tie]:
    found = []
    for condition in conditions:
        if isinstance(condition, Call) and condition.op in ("=", "is_not_distinct") and not has_subquery(condition):
            for side, other in (condition.args, condition.args[::-1]):
                if isinstance(side, Ref):
                    found.append((side.column.id, ids(references(other)), condition.op != "="))
    return found
