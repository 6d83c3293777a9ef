"""What is done to the groups of each unit, as common table expressions: groups are picked, parts are scaled, units are added up.

Knows: names of columns: `u` the unit, `k{i}` its keys, `n{i}` and `t{i}` counts and totals, `s{i}` sizes, `m{i}` steps, `p{i}`
parts. Must not know: trees, what a row is made of, engines; this SQL is common to all. Work is proportional to what there is to
do: only units with too many groups have theirs ranked, a unit's size is looked up only where it has several groups, and what all
units add is summed once for each step before a column is made of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpproxy.plan.engines import norm_scaling
from dpproxy.plan.logical.measured import Part, Scaled

MOST_STEPS = 2
"""Columns of steps by whose values parts are summed first. With each more of them there are up to twelve times as many sums, and
at last as many as rows."""


def picked(source: str, most: int, order: str) -> list[str]:
    """Write `q`: the first `most` groups of each unit in that order. Few units have more, as a rule: only theirs are ranked."""
    many = f"many AS (SELECT u FROM {source} GROUP BY u HAVING count(*) > {most})"
    of_many = f"SELECT * FROM {source} WHERE EXISTS (SELECT 1 FROM many WHERE many.u = {source}.u)"
    ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY {order}) AS rank FROM ({of_many}) AS many_groups"
    others = f"SELECT *, 1 AS rank FROM {source} WHERE NOT EXISTS (SELECT 1 FROM many WHERE many.u = {source}.u)"
    return [many, f"q AS ({others} UNION ALL SELECT * FROM ({ranked}) AS ranked WHERE rank <= {most})"]


def in_turn(within: str, norm: int, rows: int, order: str) -> str:
    """Write those values of `within` that a unit has in all its groups in turn, each group's first before any second ones, for as
    long as their numbers a group have a norm of at most `rows`: the r-th value of a group adds 1 to the l1 norm,
    r**2 - (r - 1)**2 to the square of the l2 norm."""
    added, most = ("1", rows) if norm == 1 else ("2 * rank - 1", rows**2)
    running = f"sum({added}) OVER (PARTITION BY u ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    return f"SELECT * FROM (SELECT *, {running} AS filled FROM ({within}) AS turns) AS whole WHERE filled <= {most}"


def scaled(source: str, group: Sequence[str], parts: Sequence[Part | None], texts: Sequence[str]) -> list[str]:
    """Write `p`: the `texts` of parts, some of which are scaled by the size of all the unit's groups in `source`."""
    own = [p for p in parts if isinstance(p, Scaled) and p.counter == p.index]
    steps = [f"{text} AS m{p.index}" for p in own if (text := norm_scaling.step(p))]
    kept = [f"m{i}" for i in stepped(parts)]
    if len(group) == 1:  # no keys: each unit is one row, whose size is the unit's
        sizes = f"SELECT {', '.join(['*', *(f'{norm_scaling.alone(p)} AS s{p.index}' for p in own)])} FROM {source}"
        whole = f"SELECT {', '.join(['*', *steps])} FROM ({sizes}) AS sizes"
        return [f"p AS (SELECT {', '.join([*group, *kept, *texts])} FROM ({whole}) AS units)"]
    sizes = f"SELECT {', '.join(['u', *(f'{norm_scaling.norm(p)} AS s{p.index}' for p in own)])} FROM {source} GROUP BY u"
    weights = f"SELECT {', '.join(['*', *steps])} FROM ({sizes}) AS sizes" if steps else sizes
    columns = [*(f"{source}.{name}" for name in group), *(f"w.{name}" for name in kept), *texts]
    return [f"w AS ({weights})", f"p AS (SELECT {', '.join(columns)} FROM {source} JOIN w ON {source}.u = w.u)"]


def stepped(parts: Sequence[Part | None]) -> list[int]:
    """Return which parts are counted in steps."""
    return [p.index for p in parts if isinstance(p, Scaled) and p.steps > 1]


@dataclass(frozen=True)
class Units:
    """What is added up to groups: a relation, how its units are counted, and fewer rows that add up to the same."""

    source: str
    count: str = "count(*)"


def by_step(source: str, keys: Sequence[str], parts: Sequence[Part | None], used: Sequence[int]) -> tuple[list[str], Units]:
    """Write the parts `used` summed for each step of a group: a column for each step is then made of few rows."""
    steps = [f"m{i}" for i in stepped(parts)]
    if not 0 < len(steps) <= MOST_STEPS:
        return [], Units(source)
    sums = [f"sum(p{i}) AS p{i}" for i in used]
    by = ", ".join([*keys, *steps])
    text = f"o AS (SELECT {', '.join([by, *sums, 'count(*) AS units'])} FROM {source} GROUP BY {by})"
    return [text], Units("o", "CAST(coalesce(sum(units), 0) AS BIGINT)")
