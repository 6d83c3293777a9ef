"""The groups that declared domains allow, as SQL that enumerates them.

Knows: how relations, expressions and constants are spelled, what a domain consists of. Must not know: which keys have a domain
(`properties.key_domains` decides that), private rows. The SQL reads constants and public tables alone.
"""

from __future__ import annotations

from datetime import date, timedelta

from dpproxy.engines.base import Engine
from dpproxy.engines.relations import Renderer
from dpproxy.plan.properties.facts import facts
from dpproxy.tree.expr import Call, Cast, Column, Domain, Expr, Lit, Ref, SeriesDomain, ValuesDomain
from dpproxy.tree.interval import EPOCH
from dpproxy.tree.measured import (
    PER_YEAR,
    Calendar,
    Coding,
    Contributions,
    Declared,
    DeclaredPart,
    Listed,
    Node,
    StoredGroups,
    StoredSums,
    Strays,
    UnitGroups,
    place,
    rows_of,
)


def declared_text(groups: Declared, renderer: Renderer) -> str:
    """Write `SELECT k0, ... ` of all possible groups."""
    items: dict[int, str] = {}
    sources = []
    for i, part in enumerate(groups.parts):
        alias = f"g{i}"
        sources.append(f"({part_text(part, renderer)}) AS {alias}")
        items.update({index: f"{alias}.k{index} AS k{index}" for index, _ in part.keys})
    return f"SELECT {', '.join(items[i] for i in range(groups.width))} FROM {' CROSS JOIN '.join(sources)}"


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
    match key:
        case Call(op="trunc_time", args=(Lit(text=str() as unit), inner)) if unit in PER_YEAR:
            arg = inner.arg if isinstance(inner, Cast) and inner.type == "timestamp" and column.type == "date" else inner
        case _:
            return None
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


def part_text(part: DeclaredPart, renderer: Renderer) -> str:
    """Write `SELECT DISTINCT k0, ...` of the groups that keys of common sources allow."""
    names: dict[int, str] = {}
    sources = []
    for scan in part.scans:
        block = renderer.block(scan)
        names.update(block.names)
        sources.append(block.source)
    strays = {s.column.id: s for s in part.strays}
    for i, (column, domain) in enumerate(part.columns):
        text = _values_text(column, domain, renderer)
        names[column.id] = f"v{i}.v"
        if (beside := strays.get(column.id)) is not None:
            text = _marked(text, beside, renderer.engine)
            names[beside.stray.id] = f"v{i}.stray"
            names.update({test.id: f"v{i}.t{j}" for j, test in enumerate(beside.tests)})
        sources.append(f"({text}) AS v{i}")
    where = [renderer.expr(c, names) for c in part.conditions]
    keys = ", ".join(f"{renderer.key(key, names)} AS k{index}" for index, key in part.keys)
    text = f"SELECT DISTINCT {keys}"
    if sources:
        text += f" FROM {' CROSS JOIN '.join(sources)}"
    return text + (f" WHERE {' AND '.join(where)}" if where else "")


def _marked(declared: str, beside: Strays, engine: Engine) -> str:
    """The declared values, which are not stray, and those that are."""
    results = "".join(f", {engine.literal('bool', None)} AS t{j}" for j in range(len(beside.tests)))
    rows = [
        (engine.literal(beside.column.type, value), engine.literal("bool", "true"), *(engine.literal("bool", r) for r in tests))
        for value, *tests in beside.rows
    ]
    names = ["v", "stray", *(f"t{j}" for j in range(len(beside.tests)))]
    stray = f"SELECT {', '.join(names)} FROM {engine.values(rows, 'strays', names)}"
    return f"SELECT v, {engine.literal('bool', 'false')} AS stray{results} FROM ({declared}) AS declared UNION ALL {stray}"


def _values_text(column: Column, domain: Domain, renderer: Renderer) -> str:
    engine = renderer.engine
    if isinstance(domain, ValuesDomain):
        rows: list[tuple[str, ...]] = [(engine.literal(column.type, v),) for v in domain.values]
        return f"SELECT v FROM {engine.values(rows, 'declared', ['v'])}"
    assert isinstance(domain, SeriesDomain)
    null = f" UNION ALL SELECT {engine.literal(column.type, None)}" if domain.nulls else ""
    series = engine.series(domain.lo, domain.hi, domain.kind)
    text = "v" if domain.kind != "day" or column.type == "date" else "CAST(v AS TIMESTAMP)"
    return f"SELECT {text} AS v FROM {series} AS series{null}"
