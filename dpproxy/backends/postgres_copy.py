"""COPY's CSV as Arrow tables.

Knows: the CSV that PostgreSQL writes, Arrow's reader. Must not know: connections, what the columns mean. NULL is an
unquoted `\\N`, which PostgreSQL quotes when it is a text, so that it differs from every text, the empty one included.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

FORMAT, NULL = "csv", "\\N"
_TYPES = {"int2": pa.int64(), "int4": pa.int64(), "int8": pa.int64(), "bool": pa.bool_()}
_DECIMAL = {b"numeric", b"float4", b"float8"}
_TYPE = b"postgres"  # the metadata of a column that says its PostgreSQL type
_BLOCK = 2**31 - 1  # bytes: a row must not be longer than a block, so there is one block where Arrow can count so far


def read_csv(data: bytes | memoryview, columns: Sequence[tuple[str, str]]) -> pa.Table:
    """Return the rows of a CSV; `columns` are names and PostgreSQL types. Raises ArrowException for what is not such a CSV."""
    schema = pa.schema([pa.field(n, _TYPES.get(t, pa.string()), metadata={_TYPE: t}) for n, t in columns])
    names = [f"c{i}" for i in range(len(columns))]  # the statement's own names need not be distinct
    if not len(data):
        return schema.empty_table()
    table = csv.read_csv(
        pa.py_buffer(data),
        read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=min(len(data) + 1, _BLOCK)),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict(zip(names, schema.types, strict=True)),
            null_values=[NULL],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return pa.table(table.columns, schema=schema)


def told_equal(tables: tuple[pa.Table, ...]) -> tuple[pa.Table, ...]:
    """Return tables whose keys are matched by their text: equal numbers get equal texts (`1.50` and `1.5`, `-0` and `0`)."""
    return tuple(pa.table([_plain(c, f) for c, f in zip(t.columns, t.schema, strict=True)], schema=t.schema) for t in tables)


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if (field.metadata or {}).get(_TYPE) not in _DECIMAL:
        return column
    for pattern, kept in ((r"^(-?[0-9]+\.[0-9]*?)0+$", r"\1"), (r"\.$", ""), (r"^-0$", "0")):
        column = pc.replace_substring_regex(column, pattern, kept)
    return column
