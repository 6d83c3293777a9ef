"""The door: the one function that turns an `Exact` into a `Released`.

Knows: a plan's `Measurement`, Arrow tables, a source of noise. Must not know: SQL, sessions, budgets. Whatever is not
as the plan says (columns, types, or the charge: `charge_check`) is a `MechanismError` with a fixed text; nothing is released
then. Rule for changing it: every array that leaves this file went through `noise` or `exponential`, except keys,
which are declared (dense) or passed the threshold.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.amounts import MICRO
from dpproxy.mechanisms import charge_check, exponential, key_rounds, running_columns, step_columns
from dpproxy.mechanisms.charge_check import draw_epsilon
from dpproxy.mechanisms.coins import Entropy
from dpproxy.mechanisms.key_rounds import int64, positions
from dpproxy.mechanisms.noise import Exact, FoundGroups, Int64, MechanismError, Noise, Released, saturate, truncated
from dpproxy.mechanisms.quantiles import Rows, quantiles, thinned
from dpproxy.privacy.measurement import Basis, Measurement, Selection, Top


def release(measurement: Measurement, exact: Exact, noise: Noise, found: FoundGroups | None = None) -> Released:
    """Add noise to every basis column, keep the groups that pass the threshold or were `found` by its first round, select in
    each; in the backend's order.

    Raises MechanismError, with a text that does not depend on data.
    """
    charge_check.check(measurement, noise)
    tables = exact._open()
    if len(tables) != len(measurement.queries):
        raise MechanismError("the backend's answer has another number of tables than the plan")
    table = tables[0]
    columns = _bases(measurement, table)
    _check_declared(measurement, table)
    if measurement.top is not None:
        return _released_top(measurement, measurement.top, table, columns, noise)
    single = {i: parts[0] for i, parts in enumerate(columns) if measurement.bases[i].steps == 1}
    noisy = {i: _single(measurement, i, table, values, noise) for i, values in single.items()}
    kept = _kept(measurement, table, single, noisy, found)
    keys = tuple(_key(table, i, kept) for i in range(len(measurement.keys)))
    steps = {i: _stepped(measurement, i, [part[kept] for part in columns[i]], noise) for i in measurement.stepped}
    values = [steps[i][0] if i in steps else _rounded(noisy[i][kept], b) for i, b in enumerate(measurement.bases)]
    for selection in measurement.selections:
        values += _selected(measurement, selection, table, tables[selection.query], kept, noise.entropy)
    values += [column for i in measurement.stepped for column in steps[i][1:]]
    return Released(keys, tuple(values), int(kept.size))


def _stepped(measurement: Measurement, index: int, parts: list[Int64], noise: Noise) -> list[Int64]:
    """A basis measured in steps, put together from noisy columns: what is shown, the same unsmoothed, the last step, and what is
    in later ones."""
    basis = measurement.bases[index]
    drawn = step_columns.folded(parts)
    noisy = np.split(_noised(measurement, index, np.concatenate(drawn), noise), len(drawn))
    found = step_columns.together(step_columns.steps_of(basis, noisy))
    last = np.full(found.raw.size, found.last, dtype=np.int64)
    later = np.where(found.later < step_columns.UNKNOWN, _rounded(found.later, basis), step_columns.UNKNOWN)
    return [_rounded(found.value, basis), _rounded(found.raw, basis), last, later]


def _released_top(measurement: Measurement, top: Top, table: pa.Table, parts: list[list[Int64]], noise: Noise) -> Released:
    """The groups of (nearly) the highest scores, in the backend's order; noise for these alone."""
    linf = measurement.bases[top.score].linf
    if measurement.stepped:
        raise MechanismError("groups are chosen by a column of steps")
    columns = [part[0] for part in parts]
    chosen = np.sort(exponential.top(columns[top.score], top.k, Fraction(top.epsilon, MICRO * linf), top.absent, noise.entropy))
    keys = tuple(_key(table, i, chosen) for i in range(len(measurement.keys)))
    values = tuple(_noised(measurement, i, column[chosen], noise) for i, column in enumerate(columns))
    return Released(keys, values, int(chosen.size))


def _bases(measurement: Measurement, table: pa.Table) -> list[list[Int64]]:
    """The columns of each basis, once names and types are what the plan says."""
    keys = len(measurement.keys)
    names = [basis.columns(i) for i, basis in enumerate(measurement.bases)]
    wanted = [f"k{i}" for i in range(keys)] + [name for columns in names for name in columns]
    if table.column_names != (wanted or ["one"]):  # a lone selection still has one row, and SQL wants a column
        raise MechanismError("the backend's answer has other columns than the plan")
    if not keys and table.num_rows != 1:
        raise MechanismError("the backend's answer has another number of rows than the plan")
    return [[int64(table.column(name)) for name in columns] for columns in names]


def _check_declared(measurement: Measurement, table: pa.Table) -> None:
    """Where a unit changes no more groups than there are declared, there are no more: the same count whatever the data."""
    if measurement.counted is None:
        return
    others = [f"k{i}" for i in range(len(measurement.keys)) if i not in measurement.counted]
    most: int = table.num_rows
    if others and most > measurement.l0:
        most = pc.max(table.group_by(others).aggregate([([], "count_all")]).column("count_all")).as_py()
    if not measurement.dense or most > measurement.l0:
        raise MechanismError("there are more declared groups than the plan says")


def _single(measurement: Measurement, index: int, table: pa.Table, values: Int64, noise: Noise) -> Int64:
    """A basis of one column with its noise: its groups', or that of their running sums."""
    running = measurement.bases[index].running
    if running is None:
        return _noised(measurement, index, values, noise)
    runs = running_columns.runs_of(table, len(measurement.keys), running)
    return running_columns.decoded(_noised(measurement, index, running_columns.coded(values, runs), noise), runs)


def _noised(measurement: Measurement, index: int, values: Int64, noise: Noise) -> Int64:
    basis, threshold = measurement.bases[index], measurement.threshold
    if threshold is not None and threshold.basis == index and threshold.reach is not None:
        noisy = truncated(noise, basis.scale, values, threshold.reach)
    else:
        noisy = (noise.laplace if basis.mechanism == "laplace" else noise.gaussian)(basis.scale, saturate(values))
    if noisy.dtype != np.int64 or noisy.shape != values.shape:
        raise MechanismError("a source of noise returned another shape")
    return noisy


def _rounded(noisy: Int64, basis: Basis) -> Int64:
    """Released values on the basis's grid, to the nearest. Running sums are decoded to that grid."""
    return noisy if basis.fine == 1 or basis.running is not None else (noisy + basis.fine // 2) // basis.fine


def _kept(
    measurement: Measurement, table: pa.Table, exact: dict[int, Int64], noisy: dict[int, Int64], found: FoundGroups | None
) -> Int64:
    """Positions of the released groups: all when dense, else those whose noisy units reach tau, or that were found before."""
    threshold = measurement.threshold
    if threshold is None:
        return np.arange(table.num_rows, dtype=np.int64)
    if (threshold.first is None) != (found is None):
        raise MechanismError("a measurement has another number of rounds than the plan")
    weighed = measurement.bases[threshold.basis].norm  # units are then not counted by this column
    if not weighed and (exact[threshold.basis] < threshold.min_units).any():
        raise MechanismError("the backend returned a group below the least number of units")
    passed = noisy[threshold.basis] >= threshold.tau
    if found is not None:
        keys = [table.column(f"k{i}") for i in range(len(measurement.keys))]
        passed[key_rounds.places(found, keys, table.num_rows)] = True
    return np.flatnonzero(passed).astype(np.int64)


def _selected(
    m: Measurement, selection: Selection, table: pa.Table, rows: pa.Table, kept: Int64, entropy: Entropy
) -> list[Int64]:
    """A grid index for each released group: one column a fraction, or one for the mode."""
    data = _counts(m, selection, table, rows, kept)
    size, per_unit, epsilon = selection.size, selection.sensitivity, Fraction(draw_epsilon(selection), MICRO)

    def quantile(fraction: Fraction) -> Int64:
        return exponential.quantile(data, size, fraction, per_unit, epsilon, entropy, selection.offset)

    if selection.kind == "mode":
        return [exponential.mode(data, size, per_unit, epsilon, entropy)]
    inner = sorted(set(selection.fractions) - {0, 1})
    alone = selection.fractions if len(inner) < 3 else sorted(set(selection.fractions) & {Fraction(0), Fraction(1)})
    found = {fraction: quantile(fraction) for fraction in dict.fromkeys(alone)}
    if len(inner) >= 3:
        found |= dict(zip(inner, quantiles(data, size, inner, per_unit, epsilon, entropy), strict=True))
    return [found[f] for f in selection.fractions]


def _counts(m: Measurement, selection: Selection, table: pa.Table, rows: pa.Table, kept: Int64) -> exponential.Counts:
    """The contributions of the released groups, numbered as they are released."""
    names = [f"k{i}" for i in range(len(m.keys))]
    if rows.column_names != [*names, "bucket", "n"]:
        raise MechanismError("the backend's answer has other columns than the plan")
    bucket, n = int64(rows.column("bucket")), int64(rows.column("n"))
    if (bucket < 0).any() or (bucket >= selection.size).any() or (n < 0).any():
        raise MechanismError("the backend returned a point outside the grid")
    group = positions(table.select(names).columns, table.num_rows, rows.select(names).columns, rows.num_rows)
    renumbered = np.full(table.num_rows + 1, -1, dtype=np.int64)  # the last entry is for -1
    renumbered[kept] = np.arange(kept.size)
    group = renumbered[group]
    found: Rows = (group, bucket, n)
    if (some := group >= 0).sum() < group.size:
        found = group[some], bucket[some], n[some]
    if selection.kind == "quantile":
        epsilon = Fraction(draw_epsilon(selection), MICRO)
        found = thinned(
            found, int(kept.size), selection.size, selection.fractions, selection.sensitivity, epsilon, selection.offset
        )
    return exponential.counts(*found, int(kept.size))


def _key(table: pa.Table, index: int, kept: Int64) -> pa.Array:
    column = table.column(f"k{index}").combine_chunks()
    return pc.take(column, pa.array(kept)) if kept.size != len(column) else column
