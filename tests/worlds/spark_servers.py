"""Servers of Spark Connect for tests: Sail inside the test's process or beside it, and Spark itself where one is told of.

Knows: pysail, the client of Spark Connect. Must not know: shops, plans. Both come with extras (`dpproxy[spark]`, `dpproxy[sail]`);
without them the tests skip and say so. `DPPROXY_SPARK=sc://host:port` names a Spark for tests in long mode; `scripts/spark` starts
one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.worlds.waiting import SAFETY

KEY = 4242424242424242421
"""Of picks: `scripts/spark` looks for it in the logs of the server."""
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""For very many statements over small tables, two fifths of whose work was writing and compiling Java and planning anew. Results are
to be the same: equality is tried with Spark's defaults."""
MISSING = "Spark Connect is not tried: pip install -c constraints.txt '.[spark,sail]'"


@contextmanager
def sail() -> Iterator[str]:
    """The address of a Sail of this process."""
    pytest.importorskip("pyspark", reason=MISSING)
    server = pytest.importorskip("pysail.spark", reason=MISSING).SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    try:
        yield f"sc://{host}:{port}"
    finally:
        server.stop()


class SailProcess:
    """A Sail that is killed, and started again at its address."""

    def __init__(self) -> None:
        pytest.importorskip("pyspark", reason=MISSING)
        pytest.importorskip("pysail.spark", reason=MISSING)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = int(found.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    def start(self) -> None:
        program = f"from pysail.spark import SparkConnectServer as S; S('127.0.0.1', {self._port}).start(background=False)"
        self._process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + SAFETY
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return
            assert self._process.poll() is None, "Sail did not start"
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def sail_beside() -> Iterator[str]:
    """The address of a Sail in a process of its own: what it kept of its statements is given back when that ends."""
    server = SailProcess()
    server.start()
    try:
        yield server.address
    finally:
        server.kill()


def spark() -> str:
    """The address of a Spark."""
    pytest.importorskip("pyspark", reason=MISSING)
    address = os.environ.get("DPPROXY_SPARK", "")
    if not address:
        pytest.skip("Spark itself is not tried: scripts/spark starts one, DPPROXY_SPARK=sc://host:port names it")
    return address


@contextmanager
def session(address: str) -> Iterator[Any]:
    """A session as the backend opens it, with a key for picks."""
    from dpproxy.backends import spark_session
    from dpproxy.policy.model import SparkBackend

    found = spark_session.opened(SparkBackend(address), KEY)
    yield found
    spark_session.ended(found)


def interpret(session: Any) -> None:
    """Have Spark's own server evaluate this session's statements without writing Java for them, and plan each once."""
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
