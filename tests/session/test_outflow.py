"""What is told to a client goes out in order and in few pieces; who does not read is waited for."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.session.inflow import PIECE, Outflow


@given(st.lists(st.one_of(st.integers(0, 2 * PIECE), st.none())))
def test_all_is_sent_in_order_and_no_more_than_a_piece_is_held(told: list[int | None]) -> None:
    """A number is bytes that are told, None is a flush."""

    async def run() -> None:
        sent: list[bytes] = []
        outflow, expected = Outflow(sent.append), b""
        for number, size in enumerate(told):
            if size is None:
                outflow.flush()
                assert b"".join(sent) == expected
            else:
                data = bytes([number % 256]) * size
                expected += data
                outflow.tell(data)
            assert len(expected) - sum(map(len, sent)) < PIECE
        outflow.flush()
        assert b"".join(sent) == expected
        assert len(sent) <= told.count(None) + len(expected) // PIECE + 1

    asyncio.run(run())


@pytest.mark.asyncio
async def test_who_does_not_read_is_waited_for() -> None:
    outflow = Outflow(lambda _: None)
    await outflow.drained()
    outflow.slow(True)
    waiting = asyncio.ensure_future(outflow.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    outflow.slow(False)
    await waiting
