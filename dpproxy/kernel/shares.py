"""What is known of a unit's share of a relation, and how joins multiply shares.

Knows: columns, keys, equalities. Must not know: tables, policies, subqueries (`growth`), what is too much. A join is counted from
one of its relations on, in any order: an engine takes one that is as good, or nearly so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from dpproxy.kernel.classes import Ids, ids
from dpproxy.tree.expr import Call, Exists, Expr, InQuery, Ref, Relation, Scalar, has_subquery, references, walk

Subquery = InQuery | Exists | Scalar

Tie = tuple[int, Ids, bool]
"""A column that an equality makes a function of others, and whether NULL equals NULL in it."""


@dataclass(frozen=True, order=True)
class Size:
    """`times` * R**`power`."""

    power: int = 0
    times: int = 1

    def __mul__(self, other: Size) -> Size:
        return Size(self.power + other.power, self.times * other.times)

    def __add__(self, other: Size) -> Size:
        return Size(max(self.power, other.power), self.times + other.times)


@dataclass(frozen=True)
class Share:
    """What a relation has of a unit, or in all where it is public. `keys`: columns no two rows share all values of; `most`: how
    many public rows share a value of a column; `nulls`: NULL is a value of these. `late`: columns that hold a subquery, which may
    be computed wherever they are read, and what it goes through each time."""

    columns: Ids
    private: bool
    size: Size
    keys: tuple[Ids, ...] = ()
    most: Mapping[int, int] = field(default_factory=dict)
    nulls: bool = False
    late: Mapping[int, Size] = field(default_factory=dict)


# --- joins


def joined(sources: Sequence[Share], conditions: Sequence[Expr], around: Ids, late: Mapping[int, Size]) -> Share:
    """Rows of inner joins, for one row around them."""
    late = {i: size for part in (late, *(s.late for s in sources)) for i, size in part.items()}
    ties, private = ties_of(conditions, late), any(s.private for s in sources)
    sizes = [min(_begun_at(s, sources, ties, tied, around) for tied in (False, True)) for s in sources]
    size = min(size for size, s in zip(sizes, sources, strict=True) if s.private == private)
    once = [s for size, s in zip(sizes, sources, strict=True) if size <= s.size]  # no other repeats its rows
    most = {i: n for s in once for i, n in s.most.items()}
    columns, keys = Ids().union(*(s.columns for s in sources)), tuple(k for s in once for k in s.keys)
    nulls = len(sources) == 1 and sources[0].nulls
    return Share(columns, private, size, keys, most, nulls, late)


def _begun_at(start: Share, sources: Sequence[Share], ties: Sequence[Tie], tied: bool, around: Ids) -> Size:
    """The rows of a join: each next source the one that repeats rows least, or `tied`, first those that equalities fix something
    of."""
    size, known, waiting = met(start, ties, around)[1], around | start.columns, [s for s in sources if s is not start]
    while waiting:
        found = [met(source, ties, known) for source in waiting]
        at = min(range(len(waiting)), key=lambda i: (tied and found[i][0], found[i][1]))
        size, known = size * found[at][1], known | waiting.pop(at).columns
    return size


def met(source: Share, ties: Sequence[Tie], known: Ids) -> tuple[bool, Size]:
    """Whether no equality fixes a column of a source, and how many of its rows meet one whose columns are known."""
    fixed = {c for c, others, nulls in ties if c in source.columns and others <= known and (source.nulls or not nulls)}
    if any(key <= fixed for key in source.keys):
        return False, Size()
    shared = [] if source.private else [Size(0, max(n, 1)) for i, n in source.most.items() if i in fixed]
    return not fixed, min([source.size, *shared])


def ties_of(conditions: Sequence[Expr], late: Mapping[int, Size]) -> list[Tie]:
    """Of columns that are computed late none is a tie: what they are compared with is gone through for it."""
    found = []
    for condition in conditions:
        if isinstance(condition, Call) and condition.op in ("=", "is_not_distinct") and not has_subquery(condition):
            for side, other in (condition.args, condition.args[::-1]):
                if isinstance(side, Ref) and not late.keys() & ids(references(condition)):
                    found.append((side.column.id, ids(references(other)), condition.op != "="))
    return found


def is_lookup(condition: Expr, free: Ids, operators: Sequence[str]) -> bool:
    """Whether a condition is that something of rows around equals something of the rows themselves."""
    if not isinstance(condition, Call) or condition.op not in operators or has_subquery(condition):
        return False
    one, other = (ids(references(side)) for side in condition.args)
    return bool(one and other) and ((one <= free and not other & free) or (other <= free and not one & free))


def renamed(share: Share, columns: Ids, items: Sequence[Expr], node: Relation) -> Share:
    """The same rows under other columns; keys of which some are missing are none."""
    pairs = [(e.column.id, c.id) for c, e in zip(node.columns, items, strict=False) if isinstance(e, Ref)]
    names = {**dict(pairs), **{i: i for i in columns}}
    keys = tuple(frozenset(names[i] for i in key) for key in share.keys if key <= names.keys())
    most = {new: share.most[old] for old, new in (*pairs, *((i, i) for i in columns)) if old in share.most}
    return replace(share, columns=columns, keys=keys, most=most)


# --- what is read


def parts(value: object) -> Iterator[Relation | Expr]:
    """Yield the relations and expressions of a relation or expression, those of subqueries too, each once."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple):
            waiting += one
        elif isinstance(one, Relation | Expr) and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [getattr(one, f.name) for f in fields(one) if not (isinstance(one, Relation) and f.name == "columns")]


def outputs(part: Subquery) -> tuple[Expr, ...]:
    """Return what is computed of the rows of a subquery."""
    return part.columns if isinstance(part, InQuery) else (part.value,) if isinstance(part, Scalar) else ()


def free_reads(value: object) -> Ids:
    """Return the columns that are read in a relation, or in a subquery, and are of rows around it."""
    own: set[int] = set()
    read: set[int] = set()
    inside = (
        (value.relation, getattr(value, "columns", ()), getattr(value, "value", ())) if isinstance(value, Subquery) else value
    )
    for part in parts(inside):
        if isinstance(part, Relation):
            own |= ids(part.columns)
        elif isinstance(part, Ref):
            read.add(part.column.id)
    return frozenset(read - own)


def reads_of(expr: Expr) -> Ids:
    """Return the columns that an expression reads of the rows that it is computed for, in its subqueries too."""
    return ids(references(expr)).union(*(free_reads(part) for part in walk(expr) if isinstance(part, Subquery)))
