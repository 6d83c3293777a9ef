"""How long ten sessions wait for their answers while a session of another role misbehaves, and while sixteen do.

Knows: the sample shop's users, an ordinary client. Must not know: how the proxy defends itself. The ten ask, in turn, a stored
answer and a small measurement, with a pause between; each misbehaviour runs in a process of its own and is measured in turn with
quiet, several times, so that what else the machine does is in both. The misbehaving client itself yields to everybody: on a real
network it is another machine. How many statements it gets through is told too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
import bench_rudeness
import psutil

from dpproxy.facade import usage
from dpproxy.serve.launch import Proxy, launched

NEIGHBOURS: Final = 10
CROWD: Final = (1, 16)
PAUSE: Final = 0.05
ROUNDS: Final = 2
"""Times that quiet and a misbehaviour are measured in turn, before a last stretch of quiet."""
SETTLE: Final = 1.0
"""Seconds a misbehaviour gets before it is measured."""
STORED: Final = "SELECT region, count(*), avg(income) FROM customers GROUP BY region"
LONG_NAME: Final = "n" * 50_000
"""Asked for as the name of a prepared statement, by the protocol."""

MISBEHAVIOURS: Final[dict[str, tuple[str, ...]]] = {
    "D1 EXPLAIN of 400 averages": (f"EXPLAIN SELECT {', '.join(f'avg(income + {i})' for i in range(400))} FROM customers",),
    "D1 600 averages": (f"SELECT {', '.join(f'avg(income + {i}), stddev(income + {i})' for i in range(300))} FROM customers",),
    "D2 300 chained CTEs": (
        "WITH c0 AS (SELECT * FROM customers)"
        + "".join(f", c{i} AS (SELECT * FROM c{i - 1})" for i in range(1, 300))
        + " SELECT count(*) FROM c299",
    ),
    "D2 UNION doubled 18 times": (
        "WITH c0 AS (SELECT region FROM customers)"
        + "".join(f", c{i} AS (SELECT * FROM c{i - 1} UNION ALL SELECT * FROM c{i - 1})" for i in range(1, 19))
        + " SELECT count(*) FROM c18",
    ),
    "D3 sorts on disk": (
        "SET work_mem = '64kB'",
        "SELECT max(x) FROM (SELECT repeat(md5(g::text), 8) x FROM generate_series(1, 8000000) g ORDER BY x OFFSET 10) t",
    ),
    "D4 LISTEN and NOTIFY": ("LISTEN a", *(f"NOTIFY a, '{'x' * 7000}{i}'" for i in range(50))),
    "D5 one long string": ("SELECT length(string_agg(repeat('x', 1000000), '')) FROM generate_series(1, 3000)",),
    "D5 generate_series": ("SELECT count(*) FROM generate_series(1, 1000000000)",),
    "D6 a name of 50 kB": (LONG_NAME,),
}


def arguments(proxy: Proxy, user: str) -> dict[str, Any]:
    return {"host": proxy.host, "port": proxy.port, "user": user, "password": user, "database": "shop", "statement_cache_size": 0}


# the one who misbehaves, in a process of its own


async def ask(connection: Any, statement: str) -> None:
    if statement == LONG_NAME:
        await connection.prepare("SELECT 1", name=LONG_NAME, timeout=3600)
    else:
        await connection.execute(statement, timeout=3600)


def misbehave(where: dict[str, Any], statements: tuple[str, ...], sessions: int, ready: Any, asked: Any) -> None:
    os.setsid()
    os.nice(10)
    with contextlib.suppress(OSError):  # no Linux, or none that shares the processors out by sessions
        Path("/proc/self/autogroup").write_text("10")
    connected = itertools.count(1)

    async def session() -> None:
        while True:
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                connection = await asyncpg.connect(**where, timeout=600)
                if next(connected) == sessions:
                    ready.set()
                try:
                    while True:
                        for statement in statements:
                            with contextlib.suppress(asyncpg.PostgresError):
                                await ask(connection, statement)
                            asked.value += 1
                finally:
                    connection.terminate()
            await asyncio.sleep(0.05)

    async def crowd() -> None:
        await asyncio.gather(*(session() for _ in range(sessions)))

    asyncio.run(crowd())


@contextlib.contextmanager
def misbehaving(where: dict[str, Any], statements: tuple[str, ...], sessions: int) -> Iterator[Any]:
    """Yields what counts the statements that ended."""
    context = multiprocessing.get_context("spawn")
    ready, asked = context.Event(), context.Value("q", 0)
    process = context.Process(target=misbehave, args=(where, statements, sessions, ready, asked), daemon=True)
    process.start()
    try:
        if not ready.wait(120):
            raise TimeoutError("whoever was to misbehave was not let in")
        yield asked
    finally:
        process.kill()
        process.join()


# the ten


@dataclass
class Waits:
    """Holds the seconds that each answer took."""

    stored: list[float] = field(default_factory=list)
    small: list[float] = field(default_factory=list)

    def add(self, more: Waits) -> None:
        self.stored += more.stored
        self.small += more.small


async def neighbour(connection: Any, until: float, waits: Waits) -> None:
    while time.monotonic() < until:
        question = f"SELECT count(*) FROM customers WHERE income > {random.randrange(1, 500_000)}"
        for sql, found in ((STORED, waits.stored), (question, waits.small)):
            began = time.perf_counter()
            await connection.fetch(sql, timeout=600)
            found.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE * random.uniform(0.5, 1.5))


async def waited(connections: list[Any], seconds: float) -> Waits:
    waits = Waits()
    until = time.monotonic() + seconds
    await asyncio.gather(*(neighbour(connection, until, waits) for connection in connections))
    return waits


@dataclass
class Most:
    """Holds the most bytes that all server processes of the facade, and their temporary files, were seen to take at once."""

    memory: int = 0
    disk: int = 0

    async def watch(self, proxy: Proxy) -> None:
        while True:
            servers = [child for child in psutil.Process(proxy.pid).children(recursive=True) if child.pid != proxy.pid]
            folders: set[Path] = set()
            memory = 0
            for server in servers:
                with contextlib.suppress(psutil.Error):
                    folders.add(Path(server.cwd()))
                    found = usage.taken(server.pid)
                    memory += found.memory if found is not None else 0
            self.memory = max(self.memory, memory)
            self.disk = max(self.disk, sum(usage.spilled(folder).total() for folder in folders))
            await asyncio.sleep(0.1)


def cases(named: str) -> list[tuple[str, int]]:
    """Return the misbehaviours whose names hold a text, each with the number of sessions: `CTEs 16` is one of them."""
    return [(name, sessions) for name in MISBEHAVIOURS for sessions in CROWD if named in f"{name} {sessions}"]


def neighbours(policy: Path, seconds: float, named: str = "") -> None:
    """Print a table of these cases: median and 95 % of waits, as ratios to those of quiet before and after. Then one of rude
    sessions."""
    text = bench_rudeness.widened(policy)
    changed = text.replace("epsilon: 10,", "epsilon: 1000000,").replace("epsilon: 100\n", "epsilon: 1000000\n")
    changed = changed.replace("epsilon: 1, delta", "epsilon: 1000000, delta")
    assert changed != text
    policy.write_text(changed)
    if chosen := cases(named):
        with launched([policy], policy.parent / "neighbours") as proxy:
            asyncio.run(_table(proxy, seconds, chosen))
    bench_rudeness.table(policy, seconds, bench_rudeness.cases(named))


@dataclass
class Case:
    """Holds what was measured of one misbehaviour. `asked`: statements a second that it got through."""

    quiet: Waits = field(default_factory=Waits)
    waits: Waits = field(default_factory=Waits)
    most: Most = field(default_factory=Most)
    asked: float = 0.0


async def _table(proxy: Proxy, seconds: float, chosen: list[tuple[str, int]]) -> None:
    connections = [await asyncpg.connect(**arguments(proxy, "ada"), timeout=60) for _ in range(NEIGHBOURS)]
    await waited(connections, 2.0)
    print("neighbours: waits of ten sessions while another role's misbehave, ratios to those of quiet (median, 95 %)")
    print("misbehaviour\tsessions\tstored\tsmall measurement\tquiet ms\tits statements/s\tmemory MB\tdisk MB", flush=True)
    for name, sessions in chosen:
        case = Case()
        watching = asyncio.ensure_future(case.most.watch(proxy))  # in quiet too: it takes time of the ten
        for _ in range(ROUNDS):
            await _round(proxy, connections, MISBEHAVIOURS[name], sessions, seconds / ROUNDS, case)
        case.quiet.add(await waited(connections, seconds / ROUNDS))
        watching.cancel()
        quiet, most = case.quiet, case.most
        ratios = f"{_ratios(case.waits.stored, quiet.stored)}\t{_ratios(case.waits.small, quiet.small)}"
        base = f"{1000 * statistics.median(quiet.stored):.1f}, {1000 * statistics.median(quiet.small):.1f}"
        print(f"{name}\t{sessions}\t{ratios}\t{base}\t{case.asked:.1f}\t{most.memory >> 20}\t{most.disk >> 20}", flush=True)
    for connection in connections:
        await connection.close()


async def _round(
    proxy: Proxy, connections: list[Any], statements: tuple[str, ...], sessions: int, seconds: float, case: Case
) -> None:
    case.quiet.add(await waited(connections, seconds))
    with misbehaving(arguments(proxy, "eve"), statements, sessions) as asked:
        await asyncio.sleep(SETTLE)
        before = asked.value
        case.waits.add(await waited(connections, seconds))
        case.asked += (asked.value - before) / seconds / ROUNDS
    await asyncio.sleep(SETTLE)


def _ratios(waits: list[float], quiet: list[float]) -> str:
    pairs = ((_at(waits, q), _at(quiet, q)) for q in (0.5, 0.95))
    return ", ".join(f"{one / other:.1f}" for one, other in pairs)


def _at(waits: list[float], part: float) -> float:
    return sorted(waits)[int(part * (len(waits) - 1))]
