"""Typed expressions and columns: the planner's own small language (nothing else ever reaches an engine).

Knows: PostgreSQL types, bounds, taint. Must not know: SQL text of the client, engines. An expression is built only from
constructors the binder knows; every node is immutable and comparable, so equal expressions are measured once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from fractions import Fraction
from functools import cached_property

from dpproxy.local.listed import Binary, Direct
from dpproxy.tree.interval import OPEN, Interval, Limited


class Taint(IntEnum):
    """Taint says how much of a person a value identifies: UNIT and KEY values are counted and joined on, never released."""

    NONE = 0
    KEY = 1
    UNIT = 2


@dataclass(frozen=True)
class ValuesDomain:
    """The values of the column are declared, as text in PostgreSQL's input syntax (None for NULL)."""

    values: tuple[str | None, ...]


@dataclass(frozen=True)
class SeriesDomain:
    """The values are whole numbers lo..hi, or days of a date range, or the hours or months that stand for these."""

    lo: int  # hours, days or months since 1970 for the time kinds
    hi: int
    kind: str  # int | hour | day | month
    nulls: bool = False

    @property
    def size(self) -> int:
        return self.hi - self.lo + 1 + self.nulls


@dataclass(frozen=True)
class TableDomain:
    """The values are all those of a public table's column: `scan` is the number of the scan it comes from."""

    scan: int


Domain = ValuesDomain | SeriesDomain | TableDomain


@dataclass(frozen=True)
class Coin:
    """How devices randomised a column of a unit's table; `values`: candidates as texts, as the claim numbers them."""

    claim: Binary | Direct
    values: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A column belongs to one relation.

    `bound`: what the policy (or arithmetic) says of its values; `span`: what its type guarantees, for overflow.
    `grid`: its values are multiples of this. `constant`: the same in all rows of one unit. `optional`: NULL in rows an
    outer join did not match, so that the rows where it is NULL are not all one unit's even when it names units.
    """

    id: int
    name: str
    type: str
    bound: Interval = OPEN
    grid: Fraction | None = None
    taint: Taint = Taint.NONE
    constant: bool = False
    nullable: bool = True
    usable: bool = True  # False: an engine type the product can't compute with
    domain: Domain | None = field(default=None, compare=False)
    optional: bool = False
    reason: str = field(default="", compare=False)  # why it is not usable
    nulls: bool = field(default=True, compare=False)  # False: of what is declared of it NULL is no value
    undeclared: bool = field(default=False, compare=False)  # it may hold values that its domain lacks
    declared: bool = field(default=True, compare=False)  # its bound rests on what a policy says: rows may hold values beyond
    limited: Limited | None = field(default=None, compare=False)  # where contribution bounds hold it, beyond what `bound` knows
    length: int | None = field(default=None, compare=False)  # of texts: characters at most
    collated: bool = False  # a text with another collation than its database's
    zone: str = ""  # of a table's instants: whose clocks they are read by; empty for UTC
    exact: str = ""  # see `table_terms.same_kind`
    lasts: Interval = field(default=OPEN, compare=False)  # of a table's intervals: declared, in the seconds that they compare by
    coin: Coin | None = field(default=None, compare=False)  # it holds reports, of which estimates are made
    made: Expr | None = field(default=None, compare=False)  # what its value is in every row (`plan.properties.key_origins`)

    def __hash__(self) -> int:
        """Equal columns have equal ids; what else there is takes long to hash."""
        return self.id


@dataclass(frozen=True)
class Expr:
    type: str

    @cached_property
    def size(self) -> int:
        """The number of its nodes but literals, each as often as it is written out: an operand that two share counts twice."""
        return 1 + sum(c.size for c in children(self) if not isinstance(c, Lit))


@dataclass(frozen=True)
class Ref(Expr):
    column: Column


@dataclass(frozen=True)
class Lit(Expr):
    """A literal is a constant; `text` is in PostgreSQL's (checked, ISO) input syntax, None for NULL. `moving`: it is made of the
    time of day at which the statement runs."""

    text: str | None
    moving: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Hole(Expr):
    """A hole is a value known when the statement runs: parameter `index` of the statement, or an `Input`, whose formula keeps
    `bound`."""

    index: int
    bound: Interval = OPEN


@dataclass(frozen=True)
class Call(Expr):
    """A call applies an operation of the catalogue (`plan.operations.catalogue`) to arguments."""

    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Case(Expr):
    whens: tuple[tuple[Expr, Expr], ...]
    default: Expr | None


@dataclass(frozen=True)
class Cast(Expr):
    """A cast turns a value into one of `type`, and is total: a value that does not fit yields NULL. `length`: numeric(p,s),
    varchar(n)."""

    arg: Expr
    length: tuple[int, ...] = ()


@dataclass(frozen=True)
class InList(Expr):
    arg: Expr
    items: tuple[Expr, ...]
    negated: bool = False


@dataclass(frozen=True)
class Relation:
    """Base of all relations; `columns` are its outputs."""

    columns: tuple[Column, ...]


@dataclass(frozen=True)
class InQuery(Expr):
    """`args [NOT] IN (SELECT columns FROM relation)`. `own`: its rows are the unit's own, found by its id or by a key of
    it, so that the answer says something of the unit's rows and nothing of the id."""

    args: tuple[Expr, ...]
    relation: Relation
    columns: tuple[Expr, ...]
    negated: bool = False
    own: bool = False


@dataclass(frozen=True)
class Exists(Expr):
    """`[NOT] EXISTS (SELECT FROM relation)`; the relation may refer to columns of the outer one."""

    relation: Relation
    negated: bool = False


@dataclass(frozen=True)
class Scalar(Expr):
    """A scalar subquery: an aggregate (so exactly one row) over one unit's rows or over public tables."""

    relation: Relation
    value: Expr


@dataclass(frozen=True)
class Agg(Expr):
    """A deterministic aggregate inside one unit (in `Aggregate` relations), or one to be measured."""

    name: str
    args: tuple[Expr, ...]
    distinct: bool = False
    where: Expr | None = None
    order: tuple[tuple[Expr, bool, bool], ...] = ()  # expression, descending, nulls first
    fractions: tuple[Fraction, ...] = ()


@dataclass(frozen=True)
class Win(Expr):
    """A window function inside one unit. `frame` is one of a fixed list of texts; `rows`: how many rows of a partition
    contribution bounds let count, bounds that are named in `by`. `most`: how many there are at most, None where nothing says."""

    name: str
    args: tuple[Expr, ...]
    partition: tuple[Expr, ...]
    order: tuple[tuple[Expr, bool, bool], ...]
    frame: str = ""
    rows: int = 0
    most: int | None = field(default=None, compare=False)
    by: tuple[str, ...] = field(default=(), compare=False)


NULL = Lit("unknown", None)
TRUE = Lit("bool", "true")
FALSE = Lit("bool", "false")


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions (those of subqueries excluded)."""
    match expr:
        case Call(args=args) | InQuery(args=args):
            return args
        case Case(whens=whens, default=default):
            parts = tuple(e for when in whens for e in when)
            return (*parts, default) if default is not None else parts
        case Cast(arg=arg):
            return (arg,)
        case InList(arg=arg, items=items):
            return (arg, *items)
        case Agg(args=args, where=where, order=order):
            return (*args, *((where,) if where is not None else ()), *(o[0] for o in order))
        case Win(args=args, partition=partition, order=order):
            return (*args, *partition, *(o[0] for o in order))
        case _:
            return ()


def rebuilt(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the expression with `change` applied to what `children` gives of it."""
    match expr:
        case Call(op=op, args=args):
            return Call(expr.type, op, tuple(map(change, args)))
        case Case(whens=whens, default=default):
            pairs = tuple((change(test), change(result)) for test, result in whens)
            return Case(expr.type, pairs, change(default) if default is not None else None)
        case Cast(arg=arg, length=length):
            return Cast(expr.type, change(arg), length)
        case InList(arg=arg, items=items, negated=negated):
            return InList(expr.type, change(arg), tuple(map(change, items)), negated)
        case InQuery(args=args):
            return replace(expr, args=tuple(map(change, args)))
        case Agg(args=args, where=where, order=order):
            terms = tuple((change(e), descending, nulls) for e, descending, nulls in order)
            where = change(where) if where is not None else None
            return replace(expr, args=tuple(map(change, args)), where=where, order=terms)
        case Win(args=args, partition=partition, order=order):
            terms = tuple((change(e), descending, nulls) for e, descending, nulls in order)
            return replace(expr, args=tuple(map(change, args)), partition=tuple(map(change, partition)), order=terms)
        case _:
            return expr


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from walk(child)


def references(expr: Expr) -> tuple[Column, ...]:
    """Return the columns an expression reads directly (not inside subqueries), each once, in order."""
    return tuple(dict.fromkeys(e.column for e in walk(expr) if isinstance(e, Ref)))


def has_subquery(expr: Expr) -> bool:
    return any(isinstance(e, InQuery | Exists | Scalar) for e in walk(expr))


def conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """Return the operands of nested ANDs."""
    if expr is None or expr == TRUE:
        return ()
    if isinstance(expr, Call) and expr.op == "and":
        return tuple(c for arg in expr.args for c in conjuncts(arg))
    return (expr,)


def conjunction(parts: tuple[Expr, ...]) -> Expr | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Call("bool", "and", parts)
