"""ROLLUP levels that add up: least squares over a tree of released cells, as SQL for the facade (post-processing: free).

Knows: names of released columns, variances of their noise (numbers, or calls that `plan.intervals.numbers.with_error_numbers`
resolves). Must not know: data, measurements. Each level of a ROLLUP over declared keys was measured by itself; where bounds cut
nothing from one level that they leave in another, the true levels add up, and of all trees that do the nearest one to what was
released has the least variance (Hay, Rastogi, Miklau, Suciu 2010, "Boosting the accuracy of differentially private
histograms through consistency", here with any variance a level and any number of children).

Upwards, `z`: the mean of a cell's own value and the sum of its children's z, each weighed by one over its variance.
Downwards, `h`: what a parent has more than its children's z is divided over them in proportion to their variances.
Whole numbers: the running sum over a parent's children is rounded, and a child is what it grew by; the parent is whole,
so that the children add up to it exactly.

The variance of what is so found, `w`: that of a child's z within its parent, which no parent tells anything of, and its share
of the parent's own, which is independent of it. It is that of the values before rounding (`rounding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Level:
    """A level is one grouping set: the SQL of its source, the names of its keys, the variance of the noise in each column."""

    source: str
    keys: tuple[str, ...]
    variances: tuple[str, ...]


def rounding(number: int, levels: int) -> int:
    """Return by how many grid units rounding moves a cell of a level at most: the root by half of one, and each other by its
    own, of at most one, and no more than all of its parent's."""
    return levels - number


def consistent(levels: Sequence[Level], values: Sequence[str]) -> tuple[str, list[str]]:
    """Write the queries of a WITH clause, and for each level, the finest first, the name of one with its keys, adjusted values,
    and their variances named w0, w1, ..."""
    ctes = [f"dpproxy_l{i} AS (SELECT * FROM {level.source})" for i, level in enumerate(levels)]
    ctes.append(_leaves(levels[0], values))
    ctes += [_upwards(i, levels[i], levels[i - 1], values) for i in range(1, len(levels))]
    last = len(levels) - 1
    root = [*levels[last].keys, *(f"round(z{i}) AS {v}, v{i} AS w{i}" for i, v in enumerate(values))]
    ctes.append(f"dpproxy_h{last} AS (SELECT {', '.join([*root, *_carried(values)])} FROM dpproxy_z{last})")
    ctes += [_downwards(i, levels[i], levels[i + 1], values) for i in reversed(range(last))]
    return ", ".join(ctes), [f"dpproxy_h{i}" for i in range(len(levels))]


def chain(sets: Sequence[tuple[int, ...]]) -> list[int] | None:
    """Return the order of grouping sets from the finest to the coarsest, None where they are no chain of different ones."""
    order = sorted(range(len(sets)), key=lambda i: -len(sets[i]))
    nested = all(set(sets[b]) < set(sets[a]) for a, b in pairwise(order))
    return order if nested and len(sets) > 1 else None


def _carried(values: Sequence[str]) -> list[str]:
    """What a parent's children have by themselves, for the way down."""
    return [name for i, _ in enumerate(values) for name in (f"cz{i}", f"cv{i}")]


def _leaves(level: Level, values: Sequence[str]) -> str:
    items = [f"{v}::float8 AS z{i}, {level.variances[i]} AS v{i}, 0 AS cz{i}, 1 AS cv{i}" for i, v in enumerate(values)]
    return f"dpproxy_z0 AS (SELECT {', '.join([*level.keys, *items])} FROM dpproxy_l0)"


def _upwards(number: int, level: Level, finer: Level, values: Sequence[str]) -> str:
    sums = [f"sum(z{i}) AS cz{i}, sum(v{i}) AS cv{i}" for i, _ in enumerate(values)]
    by = f" GROUP BY {', '.join(level.keys)}" if level.keys else ""
    children = f"(SELECT {', '.join([*level.keys, *sums])} FROM dpproxy_z{number - 1}{by}) AS c"
    items = [f"l.{k} AS {k}" for k in level.keys]
    for i, v in enumerate(values):
        own, whole = level.variances[i], f"NULLIF({level.variances[i]} + c.cv{i}, 0)"
        items.append(f"COALESCE((l.{v} * c.cv{i} + c.cz{i} * {own}) / {whole}, l.{v}) AS z{i}")
        items.append(f"COALESCE({own} * c.cv{i} / {whole}, {own}) AS v{i}")
        items += [f"c.cz{i} AS cz{i}", f"c.cv{i} AS cv{i}"]
    source = f"dpproxy_l{number} AS l LEFT JOIN {children} ON {_same(level, 'l', 'c')}"
    return f"dpproxy_z{number} AS (SELECT {', '.join(items)} FROM {source})"


def _downwards(number: int, level: Level, coarser: Level, values: Sequence[str]) -> str:
    shares = [f"COALESCE(z.z{i} + (p.{v} - p.cz{i}) * z.v{i} / NULLIF(p.cv{i}, 0), z.z{i}) AS h{i}" for i, v in enumerate(values)]
    shares += [
        f"COALESCE(z.v{i} - z.v{i} * z.v{i} / NULLIF(p.cv{i}, 0) * (1 - p.w{i} / NULLIF(p.cv{i}, 0)), z.v{i}) AS w{i}"
        for i, _ in enumerate(values)
    ]
    plain = [f"z.{k} AS {k}" for k in level.keys] + [f"z.{name} AS {name}" for name in _carried(values)]
    parts = f"dpproxy_z{number} AS z LEFT JOIN dpproxy_h{number + 1} AS p ON {_same(coarser, 'z', 'p')}"
    partition = f"PARTITION BY {', '.join(coarser.keys)} " if coarser.keys else ""
    window = f"({partition}ORDER BY {', '.join(level.keys)} ROWS BETWEEN UNBOUNDED PRECEDING AND"
    grown = [
        f"round(sum(h{i}) OVER {window} CURRENT ROW)) - COALESCE(round(sum(h{i}) OVER {window} 1 PRECEDING)), 0) AS {v}"
        for i, v in enumerate(values)
    ]
    inner = f"SELECT {', '.join([*plain, *shares])} FROM {parts}"
    items = [*level.keys, *_carried(values), *(f"w{i}" for i, _ in enumerate(values)), *grown]
    return f"dpproxy_h{number} AS (SELECT {', '.join(items)} FROM ({inner}) AS s)"


def _same(level: Level, a: str, b: str) -> str:
    return " AND ".join(f"{a}.{k} IS NOT DISTINCT FROM {b}.{k}" for k in level.keys) or "TRUE"
