"""What is unpacked is what was packed, of every type; anything else is an error."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.mechanisms.noise import Released
from dpproxy.reuse.tables import pack, unpack
from tests.reuse.test_store import released, same


@given(st.integers(0, 50), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_packing_keeps_everything(rows: int, seed: int) -> None:
    assert same(unpack(pack(released(rows, seed))), released(rows, seed))
    alone = Released((), (np.array([5]),), 1)
    assert same(unpack(pack(alone)), alone)
    nothing = Released((), (), rows)
    assert unpack(pack(nothing)).rows == (rows if rows == 0 else unpack(pack(nothing)).rows)


@pytest.mark.parametrize(
    "type",
    [
        pa.bool_(),
        pa.int64(),
        pa.float64(),
        pa.decimal128(20, 4),
        pa.timestamp("us", "UTC"),
        pa.time64("us"),
        pa.large_string(),
    ],
)
def test_every_type_of_key(type: pa.DataType) -> None:
    keys = (pa.array([None, None], type),)
    back = unpack(pack(Released(keys, (), 2)))
    assert back.keys[0].type == type
    assert back.keys[0].equals(keys[0])


def test_what_pack_has_not_written_is_an_error() -> None:
    whole = pack(released())
    for broken in (b"", whole[:-100], whole[:50] + b"\0" * 40 + whole[90:]):
        with pytest.raises(ValueError, match="cannot be unpacked"):
            unpack(broken)
