"""Keys whose values can be numbered, so that groups may be counted by a number in place of a text or a time.

Knows: declared domains, expressions of keys. Must not know: how an engine writes numbers, data. A key is numbered where its
values are few, and are listed or are the beginnings of months, quarters or years of declared days.
"""

from __future__ import annotations

from datetime import date, timedelta

from dpproxy.plan.operations.catalogue import unit_cut_to
from dpproxy.plan.properties.facts import facts
from dpproxy.tree.expr import Call, Cast, Column, Domain, Expr, Ref, SeriesDomain, ValuesDomain
from dpproxy.tree.interval import EPOCH
from dpproxy.tree.measured import (
    PER_YEAR,
    Calendar,
    Coding,
    Contributions,
    Declared,
    Listed,
    Node,
    StoredGroups,
    StoredSums,
    UnitGroups,
    place,
    rows_of,
)

MAX_CODES = 1_000  # values of a key that are numbered in each statement's text


def coding(groups: Declared, key: int) -> Coding | None:
    """Return the values that a key can be in declared groups, None where they cannot be numbered or NULL is one of them."""
    for part in groups.parts:
        own = [expr for number, expr in part.keys if number == key]
        if own and len(part.columns) == 1 and not part.scans and not part.strays:
            ((column, domain),) = part.columns
            return _listed(own[0], column, domain) if isinstance(domain, ValuesDomain) else _calendar(own[0], column, domain)
    return None


def _listed(key: Expr, column: Column, domain: ValuesDomain) -> Listed | None:
    plain = isinstance(key, Ref) and key.column.id == column.id and key.column.type in ("text", "varchar")
    if not plain or len(domain.values) > MAX_CODES:
        return None
    texts = tuple(dict.fromkeys(v for v in domain.values if v is not None))
    return Listed(texts) if texts and None not in domain.values else None


def _calendar(key: Expr, column: Column, domain: Domain) -> Calendar | None:
    """The beginnings of months, say, of the days of a date or of a time without a zone."""
    unit = unit_cut_to(key)
    if not isinstance(key, Call) or unit not in PER_YEAR:
        return None
    inner = key.args[1]
    arg = inner.arg if isinstance(inner, Cast) and inner.type == "timestamp" and column.type == "date" else inner
    plain = isinstance(arg, Ref) and arg.column.id == column.id and inner.type == "timestamp"
    if not plain or not isinstance(domain, SeriesDomain) or domain.kind != "day" or domain.nulls:
        return None
    try:
        lo, hi = (EPOCH + timedelta(days) for days in (domain.lo, domain.hi))
    except OverflowError:
        return None
    months = 12 // PER_YEAR[unit]
    first, last = place(unit, lo), place(unit, hi)
    size = last - first + 1
    return Calendar(unit, date(first * months // 12, first * months % 12 + 1, 1), size) if 0 < size <= MAX_CODES else None


def coded_keys(stage: Node, groups: Declared) -> dict[int, Coding]:
    """Return the keys, by number, that may be counted by the number of their value, and these values; groups of other values are
    left out first. None where groups are picked: all that a unit has are picked from. None that are constant per unit: they make
    no more groups than there are units, and numbering would cost more than it saves."""
    if isinstance(stage, StoredSums):
        return stage.coded
    if not (isinstance(stage, Contributions) and isinstance(stage.child, UnitGroups | StoredGroups)):
        return {}
    found = ((i, coding(groups, i)) for i, key in enumerate(rows_of(stage).keys) if not facts(key).constant)
    return {i: values for i, values in found if values is not None}
