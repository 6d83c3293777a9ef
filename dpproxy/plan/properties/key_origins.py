"""What group keys are computed of: through subqueries down to declared columns, and through time zones to days on their clocks.

Knows: expressions, declared domains, offsets of time zones. Must not know: relations, engines, data. A column of a subquery that
holds the value of an expression (`Column.made`) takes the values that the expression takes over declared ones. A time on another
zone's clock takes the days that declared days reach there. Nothing of privacy rests on it: what is not enumerated is not
released.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Mapping, Sequence

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.units import UNITS
from dpproxy.plan.properties.narrowing import narrowed_bound
from dpproxy.tree.expr import Call, Case, Cast, Column, Expr, Hole, InList, Lit, Ref, SeriesDomain, rebuilt, walk

MAX_ORIGIN = 200  # nodes of an expression that a column is known to hold
_DAY = 86_400
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ROWWISE = (Ref, Lit, Hole, Call, Cast, Case, InList)
_STAMPS = ("timestamp", "timestamptz")


def origin(expr: Expr) -> Expr | None:
    """Return what a column that holds the value of an expression is known to be made of: of one row, and not too long."""
    whole = expanded(expr)
    parts = [*walk(whole)]
    return whole if len(parts) <= MAX_ORIGIN and all(isinstance(e, _ROWWISE) for e in parts) else None


def expanded(expr: Expr) -> Expr:
    """Write an expression over the columns that its own columns are made of."""
    if isinstance(expr, Ref):
        return expr if expr.column.made is None or expr.column.domain is not None else expr.column.made
    return rebuilt(expr, expanded)


def local_days(expr: Expr, conditions: Sequence[Expr]) -> SeriesDomain | None:
    """Return the days on the clock of AT TIME ZONE, of an instant whose days are declared; None for other expressions."""
    if not isinstance(expr, Call) or not operation(expr.op).zone or not isinstance(expr.args[1], Lit):
        return None
    days = _days(expr.args[0], conditions)
    if days is None:
        return None
    sign = operation(expr.op).zone
    try:
        zone = zoneinfo.ZoneInfo(expr.args[1].text or "")
        first, last = ([sign * offset for offset in _offsets(zone, day)] for day in (days.lo, days.hi))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OverflowError):
        return None
    low, high = days.lo * _DAY + min(first), (days.hi + 1) * _DAY - 1 + max(last)
    return SeriesDomain(low // _DAY, high // _DAY, "day", days.nulls)


def _days(expr: Expr, conditions: Sequence[Expr]) -> SeriesDomain | None:
    """The declared days of a column, or of one on another clock, as far as comparisons with constants leave them."""
    while isinstance(expr, Cast) and expr.type in _STAMPS:
        expr = expr.arg
    if not isinstance(expr, Ref):
        return local_days(expr, conditions)
    column, domain = expr.column, expr.column.domain
    if not isinstance(domain, SeriesDomain) or domain.kind != "day" or column.type not in (*_STAMPS, "date"):
        return None
    return clipped(domain, column, conditions)


def clipped(domain: SeriesDomain, column: Column, conditions: Sequence[Expr]) -> SeriesDomain:
    """Return the part of a series that comparisons with constants leave: no engine enumerates years for a week of them, and no
    unit is taken to reach them. NULL satisfies no comparison."""
    ref = Ref(column.type, column)  # what is known of a column differs from place to place: it is meant by its number
    said = narrowed_bound(ref, [rebuilt(c, lambda e: ref if _is(column, e) else e) for c in conditions])
    size = 1 if domain.kind == "int" or column.type == "date" else UNITS[domain.kind].seconds[0]
    lo = domain.lo if said.lo is None else min(max(domain.lo, (said.lo / size).__floor__()), domain.hi)
    hi = domain.hi if said.hi is None else max(min(domain.hi, (said.hi / size).__floor__()), lo)
    return SeriesDomain(lo, hi, domain.kind, domain.nulls and said.lo is None and said.hi is None)


def _is(column: Column, expr: Expr) -> bool:
    return isinstance(expr, Ref) and expr.column.id == column.id


def _offsets(zone: zoneinfo.ZoneInfo, day: int) -> list[int]:
    """Seconds east of UTC around a day: no zone is more than a day off."""
    instants = (_EPOCH + dt.timedelta(days=day + off, hours=hours) for off in (-1, 0, 1) for hours in range(0, 24, 6))
    found = [instant.astimezone(zone).utcoffset() for instant in instants]
    return [int(offset.total_seconds()) for offset in found if offset is not None]


def over_computed(expr: Expr, computed: Mapping[Expr, Column]) -> Expr:
    """Write an expression over the columns that stand for what is computed: times on other clocks, numbers with few values."""
    column = computed.get(expr)
    return rebuilt(expr, lambda e: over_computed(e, computed)) if column is None else standing(column, expr.type)


def standing(column: Column, type_: str) -> Expr:
    """Return the value of a column that stands for an expression of a type: of that type, or of whole numbers."""
    return Cast(type_, Ref("int8", column)) if column.type == "int8" else Ref(type_, column)


def constants_in(condition: Expr) -> Expr:
    """Write a condition with the constants that columns of one-row relations are: `WITH p AS (SELECT date '2024-01-01' AS a)`."""
    if isinstance(condition, Ref):
        return condition.column.made if isinstance(condition.column.made, Lit) else condition
    return rebuilt(condition, constants_in)
