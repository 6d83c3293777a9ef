"""The facade dies under sessions: they hear of it, and new ones find it running again."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from dpproxy.wire import frontend_build as front

from .conftest import Stage, report, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"


async def test_kill_9_of_the_facade_under_sessions(stage: Stage) -> None:
    idle, busy, private = [await stage.connect() for _ in range(3)]
    busy.send(front.query("SELECT pg_sleep(60)"))
    stage.engine.gate.clear()
    private.send(front.query(PRIVATE))
    await asyncio.wait_for(stage.engine.started.wait(), 5)
    assert stage.facade.pid is not None
    os.kill(stage.facade.pid, signal.SIGKILL)
    stage.engine.gate.set()
    for wire in (idle, busy, private):
        assert report(await wire.until(b"E"))["C"] == "57P01"
        with pytest.raises(EOFError):
            await wire.read()
    again = await stage.connect()
    assert rows(await again.query(PRIVATE))[0] == ("e", "1")
    assert rows(await again.query("SELECT count(*) FROM shops")) == [("2",)]
    await again.close()
