"""The groups that declared domains allow, as SQL that enumerates them.

Knows: how relations, expressions and constants are spelled, what a domain consists of. Must not know: which keys have a domain
(`properties.key_domains` decides that), private rows. The SQL reads constants and public tables alone.
"""

from __future__ import annotations

from dpproxy.engines.base import Engine
from dpproxy.engines.relations import Renderer
from dpproxy.tree.expr import Column, Domain, SeriesDomain, ValuesDomain
from dpproxy.tree.measured import Declared, DeclaredPart, Strays


def declared_text(groups: Declared, renderer: Renderer) -> str:
    """Write `SELECT k0, ... ` of all possible groups."""
    items: dict[int, str] = {}
    sources = []
    for i, part in enumerate(groups.parts):
        alias = f"g{i}"
        sources.append(f"({part_text(part, renderer)}) AS {alias}")
        items.update({index: f"{alias}.k{index} AS k{index}" for index, _ in part.keys})
    return f"SELECT {', '.join(items[i] for i in range(groups.width))} FROM {' CROSS JOIN '.join(sources)}"


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
