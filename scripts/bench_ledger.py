"""A ledger in PostgreSQL under load: eight writers beside the disk's own limit, and many analysts of two proxies that share it.

Knows: pgbench, the sample shop's users, the ledger's record. Must not know: how charges are grouped. A part of `bench`. The limit
is what eight clients of pgbench reach who do nothing but insert: each transaction adds one row as long as a charge's, with its
two indexes, durably, and several that wait at once share a flush. Beside it: what one process flushes, write after write; what
eight clients flush who write an empty message into the server's log; what eight reach who add these rows one by one under
a lock of the record, as a ledger must. All is measured in turn on one server, which waits for its disk as a ledger's must: the
disk at hand, then the same with flushes that take as long as a durable disk's (`bench_flush`).
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import itertools
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncpg
import psutil
import psycopg
from bench_flush import compiler, slowed
from bench_wire import Route, pgbench, say
from scratch_postgres import Scratch, scratch_server

from dpproxy.ledger.ledger import Charge
from dpproxy.records import record
from dpproxy.records.place import ledger_key
from dpproxy.records.postgres import PostgresReader
from dpproxy.serve.launch import Proxy, launched

WRITERS: Final = 8
WRITER: Final = Path(__file__).resolve().parents[1] / "tests" / "budget" / "crash_writer.py"
FLUSH: Final = "SELECT pg_logical_emit_message(true, 'dpproxy', '');\n"
ROWS: Final = """
CREATE TABLE head (chain text PRIMARY KEY, sequence bigint);
INSERT INTO head VALUES ('shop', 0);
CREATE TABLE entries (
    chain text, sequence bigserial, id text, body text, hash bytea, PRIMARY KEY (chain, sequence), UNIQUE (chain, id)
);
"""
INSERT: Final = (
    "INSERT INTO entries (chain, id, body, hash) VALUES ('shop', gen_random_uuid()::text, repeat('0123456789abcdef', 51), "
    "decode(repeat('ab', 32), 'hex'));\n"
)
LOCKED: Final = (
    "BEGIN;\nSELECT sequence FROM head WHERE chain = 'shop' FOR UPDATE;\n"
    + INSERT
    + "UPDATE head SET sequence = sequence + 1 WHERE chain = 'shop';\nCOMMIT;\n"
)
WAYS: Final = ((8, 1), (1, 8), (1, 64))
"""How many processes, and statements at once in each."""
DURABLE: Final = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "wal_level": "replica",
    "max_wal_size": "1GB",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "autovacuum": "on",
}
HEAD: Final = "SELECT coalesce(max(sequence), 0) FROM dpproxy_ledger.head"

THINK: Final = 5.0
"""Seconds between an answer and an analyst's next question, on average; exponentially distributed."""
NEW: Final = 0.3
"""Share of questions that nobody has asked before; the others are of a dashboard."""
CHARTS: Final = tuple(
    f"SELECT {key}, {value} FROM customers WHERE birth_year >= {year} GROUP BY {key}"
    for key in ("region", "sex")
    for value in ("count(*)", "avg(income)", "sum(income)")
    for year in range(1930, 1980, 10)
)
FRESH: Final = "SELECT region, count(*) FROM customers WHERE income <> {} GROUP BY region"
USERS: Final = ("ada", "eve")
KEY: Final = b"k" * 32
UNKNOWN: Final = "the outcome is not known"


@contextlib.contextmanager
def durable(work: Path) -> Iterator[Scratch]:
    with scratch_server(work, settings=DURABLE) as server:
        yield server


def limit(server: Scratch, seconds: float, script: Path, text: str = FLUSH, clients: int = WRITERS) -> float:
    """Return how many transactions a second so many clients flush."""
    script.write_text(text)
    route = Route("flush", ("-h", str(server.home), "-p", "5432", "-U", "postgres", "postgres"))
    return pgbench(route, "simple", clients, seconds, script).tps


def charges(work: Path, options: argparse.Namespace) -> None:
    """Print charges a second of eight processes, and of one in which several statements wait at once, beside the limits."""
    print("a second, medians of the rounds, by the milliseconds that a flush takes longer than this disk's: flushes of a client,")
    print("of 8, locked inserts of 8, inserts of 8; charges of processes x statements at once, and their ratio to inserts")
    print("ms\t1 flush\t8 flush\tlocked\tinserts\t" + "\t".join(f"{n} x {threads}\tratio" for n, threads in WAYS))
    for milliseconds in options.flushes:
        if milliseconds and compiler() is None:
            say("NOT MEASURED: a slower flush needs gcc, which is not installed")
            return
        with durable(work / f"durable{milliseconds:g}") as server, slowed(server, milliseconds):
            _compared(server, work, milliseconds, options)


def _compared(server: Scratch, work: Path, milliseconds: float, options: argparse.Namespace) -> None:
    rates: list[list[float]] = []
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(ROWS.encode())
    for round in range(options.rounds):
        say(f"charges: flushes of {milliseconds:g} ms more, round {round + 1}")
        one = limit(server, options.seconds, work / "limit.sql", clients=1)
        limits = [limit(server, options.seconds, work / "limit.sql", text) for text in (FLUSH, LOCKED, INSERT)]
        rates.append([one, *limits, *(rate(server, n, threads, options.seconds) for n, threads in WAYS)])
    found = [f"{statistics.median(row[i] for row in rates):.0f}" for i in range(4)]
    for i in range(4, 4 + len(WAYS)):
        found += [f"{statistics.median(row[i] for row in rates):.0f}"]
        found += [f"{statistics.median(row[i] / row[3] for row in rates):.2f}"]
    print(f"{milliseconds:g}\t" + "\t".join(found), flush=True)


def rate(server: Scratch, processes: int, threads: int, seconds: float) -> float:
    """Return charges a second, counted in a record of its own once all have charged: what is there is read before the first."""
    name = f"charges_{processes}_{time.monotonic_ns()}"
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    command = [sys.executable, str(WRITER), server.dsn(name), "1000000000", str(threads)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(processes)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            for _ in range(5):  # that it is ready, and its first charges
                writer.stdout.readline()
        drains = [subprocess.Popen(["cat"], stdin=writer.stdout, stdout=subprocess.DEVNULL) for writer in writers]
        with psycopg.connect(server.conninfo(name), autocommit=True) as connection:
            before, began = _head(connection), time.monotonic()
            time.sleep(seconds)
            found = (_head(connection) - before) / (time.monotonic() - began)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    for drain in drains:
        drain.wait()
    return found


def _head(connection: psycopg.Connection[tuple[int]]) -> int:
    row = connection.execute(HEAD).fetchone()
    return row[0] if row else 0


# analysts


@dataclass
class Told:
    """What analysts were told. `seconds`: of each answer, by what it cost."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    failed: collections.Counter[str] = field(default_factory=collections.Counter)
    shown: dict[str, set[str]] = field(default_factory=lambda: collections.defaultdict(set))

    def line(self, kind: str) -> str:
        found = sorted(self.seconds[kind]) or [0.0]
        middle, late = (1000 * found[min(len(found) - 1, int(q * len(found)))] for q in (0.5, 0.99))
        return f"{len(self.seconds[kind])}\t{middle:.0f}\t{late:.0f}\t{1000 * found[-1]:.0f}"


def analysts(policy: Path, options: argparse.Namespace) -> None:
    """Let them ask for as long as --minutes says, then hold what they were told against the record."""
    work = policy.parent / "analysts"
    work.mkdir()
    shutil.copy(policy.with_name("shop.duckdb"), work / "shop.duckdb")
    (work / "key").write_bytes(KEY)
    rich = "epsilon: 1000000, delta: 0.1"
    text = re.sub(r"epsilon: [\d.]+, delta: [\d.e-]+(?=, every)", rich, policy.read_text())
    text = text.replace("epsilon: 0.05, max_epsilon: 0.2", "epsilon: 0.1, max_epsilon: 1")  # one noise for both roles
    (work / "shop.yaml").write_text(text.replace("epsilon: 100\n  delta: 1e-5", rich.replace(", ", "\n  ")))
    with durable(work / "durable") as server, contextlib.ExitStack() as stack:
        flushed = limit(server, options.seconds, work / "flush.sql")
        each = ("--ledger", server.dsn(), "--key-file", str(work / "key"))
        each += ("--connections", "1000", "--connections-per-user", "500")
        proxies = [stack.enter_context(launched([work / "shop.yaml"], work / f"state{i}", options=each)) for i in range(2)]
        say(f"analysts: {options.analysts} for {options.minutes:g} minutes")
        told, before = Told(), processor(proxies)
        asyncio.run(ask_all(proxies, told, options.analysts, 60 * options.minutes))
        used = [after - b for after, b in zip(processor(proxies), before, strict=True)]
        memory = [psutil.Process(proxy.pid).memory_info().rss / 2**20 for proxy in proxies]
        stack.close()
        found = [entry for _, entry in record.show(PostgresReader(server.dsn(), "shop")) if isinstance(entry, Charge)]
        record.verify(PostgresReader(server.dsn(), "shop"), key=ledger_key(KEY))
    print(f"analysts: {options.analysts} of two proxies, thinking {THINK:g} s; {options.minutes:g} minutes; milliseconds")
    print("answers\tnumber\tmedian\t99 %\tlast")
    for kind in told.seconds:
        print(f"{kind}\t{told.line(kind)}")
    seconds, charged = 60 * options.minutes, len(told.seconds["charged"])
    again = sum(n - 1 for n in collections.Counter(c.statement for c in found if c.dataset_loss).values())
    several = sum(len(shown) > 1 for shown in told.shown.values())
    print(f"charges a second {len(found) / seconds:.1f}, flushes of 8 clients a second {flushed:.0f}")
    print(f"told of a charge {charged}, charges in the record {len(found)}, lost {max(0, charged - len(found))}")
    print(f"statements measured twice {again}, charts shown with two noises {several}, failed {dict(told.failed)}")
    shares = " + ".join(f"{u / seconds:.2f}" for u in used)
    print(f"processors the proxies used {shares}; memory {memory[0]:.0f} and {memory[1]:.0f} MB", flush=True)


def processor(proxies: list[Proxy]) -> list[float]:
    return [sum(psutil.Process(proxy.pid).cpu_times()[:2]) for proxy in proxies]


async def ask_all(proxies: list[Proxy], told: Told, count: int, seconds: float) -> None:
    until, numbers = time.monotonic() + seconds, itertools.count()
    opened = asyncio.Semaphore(20)
    await asyncio.gather(*(analyst(proxies[i % 2], told, random.Random(i), until, numbers, opened) for i in range(count)))


async def analyst(
    proxy: Proxy, told: Told, rng: random.Random, until: float, numbers: Iterator[int], opened: asyncio.Semaphore
) -> None:
    user = rng.choice(USERS)
    async with opened:
        connection = await asyncpg.connect(
            host=proxy.host, port=proxy.port, user=user, password=user, database="shop", statement_cache_size=0, timeout=120
        )
    notices: list[str] = []
    connection.add_log_listener(lambda _, message: notices.append(str(message.message)))
    while True:
        think = rng.expovariate(1 / THINK)
        if time.monotonic() + think > until:
            break
        await asyncio.sleep(think)
        new = rng.random() < NEW
        text = FRESH.format(next(numbers)) if new else rng.choice(CHARTS)
        notices.clear()
        began = time.monotonic()
        try:
            rows = await connection.fetch(text)
        except (asyncpg.PostgresError, OSError) as error:
            told.failed[getattr(error, "sqlstate", None) or type(error).__name__] += 1
            continue
        kind = next((word for word in ("charged", "reused") if any(n.startswith(word) for n in notices)), UNKNOWN)
        told.seconds[kind].append(time.monotonic() - began)
        if not new:
            told.shown[text].add(str(sorted(map(str, rows))))
    await connection.close()
