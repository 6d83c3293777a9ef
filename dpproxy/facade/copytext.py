"""An Arrow table of public rows as PostgreSQL's COPY text format.

Knows: Arrow, the COPY text format. Must not know: where the rows came from or go to. Column by column in Arrow's
kernels, since a public table may have 200,000 rows; only types without a kernel go value by value.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

CHUNK = 10_000  # rows a chunk: a few megabytes of text at a time


def copy_chunks(table: pa.Table) -> Iterator[bytes]:
    """Return the rows in COPY text format, UTF-8, in chunks of whole lines."""
    for batch in table.to_batches(max_chunksize=CHUNK):
        if batch.num_rows == 0:
            continue
        columns = [_escaped(column) for column in batch.columns]
        if not columns:
            yield b"\n" * batch.num_rows
            continue
        lines = pc.binary_join_element_wise(*columns, "\t") if len(columns) > 1 else columns[0]
        yield ("\n".join(lines.to_pylist()) + "\n").encode()


def _escaped(column: pa.Array) -> pa.Array:
    text = column_text(column)
    for plain, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "")):
        text = pc.replace_substring(text, plain, escape)
    return pc.fill_null(text, "\\N")


def column_text(column: pa.Array) -> pa.Array:
    """Return PostgreSQL's text forms of a column, as Arrow strings; NULL stays NULL."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    slow = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_nested,
        pa.types.is_interval,
        pa.types.is_duration,
    )
    if not any(test(column.type) for test in slow):
        try:
            return pc.cast(column, pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            pass
    return pa.array([None if v is None else value_text(v) for v in column.to_pylist()], pa.string())


def value_text(value: object) -> str:
    """Return PostgreSQL's text form of one Python value."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, dt.timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    if isinstance(value, pa.MonthDayNano):
        return f"{value.months} months {value.days} days {value.nanoseconds // 1000} microseconds"
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=str)
    return str(value)
