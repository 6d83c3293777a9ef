"""Array literals and the texts they are put into."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.answers import array_literals
from dpproxy.answers.array_literals import array_literal, text_literal
from dpproxy.session.outer_text import (
    array_constant,
    same_columns,
    with_literals,
    wrapped,
)
from dpproxy.wire.backend import Field


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
        patch.setattr(array_literals, "SHORT", -1)
        assert array_literal(column) == short


def test_text_literal() -> None:
    assert text_literal(["a", None]) == b'{"a",NULL}'


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT $1, $2", "SELECT A, B"),
        ("SELECT $12, $1", "SELECT $12, A"),
        ("SELECT '$1', \"$1\", $1", "SELECT '$1', \"$1\", A"),
        (r"SELECT E'\'$1', '$1''$1', $1", r"SELECT E'\'$1', '$1''$1', A"),
        ("SELECT $$ $1 $$, $x$ $1 $$ $x$, $1", "SELECT $$ $1 $$, $x$ $1 $$ $x$, A"),
        ("SELECT $1 -- $1\n, $2 /* $1 */", "SELECT A -- $1\n, B /* $1 */"),
        ("SELECT a$1, $1::text", "SELECT a$1, A::text"),
    ],
)
def test_parameters_become_literals_outside_strings(sql: str, expected: str) -> None:
    assert with_literals(sql, {1: "A", 2: "B"}) == expected


def test_array_constant_is_quoted() -> None:
    assert array_constant(b'{"a\'\\\\"}', "text") == """ E'{"a''\\\\\\\\"}'::text[]"""


def test_wrapping() -> None:
    fields = [Field('Na"me', 25), Field("n", 20)]
    assert not same_columns(fields, [Field("n", 25), Field("n", 20)])
    assert not same_columns(fields, fields[:1])
    assert same_columns(fields, [Field('Na"me', 25, table=5), Field("n", 20, modifier=7)])
    assert not same_columns([Field("n", 1700, modifier=655366)], [Field("n", 1700)])
    expected = 'SELECT c0::text AS "Na""me", c1::bigint AS "n" FROM (\nSELECT 1\n) AS _ (c0, c1)'
    assert wrapped("SELECT 1", fields, ["text", "bigint"]) == expected
