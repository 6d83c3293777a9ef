"""The facade dies under sessions: they hear of it, and new ones find it running again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from dpproxy.facade.cluster import Cluster, Endpoint
from dpproxy.server.server import Server
from dpproxy.wire import frontend_build as front
from tests.worlds.scripted import Stage
from tests.worlds.waiting import until
from tests.worlds.wire_client import Wire, report, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"


async def test_kill_9_of_the_facade_under_sessions(stage: Stage) -> None:
    idle, busy, private = [await stage.connect() for _ in range(3)]
    busy.send(front.query("SELECT pg_sleep(60)"))
    stage.engine.gate.clear()
    private.send(front.query(PRIVATE))
    await asyncio.wait_for(stage.engine.started.wait(), 300)
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


async def test_a_facade_that_is_ending_is_asked_again(stage: Stage, tmp_path: Path) -> None:
    """One that dies leaves who has just connected without a word; one that is being started again is not there at all."""
    left = 0

    def leave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        left += 1
        writer.close()

    dying = await asyncio.start_unix_server(leave, tmp_path / "dying")
    asked = 0

    def facade(*_: object) -> Endpoint:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise ConnectionRefusedError
        return Endpoint(str(tmp_path / "dying")) if asked < 6 else stage.facade.endpoint

    server = Server({"shop": stage.dataset}, facade)
    wire = await Wire.open(await server.listen("127.0.0.1", 0))
    await wire.login()
    assert rows(await wire.query("SELECT count(*) FROM shops")) == [("2",)]
    assert (asked, left) == (6, 4)
    await wire.close()
    await server.stop(drain=0)
    dying.close()


async def test_nobody_is_sent_to_a_facade_that_is_being_made_anew(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its databases may not be there yet."""
    facade, asked, endpoint = stage.facade, 0, Cluster.endpoint.fget

    def counted(self: Cluster) -> Endpoint:
        nonlocal asked
        asked += 1
        assert endpoint is not None
        found: Endpoint = endpoint(self)
        return found

    monkeypatch.setattr(Cluster, "endpoint", property(counted))
    before, facade._restarting = facade._restarting, asyncio.get_running_loop().create_future()  # type: ignore[assignment]
    connecting = asyncio.ensure_future(stage.connect())
    await until(lambda: asked == 3)
    assert not connecting.done()
    facade._restarting = before
    again = await connecting
    assert rows(await again.query("SELECT count(*) FROM shops")) == [("2",)]
    await again.close()
