"""What is known of an expression before any data is touched: bounds, grid, taint, constancy within a unit.

Knows: interval arithmetic over the planner's expressions. Must not know: engines, SQL text. Two intervals are kept: `bound`
is what the policy promises (sums are clamped to it, so a false promise costs accuracy, never privacy);
`span` is what the type itself guarantees (it decides how wide the engine's arithmetic must be, so it must be true).
An operation without a rule here has no bound: aggregates over it are refused, never guessed.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from fractions import Fraction

from dpproxy.plan.operations.bounds import ONE, coarsest
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Nulls, Operation
from dpproxy.plan.properties.text_length import longest_text
from dpproxy.sql.types import INTEGERS
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import (
    Agg,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Expr,
    Hole,
    InList,
    InQuery,
    Lit,
    Ref,
    Scalar,
    Taint,
    Win,
    children,
)
from dpproxy.tree.interval import OPEN, Interval

SPANS = {
    "int2": Interval(Fraction(-(2**15)), Fraction(2**15 - 1)),
    "int4": Interval(Fraction(-(2**31)), Fraction(2**31 - 1)),
    "int8": Interval(Fraction(-(2**63)), Fraction(2**63 - 1)),
    "bool": Interval(Fraction(0), Fraction(1)),
}
LARGEST = {"int2": 2**15 - 1, "int4": 2**31 - 1, "int8": 2**63 - 1}
_KNOWN = "_facts"  # beside the fields: neither compared nor copied


@dataclass(frozen=True)
class Facts:
    bound: Interval = OPEN
    span: Interval = OPEN
    grid: Fraction | None = None
    taint: Taint = Taint.NONE
    constant: bool = False  # the same in all rows of a unit: it decides privacy, so what is not known is taken to vary
    nullable: bool = True


def facts(expr: Expr) -> Facts:
    """Facts of an expression; unknown ones are open. An expression never changes: what was found of it is kept with it."""
    known: Facts | None = expr.__dict__.get(_KNOWN)
    if known is None:
        known = expr.__dict__[_KNOWN] = _found(expr)
    return known


def beyond_type(expr: Expr) -> bool:
    """Tell whether a whole number may be one that its type of 16 or 32 bits cannot hold, for which PostgreSQL would raise. As a
    column it would be taken for one that fits (`_column`)."""
    return expr.type in ("int2", "int4") and not isinstance(expr, Ref) and not _fits(expr, expr.type)


def fits_int4(expr: Expr) -> bool:
    return _fits(expr, "int4")


def _fits(expr: Expr, type_: str) -> bool:
    found, most = facts(expr).span, LARGEST[type_]
    return found.lo is not None and found.hi is not None and -most - 1 <= found.lo and found.hi <= most


def _found(expr: Expr) -> Facts:
    match expr:
        case Ref(column=column):
            return _column(column)
        case Lit(text=text):
            return _literal(expr.type, text)
        case Hole(bound=bound) if bound.closed:
            return Facts(bound, SPANS.get(expr.type, OPEN), ONE if expr.type in INTEGERS else None, constant=True)
        case Hole():
            return Facts(span=SPANS.get(expr.type, OPEN), grid=ONE if expr.type in INTEGERS else None, constant=True)
        case Cast(arg=arg):
            return _cast(expr, facts(arg))
        case Case():
            return _case(expr)
        case Call():
            return _call(expr)
        case InQuery(own=True):
            return Facts(constant=False, span=SPANS["bool"])
        case InQuery() | Exists():
            return Facts(taint=_taint([facts(c) for c in children(expr)]), constant=False, span=SPANS["bool"])
        case Scalar(value=value):  # it varies between rows of a unit unless proven otherwise
            known = facts(value)
            return replace(known, taint=_taint([facts(c) for c in children(expr)]), constant=False, nullable=True)
        case Win():
            return _window(expr, [facts(a) for a in expr.args])
        case Agg():
            return _aggregate(expr.name, expr.type, [facts(a) for a in expr.args])
        case InList():
            inner = [facts(c) for c in children(expr)]
            return Facts(span=SPANS["bool"], taint=_taint(inner), constant=all(f.constant for f in inner))
        case _:
            return Facts(span=SPANS.get(expr.type, OPEN), grid=ONE if expr.type in INTEGERS else None)


def _taint(parts: list[Facts]) -> Taint:
    return max((p.taint for p in parts), default=Taint.NONE)


def _column(column: Column) -> Facts:
    grid = column.grid or (ONE if column.type in INTEGERS else None)
    bound = SPANS["bool"] if column.type == "bool" else column.bound
    return Facts(bound, column_span(column), grid, column.taint, column.constant, column.nullable)


def column_span(column: Column) -> Interval:
    return SPANS.get(column.type, OPEN)


def _literal(type_: str, text: str | None) -> Facts:
    if text is None:
        return Facts(bound=Interval(Fraction(0), Fraction(0)), span=Interval(Fraction(0), Fraction(0)), grid=None, constant=True)
    value = literal_number(type_, text)
    if value is None:
        return Facts(constant=True, nullable=False)
    point = Interval(value, value)
    grid = _decimal_grid(text) if type_ in (*INTEGERS, "numeric", "float8", "float4") else None
    return Facts(point, point, grid, constant=True, nullable=False)


def literal_number(type_: str, text: str) -> Fraction | None:
    """Return a constant as a rational on the scale of `interval.number`; None for what has no order we compute with."""
    try:
        if type_ in (*INTEGERS, "numeric", "float4", "float8"):
            return Fraction(text)
        if type_ == "bool":
            return Fraction(text == "true")
        if type_ == "date":
            return iv.number(dt.date.fromisoformat(text))
        if type_ in ("timestamp", "timestamptz"):
            return iv.number(dt.datetime.fromisoformat(text))
    except (ValueError, ZeroDivisionError):
        return None
    return None


def _decimal_grid(text: str) -> Fraction | None:
    """The power of ten a decimal literal is a multiple of."""
    digits = text.lstrip("+-")
    if not digits.replace(".", "", 1).isdigit():
        return None
    _, _, decimals = digits.partition(".")
    return Fraction(1, 10 ** len(decimals))


def _cast(expr: Cast, inner: Facts) -> Facts:
    """Casts keep bounds, but between dates (days) and timestamps (seconds)."""
    source, target = expr.arg.type, expr.type
    bound, grid = inner.bound, inner.grid
    if source == "date" and target in ("timestamp", "timestamptz"):
        bound = iv.multiply(bound, Interval(Fraction(86400), Fraction(86400)))
        grid = None
    elif target == "date" and source in ("timestamp", "timestamptz"):
        bound = iv.floor(iv.divide(bound, Interval(Fraction(86400), Fraction(86400))))
        grid = ONE
    elif target in INTEGERS:
        bound, grid = iv.outward(bound), ONE
    elif target == "numeric" and len(expr.length) == 2:
        bound, grid = iv.outward(bound, expr.length[1]), Fraction(1, 10 ** expr.length[1])
    elif _family(source) != _family(target) and source != "bool":
        bound, grid = OPEN, None
    if target == "float4":  # the nearest of few digits
        bound, grid = _nearly(bound), None
    span = SPANS.get(target, inner.span if _family(source) == _family(target) else OPEN)
    return Facts(bound, iv.meet(span, inner.span) if target in INTEGERS else span, grid, inner.taint, inner.constant, True)


def _nearly(bound: Interval) -> Interval:
    """A bound of values rounded to 24 bits."""
    lo = None if bound.lo is None else bound.lo - abs(bound.lo) / 2**23
    return Interval(lo, None if bound.hi is None else bound.hi + abs(bound.hi) / 2**23)


def as_type(type_: str, expr: Expr) -> Facts:
    """Facts of an expression where one of `type_` is wanted: dates among timestamps are seconds, not days."""
    return facts(expr) if expr.type == type_ or {expr.type, type_}.isdisjoint({"date"}) else facts(Cast(type_, expr))


def _family(type_: str) -> str:
    if type_ in (*INTEGERS, "numeric", "float4", "float8"):
        return "number"
    return "text" if type_ in ("text", "varchar", "bpchar", "unknown") else type_


def _case(expr: Case) -> Facts:
    results = [as_type(expr.type, result) for _, result in expr.whens]
    results.append(as_type(expr.type, expr.default) if expr.default is not None else facts(Lit(expr.type, None)))
    tests = [facts(test) for test, _ in expr.whens]
    valued = [r for r, e in zip(results, [*(r for _, r in expr.whens), expr.default], strict=True) if not _is_null(e)]
    return Facts(
        iv.hull([r.bound for r in valued]) if valued else OPEN,
        iv.hull([r.span for r in results]),
        coarsest([r.grid for r in valued]),
        _taint([*results, *tests]),
        all(f.constant for f in [*results, *tests]),
    )


def _is_null(expr: Expr | None) -> bool:
    return expr is None or (isinstance(expr, Lit) and expr.text is None)


@dataclass(frozen=True)
class _Operand:
    """An operand, as rules of the catalogue look at it (`plan.operations.operation.Operand`)."""

    expr: Expr
    known: Facts

    @property
    def bound(self) -> Interval:
        return self.known.bound

    @property
    def span(self) -> Interval:
        return self.known.span

    @property
    def grid(self) -> Fraction | None:
        return self.known.grid

    @property
    def longest(self) -> int | None:
        return longest_text(self.expr)

    @property
    def made_by(self) -> Operation | None:
        return operation(self.expr.op) if isinstance(self.expr, Call) else None

    @property
    def operands(self) -> list[_Operand]:
        return [_Operand(e, facts(e)) for e in children(self.expr)]


def _call(call: Call) -> Facts:
    row, type_ = operation(call.op), call.type
    parts = [as_type(type_, a) if row.chooses and row.nulls is Nulls.ALL else facts(a) for a in call.args]
    if row.passes_null:
        parts = list(map(_no_constant, parts))
    operands = [_Operand(arg, part) for arg, part in zip(call.args, parts, strict=True)]
    bound, span = row.values(operands)
    if type_ == "bool":
        bound = span = SPANS["bool"]
    elif type_ in INTEGERS and row.bound is None:
        span = SPANS["int8"]
    grid = ONE if type_ in INTEGERS else row.grid(operands) if row.grid is not None else None
    constant = all(p.constant for p in parts)
    return Facts(bound, span, grid, _taint(parts), constant, row.nulls is not Nulls.NEVER)


def _no_constant(part: Facts) -> Facts:
    """What may be NULL is no constant to LEAST and GREATEST, which pass over it, though it have one value."""
    if not part.nullable or part.bound.lo is None or part.bound.lo != part.bound.hi:
        return part
    return replace(part, bound=Interval(part.bound.lo - 1, part.bound.lo + 1))


def _window(win: Win, parts: list[Facts]) -> Facts:
    """As aggregates, and what counts or adds up rows of a partition is bounded by how many there are."""
    known = _aggregate(win.name, win.type, parts)
    rows = Interval(Fraction(0), Fraction(win.rows))
    if win.name in ("count", "row_number", "rank", "dense_rank"):
        return replace(known, bound=rows)
    if win.name == "ntile":
        most = parts[0].bound.hi
        return replace(known, bound=Interval(ONE, None if most is None else max(most, ONE)))
    if win.name == "sum" and parts[0].bound.closed:
        lo, hi = parts[0].bound.ends
        return replace(known, bound=Interval(min(lo, Fraction(0)) * win.rows, max(hi, Fraction(0)) * win.rows))
    return known


def _aggregate(name: str, type_: str, parts: list[Facts]) -> Facts:
    """Inside one unit: MIN, MAX, AVG stay within their argument; counts are non-negative; the rest is open.

    The relation's row bound turns counts and sums into closed intervals (`binder` does, it knows the bound).
    """
    taint = _taint(parts)
    whole = ONE if type_ in INTEGERS else None
    if name in ("min", "max", "first_value", "last_value", "lag", "lead", "nth_value", "any_value", "mode") and parts:
        return Facts(parts[0].bound, parts[0].span, parts[0].grid, taint, constant=False)
    if name == "avg" and parts:
        return Facts(parts[0].bound, OPEN, None, taint, constant=False)
    if name in ("count", "row_number", "rank", "dense_rank", "ntile"):
        return Facts(Interval(Fraction(0), None), SPANS["int8"], ONE, taint, constant=False, nullable=False)
    grid = parts[0].grid if name == "sum" and parts else whole
    return Facts(OPEN, SPANS.get(type_, OPEN), grid, taint, constant=False)
