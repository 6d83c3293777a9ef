"""Answers computed from releases of finer groups: added up, filtered on their keys, and averaged where there are several.

Knows: released arrays, their noise. Must not know: SQL, who has seen what. Everything here is post-processing of what was
released before, so it costs nothing; what it must get right is the error. A group that is the sum of n cells has n times a
cell's variance; independent estimates are weighted by inverse variance; nothing is returned unless the variance of
every cell is at most that of the noise that was asked for.

A derived answer is what measuring would answer, but for its noise. What is added up holds every row that is asked for, as
often as it would be measured:

- *the same rows* (`base`), the same bound on the rows of a unit in a group (`bound`), all declared groups (`complete`);
- *the same groups* of each key that is asked for (`Groups.source`): what has another value there is left out in both;
- *no row lost* with a key that is not asked for: rows whose value has no group were left out of the release. Each column
  that can have such values (`Groups.open`) is limited, by what is asked, to values that have a group;
- *no row cut otherwise*: a unit's rows in a group are cut to `bound`. Of several groups the sum is cut as often as they
  are, of one group once. So groups are merged where each unit has one row, or where it has one value of the keys that are
  left out (`Groups.held`), so that all its rows in the merged group were in one of them. Distinct units add up likewise.

`tests/answers/test_derived_pairs.py` compares what is derived with what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.mechanisms.noise import Int64, Released
from dpproxy.reuse.matching import SLACK, Asked, StoredRelease

Float64 = npt.NDArray[np.float64]

LARGEST = 2.0**53
"""Sums beyond are not whole numbers in floats, and times a number may not fit 64 bits."""

ROUNDING = 1 / 12
"""The variance that rounding a weighted mean to the grid adds."""

LIGHTER = 0.52
"""Sums of Laplace noise are nearer to a normal variable: of the same variance they have more between their quartiles and less
in their tails. The interval told is of the noise asked for, at a confidence of 0.5 or more: half of a Laplace variable lies
within ln 2 scales, of a normal one within 0.6745 deviations, and (ln 2)^2 / (2 * 0.6745^2) is 0.528."""


@dataclass(frozen=True)
class _Estimate:
    """One release added up to the groups asked for: `groups` in order of appearance, `first` a row of each, `cells` how many
    rows fell in it; `totals`: by name, what it says of the groups and the noise of a cell."""

    source: StoredRelease
    groups: tuple[tuple[str | None, ...], ...]
    first: Int64
    cells: Int64
    totals: Mapping[str, tuple[Int64, float]]


@dataclass(frozen=True)
class _Guess:
    """A column by group: `values` (whole numbers, or a mean of several), the variance of each by that of unit noise. `alone`:
    each is one released number."""

    values: Int64 | Float64
    variance: Float64
    sources: tuple[StoredRelease, ...]
    alone: bool = False


_Aligned = Sequence[tuple[_Estimate, Int64]]


@dataclass(frozen=True)
class Derived:
    """An answer, and the releases it was computed from."""

    released: Released
    sources: tuple[StoredRelease, ...]


def derive(asked: Asked, stored: Sequence[StoredRelease]) -> Derived | None:
    """Return the answer from releases of the same rows, None when they do not give it as accurately as asked."""
    estimates = [e for s in stored if (e := _estimate(s, asked)) is not None] if asked.complete else []
    if not estimates:
        return None
    leader = estimates[0]
    aligned = [(e, _places(leader, e)) for e in estimates if set(e.groups) == set(leader.groups)]
    values, sources = list[Int64](), dict[int, StoredRelease]()
    for i, noise in enumerate(asked.noise):
        guess = _guess(aligned, asked, i)
        spread = LIGHTER if guess is not None and asked.heavy[i] and not guess.alone else 1
        column = _whole(guess, float(noise * SLACK) ** 2 * spread) if guess is not None else None
        if guess is None or column is None:
            return None
        values.append(column)
        sources |= {id(source): source for source in guess.sources}
    made = leader.source.made
    keys = tuple(pc.take(leader.source.released.keys[made.keys.index(k)], pa.array(leader.first)) for k in asked.keys)
    used = tuple(e.source for e in estimates if id(e.source) in sources) or (leader.source,)
    return Derived(Released(keys, tuple(values), len(leader.groups)), used)


def _places(leader: _Estimate, other: _Estimate) -> Int64:
    """Where the leader's groups stand in the other estimate."""
    at = {group: i for i, group in enumerate(other.groups)}
    return np.array([at[group] for group in leader.groups], dtype=np.int64)


def _guess(aligned: _Aligned, asked: Asked, index: int) -> _Guess | None:
    """A column's best estimate: of itself, and of what it is a sum of. Noise of different columns is independent."""
    own, mix = asked.totals[index], asked.mixes[index] if asked.mixes else ()
    found = _of_total(aligned, own) if own is not None else []
    parts = [_times(_weighted(_of_total(aligned, total)), times) for total, times in mix]
    mixed = [part for part in parts if part is not None]
    if mixed and len(mixed) == len(parts):
        found.append(reduce(_plus, mixed))
    return _weighted(found)


def _times(guess: _Guess | None, times: int) -> _Guess | None:
    """None when a number could overflow."""
    if guess is None or float(np.abs(guess.values).max(initial=0)) * abs(times) > LARGEST:
        return None
    return _Guess(guess.values * times, guess.variance * float(times) ** 2, guess.sources)


def _plus(one: _Guess, two: _Guess) -> _Guess:
    return _Guess(one.values + two.values, one.variance + two.variance, one.sources + two.sources)


def _of_total(aligned: _Aligned, total: str) -> list[_Guess]:
    found = []
    for estimate, places in aligned:
        if total in estimate.totals:
            values, noise = estimate.totals[total]
            variance: Float64 = estimate.cells[places].astype(np.float64) * noise**2
            found.append(_Guess(values[places], variance, (estimate.source,), bool((estimate.cells == 1).all())))
    return found


def _weighted(guesses: Sequence[_Guess]) -> _Guess | None:
    """Their mean by inverse variance; one alone as it is."""
    if len(guesses) < 2:
        return guesses[0] if guesses else None
    precision: Float64 = np.sum([1 / g.variance for g in guesses], axis=0)
    mean: Float64 = np.sum([g.values / g.variance for g in guesses], axis=0) / precision
    return _Guess(mean, 1 / precision, tuple(s for g in guesses for s in g.sources))


def _whole(guess: _Guess, allowed: float) -> Int64 | None:
    """On the grid; None when the variance exceeds `allowed` anywhere, or a number 64 bits."""
    exact = guess.values.dtype == np.int64
    if (guess.variance + (0 if exact else ROUNDING) > allowed).any() or (np.abs(guess.values) > LARGEST).any():
        return None
    whole: Int64 = guess.values.astype(np.int64) if exact else np.rint(guess.values).astype(np.int64)
    return whole


def _estimate(stored: StoredRelease, asked: Asked) -> _Estimate | None:
    made = stored.made
    if made.base != asked.base or not made.complete or made.bound != asked.bound or not _same_groups(made, asked):
        return None
    kept = _kept(stored, asked)
    if kept is None or not len(kept):
        return None
    texts = {k: _texts(stored.released.keys[made.keys.index(k)]) for k in asked.keys}
    labels = [tuple(texts[k][row] for k in asked.keys) for row in kept]
    groups = {group: i for i, group in enumerate(dict.fromkeys(labels))}
    place = np.array([groups[label] for label in labels], dtype=np.int64)
    _, first, cells = np.unique(place, return_index=True, return_counts=True)
    added = bool((cells > 1).any())
    if added and not _mergeable(stored, asked):
        return None
    totals = {}
    for name in {t for t in asked.totals if t is not None} | {t for mix in asked.mixes for t, _ in mix}:
        j = _place(made, name, added)
        column = _added(stored.released.values[j][kept], place, len(groups)) if j is not None else None
        if j is not None and column is not None:
            totals[name] = (column, float(made.noise[j]))
    return _Estimate(stored, tuple(groups), kept[first], cells, totals)


def _same_groups(made: Asked, asked: Asked) -> bool:
    """Whether the keys asked for are among those of the release, with the same groups."""
    known = {key: groups.source for key, groups in zip(made.keys, made.groups, strict=True)}
    return all(known.get(key) == groups.source for key, groups in zip(asked.keys, asked.groups, strict=True))


def _mergeable(stored: StoredRelease, asked: Asked) -> bool:
    """Whether a unit's rows in a group asked for were all in one group of the release, or none were cut."""
    made = stored.made
    left_out = [groups for key, groups in zip(made.keys, made.groups, strict=True) if key not in asked.keys]
    return not made.bound or all(groups.held for groups in left_out)


def _kept(stored: StoredRelease, asked: Asked) -> Int64 | None:
    """The groups within the conditions asked for; None when the release cannot tell, was made under others, or lacks rows."""
    made = stored.made
    if any(key not in asked.accepts or not asked.accepts[key] <= values for key, values in made.accepts.items()):
        return None
    limited = set()  # keys whose rows asked for all have groups
    mask = np.ones(stored.released.rows, dtype=bool)
    for key, values in asked.accepts.items():
        texts = _texts(stored.released.keys[made.keys.index(key)]) if key in made.keys else []
        if key in made.keys and values <= set(texts):
            mask &= np.array([text in values for text in texts], dtype=bool)
            limited.add(key)
        elif made.accepts.get(key) != values:
            return None  # rows of other groups are in the release, or a value has rows and no group
    left_out = (groups for key, groups in zip(made.keys, made.groups, strict=True) if key not in asked.keys)
    if any(groups.open is None or not limited.issuperset(groups.open) for groups in left_out):
        return None
    return np.flatnonzero(mask).astype(np.int64)


def _texts(key: pa.Array) -> list[str | None]:
    found: list[str | None] = key.cast(pa.string()).to_pylist()
    return found


def _place(made: Asked, total: str, added: bool) -> int | None:
    """The most accurate column of that name, if there are several."""
    found = [j for j, t in enumerate(made.totals) if t == total and (made.additive[j] or not added)]
    return min(found, key=made.noise.__getitem__, default=None)


def _added(values: Int64, place: Int64, groups: int) -> Int64 | None:
    """Sums by group; None when they could overflow."""
    if np.abs(values.astype(np.float64)).sum() > LARGEST:
        return None
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, place, values)
    return sums
