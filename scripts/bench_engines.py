"""One policy over tables that grow tenfold: how long an answer takes, what the proxy's memory and the network have of it.

Knows: DuckDB, Parquet, a Sail of its own or a Spark that is named and reads the files of this machine. Must not know: plans. The
same rows are asked for in a DuckDB file and, as Parquet files, on Spark Connect, beside the raw statement on the same engine.
Between proxy and Spark stands a relay that counts bytes. People have fifty rows each.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import psutil
import psycopg
from bench_wire import say

from dpproxy.serve.launch import Proxy, launched

ROOT: Final = Path(__file__).resolve().parents[1]
LEAST: Final = 1_000_000
EACH: Final = 50  # rows of a person
ROWS: Final = {
    "people": "SELECT i::INTEGER AS id, ['north', 'south', 'east', 'west'][(1 + hash(i) % 4)::INTEGER] AS region, "
    "(1930 + hash(i, 1) % 80)::INTEGER AS born FROM range({people}) AS t(i)",
    "orders": "SELECT (i % {people})::INTEGER AS person, (hash(i, 2) % 20)::INTEGER AS category, "
    "DATE '2024-01-01' + (hash(i, 3) % 730)::INTEGER AS day, (hash(i, 4) % 100000)::INTEGER AS amount FROM range({rows}) AS t(i)",
}
COLUMNS: Final = {"people": "id INT, region STRING, born INT", "orders": "person INT, category INT, day DATE, amount INT"}
VERIFIER: Final = re.compile(r'password: "(SCRAM[^"]+)"')
POLICY: Final = """
version: 1
dataset: growth
backend: {backend}
privacy_unit: {{ name: person, key: {schema}.people.id }}
budget: {{ epsilon: 100000, delta: 0.1, every: never }}
tables:
  {schema}.people:
    unit: id
    columns:
      id: unit
      region: {{ values: [north, south, east, west] }}
      born: {{ range: [1930, 2010] }}
  {schema}.orders:
    unit: person
    bounds: {{ rows: 50 }}
    columns:
      person: unit
      category: {{ values: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19] }}
      day: {{ range: [2024-01-01, 2025-12-31] }}
      amount: {{ range: [0, 100000] }}
roles:
  analyst: {{ budget: {{ epsilon: 100000, delta: 0.1, every: never }}, query: {{ epsilon: 1, delta: 1e-7 }} }}
users:
  ada: {{ role: analyst, password: "{verifier}" }}
reuse_answers: off
"""
QUESTIONS: Final = {
    "one row a person": "SELECT region, count(*), avg(born) FROM {schema}.people WHERE born <> {new} GROUP BY region",
    "sum by category": "SELECT category, count(*), sum(amount) FROM {schema}.orders WHERE amount <> {new} GROUP BY category",
    "sum by month": "SELECT date_trunc('month', day), sum(amount) FROM {schema}.orders WHERE amount <> {new} GROUP BY 1",
}


class Relay:
    """Passes connections on, and counts the bytes."""

    def __init__(self, host: str, port: int) -> None:
        self.sent = self.received = 0
        self._to = (host, port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            ours, _ = self._server.accept()
            threading.Thread(target=self._pass, args=(ours, socket.create_connection(self._to)), daemon=True).start()

    def _pass(self, ours: socket.socket, theirs: socket.socket) -> None:
        while True:
            for ready in select.select([ours, theirs], [], [])[0]:
                data = ready.recv(1 << 16)
                if not data:
                    ours.close()
                    theirs.close()
                    return
                if ready is ours:
                    self.sent += len(data)
                    theirs.sendall(data)
                else:
                    self.received += len(data)
                    ours.sendall(data)


def engines(work: Path, options: argparse.Namespace) -> None:
    print("engines: median of the rounds' seconds; ratio to the raw statement on the same engine")
    print("engine\trows\tquestion\tseconds\traw\tratio\tproxy, MB, most\tmoved to the engine, kB\tback, kB", flush=True)
    rows = LEAST
    while rows <= options.rows:
        with made(work / f"growth{rows}", rows) as folder:
            in_duckdb(folder, rows, options)
            on_spark(folder, rows, options)
        rows *= 10


@contextlib.contextmanager
def made(folder: Path, rows: int) -> Iterator[Path]:
    """Give a folder with the rows in a DuckDB file and in Parquet; take it away."""
    say(f"engines: making {rows:,} rows")
    folder.mkdir()
    with duckdb.connect(str(folder / "growth.duckdb")) as data:
        data.execute(f"CREATE SCHEMA g{rows}")
        for table, text in ROWS.items():
            (folder / table).mkdir()
            data.execute(f"CREATE TABLE g{rows}.{table} AS {text.format(rows=rows, people=rows // EACH)}")
            parts = f"{folder / table}' (FORMAT parquet, PER_THREAD_OUTPUT true, OVERWRITE_OR_IGNORE true)"
            data.execute(f"COPY g{rows}.{table} TO '{parts}")
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def policy(folder: Path, rows: int, backend: str) -> Path:
    found = VERIFIER.search((ROOT / "policies" / "shop.yaml").read_text())
    assert found is not None
    path = folder / "growth.yaml"
    path.write_text(POLICY.format(backend=backend, schema=f"g{rows}", verifier=found[1]))
    return path


@dataclass(frozen=True)
class Measured:
    seconds: float
    raw: float
    memory: float
    sent: float
    received: float


def in_duckdb(folder: Path, rows: int, options: argparse.Namespace) -> None:
    at, data = policy(folder, rows, "{ duckdb: growth.duckdb }"), folder / "growth.duckdb"
    with launched([at], folder / "state") as proxy, duckdb.connect(str(data), read_only=True) as raw:
        raw.execute("SET threads = 2")
        print_all("DuckDB", proxy, rows, options.rounds, lambda text: raw.execute(text).fetchall(), None)


def on_spark(folder: Path, rows: int, options: argparse.Namespace) -> None:
    if not options.spark:
        try:
            import pysail  # noqa: F401
        except ImportError:
            say("NOT MEASURED: Sail is not installed (pip install -c constraints.txt '.[spark,sail]')")
            return
    with contextlib.nullcontext(options.spark) if options.spark else sail() as address:
        host, _, port = address.removeprefix("sc://").rpartition(":")
        relay = Relay(host, int(port))
        tables = [f"CREATE DATABASE IF NOT EXISTS g{rows}"]
        for table, columns in COLUMNS.items():
            tables.append(f"CREATE TABLE IF NOT EXISTS g{rows}.{table} ({columns}) USING parquet LOCATION '{folder / table}'")
        (folder / "tables.sql").write_text(";".join(tables))
        session = session_of(address, tables)
        env = {"DPPROXY_TEST_TABLES": str(folder / "tables.sql"), "PYTHONPATH": str(ROOT)}
        program = [sys.executable, "-m", "tests.worlds.sail_proxy"]
        at = policy(folder, rows, f'{{ spark: "sc://127.0.0.1:{relay.port}" }}')
        with launched([at], folder / "state-spark", env=env, program=program) as proxy:
            name = "Spark" if options.spark else "Sail"
            print_all(name, proxy, rows, options.rounds, lambda text: session.sql(text).collect(), relay)
        for table in COLUMNS:
            session.sql(f"DROP TABLE g{rows}.{table}").collect()
        session.stop()


def session_of(address: str, tables: list[str]) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(address).create()
    for statement in tables:
        session.sql(statement).collect()
    return session


@contextlib.contextmanager
def sail() -> Iterator[str]:
    """A Sail in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = f"from pysail.spark import SparkConnectServer as S; S('127.0.0.1', {port}).start(background=False)"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.DEVNULL, env={**os.environ, "RUST_LOG": "error"}
    )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def print_all(engine: str, proxy: Proxy, rows: int, rounds: int, raw: Any, relay: Relay | None) -> None:
    address = f"host={proxy.host} port={proxy.port} user=ada password=ada dbname=growth"
    with psycopg.connect(address, autocommit=True) as connection:
        for name, text in QUESTIONS.items():
            found = [once(proxy, connection, text, rows, rng, raw, relay) for rng in range(rounds + 1)][1:]
            middle = [statistics.median(getattr(m, f) for m in found) for f in ("seconds", "raw", "sent", "received")]
            ratio = statistics.median(m.seconds / m.raw for m in found)
            moved = f"{middle[2] / 1000:.0f}\t{middle[3] / 1000:.0f}" if relay else "-\t-"
            most = max(m.memory for m in found)
            print(f"{engine}\t{rows:,}\t{name}\t{middle[0]:.2f}\t{middle[1]:.2f}\t{ratio:.1f}\t{most:.0f}\t{moved}", flush=True)


def once(proxy: Proxy, connection: Any, text: str, rows: int, number: int, raw: Any, relay: Relay | None) -> Measured:
    asked = text.format(schema=f"g{rows}", new=number)
    before = (relay.sent, relay.received) if relay else (0, 0)
    most, done = Most(proxy.pid), threading.Event()
    looking = threading.Thread(target=most.look, args=(done,))
    looking.start()
    began = time.monotonic()
    connection.execute(asked).fetchall()
    seconds = time.monotonic() - began
    done.set()
    looking.join()
    after = (relay.sent, relay.received) if relay else (0, 0)
    began = time.monotonic()
    raw(asked)
    return Measured(seconds, time.monotonic() - began, most.memory, after[0] - before[0], after[1] - before[1])


class Most:
    """The most memory that the proxy's own process had, in MB."""

    def __init__(self, pid: int) -> None:
        self.memory = 0.0
        self._process = psutil.Process(pid)

    def look(self, done: threading.Event) -> None:
        while True:
            self.memory = max(self.memory, self._process.memory_info().rss / 2**20)
            if done.wait(0.05):
                return
