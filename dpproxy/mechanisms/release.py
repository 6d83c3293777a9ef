"""The door: the one function that turns an `Exact` into a `Released`.

Knows: a plan's `Measurement`, Arrow tables, a source of noise. Must not know: SQL, sessions, budgets. Whatever is not
as the plan says (columns, types, or the charge: `charges`) is a `MechanismError` with a fixed text; nothing is released
then. Rule for changing it: every array that leaves this file went through `noise`, except keys, which are
declared (dense) or passed the threshold.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.mechanisms import charges
from dpproxy.mechanisms.exact import Exact, Int64, Released
from dpproxy.mechanisms.noise import MechanismError, Noise, saturate
from dpproxy.plan.model import Basis, Measurement


def release(measurement: Measurement, exact: Exact, noise: Noise) -> Released:
    """Add noise to every basis column and keep the groups that pass the threshold, in the backend's order.

    Raises MechanismError, with a text that does not depend on data.
    """
    charges.check(measurement, noise)
    if measurement.selections:
        raise MechanismError("selections are not released yet")
    tables = exact._open()
    if len(tables) != len(measurement.queries):
        raise MechanismError("the backend's answer has another number of tables than the plan")
    table = tables[0]
    columns = _bases(measurement, table)
    noisy = [_noised(b, c, noise) for b, c in zip(measurement.bases, columns, strict=True)]
    kept = _kept(measurement, table.num_rows, columns, noisy)
    keys = tuple(_key(table, i, kept) for i in range(len(measurement.keys)))
    values = tuple(v[kept] for v in noisy)
    return Released(keys, values, int(kept.size))


def _bases(measurement: Measurement, table: pa.Table) -> list[Int64]:
    """The basis columns, once names and types are what the plan says."""
    keys, bases = len(measurement.keys), len(measurement.bases)
    if table.column_names != [f"k{i}" for i in range(keys)] + [f"b{i}" for i in range(bases)]:
        raise MechanismError("the backend's answer has other columns than the plan")
    if not keys and table.num_rows != 1:
        raise MechanismError("the backend's answer has another number of rows than the plan")
    return [int64(table.column(f"b{i}")) for i in range(bases)]


def int64(column: pa.ChunkedArray) -> Int64:
    """A column that must be BIGINT without NULLs."""
    if column.type != pa.int64() or column.null_count:
        raise MechanismError("a column of the backend's answer is not BIGINT NOT NULL")
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _noised(basis: Basis, values: Int64, noise: Noise) -> Int64:
    draw = noise.laplace if basis.mechanism == "laplace" else noise.gaussian
    noisy = draw(basis.scale, saturate(values))
    if noisy.dtype != np.int64 or noisy.shape != values.shape:
        raise MechanismError("a source of noise returned another shape")
    return noisy


def _kept(measurement: Measurement, rows: int, exact: list[Int64], noisy: list[Int64]) -> Int64:
    """Positions of the released groups: all when dense, else those whose noisy units reach tau."""
    threshold = measurement.threshold
    if threshold is None:
        return np.arange(rows, dtype=np.int64)
    if (exact[threshold.basis] < threshold.min_units).any():
        raise MechanismError("the backend returned a group below the least number of units")
    return np.flatnonzero(noisy[threshold.basis] >= threshold.tau).astype(np.int64)


def _key(table: pa.Table, index: int, kept: Int64) -> pa.Array:
    column = table.column(f"k{index}").combine_chunks()
    return pc.take(column, pa.array(kept)) if kept.size != len(column) else column
