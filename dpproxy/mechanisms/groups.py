"""Which group of one table a row of another belongs to, by the values of their keys.

Knows: Arrow columns. Must not know: what they mean. NULL is a key like any other (PRIVACY.md section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dpproxy.mechanisms.noise import Int64, MechanismError

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
