"""How far a unit's share of a statement can grow: how many rows are gone through for those that it has in tables.

Knows: relations, leaves, what is known of rows that the facade hands over. Must not know: what the planner reckons
(`plan.measure.amplification`), engines, texts. A relation that it does not know is refused.

Lemma. Let a unit have at most R rows in each table, R >= 1. Then each relation has at most `times` * R**`power` rows of it, and
one without private rows at most `times` rows: filters take rows away, projections keep their number, groups are no more than
rows. A join has for each row of one source as many as rows of the others meet it: one where equalities with what is there
already fix a key, else all (of public rows: all that share a value). That holds in any order; the best one found is taken.

A subquery that reads the row around it may be computed again for each of these rows: all that it goes through counts once for
each of them, whole private tables too. In it the columns of that row are known. One that is computed where a column that holds
it is read (`Share.late`) counts there. A subquery that reads nothing around it is computed once, and looked up by a hash of one
value; an EXISTS of equalities alone that stands among the conditions of a join is a join by these. Where the frame of a window
begins anew for each row, it is gone through again for each row.

A unit whose rows become many is one whose presence costs time: beyond `TIMES`, `PAIRED` or `POWER` nothing runs, whoever is
there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from dpproxy.kernel.classes import NONE, Ids, ids
from dpproxy.kernel.leaves import Leaves, Unproven
from dpproxy.kernel.owners import gathered, refuse
from dpproxy.kernel.shares import (
    Share,
    Size,
    Subquery,
    free_reads,
    is_lookup,
    joined,
    met,
    parts,
    reads_of,
    renamed,
    ties_of,
)
from dpproxy.tree import relation as r
from dpproxy.tree.expr import (
    Exists,
    Expr,
    InQuery,
    Lit,
    Ref,
    Relation,
    Scalar,
    Win,
    conjuncts,
    references,
    walk,
)

TIMES = 30_000
"""Rows of a relation for one row of a unit: the days of 80 years."""
POWER = 2
"""Rows of a unit may meet its others, and these pairs no third ones again."""
PAIRED = 3_000
"""Rows of a relation for such a pair: pairs are many already. The planner stops at a tenth, and finds better orders of joins."""
UNCOUNTED = 10_000
"""What public tables count as that nobody counted."""
HANDED, LOOKED_UP = 10_000, 100_000
"""Rows that the facade hands over at most, and where a private row meets them by a key alone: it refuses more
(`plan.outer.staged_rows`)."""


class Growth:
    """Derives shares. `around`: columns of rows around a subquery, `late`: those computed late. `largest`: the size of the
    largest relation with private rows so far, each row as often as it is gone through; `read`: of the largest public one."""

    def __init__(
        self, leaves: Leaves, handed: Mapping[int, r.Beside], around: Ids = NONE, late: Mapping[int, Size] = MappingProxyType({})
    ) -> None:
        self._leaves, self._handed, self._around, self._late = leaves, handed, around, late
        self.largest = self.read = Size()

    def of(self, node: Relation) -> Share:
        share = self._of(node)
        self._counted(share.size, share.private)
        return share

    def computed(self, exprs: Iterable[Expr], share: Share) -> list[Size | None]:
        """Go through the subqueries of expressions, which are computed for the rows of a share; and return what is gone through
        for each expression where it is computed."""
        again = []
        for expr in exprs:
            again.append(self._again(expr, share))
            self._gone_through(again[-1], share)
            for window in (part for part in walk(expr) if isinstance(part, Win)):
                self._counted(share.size * _frame(window, share.size), share.private)
        return again

    def _counted(self, size: Size, private: bool) -> None:
        if private:
            if size.times > (PAIRED if size.power == POWER else TIMES) or size.power > POWER:
                refuse(f"a row of a unit becomes more than {TIMES} rows, a pair {PAIRED}, or pairs of its rows are paired again")
            self.largest = max(self.largest, size)
        else:
            self.read = max(self.read, size)

    # --- expressions

    def _again(self, expr: Expr, share: Share, condition: bool = False) -> Size | None:
        """What its subqueries go through for each row that it is computed for. `condition`: it is one of a join."""
        late = {**self._late, **share.late}
        again = [late[c.id] for c in references(expr) if c.id in late]
        for part in (part for part in walk(expr) if isinstance(part, Subquery)):
            free = free_reads(part)
            once = _is_once(part, free, condition and part is expr) or self._is_join(part, free, condition and part is expr)
            inner = Growth(self._leaves, self._handed, NONE if once else self._around | share.columns, late)
            below = inner.of(part.relation)
            inner.computed(
                part.columns if isinstance(part, InQuery) else (part.value,) if isinstance(part, Scalar) else (), below
            )
            if once:
                self.largest, self.read = max(self.largest, inner.largest), max(self.read, inner.read)
            else:
                again.append(max(inner.largest, inner.read))
        return max(again, default=None)

    def _is_join(self, part: Subquery, free: Ids, condition: bool) -> bool:
        """Whether it is an EXISTS that reads of rows around it what its own rows are to equal, and nothing else: among the
        conditions of a join, or over public rows alone, of which the equal ones are in a hash table."""
        if not isinstance(part, Exists):
            return False
        node, equal, same = part.relation, True, True
        while isinstance(node, r.Filter):
            for conjunct in (c for c in conjuncts(node.condition) if free & reads_of(c)):
                equal &= is_lookup(conjunct, free, ("=",))
                same &= is_lookup(conjunct, free, ("=", "is_not_distinct"))
            node = node.child
        return not free & free_reads(node) and ((condition and equal) or (same and not self._is_private(node)))

    def _is_private(self, node: Relation) -> bool:
        scans = [self._leaves.get(part.source) for part in parts(node) if isinstance(part, r.Scan)]
        return any(leaf is None or leaf.private for leaf in scans)

    def _gone_through(self, again: Size | None, share: Share) -> None:
        if again is not None:
            self._counted(share.size * again, share.private)

    # --- relations

    def _of(self, node: Relation) -> Share:
        match node:
            case r.Scan():
                return self._scan(node)
            case r.Values(columns=columns, rows=rows):
                cells = {c.id: _told_apart([row[i] for row in rows]) for i, c in enumerate(columns)}
                often = {i: max(Counter(texts).values(), default=0) for i, texts in cells.items() if texts is not None}
                share = Share(ids(columns), False, Size(0, max(len(rows), 1)), (), often)
                self.computed((cell for row in rows for cell in row), replace(share, size=Size()))
                return share
            case r.Staged(columns=columns, index=index):
                return _handed_over(ids(columns), self._handed.get(index))
            case r.Public(child=child):
                return self.of(child)
            case r.Filter() | r.Join(kind="inner") | r.Join(kind="cross", on=None):
                return self._block(node)
            case r.Join(kind="left" | "full"):
                return self._outer(node)
            case r.Project():
                return self._project(node)
            case r.Aggregate(child=child, columns=columns, keys=keys, aggs=aggs):
                below = self.of(child)
                self.computed((*keys, *aggs), below)
                named = ids(columns[: len(keys)])
                below = renamed(below, named, keys, node)
                size = below.size if keys else Size()
                return Share(ids(columns), below.private, size, (named, *below.keys))
            case r.Distinct(child=child, columns=columns):
                below = self.of(child)
                self.computed((Ref(c.type, c) for c in child.columns), below)
                return replace(below, keys=(*below.keys, ids(columns)), late={})
            case r.Union():
                return self._union(node)
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

    def _block(self, node: Relation) -> Share:
        """Inner joins and filters. A condition on one source alone is computed for its rows, another for those of the join."""
        nodes, conditions = gathered(node)
        sources = [self._of(n) if isinstance(n, FOUND) else self.of(n) for n in nodes]
        for each in sources:
            if each.private:
                self._counted(each.size, True)
        whole = joined(sources, conditions, self._around, self._late)
        for condition in conditions:
            reads = reads_of(condition)
            touched = [s for s in sources if s.columns & reads]
            at = joined(touched, conditions, self._around, self._late) if len(touched) == 1 else whole
            self._gone_through(self._again(condition, whole, True), at)
        return whole

    def _outer(self, node: r.Join) -> Share:
        """What the inner join has, and rows that meet nothing: keys of the other side are NULL in these."""
        left, right, on = self.of(node.left), self.of(node.right), conjuncts(node.on)
        inner = joined([left, right], on, self._around, self._late)
        self.computed(on, inner)
        most = met(right, ties_of(on, {**self._late, **inner.late}), left.columns | self._around)[1]
        size = min(inner.size + left.size, left.size * most)
        return replace(inner, size=size + right.size if node.kind == "full" else size)

    def _project(self, node: r.Project) -> Share:
        below = self.of(node.child)
        again = {c.id: size for c, size in zip(node.columns, self.computed(node.items, below), strict=False)}
        late = {i: size for i, size in {**below.late, **again}.items() if size is not None}
        return replace(renamed(below, ids(node.columns), node.items, node), late=late)

    def _union(self, node: r.Union) -> Share:
        sides = [self.of(child) for child in node.children]
        late: dict[int, Size] = {}
        for child, side in zip(node.children, sides, strict=True):
            for mine, its in zip(node.columns, child.columns, strict=False):
                if its.id in side.late:
                    late[mine.id] = max(late.get(mine.id, Size()), side.late[its.id])
        size = sum((s.size for s in sides), Size(0, 0))
        return Share(ids(node.columns), any(s.private for s in sides), size, late=late)


FOUND = (r.Scan, r.Values, r.Staged)
"""Of public rows an engine finds those that are asked for."""


def _frame(window: Win, rows: Size) -> Size:
    """How many rows are gone through for each one: of a frame that begins anew no more than it has, or than there are."""
    if not window.frame or (window.frame.startswith(_GROWING) and "EXCLUDE" not in window.frame):
        return Size()
    found = _SLIDING.search(window.frame)
    if found is not None and (most := sum(map(int, filter(None, found.groups()))) + 1) * rows.times <= TIMES:
        return Size(0, most)
    return rows


_GROWING = ("ROWS BETWEEN UNBOUNDED PRECEDING", "RANGE BETWEEN UNBOUNDED PRECEDING", "GROUPS BETWEEN UNBOUNDED PRECEDING")
_SLIDING = re.compile(r"ROWS BETWEEN (?:(\d+) PRECEDING|CURRENT ROW) AND (?:(\d+) FOLLOWING|CURRENT ROW|\d+ PRECEDING)")


def _is_once(part: Subquery, free: Ids, condition: bool) -> bool:
    """Whether a subquery that reads nothing around it is looked up by a hash: of several values one that is NULL is none to look
    up by."""
    if isinstance(part, InQuery):
        return not free and ((condition and not part.negated) or len(set(part.args)) == 1)
    return not free


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
