"""Answers computed from releases of finer groups: added up, filtered on their keys, and averaged where there are several.

Knows: released arrays, their noise. Must not know: SQL, who has seen what. Everything here is post-processing of what was
released before, so it costs nothing; what it must get right is the error. A group that is the sum of n cells has n times a
cell's variance; independent estimates are weighted by inverse variance; nothing is returned unless the variance of
every cell is at most that of the noise that was asked for.

What was released for declared groups says nothing of rows whose key is none of the declared ones: a total added up
from groups is of those groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.budget.asked import SLACK, Asked, StoredRelease
from dpproxy.mechanisms.exact import Int64, Released

LARGEST = 2.0**62
"""Sums beyond may not fit 64 bits."""

ROUNDING = 1 / 12
"""The variance that rounding a weighted mean to the grid adds."""


@dataclass(frozen=True)
class _Estimate:
    """One release added up to the groups asked for: `groups` in order of appearance, `first` a row of each, `cells` how many
    rows fell in it; `columns[i]` and `noise[i]` of column i as asked, None when this release says nothing of it."""

    source: StoredRelease
    groups: tuple[tuple[str | None, ...], ...]
    first: Int64
    cells: Int64
    columns: tuple[Int64 | None, ...]
    noise: tuple[float, ...]


@dataclass(frozen=True)
class Derived:
    """An answer, and the releases it was computed from."""

    released: Released
    sources: tuple[StoredRelease, ...]


def derive(asked: Asked, stored: Sequence[StoredRelease]) -> Derived | None:
    """The answer from releases of the same rows, None when they do not give it as accurately as asked."""
    estimates = [e for s in stored if (e := _estimate(s, asked)) is not None]
    if not asked.dense or not estimates:
        return None
    leader = estimates[0]
    aligned = [(e, _places(leader, e)) for e in estimates if set(e.groups) == set(leader.groups)]
    values = []
    for i, noise in enumerate(asked.noise):
        column = _weighted(aligned, i, float(noise * SLACK) ** 2)
        if column is None:
            return None
        values.append(column)
    made = leader.source.made
    keys = tuple(pc.take(leader.source.released.keys[made.keys.index(k)], pa.array(leader.first)) for k in asked.keys)
    sources = tuple(e.source for e, _ in aligned if any(c is not None for c in e.columns) or not asked.columns)
    return Derived(Released(keys, tuple(values), len(leader.groups)), sources)


def _places(leader: _Estimate, other: _Estimate) -> Int64:
    """Where the leader's groups stand in the other estimate."""
    at = {group: i for i, group in enumerate(other.groups)}
    return np.array([at[group] for group in leader.groups], dtype=np.int64)


def _weighted(aligned: Sequence[tuple[_Estimate, Int64]], index: int, allowed: float) -> Int64 | None:
    """A column's mean over the estimates, weighted by inverse variance; None when that exceeds `allowed` anywhere."""
    found = [
        (column[places], estimate.cells[places] * estimate.noise[index] ** 2)
        for estimate, places in aligned
        if (column := estimate.columns[index]) is not None
    ]
    if not found:
        return None
    precision = np.sum([1 / variance for _, variance in found], axis=0)
    if (1 / precision + (ROUNDING if len(found) > 1 else 0) > allowed).any():
        return None
    if len(found) == 1:
        return found[0][0]
    mean: Int64 = np.rint(np.sum([column / variance for column, variance in found], axis=0) / precision).astype(np.int64)
    return mean


def _estimate(stored: StoredRelease, asked: Asked) -> _Estimate | None:
    made = stored.made
    if made.base != asked.base or not made.complete or not set(asked.keys) <= set(made.keys):
        return None
    kept = _kept(stored, asked)
    if kept is None or not len(kept):
        return None
    texts = {k: _texts(stored.released.keys[made.keys.index(k)]) for k in asked.keys}
    labels = [tuple(texts[k][row] for k in asked.keys) for row in kept]
    groups = {group: i for i, group in enumerate(dict.fromkeys(labels))}
    place = np.array([groups[label] for label in labels], dtype=np.int64)
    _, first, cells = np.unique(place, return_index=True, return_counts=True)
    columns, noise = list[Int64 | None](), list[float]()
    for i in range(len(asked.columns)):
        j = _column(made, asked, i, added=bool((cells > 1).any()))
        columns.append(None if j is None else _added(stored.released.values[j][kept], place, len(groups)))
        noise.append(0.0 if j is None else float(made.noise[j]))
    return _Estimate(stored, tuple(groups), kept[first], cells, tuple(columns), tuple(noise))


def _kept(stored: StoredRelease, asked: Asked) -> Int64 | None:
    """The rows within the conditions asked for; None when the release cannot tell, or was made under others."""
    made = stored.made
    if any(key not in asked.accepts or not asked.accepts[key] <= values for key, values in made.accepts.items()):
        return None
    mask = np.ones(stored.released.rows, dtype=bool)
    for key, values in asked.accepts.items():
        if made.accepts.get(key) == values:
            continue
        if key not in made.keys:
            return None
        texts = _texts(stored.released.keys[made.keys.index(key)])
        if not values <= set(texts):
            return None  # a value that no declared group is for may have rows all the same
        mask &= np.array([text in values for text in texts])
    return np.flatnonzero(mask).astype(np.int64)


def _texts(key: pa.Array) -> list[str | None]:
    found: list[str | None] = key.cast(pa.string()).to_pylist()
    return found


def _column(made: Asked, asked: Asked, index: int, added: bool) -> int | None:
    """Where the release has the column; the most accurate place if there are several."""
    total = asked.totals[index]
    found = [j for j, t in enumerate(made.totals) if t is not None and t == total and (made.additive[j] or not added)]
    return min(found, key=made.noise.__getitem__, default=None)


def _added(values: Int64, place: Int64, groups: int) -> Int64 | None:
    """Sums by group; None when they could overflow."""
    if np.abs(values.astype(np.float64)).sum() > LARGEST:
        return None
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, place, values)
    return sums
