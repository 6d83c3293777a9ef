"""The proxy as a server of connections: its relay beside the facade's own socket, pgbouncer and a relay that does nothing else;
reused answers; many clients.

Knows: pgbench, pgbouncer where it is installed, processes and their memory. Must not know: budgets, plans. A part of `bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil

from dpproxy.facade.account import find_binaries
from dpproxy.serve.launch import LaunchError, Proxy

PASSWORD = {"PGPASSWORD": "ada"}  # of policies/shop.yaml
DATASET = "shop"  # the only database of its facade
REUSED = "SELECT region, count(*), avg(income) FROM customers GROUP BY region;"
BOUNCER = """
[databases]
shop = host={folder} port=5432 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir = {work}
auth_type = any
pool_mode = session
default_pool_size = 60
max_client_conn = 100
logfile = {work}/pgbouncer.log
pidfile = {work}/pgbouncer.pid
"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Route:
    """Names a way to a server, for pgbench."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """Holds the figures of a run. `latencies`: milliseconds of each statement, in order; empty unless asked for. `processor`:
    seconds of pgbench's."""

    tps: float
    latencies: tuple[float, ...] = ()
    processor: float = 0.0

    def quantile(self, q: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(q * len(self.latencies)))]


def pgbench(route: Route, mode: str, clients: int, seconds: float, script: Path, log: Path | None = None) -> Run:
    """Run pgbench by one way. Raises LaunchError."""
    command = [find_binaries().program("pgbench"), "-n", "-f", str(script), "-M", mode, "-c", str(clients)]
    command += ["-j", str(min(clients, 2)), "-T", str(max(1, round(seconds)))]
    command += ["-l", "--log-prefix", str(log)] if log is not None else []
    environment = {**os.environ, **PASSWORD}
    before = os.times()
    done = subprocess.run([*command, *route.arguments], capture_output=True, text=True, check=False, env=environment)
    found = re.search(r"tps = ([0-9.]+)", done.stdout)
    if done.returncode or not found:
        raise LaunchError(f"pgbench failed: {done.stderr.strip()[-2000:]}")
    after = os.times()
    took = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(float(found[1]), latencies(log) if log is not None else (), took)


def latencies(log: Path) -> tuple[float, ...]:
    """Return the latencies in pgbench's files, which it writes one for each thread."""
    found: list[float] = []
    for file in log.parent.glob(f"{log.name}.*"):
        found += [int(line.split()[2]) / 1000 for line in file.read_text().splitlines()]
        file.unlink()
    return tuple(sorted(found))


def facades_of(proxy: Proxy) -> tuple[list[psutil.Process], Path]:
    """Return the facades' postmasters, one for each process that serves, and where the socket of the first is: beside the data
    directory it was started with."""
    found: dict[psutil.Process, Path] = {}
    for child in psutil.Process(proxy.pid).children(recursive=True):
        command = child.cmdline()
        if command and Path(command[0]).name == "postgres" and "-D" in command:
            found[child] = Path(command[command.index("-D") + 1]).parent
    if not found:
        raise LaunchError("the proxy has no facade of its own")
    return list(found), next(iter(found.values()))


def by_tcp(proxy: Proxy) -> Route:
    return Route("proxy, TCP", ("-h", proxy.host, "-p", str(proxy.port), "-U", "ada", "shop"))


def by_socket(proxy: Proxy, work: Path) -> Route:
    """Return the way by unix socket. `work` is the folder of the socket."""
    return Route("proxy, unix", ("-h", str(work), "-p", str(proxy.port), "-U", "ada", "shop"))


def direct(folder: Path) -> Route:
    return Route("direct, unix", ("-h", str(folder), "-p", "5432", "-U", "postgres", DATASET))


@contextlib.contextmanager
def pgbouncer(folder: Path, work: Path, count: int) -> Iterator[tuple[list[psutil.Process], list[Route]] | None]:
    """Run as many pgbouncers on one port before the facade in `folder`, and give the ways to them; None where the program is not
    installed. Several share a port alone: each has a unix socket of its own."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        say("NOT MEASURED: pgbouncer is not installed (Debian: apt install pgbouncer)")
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    homes = [work / f"pgbouncer{i}" for i in range(count)]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_one_pgbouncer(program, folder, home, port, shared=count > 1)) for home in homes]
        _await(("127.0.0.1", port))
        rest = ("-p", str(port), "-U", "postgres", DATASET)
        ways = [Route("pgbouncer, TCP", ("-h", "127.0.0.1", *rest))]
        ways += [Route("pgbouncer, unix", ("-h", str(homes[0]), *rest))] if count == 1 else []
        yield processes, ways


@contextlib.contextmanager
def _one_pgbouncer(program: str, folder: Path, home: Path, port: int, *, shared: bool) -> Iterator[psutil.Process]:
    home.mkdir()
    settings = BOUNCER.format(folder=folder, port=port, work=home) + ("so_reuseport = 1\n" if shared else "")
    (home / "pgbouncer.ini").write_text(settings)
    owner = folder.stat().st_uid  # it may not run as root, and must reach the facade's private socket
    identity = {"user": owner} if os.geteuid() == 0 else {}
    for path in (home.parent, home, home / "pgbouncer.ini"):
        path.chmod(0o755)
    shutil.chown(home, owner) if identity else None
    process = subprocess.Popen(  # type: ignore[call-overload]
        [program, "-q", str(home / "pgbouncer.ini")],
        start_new_session=True,  # as the proxy: Linux shares processors between sessions
        **identity,
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def empty_relay(folder: Path, work: Path) -> Iterator[tuple[psutil.Process, Route]]:
    """Run a relay that does nothing else before the facade in `folder`, and give the way to it."""
    home = work / "empty"
    home.mkdir()
    path = home / ".s.PGSQL.5432"
    program = [sys.executable, str(Path(__file__).with_name("bench_floor.py")), str(path), str(folder / path.name)]
    process = subprocess.Popen(program, start_new_session=True)
    try:
        _await(str(path))
        yield psutil.Process(process.pid), Route("empty relay, unix", ("-h", str(home), "-p", "5432", "-U", "postgres", DATASET))
    finally:
        process.terminate()
        process.wait()


def _await(address: tuple[str, int] | str) -> None:
    """Wait for whoever listens at an address, a path of a unix socket's if it is a text. Raises LaunchError."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    for _ in range(100):
        with contextlib.suppress(OSError), socket.socket(family) as connection:
            connection.connect(address)
            return
        time.sleep(0.05)
    raise LaunchError(f"nothing listens at {address}")


@dataclass(frozen=True)
class Seen:
    """Holds the figures of one run by one way: statements a second; seconds of processor time of pgbench, of what is between, of
    the facade."""

    tps: float
    processor: tuple[float, float, float]


def relay(proxy: Proxy, work: Path, options: argparse.Namespace) -> None:
    """Measure all ways in turn in each round; figures are the medians of the rounds'.

    The facade listens on a unix socket alone, so that by TCP the ratio is also one of transports. Processor time tells more
    than speed on a machine that others use as well. Of several processes, each has a facade; the way past the proxy is to one.
    """
    script = work / "select.sql"
    script.write_text("SELECT 1;\n")
    facades, folder = facades_of(proxy)
    between = [process for process in family(proxy.pid) if process.name() != "postgres"]
    ways = [by_tcp(proxy), by_socket(proxy, work), direct(folder)]
    print("relay: SELECT 1; ratio to the facade's own socket's; microseconds of processor time a statement")
    print("mode\tclients\tway\tstatements a second\tratio\tpgbench\tbetween\tfacade\tall", flush=True)

    def once(way: Route, mode: str, clients: int) -> Seen:
        before = _processor(between), _of_facades(facades)
        run = pgbench(way, mode, clients, options.seconds, script)
        time.sleep(0.2)  # until the last sessions have ended, and count
        after = _processor(between), _of_facades(facades)
        return Seen(run.tps, (run.processor, after[0] - before[0], after[1] - before[1]))

    with empty_relay(folder, work) as (empty, way), pgbouncer(folder, work, options.processes) as other:
        between.append(empty)
        ways.insert(2, way)
        if other is not None:
            between += other[0]
            ways[2:2] = other[1]
        for mode, clients in itertools.product(("simple", "prepared"), (1, 16)):
            say(f"relay: {mode}, {clients} clients")
            rounds = [[once(way, mode, clients) for way in ways] for _ in range(options.rounds)]
            for i, way in enumerate(ways):
                line = _line([row[i] for row in rounds], [row[-1] for row in rounds], options.seconds)
                print(f"{mode}\t{clients}\t{way.name}\t{line}", flush=True)


def _line(column: Sequence[Seen], measure: Sequence[Seen], seconds: float) -> str:
    speed = statistics.median(seen.tps for seen in column)
    ratio = statistics.median(seen.tps / other.tps for seen, other in zip(column, measure, strict=True))
    parts = [statistics.median(seen.processor[i] / (seen.tps * seconds) for seen in column) * 1e6 for i in range(3)]
    return "\t".join((f"{speed:.0f}", f"{ratio:.2f}", *(f"{part:.1f}" for part in parts), f"{sum(parts):.1f}"))


def _processor(processes: Sequence[psutil.Process]) -> float:
    """Seconds used so far, with what children that have ended used. A process that ended since it was listed counts there."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            t = process.cpu_times()
            total += t.user + t.system + t.children_user + t.children_system
    return total


def _of_facades(facades: Sequence[psutil.Process]) -> float:
    """Seconds used so far by all their sessions: pgbouncer's go on living."""
    return _processor([process for facade in facades for process in (facade, *facade.children())])


# reused answers


def reused(proxy: Proxy, work: Path, options: argparse.Namespace) -> None:
    """Measure a grouped answer that is stored, by 16 clients at once, beside `SELECT 1` of the same clients."""
    through = by_tcp(proxy)
    print("reused: 16 clients, milliseconds\nstatement\tmedian\tp99\tstatements a second")
    for name, text in (("SELECT 1", "SELECT 1;"), ("reused answer", REUSED)):
        say(f"reused: {name}")
        script = work / "reused.sql"
        script.write_text(text + "\n")
        pgbench(through, "simple", 1, 1, script)  # the first one pays
        runs = [pgbench(through, "simple", 16, options.seconds, script, work / "reused-log") for _ in range(options.rounds)]
        middle, late, speed = (statistics.median(f(r) for r in runs) for f in _FIGURES)
        print(f"{name}\t{middle:.1f}\t{late:.1f}\t{speed:.0f}", flush=True)


_FIGURES: tuple[Callable[[Run], float], ...] = (lambda r: r.quantile(0.5), lambda r: r.quantile(0.99), lambda r: r.tps)


# many connections


def load(proxy: Proxy, work: Path, options: argparse.Namespace) -> None:
    asyncio.run(_load(proxy, options.idle, options.cycles))


async def _load(proxy: Proxy, idle: int, cycles: int) -> None:
    before = total_memory(proxy.pid)
    held = [await _connect(proxy) for _ in range(idle)]
    after = total_memory(proxy.pid)
    print(f"load: MB of all processes together\nbefore\twith {idle} idle connections\tkB a connection")
    print(f"{before / 2**20:.0f}\t{after / 2**20:.0f}\t{(after - before) / 1024 / idle:.0f}", flush=True)
    for connection in held:
        await connection.close()
    for _ in range(100):  # what is made once, and kept
        await (await _connect(proxy)).close()
    await asyncio.sleep(1)
    first = standing(proxy.pid)
    for _ in range(cycles):
        await (await _connect(proxy)).close()
    await asyncio.sleep(1)
    last = standing(proxy.pid)
    print(f"load: before and after {cycles} connections\nfiles\tprocesses\tthreads\tprivate memory of the proxy, MB")
    print("\n".join(f"{s[0]}\t{s[1]}\t{s[2]}\t{s[3] / 2**20:.1f}" for s in (first, last)), flush=True)


async def _connect(proxy: Proxy) -> asyncpg.Connection[asyncpg.Record]:
    connection = await asyncpg.connect(
        host=proxy.host, port=proxy.port, user="ada", password=PASSWORD["PGPASSWORD"], database="shop"
    )
    await connection.fetchval("SELECT 1")
    return connection


def family(pid: int) -> list[psutil.Process]:
    main = psutil.Process(pid)
    return [main, *main.children(recursive=True)]


def total_memory(pid: int) -> int:
    """Return the proportional memory in bytes: a page that processes share counts once. It is what the system would get back."""
    total = 0
    for process in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def standing(pid: int) -> tuple[int, int, int, int]:
    """Return the proxy's open files and threads, its processes, and its private memory in bytes."""
    main = psutil.Process(pid)
    return main.num_fds(), len(family(pid)), main.num_threads(), int(main.memory_full_info().uss)
