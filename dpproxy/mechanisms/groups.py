"""Which group of one table a row of another belongs to, by the values of their keys.

Knows: Arrow columns. Must not know: what they mean. NULL is a key like any other (PRIVACY.md section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dpproxy.mechanisms.exact import Int64
from dpproxy.mechanisms.noise import MechanismError

Columns = Sequence[pa.ChunkedArray]


def positions(known: Columns, rows: int, wanted: Columns, wanted_rows: int) -> Int64:
    """For each row of `wanted`, the row of `known` (of `rows` rows) with the same keys, or -1.

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
    if ours.type != theirs.type:
        raise MechanismError("a key has two types")
    both = pa.chunked_array([*ours.chunks, *theirs.chunks], type=ours.type).combine_chunks()
    array = both if isinstance(both, pa.Array) else pa.concat_arrays(both.chunks)
    if not isinstance(array, pa.DictionaryArray):
        array = array.dictionary_encode(null_encoding="encode")
    return np.asarray(array.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64) + 1
