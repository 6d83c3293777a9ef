"""A collector in a process of its own over the tests' tables, and a client that speaks HTTP/1.1 as bytes.

Knows: sockets. Must not know: what is right.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from dpproxy.collector.journal import State
from dpproxy.collector.limits import Rates
from dpproxy.collector.serving import Options, serve
from dpproxy.server.tls import TlsFiles
from tests.collector.reports import tables
from tests.collector.world import DuckDBWorld, load

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Served:
    """A running collector. `said`: the lines of its standard error so far."""

    process: subprocess.Popen[str]
    port: int
    said: list[str]

    def post(self, body: bytes, headers: dict[str, str] | None = None, path: str = "/v1/emoji") -> int:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", path, body, headers or {})
            return connection.getresponse().status
        finally:
            connection.close()

    def health(self) -> dict[str, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/health")
        health: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return health


@contextmanager
def served(
    folder: Path, *, store: Path | None = None, seconds: float = 3600, header_seconds: float = 10, tls: TlsFiles | None = None
) -> Iterator[Served]:
    """Start a collector and stop it as a service manager does. `store`: a DuckDB file that sealed segments are loaded into."""
    files = (str(tls.certificate), str(tls.key)) if tls else ("", "")
    arguments = [str(folder), str(store or ""), str(seconds), str(header_seconds), *files]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.collector.served", *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = [process.stderr.readline()]
    if not said[0].startswith(f"collecting on http{'s' if tls else ''}://127.0.0.1:"):
        raise AssertionError(said[0] + process.stderr.read())
    reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    reader.start()
    try:
        yield Served(process, int(said[0].rpartition(":")[2]), said)
    finally:
        process.terminate()
        process.wait(60)
        reader.join()


def main(folder: str, store: str, seconds: str, header_seconds: str, certificate: str, key: str) -> None:
    from dpproxy.collector import serving

    serving.HEADER_SECONDS = float(header_seconds)  # type: ignore[misc]
    serving.LOAD_SECONDS = 0.1  # type: ignore[misc]
    options = Options(
        "127.0.0.1", 0, Path(folder), (Path(certificate), Path(key)) if key else None, Rates(10**6, 10**6), float(seconds)
    )
    world = DuckDBWorld(Path(store)) if store else None

    def bring(state: State) -> int:
        assert world is not None
        return load(state, world.store)

    asyncio.run(serve(options, tables(), bring if world else None))


if __name__ == "__main__":
    main(*sys.argv[1:])
