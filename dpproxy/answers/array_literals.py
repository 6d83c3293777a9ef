"""Released columns as PostgreSQL array literals.

Knows: Arrow, the text form of arrays. Must not know: where a column came from; it is given `Released` values, policy
and ledger entries only. Vectorised, since an answer may have a million groups; but for short columns, for which a call of a
vector's function costs more than its work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.facade.copytext import column_text
from dpproxy.mechanisms.exact_answers import Int64

SHORT = 500
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\0": None})
"""NUL cannot be part of a PostgreSQL text; an engine may return one."""


def array_literal(column: pa.Array | pa.ChunkedArray | Int64) -> bytes:
    """Return `{...}` in UTF-8: numbers bare, everything else quoted, NULL for a missing value."""
    if len(column) <= SHORT and (items := _items(column)) is not None:
        return ("{" + ",".join(items) + "}").encode()
    if isinstance(column, np.ndarray):
        column = pa.array(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    text = column_text(column)
    if not (pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)):
        text = _quoted(text)
    text = pc.fill_null(text, "NULL")
    whole = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text)
    return b"{" + (pc.binary_join(whole, ",")[0].as_py() or "").encode() + b"}"


def _items(column: pa.Array | pa.ChunkedArray | Int64) -> list[str] | None:
    """Of integers and texts; None for others."""
    if isinstance(column, np.ndarray):
        return [str(value) for value in column.tolist()]
    if pa.types.is_integer(column.type):
        return ["NULL" if value is None else str(value) for value in column.to_pylist()]
    if pa.types.is_string(column.type):
        return ["NULL" if value is None else f'"{value.translate(_ESCAPES)}"' for value in column.to_pylist()]
    return None


def text_literal(values: Sequence[str | None]) -> bytes:
    """Return the array literal of a list of texts."""
    return array_literal(pa.array(values, pa.string()))


def _quoted(text: pa.Array) -> pa.Array:
    for plain, escape in (("\\", "\\\\"), ('"', '\\"'), ("\0", "")):
        text = pc.replace_substring(text, plain, escape)
    return pc.binary_join_element_wise('"', text, '"', "")
