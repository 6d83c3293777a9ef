"""Declared domains of group keys: which groups can exist, from policy and public tables alone.

Knows: declared values, ranges, public scans, the conditions every row satisfies. Must not know: private data, engines. If every
key is a function of declared columns, the possible groups are enumerated by the engine from constants and public tables;
all of them are returned, so that existence of a group says nothing (PRIVACY.md section 3, Keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from dpproxy.plan.operations.catalogue import cut_to, operation
from dpproxy.plan.operations.operation import Nulls, Test
from dpproxy.plan.properties import cardinality
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.key_origins import clipped, expanded, local_days, on_clock
from dpproxy.plan.properties.stray_values import Trial, trial
from dpproxy.sql.types import INTEGERS, NUMBERS
from dpproxy.tree.expr import (
    Call,
    Case,
    Cast,
    Column,
    Domain,
    Expr,
    Hole,
    InList,
    Lit,
    Ref,
    SeriesDomain,
    TableDomain,
    ValuesDomain,
    children,
    has_subquery,
    rebuilt,
    references,
    walk,
)
from dpproxy.tree.measured import Declared, DeclaredPart
from dpproxy.tree.relation import Public, Rows, Scan, is_public_list

MAX_CELLS = 200_000  # groups of an answer that is returned whole, empty ones included
MAX_INPUTS = 2_000_000  # declared values an engine enumerates to find the groups there can be: well under a second
MAX_WHOLE = 1_000  # values of a computed key beyond which most groups would be empty
MAX_BESIDE_TABLE = 1_000  # declared values beside the keys of a public table, whose size the plan does not know


@dataclass(frozen=True)
class Part:
    """The keys of a part share sources: `columns` with value domains, `scans` of public tables, `conditions` on them."""

    keys: tuple[tuple[int, Expr], ...]
    columns: tuple[tuple[Column, Domain], ...]
    scans: tuple[Scan | Public, ...]
    conditions: tuple[Expr, ...]

    @cached_property
    def declared(self) -> DeclaredPart:
        """What is tried to find the groups, stray values among it."""
        conditions = tuple(map(on_days, self.conditions))
        tried = trial(self.keys, self.columns, conditions) or Trial(self.keys, conditions, ())
        return DeclaredPart(tried.keys, self.columns, self.scans, tried.conditions, tried.strays)


@dataclass(frozen=True)
class Dense:
    """The possible groups: the product of the parts. `sizes`: upper bounds of how many there are of each, None if not
    fixed by policy. `computed`: columns of the parts that are no columns of a table, by the expressions they stand for."""

    parts: tuple[Part, ...]
    sizes: tuple[int | None, ...]
    width: int
    computed: tuple[tuple[Expr, Column], ...] = ()

    @property
    def size(self) -> int | None:
        """Return an upper bound of the number of groups, None if not fixed by policy."""
        known = [size for size in self.sizes if size is not None]
        return prod(known) if len(known) == len(self.sizes) else None

    @cached_property
    def declared(self) -> Declared:
        """The groups as a node of the tree."""
        return Declared(tuple(part.declared for part in self.parts), self.width)


def dense_domain(keys: Sequence[Expr], rows: Rows) -> Dense | None:
    """The domain of a grouping, None when some key is not declared or there are too many groups."""
    scans = {s.number: s for s in rows.publics}
    rows = replace(rows, conditions=tuple(dict.fromkeys(map(expanded, rows.conditions))))
    clocks: dict[Expr, Column] = {}
    keys = [_on_local_days(expanded(key), clocks, rows.conditions) for key in keys]
    rows = replace(rows, conditions=tuple(dict.fromkeys((*rows.conditions, *(on_clock(c, clocks) for c in rows.conditions)))))
    whole: dict[Expr, Column] = dict(clocks)
    keys = [_by_known_values(key, whole, scans) for key in keys]
    for key in keys:
        if has_subquery(key) or not all(_usable(key, c, scans) for c in references(key)):
            return None
    parts = _parts(keys, rows, scans)
    if any(_inputs(part) > MAX_INPUTS for part in parts):
        return None  # a key of two long ranges: the engine would try every pair
    sizes = [_size(part) for part in parts]
    known = prod(s for s in sizes if s is not None)
    unknown = sizes.count(None)
    if known > (MAX_BESIDE_TABLE if unknown else MAX_CELLS) or unknown > 1:
        return None  # a product of public tables may be larger than any answer
    return Dense(tuple(parts), tuple(sizes), len(keys), tuple(whole.items()))


def _on_local_days(key: Expr, clocks: dict[Expr, Column], conditions: Sequence[Expr]) -> Expr:
    """The key with each time on another zone's clock replaced by a column of the days there are on it. `clocks`: those so far."""
    days = local_days(key, conditions)
    if days is not None:
        number = -1 - len(clocks)
        return Ref(key.type, clocks.setdefault(key, Column(number, "clock", key.type, nullable=days.nulls, domain=days)))
    return rebuilt(key, lambda e: _on_local_days(e, clocks, conditions))


def _by_known_values(key: Expr, known: dict[Expr, Column], scans: dict[int, Scan | Public]) -> Expr:
    """The key with each FLOOR(amount / 100), CASE of constants and their like, over columns without usable declared values,
    replaced by a column of the few values it can have: what is computed from it then has a domain. `known`: those replaced
    so far."""
    column = known.get(key) or _known_column(key, -1 - len(known), scans)
    if column is not None:
        known[key] = column
        return Cast(key.type, Ref("int8", column)) if column.type == "int8" else Ref(key.type, column)
    if isinstance(key, Call):
        return Call(key.type, key.op, tuple(_by_known_values(a, known, scans) for a in key.args))
    if isinstance(key, Cast):
        return Cast(key.type, _by_known_values(key.arg, known, scans), key.length)
    if isinstance(key, Case):
        whens = tuple((_by_known_values(t, known, scans), _by_known_values(r, known, scans)) for t, r in key.whens)
        return Case(key.type, whens, _by_known_values(key.default, known, scans) if key.default is not None else None)
    return key


def _known_column(expr: Expr, number: int, scans: dict[int, Scan | Public]) -> Column | None:
    """A column of all values of `expr`, numbered below those of the query; None when they are many, or declared already."""
    if not references(expr) or has_subquery(expr) or all(_usable(expr, c, scans) for c in references(expr)):
        return None
    if isinstance(expr, Case):
        results = [r for _, r in expr.whens] + [expr.default if expr.default is not None else Lit(expr.type, None)]
        if not all(isinstance(r, Lit) for r in results):
            return None
        texts = tuple(dict.fromkeys(r.text for r in results if isinstance(r, Lit)))
        return Column(number, "case", expr.type, nullable=None in texts, domain=ValuesDomain(texts))
    if expr.type == "bool" and not isinstance(expr, Ref):
        nulls = (None,) if _may_be_null(expr) else ()
        return Column(number, "test", "bool", nullable=bool(nulls), domain=ValuesDomain(("true", "false", *nulls)))
    whole = isinstance(expr, Call) and operation(expr.op).dense
    if not (whole or (isinstance(expr, Cast) and expr.type in INTEGERS)) or expr.type not in NUMBERS:
        return None
    bound, grid = facts(expr).bound, facts(expr).grid
    if grid != 1 or not bound.closed:
        return None
    lo, hi = (x.__floor__() for x in bound.ends)
    if hi - lo >= MAX_WHOLE:
        return None
    domain = SeriesDomain(lo, hi, "int", _may_be_null(expr, declared=True))
    return Column(number, "whole", "int8", bound, grid, nullable=_may_be_null(expr), domain=domain, undeclared=True)


def _may_be_null(expr: Expr, declared: bool = False) -> bool:
    """Whether the value may be NULL; where it is `declared`, whether NULL is declared of it: not where it could only come from
    a column with a declared range, whose NULLs the policy has not declared."""
    match expr:
        case Ref(column=column):
            undeclared = declared and facts(expr).bound.closed and not column.nulls
            return column.nullable and not undeclared
        case Lit(text=text):
            return text is None
        case Call(op=op, args=args):
            return _call_may_be_null(operation(op).nulls, args, declared)
        case InList(arg=arg, items=items):
            return any(_may_be_null(e, declared) for e in (arg, *items))
        case _:
            return True


def _call_may_be_null(nulls: Nulls, args: Sequence[Expr], declared: bool) -> bool:
    match nulls:
        case Nulls.NEVER:
            return False
        case Nulls.ALL:
            return all(_may_be_null(a, declared) for a in args)
        case Nulls.DIVISOR if any(not isinstance(d, Lit) or d.text in (None, "0") for d in args[1:]):
            return True
        case Nulls.OTHERS | Nulls.FIRST_OR_OTHERS:
            return True
        case Nulls.FIRST:
            return _may_be_null(args[0], declared)
        case _:
            return any(_may_be_null(a, declared) for a in args)


def _usable(key: Expr, column: Column, scans: dict[int, Scan | Public]) -> bool:
    domain = column.domain
    if isinstance(domain, TableDomain):
        return domain.scan in scans
    if isinstance(domain, SeriesDomain):
        return _series(key, column) is not None
    return domain is not None


def _series(key: Expr, column: Column) -> SeriesDomain | None:
    """The series that reaches every value `key` can take: days, or hours where the key looks at hours."""
    domain = column.domain
    assert isinstance(domain, SeriesDomain)
    if domain.kind == "int" or column.type == "date":
        return domain
    step = _granularity(key, column)
    if step == "day":
        return domain
    if step == "hour":
        return SeriesDomain(domain.lo * 24, domain.hi * 24 + 23, "hour", domain.nulls)
    return None


def _granularity(expr: Expr, column: Column) -> str | None:
    """The finest time step a key looks at in `column`; None when it looks at the instant itself."""
    if isinstance(expr, Ref):
        return None if expr.column == column else "day"
    if column not in references(expr):
        return "day"
    if isinstance(expr, Call) and (step := _step(expr, column)) is not None:
        return step
    if isinstance(expr, Cast) and expr.type == "date" and _plain(expr.arg, column):
        return "day"
    steps = [_granularity(child, column) for child in children(expr)]
    if None in steps or not steps:
        return None
    return "hour" if "hour" in steps else "day"


def _step(call: Call, column: Column) -> str | None:
    """What an operation on the instant itself looks at."""
    row = operation(call.op)
    return row.step(call.args) if row.step is not None and _plain(call.args[row.moment], column) else None


def _plain(expr: Expr, column: Column) -> bool:
    while isinstance(expr, Cast) and expr.type in ("timestamp", "timestamptz", "date"):
        expr = expr.arg
    return isinstance(expr, Ref) and expr.column == column


def _parts(keys: Sequence[Expr], rows: Rows, scans: dict[int, Scan | Public]) -> list[Part]:
    """Group keys by the sources they share, sources being joined by conditions between public tables."""
    owner = {c.id: s.number for s in scans.values() for c in s.columns}
    links = _linked_scans(rows, owner)
    groups: list[tuple[set[int], set[Column], list[tuple[int, Expr]]]] = []
    for index, key in enumerate(keys):
        columns = {c for c in references(key) if c.id not in owner}
        numbers = set().union(*(links[owner[c.id]] for c in references(key) if c.id in owner)) if owner else set()
        mine = (numbers, columns, [(index, key)])
        rest = []
        for group in groups:
            if group[0] & mine[0] or group[1] & mine[1]:
                mine = (group[0] | mine[0], group[1] | mine[1], group[2] + mine[2])
            else:
                rest.append(group)
        groups = [*rest, mine]
    return [_part(numbers, columns, members, rows, scans) for numbers, columns, members in groups]


def _linked_scans(rows: Rows, owner: dict[int, int]) -> dict[int, set[int]]:
    links = {n: {n} for n in owner.values()}
    for condition in rows.conditions:
        ids = [c.id for c in references(condition)]
        if ids and all(i in owner for i in ids):
            merged = set().union(*(links[owner[i]] for i in ids))
            for n in merged:
                links[n] = merged
    return links


def _part(
    numbers: set[int], columns: set[Column], keys: list[tuple[int, Expr]], rows: Rows, scans: dict[int, Scan | Public]
) -> Part:
    members = tuple(scans[n] for n in sorted(numbers))
    known = {c.id for s in members for c in s.columns} | {c.id for c in columns}
    conditions = tuple(
        c
        for c in rows.conditions
        if references(c)
        and all(r.id in known for r in references(c))
        and all(_condition_fits(c, r) for r in references(c))
        and (not has_subquery(c) or is_public_list(c))
    )
    domains = []
    for column in sorted(columns, key=lambda c: c.id):
        domain = column.domain
        assert domain is not None
        if isinstance(domain, SeriesDomain):
            steps = [_series(key, column) for _, key in keys if column in references(key)]
            domain = next((s for s in steps if s is not None and s.kind == "hour"), steps[0])
            assert domain is not None
            domain = clipped(domain, column, conditions)
        domains.append((column, domain))
    return Part(tuple(keys), tuple(domains), members, conditions)


def _condition_fits(condition: Expr, column: Column) -> bool:
    """A condition on instants must not be tried on the days that stand for them, unless it looks at days only."""
    if not isinstance(column.domain, SeriesDomain) or column.type in (*INTEGERS, "date"):
        return True
    if _comparison_with_constant(condition) is not None:
        return True
    return _granularity(condition, column) == "day"


def _comparison_with_constant(condition: Expr) -> tuple[str, Expr, Expr] | None:
    """(operator, instant, constant) of `column < constant` and its like, the column on the left."""
    if not (isinstance(condition, Call) and operation(condition.op).test is Test.ORDER and len(condition.args) == 2):
        return None
    a, b = condition.args
    if isinstance(a, Ref) and _constant(b):
        return condition.op, a, b
    if isinstance(b, Ref) and _constant(a):
        return operation(condition.op).mirrored, b, a
    return None


def _constant(expr: Expr) -> bool:
    """Whether it is one value for all rows: made of constants, parameters and what the facade evaluates."""
    return not references(expr) and not has_subquery(expr) and all(isinstance(e, _CONSTANT) for e in walk(expr))


_CONSTANT = (Lit, Hole, Call, Cast, Case)


def on_days(condition: Expr) -> Expr:
    """Return a condition on instants, tried on the day (or hour) they fall in: kept when some instant of it may satisfy it.

    Some instant of the hour from h on is >= x when h >= the hour x falls in; some is < x when h < x. Days likewise.
    """
    found = _comparison_with_constant(condition)
    if found is None or not isinstance(found[1], Ref) or not isinstance(found[1].column.domain, SeriesDomain):
        return condition
    op, instant, constant = found
    if instant.type not in ("timestamp", "timestamptz") or op not in (">", ">="):
        return condition
    stamp = constant if constant.type in ("timestamp", "timestamptz") else Cast("timestamp", constant)
    return Call("bool", ">=", (instant, cut_to("timestamp", Lit("text", "day"), stamp)))


def _inputs(part: Part) -> int:
    """How many combinations of values the engine enumerates for a part."""
    beside = {s.column.id: len(s.rows) for s in part.declared.strays}
    declared = ((c.id, len(d.values) if isinstance(d, ValuesDomain) else getattr(d, "size", 1)) for c, d in part.columns)
    return prod(n + beside.get(i, 0) for i, n in declared)


def _size(part: Part) -> int | None:
    """No more groups than combinations that are tried, nor than the keys have values by their forms (`cardinality`)."""
    if part.scans:
        return None
    outputs = [cardinality.most_values(key, part.columns, part.conditions) for _, key in part.keys]
    known = [n for n in outputs if n is not None]
    tried = _inputs(part)
    return min(tried, prod(known)) if len(known) == len(outputs) else tried
