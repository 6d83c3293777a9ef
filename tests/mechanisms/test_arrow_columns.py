"""Columns of a backend's answer: whole numbers without NULLs, or a fixed error."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpproxy.mechanisms.key_rounds import int64
from dpproxy.mechanisms.noise import MechanismError


def test_whole_numbers() -> None:
    assert int64(pa.chunked_array([[1, -(2**62)], [3]], pa.int64())).tolist() == [1, -(2**62), 3]
    assert int64(pa.chunked_array([], pa.int64())).tolist() == []


@pytest.mark.parametrize("column", [pa.array([1, None], pa.int64()), pa.array([1], pa.int32()), pa.array([1.0]), pa.array(["1"])])
def test_anything_else_is_refused_in_words_that_tell_no_value(column: pa.Array) -> None:
    with pytest.raises(MechanismError, match=r"^a column of the backend's answer is not BIGINT NOT NULL$"):
        int64(pa.chunked_array([column]))
