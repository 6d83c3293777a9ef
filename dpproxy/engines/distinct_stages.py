"""COUNT(DISTINCT x) and SUM(DISTINCT x) as SQL: as many distinct values of each unit as its bound allows, then distinct
across units.

Knows: the nodes of `tree.measured`, an engine's spelling. Must not know: how rows are read, policies, noise. `r` are the
rows, each with its unit, keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpproxy.engines import unit_stages
from dpproxy.engines.base import Engine
from dpproxy.engines.group_names import GroupNames
from dpproxy.tree.measured import (
    Contributions,
    DistinctCount,
    DistinctSum,
    MeasuredRows,
    Picked,
    Scaled,
    Stage,
    Sums,
)


def sum_of_each(column: str, engine: Engine) -> str:
    """Add up a column's values, each once."""
    return engine.saturated(engine.total(f"DISTINCT {column}", 0))


def with_distinct(source: str, node: Sums, names: GroupNames, values: Mapping[int, str]) -> tuple[list[str], str]:
    """Write what `node` adds up, which is in `source`, with the numbers, or sums, of distinct values of its group next to each
    unit's group. `values`: the columns of row values. Return the common table expressions this takes, and what to read."""
    distinct = {i: total for i, total in enumerate(node.totals) if isinstance(total, DistinctCount | DistinctSum)}
    if not distinct:
        return [], source
    stages = [_distinct(i, total, source, names, values[total.index]) for i, total in distinct.items()]
    text = f"{source} AS m"
    for i in distinct:
        text += f" LEFT JOIN d{i} ON {names.same('m', f'd{i}', names.keys) or 'TRUE'}"
    stage: Stage | MeasuredRows = node.child
    while not isinstance(stage, Contributions):
        assert isinstance(stage, Picked)
        stage = stage.child
    partials = [f"m.p{i} AS p{i}" for i, part in enumerate(stage.parts) if part is not None]
    counts = [f"d{i}.n AS n{i}" for i in distinct]
    counts += [f"m.m{p.index} AS m{p.index}" for p in stage.parts if isinstance(p, Scaled) and p.steps > 1]
    items = [*(f"m.{k} AS {k}" for k in names.keys), "m.u AS u", *partials, *counts]
    return stages, f"(SELECT {', '.join(items)} FROM {text}) AS j"


def _distinct(i: int, total: DistinctCount | DistinctSum, source: str, names: GroupNames, x: str) -> str:
    group = names.group
    join = f" JOIN (SELECT {', '.join(group)} FROM {source}) AS s ON {names.same('r', 's', group)}"
    base = f"SELECT DISTINCT {', '.join(f'r.{g}' for g in group)}, r.{x} FROM r{join} WHERE r.{x} IS NOT NULL"
    order = f"{names.hash(total.order, ['u', x])}, {x}"
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {', '.join(group)} ORDER BY {order}) AS rank FROM ({base}) AS v"
    within = f"SELECT * FROM ({ranked}) AS w WHERE rank <= {total.most}"
    if total.norm:
        within = unit_stages.in_turn(within, total.norm, total.rows, f"rank, {names.turn(total.order)}")
    keys = "".join(f"{k}, " for k in names.keys)
    by = f" GROUP BY {', '.join(names.keys)}" if names.keys else ""
    n = f"count(DISTINCT {x})" if isinstance(total, DistinctCount) else sum_of_each(x, names.engine)
    return f"d{i} AS (SELECT {keys}{n} AS n FROM ({within}) AS kept{by})"
