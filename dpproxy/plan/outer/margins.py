"""Grouping sets that agree: least squares over the margins of a product of declared keys, as SQL for the facade (free of charge).

Knows: names of released columns, which keys vary together, variances of noise (numbers, or calls that
`plan.intervals.numbers.with_error_numbers` resolves). Must not know: data, measurements. CUBE and GROUPING SETS measure
several margins of one table, each by itself; where bounds cut nothing from one that they leave in another, the true margins
agree, and what is nearest to all that was released has the least variance.

A table over independent keys is a sum of *effects*, one for each set T of keys: what is left of the margin on T when its means
over each key of T are taken away. The effects of different T are orthogonal, so that each may be estimated by itself: a released
set S that has T in it gives one, with S's noise once for each of the cells that are added up to a cell of T, and the mean of
all, weighed by one over their variances, is that of least squares (analysis of variance, Scheffe 1959, chapter 4; for noisy
margins Xiao, He, Zhang, Kifer 2023, "An optimal and scalable matrix mechanism for noisy marginals"). A cell of S is then the sum
of the effects of all T within S, each divided by the number of S's cells that share it.

Whole numbers: sums over all cells up to a corner, key after key, are rounded, and a cell is what its corners differ by. The
corners of a margin are corners of the table, so that rounded margins agree as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from dpproxy.plan.outer.rollup import Level

Factor = tuple[str, ...]
"""Names of keys that vary together: of one declared product they are one dimension."""

MOST_FACTORS = 4
"""Of a grouping set: there are as many effects as it has sets of keys."""


def rounding(factors: int) -> float:
    """Return by how many grid units rounding moves a cell at most: by a half at each corner."""
    return 2.0**factors / 2


def variances(factors: Sequence[frozenset[Factor]], sizes: Mapping[Factor, int], deviations: Sequence[float]) -> list[float]:
    """Return the variance of each level's adjusted cells where it is known how many values each factor has. Where there are fewer
    it is less: it is then known that nothing is in the others."""
    cells = [math.prod(sizes[f] for f in whole) for whole in factors]
    found = {effect: 0.0 for whole in factors for effect in _subsets(whole)}
    for effect in found:
        size = math.prod(sizes[f] for f in effect)
        known = (n for n, whole in enumerate(factors) if effect <= whole)
        mean = 1 / math.fsum(size / cells[n] / deviations[n] ** 2 for n in known)
        found[effect] = mean * math.prod(1 - 1 / sizes[f] for f in effect) * size**2
    return [math.fsum(found[e] for e in _subsets(whole)) / cells[n] ** 2 for n, whole in enumerate(factors)]


def consistent(levels: Sequence[Level], factors: Sequence[frozenset[Factor]], values: Sequence[str]) -> tuple[str, list[str]]:
    """Write the queries of a WITH clause, and for each level the name of one with its keys, adjusted values, and their variances,
    named w0, w1, ... `factors` are those of each level."""
    effects = list(dict.fromkeys(effect for whole in factors for effect in _subsets(whole)))
    ctes = [f"dpproxy_l{n} AS (SELECT * FROM {level.source})" for n, level in enumerate(levels)]
    for n, effect in enumerate(effects):
        those = [(number, level) for number, level in enumerate(levels) if effect <= factors[number]]
        ctes.append(f"dpproxy_e{n} AS ({_effect(effect, those, values)})")
    for n, whole in enumerate(factors):
        parts = [(number, effect) for number, effect in enumerate(effects) if effect <= whole]
        ctes.append(f"dpproxy_h{n} AS ({_whole(whole, _put_together(n, levels[n], parts, values), values)})")
    return ", ".join(ctes), [f"dpproxy_h{n}" for n in range(len(levels))]


def _subsets(whole: frozenset[Factor]) -> Iterator[frozenset[Factor]]:
    ordered = sorted(whole)
    return (frozenset(some) for size in range(len(ordered) + 1) for some in combinations(ordered, size))


def _keys(factors: frozenset[Factor]) -> list[str]:
    return sorted(key for factor in factors for key in factor)


def _effect(effect: frozenset[Factor], levels: Sequence[tuple[int, Level]], values: Sequence[str]) -> str:
    """`x`: the effect, `v`: its variance in each cell."""
    keys, margins = _keys(effect), []
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    for number, level in levels:
        items = [
            f"sum({b})::float8 AS s{i}, 1 / NULLIF({level.variances[i]} * count(*), 0) AS q{i}" for i, b in enumerate(values)
        ]
        margins.append(f"SELECT {', '.join([*keys, *items])} FROM dpproxy_l{number}{by}")
    means = [f"sum(s{i} * q{i}) / NULLIF(sum(q{i}), 0) AS x{i}, 1 / NULLIF(sum(q{i}), 0) AS v{i}" for i, _ in enumerate(values)]
    found = f"SELECT {', '.join([*keys, *means])} FROM ({' UNION ALL '.join(margins)}) AS m{by}"
    for factor in sorted(effect):
        found = _centred(found, keys, _over(keys, factor), values)
    return found


def _over(keys: Sequence[str], factor: Factor, ordered: bool = False) -> str:
    """A window over the values of one factor, all others fixed."""
    others = ", ".join(key for key in keys if key not in factor)
    partition = f"PARTITION BY {others}" if others else ""
    return f"({partition}{' ORDER BY ' + ', '.join(factor) if ordered else ''})"


def _centred(source: str, keys: Sequence[str], window: str, values: Sequence[str]) -> str:
    items = [
        f"x{i} - avg(x{i}) OVER {window} AS x{i}, v{i} * (1 - 1.0::float8 / count(*) OVER {window}) AS v{i}"
        for i, _ in enumerate(values)
    ]
    return f"SELECT {', '.join([*keys, *items])} FROM ({source}) AS c"


def _put_together(number: int, level: Level, parts: Sequence[tuple[int, frozenset[Factor]]], values: Sequence[str]) -> str:
    """`x`: the sum of the effects in a cell, `w` its variance; `n` of an effect's row are the cells that share it."""
    joins, sums, squares = [], {i: list[str]() for i, _ in enumerate(values)}, {i: list[str]() for i, _ in enumerate(values)}
    for effect, factors in parts:
        share = f"(SELECT count(*) FROM dpproxy_l{number}) / NULLIF((SELECT count(*) FROM dpproxy_e{effect}), 0)::float8"
        columns = [f"x{i} / NULLIF(n, 0) AS x{i}, v{i} / NULLIF(n * n, 0) AS v{i}" for i, _ in enumerate(values)]
        keys = [*_keys(factors), *columns]
        counted = f"(SELECT *, {share} AS n FROM dpproxy_e{effect})"
        same = " AND ".join(_same(key, f"e{effect}") for key in _keys(factors)) or "TRUE"
        joins.append(f"JOIN (SELECT {', '.join(keys)} FROM {counted} AS s) AS e{effect} ON {same}")
        for i, _ in enumerate(values):
            sums[i].append(f"e{effect}.x{i}")
            squares[i].append(f"e{effect}.v{i}")
    items = [f"l.{key} AS {key}" for key in level.keys]
    items += [f"{' + '.join(sums[i])} AS x{i}, {' + '.join(squares[i])} AS w{i}" for i, _ in enumerate(values)]
    return f"SELECT {', '.join(items)} FROM dpproxy_l{number} AS l {' '.join(joins)}"


def _same(key: str, other: str) -> str:
    """NULL is a key like any other; in words that PostgreSQL can hash."""
    null = f"(l.{key} IS NULL) = ({other}.{key} IS NULL)"
    return f"{null} AND COALESCE(l.{key}::text, '') = COALESCE({other}.{key}::text, '')"


def _whole(factors: frozenset[Factor], source: str, values: Sequence[str]) -> str:
    """Sums up to each corner, rounded alike in all sets whatever the last digits of floats are, and what corners differ by."""
    keys, variances = _keys(factors), [f"w{i}" for i, _ in enumerate(values)]
    steps = [(f"sum(x{{i}}) OVER {_over(keys, f, True)}") for f in sorted(factors)]
    steps.append("floor(round(x{i}::numeric, 4) + 0.5)")
    for f in sorted(factors):
        window = _over(keys, f, True)
        steps.append(f"x{{i}} - COALESCE(lag(x{{i}}) OVER {window}, 0)")
    for step in steps:
        items = [f"{step.format(i=i)} AS x{i}" for i, _ in enumerate(values)]
        source = f"SELECT {', '.join([*keys, *variances, *items])} FROM ({source}) AS t"
    named = [f"x{i} AS {value}" for i, value in enumerate(values)]
    return f"SELECT {', '.join([*keys, *variances, *named])} FROM ({source}) AS t"
