"""Reports of devices by what they say, as SQL: plain keys, the report as it is stored, whole numbers.

Knows: the trees of a reading, an engine's spelling. Must not know: how devices randomise, what is estimated. The text is the same
`GROUP BY` on every engine, so that all return the same integers.
"""

from __future__ import annotations

from dpproxy.engines.relations import Renderer
from dpproxy.tree.expr import Expr
from dpproxy.tree.measured import CandidateList, ReadingQuery, ReportGroups, ReportTotal


def spelled(tree: ReadingQuery, renderer: Renderer) -> str:
    """Write a query of a reading."""
    return _groups(tree, renderer) if isinstance(tree, ReportGroups) else _candidates(tree, renderer)


def _groups(tree: ReportGroups, renderer: Renderer) -> str:
    block = renderer.block(tree.child)

    def key(expr: Expr) -> str:
        return renderer.key(expr, block.names)

    def total(wanted: ReportTotal) -> str:
        value = "1" if wanted.value is None else renderer.expr(wanted.value, block.names)
        if wanted.where is not None:
            value = f"CASE WHEN {renderer.expr(wanted.where, block.names)} THEN {value} END"
        if wanted.value is None:
            return f"CAST(count({'*' if wanted.where is None else value}) AS BIGINT)"
        return f"CAST(coalesce(sum({value}), 0) AS BIGINT)"

    by = [f"{key(k)} AS k{i}" for i, k in enumerate(tree.keys)]
    by += [f"CAST({key(tree.version)} AS BIGINT) AS v"] if tree.version is not None else []
    by += [f"{key(c)} AS r{i}" for i, c in enumerate(tree.cells)]
    items = [*by, *(f"{total(t)} AS a{i}" for i, t in enumerate(tree.totals))]
    grouped = f" GROUP BY {', '.join(str(i + 1) for i in range(len(by)))}" if by else ""
    return f"{renderer.select(block, items)}{grouped}"


def _candidates(tree: CandidateList, renderer: Renderer) -> str:
    block = renderer.block(tree.child)
    order = ", ".join(renderer.expr(e, block.names) for e in tree.order)
    return f"{renderer.select(block, [f'{renderer.output(tree.value, block.names)} AS v0'])} ORDER BY {order} LIMIT {tree.count}"
