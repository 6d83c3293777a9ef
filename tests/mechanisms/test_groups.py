"""Rows find their groups by the values of keys, whatever types an engine gives the two tables."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from dpproxy.mechanisms.key_rounds import positions
from dpproxy.mechanisms.noise import MechanismError


def column(values: list[object], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


ENUM = pa.dictionary(pa.int32(), pa.string())
CASES = [
    (column([1, 2, None], pa.int32()), column([None, 2, 1, 7], pa.int64()), [2, 1, 0, -1]),
    (column([1.5, 2], pa.float64()), column([Decimal("2.00"), Decimal("1.50")], pa.decimal128(10, 2)), [1, 0]),
    (column([1, 2], pa.int32()), column([2.0, 0.5], pa.float64()), [1, -1]),
    (column(["a", "b", None], pa.string()), column(["b", None, "a"], ENUM), [1, 2, 0]),
    (column([0, 1], pa.timestamp("us")), column([1000], pa.timestamp("ns")), [1]),
]


@pytest.mark.parametrize(("known", "wanted", "found"), CASES)
def test_keys_of_two_types(known: pa.ChunkedArray, wanted: pa.ChunkedArray, found: list[int]) -> None:
    assert positions([known], len(known), [wanted], len(wanted)).tolist() == found


def test_keys_that_cannot_be_compared() -> None:
    with pytest.raises(MechanismError):
        positions([column([1], pa.int32())], 1, [column(["1"], pa.string())], 1)


def test_a_repeated_group() -> None:
    with pytest.raises(MechanismError):
        positions([column([1, 1], pa.int32())], 2, [column([1], pa.int32())], 1)
