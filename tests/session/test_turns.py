"""Who is patient, and when: the serving process and its facade, but not while an engine computes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

import duckdb
import psutil
import pytest

from dpproxy.launch import launched
from dpproxy.policy.password import make_verifier
from dpproxy.turns import TURNS, Turns
from dpproxy.wire import frontend_build as front

from .conftest import Stage
from .test_sockets import POLICY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scheduling policies are Linux's")


def test_a_thread_that_waits_its_turn() -> None:
    seen: list[int] = []

    def look() -> None:
        seen.append(os.sched_getscheduler(0))

    def work() -> None:
        turns = Turns()
        with turns.contested():
            look()
        turns.patient()
        look()
        with turns.contested(), turns.contested():
            look()
        look()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_OTHER, os.SCHED_BATCH]


def test_the_proxy_and_its_facade(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id FROM range(100) AS t(i)")
    (tmp_path / "shop.yaml").write_text(POLICY.replace("VERIFIER", make_verifier("x")))
    with launched([tmp_path / "shop.yaml"], tmp_path / "state") as proxy:
        family = [proxy.pid, *(child.pid for child in psutil.Process(proxy.pid).children(recursive=True))]
        assert len(family) > 2
        assert {os.sched_getscheduler(pid) for pid in family} == {os.SCHED_BATCH}


@pytest.mark.asyncio(loop_scope="module")
async def test_an_engine_that_computes(stage: Stage) -> None:
    wire = await stage.connect()
    stage.engine.gate.clear()
    wire.send(front.query("SELECT region, count(*) AS n FROM people GROUP BY 1"))
    await asyncio.wait_for(stage.engine.started.wait(), 20)
    assert TURNS._contested == 1
    stage.engine.gate.set()
    await wire.until(b"Z")
    assert TURNS._contested == 0
    await wire.close()
