"""Columns of which running sums get the noise: groups in their runs, coded before it, decoded after.

Knows: the backend's groups, the whole numbers of `privacy.running_sums`. Must not know: noise, charges. A run is the groups that
have the same other keys, in the order of one key, NULL last. Which groups there are, and so which run and place each has, is
declared: it is the same whatever the data. Coding multiplies by a fixed matrix of whole numbers, exactly, in 64 bits: values are
held within what leaves room for that, which brings two values no further apart. What its columns are decides the sensitivity:
each group is in one place of one run, and the first place's column is the longest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.mechanisms.noise import LIMIT, Int64, MechanismError
from dpproxy.privacy.running_sums import Running, coefficients, decoder


@dataclass(frozen=True)
class Runs:
    """`rows[i, j]`: which row of the backend's table is group j of run i."""

    rows: Int64
    running: Running


def runs_of(table: pa.Table, keys: int, running: Running) -> Runs:
    """Return the runs of a table's groups. Raises MechanismError where they are not all of one length, or longer than planned."""
    others = [table.column(f"k{i}") for i in range(keys) if i != running.key]
    run = np.zeros(table.num_rows, dtype=np.int64)
    for column in others:
        run = np.unique(run * (table.num_rows + 1) + _ranks(column), return_inverse=True)[1].astype(np.int64)
    sizes = np.bincount(run)
    length = int(sizes.max(initial=0))
    if length > running.length or (sizes != length).any():
        raise MechanismError("the backend's groups are no runs of the planned length")
    order = np.lexsort((_ranks(table.column(f"k{running.key}")), run)).astype(np.int64)
    return Runs(order.reshape(-1, max(length, 1)), running)


def _ranks(column: pa.ChunkedArray) -> Int64:
    """A place in the column's order for each distinct value, NULL last, as a window's ORDER BY has it."""
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return np.asarray(pc.rank(plain, sort_keys="ascending", tiebreaker="dense"), dtype=np.int64)


def coded(values: Int64, runs: Runs) -> Int64:
    """Multiply each run by whole numbers: one value for each group, run by run."""
    factors = _factors(runs)
    most = LIMIT // max(int(np.abs(factors).sum()), 1)
    held = np.clip(values, -most, most)[runs.rows]
    return _multiplied(held, factors).reshape(-1)


def decoded(noisy: Int64, runs: Runs) -> Int64:
    """Take the multiplication back, and round: by group of the backend's table, such that sums from a run's first group on are
    rounded to the nearest."""
    length = runs.rows.shape[1]
    inverse = np.array(decoder(runs.running.length, runs.running.width))[:length]
    groups = _multiplied(noisy.reshape(runs.rows.shape).astype(np.float64), inverse)
    sums = np.clip(np.rint(np.cumsum(groups, axis=1)), -float(LIMIT), float(LIMIT)).astype(np.int64)
    found = np.zeros(noisy.size, dtype=np.int64)
    found[runs.rows] = np.diff(sums, axis=1, prepend=0)
    return found


def _factors(runs: Runs) -> Int64:
    """Of a run that is shorter than planned: the same matrix's upper left corner."""
    whole = coefficients(runs.running.length, runs.running.width)
    return np.array(whole[: runs.rows.shape[1]], dtype=np.int64)


def _multiplied(runs: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Each run by the lower triangular Toeplitz matrix of that first column; of whole numbers exactly."""
    length = runs.shape[1]
    if not runs.size:
        return runs
    return np.array([np.convolve(run, column)[:length] for run in runs])
