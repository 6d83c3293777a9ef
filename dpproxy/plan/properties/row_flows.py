"""Relations as flows of rows: how many become of one row of a person, and how many a join makes.

Knows: columns, keys, equalities. Must not know: tables, policies, what is too much (`amplification`). A join's rows are counted
from one of its relations on: each next one repeats them once where equalities with columns already there fix a key of it, else
as often as it must.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dpproxy.plan.properties import text_growth
from dpproxy.tree.expr import Call, Column, Exists, Expr, InQuery, Ref, Relation, Scalar, children, conjuncts, references
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Public, Scan, Union

AGAIN = 10
"""What rows of a person count as that are joined with each of that person's rows: their number is bounded by nothing."""

FAR = 10**12
"""Numbers are not counted beyond: it is more than any limit."""

Ids = frozenset[int]
NONE: Ids = frozenset()


@dataclass(frozen=True)
class Flow:
    """A flow is the number of rows of a relation: of one row of a person, or in all where it is public. `keys`: columns no two
    rows share all values of (the empty set: one row); `most`: how many rows at most share a value of a column; `lengths`: of its
    texts; `power`: of a person with R rows in each table it has about R**`power`; `nulls`: NULL counts as a value of these
    columns; `late`: columns that hold a subquery which an engine may compute wherever they are read."""

    columns: Ids
    rows: int
    private: bool
    keys: tuple[Ids, ...] = ()
    most: Mapping[int, int] = field(default_factory=dict)
    lengths: Mapping[int, int] = field(default_factory=dict)
    power: int = 0
    nulls: bool = False
    late: Ids = NONE


@dataclass(frozen=True)
class Region:
    leaves: tuple[Flow, ...]
    conditions: tuple[Expr, ...]

    @property
    def columns(self) -> Ids:
        return frozenset().union(*(leaf.columns for leaf in self.leaves))


Ties = Sequence[tuple[int, Ids, bool]]
"""Columns that an equality makes a function of others, and whether it finds NULL equal to NULL."""


def join_product(start: Flow | None, leaves: Sequence[Flow], ties: Ties, known: Ids) -> tuple[int, int]:
    """Count the rows of a join, and the power of a person's rows in them: begun at `start` (None: at a row around it, whose
    columns are known), each next relation the one that adds least; or first those that equalities fix a column of."""
    own = {id(leaf): [t for t in ties if t[0] in leaf.columns] for leaf in leaves}
    known = known if start is None else known | start.columns
    rest = [leaf for leaf in leaves if leaf is not start]
    begun = (1, 0) if start is None else (start.rows, start.power)
    return min(_in_order(begun, list(rest), own, known, tied) for tied in (False, True))


def _in_order(begun: tuple[int, int], waiting: list[Flow], own: Mapping[int, Ties], known: Ids, tied: bool) -> tuple[int, int]:
    rows, power = begun
    while waiting:
        found = [join_repetitions(leaf, own[id(leaf)], known) for leaf in waiting]
        at = min(range(len(waiting)), key=lambda i: (tied and not found[i][2], found[i][0]))
        often, more, _ = found[at]
        rows, power = min(rows * often, FAR), power + more
        known |= waiting.pop(at).columns
    return rows, power


def join_repetitions(leaf: Flow, ties: Ties, known: Ids) -> tuple[int, int, bool]:
    """Say how many rows of a relation meet one row whose columns are known; of which power of a person's rows that is; whether an
    equality fixes a column."""
    fixed = {column for column, others, null_safe in ties if others <= known and (leaf.nulls or not null_safe)}
    if any(key <= fixed for key in leaf.keys):
        return 1, 0, True
    if leaf.private:
        return leaf.rows * AGAIN**leaf.power, leaf.power, bool(fixed)
    return min([leaf.rows, *(leaf.most[i] for i in fixed if i in leaf.most)]), 0, bool(fixed)


def ties_of(conditions: Sequence[Expr], late: Ids = NONE) -> list[tuple[int, Ids, bool]]:
    """Say what equalities make functions of other columns, but none that is computed late: it is compared with each row."""
    found = []
    for condition in conditions:
        if _equal(condition) and not late & ids_of(references(condition)):
            assert isinstance(condition, Call)
            for side, other in (condition.args, condition.args[::-1]):
                if isinstance(side, Ref):
                    found.append((side.column.id, frozenset(c.id for c in references(other)), condition.op != "="))
    return found


def _equal(condition: Expr) -> bool:
    return isinstance(condition, Call) and condition.op in ("=", "is_not_distinct") and not any(map(subqueries, condition.args))


def is_hashed(condition: Expr) -> bool:
    """Tell whether engines look a condition up in a hash table, alone or together with others."""
    if isinstance(condition, Call) and condition.op == "and":
        return all(map(is_hashed, condition.args))
    return _equal(condition)


def is_looked_up(node: Relation, around: Ids) -> bool:
    """Tell whether an EXISTS over a relation is a join by equalities: it reads rows around it in these alone, each a side."""
    while isinstance(node, Filter | Project):
        own = conjuncts(node.condition) if isinstance(node, Filter) else node.items
        for part in own:
            if around & reads_of(part) and not (isinstance(node, Filter) and _is_lookup(part, around)):
                return False
        node = node.child
    return not parts_reading(node, around)


def _is_lookup(condition: Expr, around: Ids) -> bool:
    if not (isinstance(condition, Call) and condition.op == "=" and _equal(condition)):
        return False
    one, other = (ids_of(references(side)) for side in condition.args)
    return bool(one and other) and any(a <= around and not b & around for a, b in ((one, other), (other, one)))


def reads_of(expr: Expr) -> Ids:
    """Return the columns that an expression reads of the rows it is computed for, in its subqueries too."""
    return ids_of(references(expr)).union(*(outer_reads(inner.relation) for inner in subqueries(expr)))


def outer_reads(node: Relation) -> Ids:
    """Return columns that a relation reads and has not."""
    own: set[int] = set()
    read: set[int] = set()
    waiting: list[Relation] = [node]
    while waiting:
        one = waiting.pop()
        own |= {c.id for c in one.columns}
        waiting += _parts(one)
        for expr in _expressions(one):
            read |= {c.id for c in references(expr)}
            for inner in subqueries(expr):
                read |= outer_reads(inner.relation)
                if isinstance(inner, Scalar):
                    read |= {c.id for c in references(inner.value)} - _defined(inner.relation)
    return frozenset(read - own)


def scans(node: Relation) -> list[Scan]:
    """Return the tables that are read anywhere in a relation."""
    inner = [sub.relation for part in _expressions(node) for sub in subqueries(part)]
    return [scan for part in (*_parts(node), *inner) for scan in scans(part)] + ([node] if isinstance(node, Scan) else [])


def parts_reading(node: Relation, ids: Ids) -> list[Expr]:
    """Conditions and other expressions, anywhere in a relation, that read one of these columns."""
    found = [e for part in _expressions(node) for e in conjuncts(part) if any(c.id in ids for c in references(e))]
    found += [e for part in _expressions(node) for inner in subqueries(part) for e in parts_reading(inner.relation, ids)]
    return found + [e for below in _parts(node) for e in parts_reading(below, ids)]


def _defined(node: Relation) -> set[int]:
    return {c.id for c in node.columns}.union(*map(_defined, _parts(node)))


def _parts(node: Relation) -> tuple[Relation, ...]:
    match node:
        case Join(left=left, right=right):
            return left, right
        case Union(children=branches):
            return branches
        case Public() | Filter() | Project() | Aggregate() | Distinct():
            return (node.child,)
    return ()


def _expressions(node: Relation) -> tuple[Expr, ...]:
    match node:
        case Join(on=on):
            return () if on is None else (on,)
        case Filter(condition=condition):
            return (condition,)
        case Project(items=items):
            return items
        case Aggregate(keys=keys, aggs=aggs):
            return (*keys, *aggs)
    return ()


def frame_width(frame: str) -> int | None:
    """Say how many rows a window goes through for each row: 1 where it goes on from the row before; None where nothing but the
    number of rows bounds it."""
    if not frame or ("BETWEEN UNBOUNDED PRECEDING" in frame and "EXCLUDE" not in frame):
        return 1
    found = _SLIDING.search(frame)
    return 1 + sum(int(n) for n in found.groups() if n) if found is not None else None


_SLIDING = re.compile(r"ROWS BETWEEN (?:(\d+) PRECEDING|CURRENT ROW) AND (?:(\d+) FOLLOWING|CURRENT ROW|\d+ PRECEDING)")


def subqueries(expr: Expr) -> list[InQuery | Exists | Scalar]:
    return [e for e in distinct_parts(expr) if isinstance(e, InQuery | Exists | Scalar)]


def distinct_parts(expr: Expr) -> Iterator[Expr]:
    """Each sub-expression once, however often it is shared."""
    seen: set[int] = set()
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += children(one)


def ids_of(columns: Sequence[Column]) -> Ids:
    return frozenset(c.id for c in columns)


def lengths_of(columns: Sequence[Column]) -> dict[int, int]:
    return {c.id: text_growth.USUAL if c.length is None else c.length for c in columns}
