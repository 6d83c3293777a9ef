"""How long polite sessions wait while rude ones do what `rude_sessions` lists, beside how long they wait in quiet.

Knows: the sample shop's users, ordinary clients, what the system tells of a process. Must not know: how the proxy defends
itself. Four polite sessions ask a stored answer again and again, a fifth logs in anew each time, a sixth opens the operators'
login page. Quiet and each rudeness are measured in turn, in one run. On a machine with other work, waits tell of that work too.
So the seconds of processor that the proxy's own thread took during each wait are told as well: whatever is done for others before
an answer is in them, and nothing that another process did.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg
import duckdb
import psutil
import rude_sessions
from rude_sessions import RUDENESSES, Where, rude

from dpproxy.serve.launch import Proxy, launched

POLITE: Final = 4
PAUSE: Final = 0.05
BETWEEN_LOGINS: Final = 0.25
"""Seconds, on average: a session that logs in without end would wait for its own turn."""
ROUNDS: Final = 2
"""Times that quiet and a rudeness are measured in turn."""
PEACE: Final = 3.0
"""Seconds after the rude are gone until memory is looked at and quiet is measured again."""
STORED: Final = "SELECT region, count(*), avg(income) FROM customers GROUP BY region"
TABLES: Final = 200
"""Private tables of the policy, beside the shop's own: each is a word that texts are searched for."""
ENTRY: Final = """
  {}:
    unit: customer_id
    bounds: {{ rows: 10 }}
    columns: {{ customer_id: unit, amount: {{ range: [0, 10] }} }}
"""
COLUMNS: Final = (
    "rudeness",
    "clients",
    "stored answer, ms: quiet",
    "beside",
    "ratios",
    "loop's processor ms in it: quiet",
    "beside",
    "login, ms: quiet",
    "beside",
    "turned away",
    "console, ms: quiet",
    "beside",
    "turned away",
    "loop busy: quiet, beside",
    "RSS MB: before, most, after",
    "its acts/s",
)


def widened(policy: Path) -> str:
    """Give the policy and its data as many more private tables, without rows; return the policy's text."""
    names = [f"ledger_{number:03}" for number in range(TABLES)]
    with duckdb.connect(str(policy.with_name("shop.duckdb"))) as data:
        for name in names:
            data.execute(f"CREATE TABLE {name} (customer_id BIGINT, amount INTEGER)")
    before, mark, after = policy.read_text().partition("\ntables:\n")
    return before + mark + "".join(ENTRY.format(name) for name in names) + after


# what polite clients see


@dataclass
class Waits:
    """Holds what each asking took: seconds by the clock, and seconds of processor of the proxy's loop meanwhile. `failed`:
    askings that were turned away."""

    clock: list[float] = field(default_factory=list)
    loop: list[float] = field(default_factory=list)
    failed: int = 0

    def add(self, more: Waits) -> None:
        self.clock += more.clock
        self.loop += more.loop
        self.failed += more.failed

    def shown(self) -> str:
        return _three(self.clock)

    def turned_away(self) -> str:
        return f"{self.failed} of {self.failed + len(self.clock)}"


@dataclass
class Stretch:
    """Holds a stretch of time: what was waited for, the loop's share of a processor."""

    stored: Waits = field(default_factory=Waits)
    logins: Waits = field(default_factory=Waits)
    console: Waits = field(default_factory=Waits)
    busy: float = 0.0
    seconds: float = 0.0

    def add(self, more: Stretch) -> None:
        for mine, other in zip(self._waits(), more._waits(), strict=True):
            mine.add(other)
        self.busy += more.busy
        self.seconds += more.seconds

    def _waits(self) -> tuple[Waits, Waits, Waits]:
        return self.stored, self.logins, self.console


def loop_seconds(pid: int) -> float:
    """Return the seconds of processor that the main thread of a process has taken, which is the loop's."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError):  # a kernel without it, or no Linux
        return float("nan")


@dataclass(frozen=True)
class Polite:
    """Are the clients that are measured."""

    proxy: Proxy
    where: Where
    connections: list[Any]

    async def waited(self, seconds: float) -> Stretch:
        """Measure for so long, and until what was asked then is answered."""
        stretch, began, busy = Stretch(), time.monotonic(), loop_seconds(self.proxy.pid)
        until = began + seconds
        askers = [self._asking(partial(each.fetch, STORED, timeout=600), until, stretch.stored) for each in self.connections]
        await asyncio.gather(
            *askers,
            self._asking(self._login, until, stretch.logins, BETWEEN_LOGINS),
            self._asking(self._page, until, stretch.console),
        )
        stretch.seconds = time.monotonic() - began
        stretch.busy = loop_seconds(self.proxy.pid) - busy
        return stretch

    async def _asking(self, ask: Callable[[], Awaitable[object]], until: float, waits: Waits, pause: float = PAUSE) -> None:
        """Ask until then. What is turned away is asked again: the wait goes on, and does not end before that is answered or the
        time is over."""
        while time.monotonic() < until:
            began, busy = time.perf_counter(), loop_seconds(self.proxy.pid)
            while True:
                try:
                    await ask()
                    break
                except (OSError, EOFError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    waits.failed += 1
                    if time.monotonic() >= until:
                        break
                await asyncio.sleep(PAUSE)
            waits.clock.append(time.perf_counter() - began)
            waits.loop.append(loop_seconds(self.proxy.pid) - busy)
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))

    async def _login(self) -> None:
        connection = await asyncpg.connect(**arguments(self.proxy, "ada"), timeout=600)
        await connection.close()

    async def _page(self) -> None:
        """Raises OSError, EOFError for a page that is not shown."""
        reader, writer = await asyncio.open_connection(self.where.host, self.where.console)
        with contextlib.closing(writer):
            writer.write(b"GET /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            reply = await reader.read()
        if not reply.startswith(b"HTTP/1.1 200"):
            raise EOFError


def arguments(proxy: Proxy, user: str) -> dict[str, Any]:
    return {"host": proxy.host, "port": proxy.port, "user": user, "password": user, "database": "shop", "statement_cache_size": 0}


# the table


@dataclass
class Memory:
    """Holds the bytes that the proxy's process has resident: before, the most, after."""

    process: psutil.Process
    before: int = 0
    most: int = 0
    after: int = 0

    def look(self) -> int:
        found = int(self.process.memory_info().rss)
        self.most = max(self.most, found)
        return found

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.05)

    def shown(self) -> str:
        return ", ".join(f"{each >> 20}" for each in (self.before, self.most, self.after))


def cases(named: str) -> list[str]:
    """Return the rudenesses whose names hold a text."""
    return [name for name in RUDENESSES if named in name]


def table(policy: Path, seconds: float, chosen: list[str]) -> None:
    """Print a line for each rudeness. Each has a proxy of its own, since one remembers in its memory what was done to it."""
    if not chosen:
        return
    print("rude sessions: waits of polite ones, each as 50 %, 99 %, most")
    print("\t".join(COLUMNS), flush=True)
    console = rude_sessions.free_port()
    for name in chosen:
        with launched([policy], policy.parent / "rudeness", options=("--console", f"127.0.0.1:{console}")) as proxy:
            print(asyncio.run(_measured(proxy, console, seconds, name)), flush=True)


async def _measured(proxy: Proxy, console: int, seconds: float, name: str) -> str:
    connections = [await asyncpg.connect(**arguments(proxy, "ada"), timeout=60) for _ in range(POLITE)]
    polite = Polite(proxy, Where(proxy.host, proxy.port, console, "eve"), connections)
    await polite.waited(2.0)
    line = await _line(polite, name, seconds)
    for connection in connections:
        connection.terminate()
    return line


async def _line(polite: Polite, name: str, seconds: float) -> str:
    quiet, beside = Stretch(), Stretch()
    memory, acts = Memory(psutil.Process(polite.proxy.pid)), 0
    memory.before = memory.look()
    for _ in range(ROUNDS):
        quiet.add(await polite.waited(seconds / ROUNDS))
        watching = asyncio.ensure_future(memory.watch())
        with rude(name, polite.where) as count:
            beside.add(await polite.waited(seconds / ROUNDS))
            acts += count.value
        await asyncio.sleep(PEACE)
        watching.cancel()
        memory.after = memory.look()
    ratios = ", ".join(f"{_at(beside.stored.clock, q) / _at(quiet.stored.clock, q):.1f}" for q in (0.5, 0.99, 1.0))
    shown = (
        name,
        RUDENESSES[name].sessions,
        quiet.stored.shown(),
        beside.stored.shown(),
        ratios,
        _three(quiet.stored.loop),
        _three(beside.stored.loop),
        quiet.logins.shown(),
        beside.logins.shown(),
        beside.logins.turned_away(),
        quiet.console.shown(),
        beside.console.shown(),
        beside.console.turned_away(),
        f"{quiet.busy / quiet.seconds:.2f}, {beside.busy / beside.seconds:.2f}",
        memory.shown(),
        f"{acts / beside.seconds:.1f}",
    )
    return "\t".join(map(str, shown))


def _three(waits: list[float]) -> str:
    return ", ".join(f"{1000 * _at(waits, part):.1f}" for part in (0.5, 0.99, 1.0))


def _at(waits: list[float], part: float) -> float:
    return sorted(waits)[int(part * (len(waits) - 1))]
