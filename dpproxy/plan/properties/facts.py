"""What is known of an expression before any data is touched: bounds, grid, taint, constancy within a unit.

Knows: interval arithmetic over the planner's expressions. Must not know: engines, SQL text. Two intervals are kept: `bound`
is what the policy promises (sums are clamped to it, so a false promise costs accuracy, never privacy);
`span` is what the type itself guarantees (it decides how wide the engine's arithmetic must be, so it must be true).
Neither rests on a contribution bound. What does is `limited`, of another type: where values of units within their contribution
bounds lie. Only `reach` looks at it, for whoever must hold a value somewhere; who does must also say what that may cut.
An operation without a rule here has no bound: aggregates over it are refused, never guessed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpproxy.plan.operations.bounds import ONE, coarsest
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Nulls, Operation
from dpproxy.plan.properties.text_growth import longest_text
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
from dpproxy.tree.interval import OPEN, Interval, Limited

SPANS = {
    "int2": Interval(Fraction(-(2**15)), Fraction(2**15 - 1)),
    "int4": Interval(Fraction(-(2**31)), Fraction(2**31 - 1)),
    "int8": Interval(Fraction(-(2**63)), Fraction(2**63 - 1)),
    "bool": Interval(Fraction(0), Fraction(1)),
}
LARGEST = {"int2": 2**15 - 1, "int4": 2**31 - 1, "int8": 2**63 - 1}
REMAINDER, FEW = "%", 200
"""The operation whose values identify nobody where they are at most so many more than one."""
_KNOWN = "_facts"  # beside the fields: neither compared nor copied


@dataclass(frozen=True)
class Facts:
    bound: Interval = OPEN
    span: Interval = OPEN
    grid: Fraction | None = None
    taint: Taint = Taint.NONE
    constant: bool = False  # the same in all rows of a unit: it decides privacy, so what is not known is taken to vary
    nullable: bool = True
    limited: Limited | None = None

    @property
    def reach(self) -> Interval:
        """Return where values are held when they are added up or chosen: within `bound`; at an end that is open, where
        contribution bounds leave a unit. What is beyond there is cut (`sure`)."""
        return self.bound if self.limited is None else self.limited.met(self.bound)

    @property
    def sure(self) -> tuple[bool, bool]:
        """Tell of the low and the high end of `reach` whether no value is beyond it, as far as the policy is true."""
        return self.bound.lo is not None, self.bound.hi is not None


def facts(expr: Expr) -> Facts:
    """Facts of an expression; unknown ones are open. An expression never changes: what was found of it is kept with it."""
    known: Facts | None = expr.__dict__.get(_KNOWN)
    if known is None:
        known = expr.__dict__[_KNOWN] = _settled(_shared(expr, _found(expr)))
    return known


def _shared(expr: Expr, known: Facts) -> Facts:
    """An answer of yes or no, and a remainder of few values, identify nobody, whatever they are computed from."""
    if known.taint is Taint.NONE or isinstance(expr, Ref):
        return known
    lo, hi = known.bound.lo, known.bound.hi
    few = isinstance(expr, Call) and expr.op == REMAINDER and lo is not None and hi is not None and hi - lo <= FEW
    return replace(known, taint=Taint.NONE) if expr.type == "bool" or few else known


def _settled(known: Facts) -> Facts:
    """A value with a bound on both sides rests on no contribution bound."""
    return replace(known, limited=None) if known.limited is not None and known.bound.closed else known


def limited_by(parts: Sequence[Facts], rule: Callable[[list[Facts]], Interval]) -> Limited | None:
    """Return where contribution bounds hold what a rule makes of its parts: what it makes of where they hold these."""
    if all(part.limited is None for part in parts):
        return None
    by = dict.fromkeys(name for part in parts if part.limited is not None for name in part.limited.by)
    return Limited(rule([replace(part, bound=part.reach, limited=None) for part in parts]), tuple(by))


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
    return Facts(bound, column_span(column), grid, column.taint, column.constant, column.nullable, column.limited)


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
    span = iv.meet(span, inner.span) if target in INTEGERS else span
    limited = limited_by([inner], lambda parts: _cast(expr, parts[0]).bound)
    return Facts(bound, span, grid, inner.taint, inner.constant, True, limited)


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
        _hull(valued) if valued else OPEN,
        iv.hull([r.span for r in results]),
        coarsest([r.grid for r in valued]),
        _taint([*results, *tests]),
        all(f.constant for f in [*results, *tests]),
        limited=limited_by(valued, _hull),
    )


def _hull(parts: Sequence[Facts]) -> Interval:
    return iv.hull([part.bound for part in parts])


def merged(parts: Sequence[Facts]) -> tuple[Interval, Limited | None]:
    """Return the bound of what is a value of any of the parts, and where contribution bounds hold it."""
    return _hull(parts), limited_by(parts, _hull)


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
    operands = _operands(call, parts)
    bound, span = row.values(operands)
    if type_ == "bool":
        bound = span = SPANS["bool"]
    elif type_ in INTEGERS and row.bound is None:
        span = SPANS["int8"]
    grid = ONE if type_ in INTEGERS else row.grid(operands) if row.grid is not None else None
    constant = all(p.constant for p in parts)
    limited = limited_by(parts, lambda known: row.values(_operands(call, known))[0]) if type_ != "bool" else None
    return Facts(bound, span, grid, _taint(parts), constant, row.nulls is not Nulls.NEVER, limited)


def _operands(call: Call, parts: Sequence[Facts]) -> list[_Operand]:
    return [_Operand(arg, part) for arg, part in zip(call.args, parts, strict=True)]


def _no_constant(part: Facts) -> Facts:
    """What may be NULL is no constant to LEAST and GREATEST, which pass over it, though it have one value."""
    if not part.nullable or part.bound.lo is None or part.bound.lo != part.bound.hi:
        return part
    return replace(part, bound=Interval(part.bound.lo - 1, part.bound.lo + 1))


def _window(win: Win, parts: list[Facts]) -> Facts:
    """As aggregates, and what counts or adds up rows of a partition is bounded by how many there are."""
    known = _aggregate(win.name, win.type, parts)
    if win.name in ("count", "row_number", "rank", "dense_rank", "sum"):
        bound, limited = of_rows(win.name, parts, win.rows, win.most, win.by)
        return replace(known, bound=bound, limited=limited)
    if win.name == "ntile":
        most = parts[0].bound.hi
        return replace(known, bound=Interval(ONE, None if most is None else max(most, ONE)))
    return known


def of_rows(
    name: str, parts: Sequence[Facts], rows: int, most: int | None, by: tuple[str, ...]
) -> tuple[Interval, Limited | None]:
    """Return the bound of what counts or adds up rows of one unit, and where contribution bounds hold it. `rows`: how many
    they let count; `by`: their names. `most`: how many there are at most, None where nothing says."""
    added = parts[0] if name == "sum" else Facts(Interval(Fraction(0), ONE))
    bound = _times(added.bound, most)
    within = _times(added.reach, rows)
    held = Limited(within, tuple(dict.fromkeys((*by, *(added.limited.by if added.limited is not None else ())))))
    return bound, None if bound.closed else held


def _times(each: Interval, rows: int | None) -> Interval:
    """What values add up to, of so many rows at most, or of any number of rows."""

    def end(value: Fraction | None, sign: int) -> Fraction | None:
        if value is None or value * sign <= 0:
            return None if value is None else Fraction(0)
        return None if rows is None else value * rows

    return Interval(end(each.lo, -1), end(each.hi, 1))


def _aggregate(name: str, type_: str, parts: list[Facts]) -> Facts:
    """Inside one unit: MIN, MAX, AVG stay within their argument; counts are non-negative; the rest is open.

    Of counts and sums whoever knows the relation's rows says more (`of_rows`).
    """
    taint = _taint(parts)
    whole = ONE if type_ in INTEGERS else None
    if name in ("min", "max", "first_value", "last_value", "lag", "lead", "nth_value", "any_value", "mode") and parts:
        return Facts(parts[0].bound, parts[0].span, parts[0].grid, taint, constant=False, limited=parts[0].limited)
    if name == "avg" and parts:
        return Facts(parts[0].bound, OPEN, None, taint, constant=False, limited=parts[0].limited)
    if name in ("count", "row_number", "rank", "dense_rank", "ntile"):
        return Facts(Interval(Fraction(0), None), SPANS["int8"], ONE, taint, constant=False, nullable=False)
    grid = parts[0].grid if name == "sum" and parts else whole
    return Facts(OPEN, SPANS.get(type_, OPEN), grid, taint, constant=False)
