"""A release as the bytes that are kept of it, and back.

Knows: Arrow's stream format. Must not know: where the bytes are kept, who may see them. What is read back is what was
written, type by type, or an error: a stored answer that is broken is a miss.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dpproxy.mechanisms.exact_answers import Released


def pack(released: Released) -> bytes:
    """Return a release as Arrow IPC: keys k0.., values v0... The number of rows is in the metadata, for answers without
    columns."""
    columns = {f"k{i}": key for i, key in enumerate(released.keys)}
    columns |= {f"v{i}": pa.array(value, pa.int64()) for i, value in enumerate(released.values)}
    schema = pa.schema([(n, c.type) for n, c in columns.items()], metadata={"rows": str(released.rows)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    return bytes(sink.getvalue())


def unpack(payload: bytes) -> Released:
    """Return the release that `pack` has written. Raises ValueError for anything else."""
    try:
        table = pa.ipc.open_stream(payload).read_all()
        rows = int(table.schema.metadata[b"rows"])
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:  # OSError: of one that was cut off
        raise ValueError(f"a stored answer cannot be unpacked: {error}") from error
    keys = tuple(_array(table, n) for n in table.column_names if n.startswith("k"))
    values = tuple(_array(table, n).to_numpy(zero_copy_only=False) for n in table.column_names if n.startswith("v"))
    if any(len(c) != rows for c in (*keys, *values)) or any(v.dtype != np.int64 for v in values):
        raise ValueError("a stored answer has columns of another shape")
    return Released(keys, values, rows)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
