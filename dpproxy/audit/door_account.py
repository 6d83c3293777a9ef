"""Whether the door released what it should: each exact cell with its own dice, each group by its noisy weight, nothing else.

Knows: `Measurement`, `Released`, loaded dice, what the engine returned. Must not know: SQL, neighbours. What is released is
computed here once more, from the exact columns and from what the dice rolled. A column that nobody gave noise, a group that is
shown by its exact size, an empty cell that is left alone: each makes the two differ, on any data and without statistics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pyarrow as pa

from dpproxy.audit.movement import Cells, Exactly, place, rows_of
from dpproxy.mechanisms import running_columns, step_columns
from dpproxy.mechanisms.noise import LIMIT, FoundGroups, Int64, Released, exact_loss, saturate
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_scale import MechanismName

# Loaded dice: a source of noise that rolls the same for the same cell of any database, and notes what it was asked.
#
# Knows: what the door asks of a source of noise. Must not know: plans, SQL. A record is made on one database and played again
# on its neighbour (Re:cord-play: Cebere et al. 2026, arXiv 2602.17454): a cell gets its dice by the number of the call and the
# name of its group, so that both databases roll alike although one may have a group more. `LOW` and `HIGH` roll what hides, or
# shows, every group that has to pass a threshold; a threshold that does not follow them compares what has no noise.


EXTREME = 2**40
"""What `LOW` and `HIGH` roll: more than any invented count, less than what saturates."""


class Roll(Enum):
    """How dice are loaded."""

    FAIR = 0
    LOW = -1
    HIGH = 1


@dataclass(frozen=True)
class Call:
    """One column that was given noise: which, of which scale, the values before and after."""

    mechanism: MechanismName
    scale: Fraction
    values: Int64
    noisy: Int64


@dataclass
class Dice:
    """A `mechanisms.noise.Noise`. `groups`: the names of the cells in a table's rows; a call of several times as many cells
    rolls for each part of them. `reach`: the most that may be rolled where noise is held within a reach, whose calls are of
    zeros.
    """

    groups: Sequence[Hashable]
    roll: Roll = Roll.FAIR
    reach: int | None = None
    seed: int = 1
    calls: list[Call] = field(default_factory=list)
    drawn: int = 0

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self._noised("laplace", scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self._noised("gaussian", scale, values)

    def entropy(self, size: int) -> bytes:
        """Return the next bits of one fixed stream."""
        self.drawn += 1
        return hashlib.shake_128(f"{self.seed} {self.drawn}".encode()).digest(size)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return exact_loss(mechanism, scale, l0, linf)

    def _noised(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        noisy = saturate(values) + self._rolled(scale, values)
        self.calls.append(Call(mechanism, scale, values.copy(), noisy))
        return noisy

    def _rolled(self, scale: Fraction, values: Int64) -> Int64:
        number, most = len(self.calls), self._most(scale)
        if self.roll is not Roll.FAIR:
            return np.full(values.size, self.roll.value * most, dtype=np.int64)
        parts = values.size // len(self.groups) if self.groups else 0
        named = [(part, group) for part in range(parts) for group in self.groups]
        cells = named if len(named) == values.size else list(range(values.size))
        return np.array([_die(f"{self.seed} {number} {cell!r}", most) for cell in cells], dtype=np.int64)

    def _most(self, scale: Fraction) -> int:
        wide = max(3, int(3 * scale)) if self.roll is Roll.FAIR else EXTREME
        return wide if self.reach is None else min(wide, self.reach)


def _die(name: str, most: int) -> int:
    """A whole number from -most to most, always the same for a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little") % (2 * most + 1) - most


def problems(m: Measurement, exact: Exactly, released: Released, dice: Dice, found: FoundGroups | None) -> Iterator[str]:
    """Yield what of an answer is not what exact columns and dice make of it."""
    if any(values.dtype != np.int64 for values in released.values):
        yield "a released column is not of whole numbers of its grid: the places of a double tell of exact values"
        return
    names = names_of(released.keys, released.rows)
    if any(name not in exact.cells for name in names):
        yield "a group is released that the engine did not return"
        return
    if m.top is not None:
        yield from _top(m, exact, released, dice.calls, names)
        return
    singles = [i for i, basis in enumerate(m.bases) if basis.steps == 1]
    if len(dice.calls) != len(m.bases):
        yield f"noise was asked for {len(dice.calls)} times, there are {len(m.bases)} columns"
        return
    calls = dict(zip([*singles, *m.stepped], dice.calls, strict=True))
    noisy: dict[int, Int64] = {}
    for i in singles:
        told, noisy[i] = _single(m, i, exact, calls[i])
        yield from told
    kept = _kept(m, exact, noisy, found)
    if names != [exact.order[at] for at in kept]:
        yield "groups are shown that their noisy weight does not show, or the other way round"
        return
    yield from _values(m, exact, released, calls, noisy, kept)


def follows_dice(m: Measurement, exact: Exactly, released: Released, roll: Roll) -> Iterator[str]:
    """Yield where groups that have to pass a threshold do not follow dice that hide, or show, all of them."""
    if m.threshold is None or m.threshold.first is not None:
        return
    if roll is Roll.LOW and released.rows:
        yield "a group is shown although the dice hide all of them: it is shown by its exact size"
    if roll is Roll.HIGH and released.rows < len(exact.order):
        yield "a group is hidden although the dice show all of them: it is hidden by its exact size"


def names_of(keys: Sequence[pa.Array], rows: int) -> list[Cells]:
    """Return the names of released groups, which compare as those of `Exactly` do."""
    return rows_of(pa.table({f"k{i}": key for i, key in enumerate(keys)})) if keys else [()] * rows


def column(exact: Exactly, at: int) -> Int64:
    """Return a basis column in the engine's order, held within 64 bits as the door does."""
    return np.clip(np.array([exact.cells[name][at] for name in exact.order], dtype=np.int64), -LIMIT, LIMIT)


def _single(m: Measurement, i: int, exact: Exactly, call: Call) -> tuple[list[str], Int64]:
    """A column of one step: what is wrong with its call, and what it should be with noise. Where noise is held within a reach
    the dice are rolled for zeros, and added by the door; where sums get it, groups are coded before, and decoded after."""
    own, basis = column(exact, place(m, i)[0]), m.bases[i]
    runs = None
    if basis.running is not None:
        names = cast(list[tuple[Any, ...]], exact.order)
        keys = {f"k{k}": pa.array([name[k] for name in names]) for k in range(len(m.keys))}
        runs = running_columns.runs_of(pa.table(keys), len(m.keys), basis.running)
        own = running_columns.coded(own, runs)
    held = m.threshold is not None and m.threshold.basis == i and m.threshold.reach is not None
    told = []
    if (call.mechanism, call.scale) != (basis.mechanism, basis.scale):
        told.append(f"{basis.label} got {call.mechanism} noise of scale {float(call.scale):g}, planned is {float(basis.scale):g}")
    if call.values.shape != own.shape or (call.values != (0 if held else own)).any():
        told.append(f"{basis.label}: noise was given to other values than the engine's")
        return told, own
    noisy = own + call.noisy if held else call.noisy
    return told, running_columns.decoded(noisy, runs) if runs is not None else noisy


def _kept(m: Measurement, exact: Exactly, noisy: dict[int, Int64], found: FoundGroups | None) -> Sequence[int]:
    threshold = m.threshold
    if threshold is None:
        return range(len(exact.order))
    before = set(names_of(found.keys, len(found.numbers))) if found is not None else set()
    passed = noisy[threshold.basis] >= threshold.tau
    return [i for i, name in enumerate(exact.order) if passed[i] or name in before]


def _values(
    m: Measurement,
    exact: Exactly,
    released: Released,
    calls: dict[int, Call],
    noisy: dict[int, Int64],
    kept: Sequence[int],
) -> Iterator[str]:
    at = np.array(kept, dtype=np.int64)
    for i, basis in enumerate(m.bases):
        if basis.steps == 1:
            expected = noisy[i][at]
        else:
            drawn = step_columns.folded([column(exact, j)[at] for j in place(m, i)])
            if (calls[i].values != np.concatenate(drawn)).any():
                yield f"{basis.label}: noise was given to other values than the engine's"
            expected = step_columns.together(step_columns.steps_of(basis, np.split(calls[i].noisy, len(drawn)))).value
        fine = basis.fine if basis.running is None else 1
        rounded = expected if fine == 1 else (expected + fine // 2) // fine
        if (released.values[i] != rounded).any():
            yield f"{basis.label}: a released cell is not its exact value with its own noise"


def _top(m: Measurement, exact: Exactly, released: Released, calls: Sequence[Call], names: Sequence[Cells]) -> Iterator[str]:
    """The chosen groups alone get noise."""
    for i, (basis, call) in enumerate(zip(m.bases, calls, strict=True)):
        own = [exact.cells[name][place(m, i)[0]] for name in names]
        if call.scale != basis.scale or call.values.tolist() != own or (released.values[i] != call.noisy).any():
            yield f"{basis.label}: a released cell is not its exact value with its own noise"
