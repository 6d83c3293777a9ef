"""Array literals: what PostgreSQL reads is what was released, whatever is in it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.answers import answer_parts
from dpproxy.answers.answer_parts import array_literal, text_literal


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array([1, -2], np.int64), b"{1,-2}"),
        (np.array([], np.int64), b"{}"),
        (pa.array([None, 3], pa.int32()), b"{NULL,3}"),
        (pa.array(["a", 'q"\\', "NULL", "", None, "{,}", "é", "\0"]),
         '{"a","q\\"\\\\","NULL","",NULL,"{,}","é",""}'.encode()),
        (pa.array([Decimal("1.50")]), b"{1.50}"),
        (pa.array([True, None]), b'{"true",NULL}'),
        (pa.array([1.5, float("nan")]), b'{"1.5","nan"}'),
        (pa.array([dt.date(2020, 1, 2)]), b'{"2020-01-02"}'),
        (pa.array(["x", "x"]).dictionary_encode(), b'{"x","x"}'),
        (pa.chunked_array([["a"], ["b"]]), b'{"a","b"}'),
    ],
)  # fmt: skip
def test_array_literals(column: object, expected: bytes) -> None:
    assert array_literal(column) == expected


@given(
    st.lists(st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"])))
    | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1))
)
def test_short_columns_are_written_like_long_ones(values: list[str | int | None]) -> None:
    column = pa.array(values, pa.string() if any(isinstance(v, str) for v in values) else pa.int64())
    short = array_literal(column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer_parts, "SHORT", -1)
        assert array_literal(column) == short


def test_text_literal() -> None:
    assert text_literal(["a", None]) == b'{"a",NULL}'
