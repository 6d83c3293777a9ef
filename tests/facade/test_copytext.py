"""Every Arrow type a public table may have, as PostgreSQL's text forms."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from dpproxy.facade.database import CHUNK, copy_chunks

CASES = [
    (pa.array([1, None], pa.int64()), ["1", "\\N"]),
    (pa.array([1.5, float("nan"), float("-inf")]), ["1.5", "nan", "-inf"]),
    (pa.array([Decimal("1.10"), None], pa.decimal128(5, 2)), ["1.10", "\\N"]),
    (pa.array([True, False]), ["true", "false"]),
    (pa.array([dt.date(2020, 2, 29)]), ["2020-02-29"]),
    (pa.array([dt.time(1, 2, 3)], pa.time64("us")), ["01:02:03.000000"]),
    (pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us", "UTC")), ["2020-01-01 00:00:00.000000Z"]),
    (pa.array([dt.timedelta(days=1, seconds=2)], pa.duration("us")), ["1 days 2 seconds 0 microseconds"]),
    (pa.array([(1, 2, 3000)], pa.month_day_nano_interval()), ["1 months 2 days 3 microseconds"]),
    (pa.array([b"\x00\xff"]), ["\\\\x00ff"]),
    (pa.array([[1, 2]]), ["[1, 2]"]),
    (pa.array(["a", None, "a"]).dictionary_encode(), ["a", "\\N", "a"]),
    (pa.array(["\\N", "\t\n\r\\", "é", "a\0b"]), ["\\\\N", "\\t\\n\\r\\\\", "é", "ab"]),
]


@pytest.mark.parametrize(("column", "expected"), CASES, ids=lambda v: str(getattr(v, "type", "")))
def test_text_forms(column: pa.Array, expected: list[str]) -> None:
    table = pa.table({"n": list(range(len(column))), "x": column})
    lines = b"".join(copy_chunks(table)).decode().split("\n")
    assert lines == [f"{i}\t{text}" for i, text in enumerate(expected)] + [""]


def test_chunks_are_whole_lines() -> None:
    chunks = list(copy_chunks(pa.table({"n": list(range(CHUNK + 1))})))
    assert [c.count(b"\n") for c in chunks] == [CHUNK, 1]
    assert list(copy_chunks(pa.table({"n": pa.array([], pa.int64())}))) == []
