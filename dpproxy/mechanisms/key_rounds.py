"""Groups that nobody declared, looked for twice: those that many are in first, then the others.

Knows: a `Measurement`, what its backend returned, a source of noise. Must not know: SQL, budgets. A unit weighs 1 over all its
groups together (their l2 norm). Most of it is spent on groups that are far above the threshold anyway. So a tenth of the
precision finds those first; in the second round a unit's weight is spread over its other groups alone, and these are shown
where their noisy weight reaches the threshold. People in many groups no longer hide the rare ones among them.

Source: Swanberg, Desfontaines, Haney 2023, "DP-SIPS: A simpler, more scalable mechanism for differentially private partition
selection" (rounds of weighted uniform set union, each over what is not yet found, with shares that grow geometrically).

Why it is private. Let D' be D without unit u, and N the groups that exist (have `min_units` units) in D alone; u is in each of
them, and there are at most l0. Let C be the mechanism on D that never finds a group of N.

- *None of N is shown*, but with probability delta: in either round a group of N weighs at most min_units, since no unit weighs
  more than 1 in a group, so that one of N passes with probability at most that round's share of delta, whatever was drawn for
  all other groups (`threshold.units_threshold`); the shares add up to delta. Where none passes, D answers as C does.
- *C is close to D'*: the groups common to both get noise on vectors that u moves by an l2 norm of at most 1 in the first
  round; in the second one as well, for any set F of found groups: what a unit weighs there is made of its own rows and of F,
  and has norm 1 at most; other columns by what `Basis.linf` says. That is an adaptive composition of Gaussian mechanisms,
  their sigmas fixed beforehand: zCDP adds up (Bun & Steinke 2016, lemma 2.3), and so do the squares of GDP's mu (Dong, Roth,
  Su 2022, corollary 3.3), which is how `charge_check` adds the columns of both rounds.

So P(D in S) <= delta + P(C in S) <= delta + (e**eps P(D' in S) + delta_noise), and P(D in S) >= (1 - delta) P(C in S), as in
`units_threshold`. F enters the second query as numbers of groups that were released. Should two groups have one number, the other
one is weighed by nobody and is not shown: what is kept of the first round is told by keys alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.mechanisms import charge_check
from dpproxy.mechanisms.noise import Exact, FoundGroups, Int64, MechanismError, Noise, saturate
from dpproxy.privacy.measurement import Measurement

# Which group of one table a row of another belongs to, by the values of their keys.
#
# Knows: Arrow columns. Must not know: what they mean. NULL is a key like any other (PRIVACY.md section 3).

Columns = Sequence[pa.ChunkedArray]


def positions(known: Columns, rows: int, wanted: Columns, wanted_rows: int) -> Int64:
    """Return for each row of `wanted` the row of `known` (of `rows` rows) with the same keys, or -1.

    Without keys there is one group. Raises MechanismError when `known` repeats a key or types differ.
    """
    codes = np.zeros(rows + wanted_rows, dtype=np.int64)
    for ours, theirs in zip(known, wanted, strict=True):
        values = _codes(ours, theirs)
        codes = np.unique(codes * (int(values.max(initial=0)) + 1) + values, return_inverse=True)[1].astype(np.int64)
    of_known = codes[:rows]
    place = np.full(int(codes.max(initial=0)) + 1, -1, dtype=np.int64)
    place[of_known] = np.arange(rows)
    if (place[of_known] != np.arange(rows)).any():
        raise MechanismError("the backend returned a group twice")
    return place[codes[rows:]]


def _codes(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> Int64:
    """A small number for each distinct value of both, NULL included."""
    ours, theirs = _alike(ours, theirs)
    both = pa.chunked_array([*ours.chunks, *theirs.chunks], type=ours.type).combine_chunks()
    array = both if isinstance(both, pa.Array) else pa.concat_arrays(both.chunks)
    if not isinstance(array, pa.DictionaryArray):
        array = array.dictionary_encode(null_encoding="encode")
    return np.asarray(array.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64) + 1


def _alike(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Both with one type: an engine may spell declared keys as wider or narrower numbers, or as texts for an ENUM's."""
    if ours.type == theirs.type:
        return ours, theirs
    types = (ours.type, theirs.type)
    if all(map(pa.types.is_integer, types)):
        common = pa.int64()
    elif all(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) for t in types):
        common = pa.float64()
    elif all(pa.types.is_string(t) or pa.types.is_dictionary(t) for t in types):
        common = pa.string()
    elif all(map(pa.types.is_timestamp, types)):
        common = pa.timestamp("us")
    else:
        raise MechanismError("a key has two types")
    return ours.cast(common, safe=False), theirs.cast(common, safe=False)


# Columns of a backend's answer as whole numbers, or an error of a fixed text.
#
# Knows: Arrow. Must not know: what the numbers mean.


def int64(column: pa.ChunkedArray) -> Int64:
    """Read a column that must be BIGINT without NULLs. Raises MechanismError for any other."""
    if column.type != pa.int64() or column.null_count:
        raise MechanismError("a column of the backend's answer is not BIGINT NOT NULL")
    return np.asarray(column.to_numpy(), dtype=np.int64)


MOST_NUMBERS = 100_000
"""Of found groups that the second query is told: a megabyte or two of it. Others are weighed twice, and shown all the same."""


def found_first(measurement: Measurement, exact: Exact, noise: Noise) -> FoundGroups:
    """Return the groups of the first round, by `FirstRound.query`. Raises MechanismError, with a text that does not depend on
    data."""
    charge_check.check(measurement, noise)
    first = measurement.threshold.first if measurement.threshold is not None else None
    if first is None:
        raise MechanismError("a measurement of one round has no first one")
    (table,) = exact._open()
    names = [f"k{i}" for i in range(len(measurement.keys))]
    if table.column_names != [*names, "b0", "h"]:
        raise MechanismError("the backend's answer has other columns than the plan")
    weights, numbers, basis = int64(table.column("b0")), int64(table.column("h")), measurement.bases[first.basis]
    noisy = (noise.laplace if basis.mechanism == "laplace" else noise.gaussian)(basis.scale, saturate(weights))
    if noisy.dtype != np.int64 or noisy.shape != weights.shape:
        raise MechanismError("a source of noise returned another shape")
    kept = np.flatnonzero(noisy >= first.tau)
    keys = tuple(pc.take(table.column(name).combine_chunks(), pa.array(kept)) for name in names)
    return FoundGroups(keys, tuple(numbers[kept[:MOST_NUMBERS]].tolist()))


def places(found: FoundGroups, keys: Sequence[pa.ChunkedArray], rows: int) -> Int64:
    """Return which of `rows` groups were found in the first round."""
    ours = [pa.chunked_array([key]) for key in found.keys]
    at = positions(keys, rows, ours, len(ours[0]) if ours else 0)
    return at[at >= 0]
