"""The proxy as a server of connections: its relay beside the facade's own socket and pgbouncer, reused answers, many clients.

Knows: pgbench, pgbouncer where it is installed, processes and their memory. Must not know: budgets, plans. A part of `bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
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

from dpproxy.facade.binaries import find_binaries
from dpproxy.launch import LaunchError, Proxy

PASSWORD = {"PGPASSWORD": "ada"}  # of policies/shop.yaml
REUSED = "SELECT region, count(*), avg(income) FROM customers GROUP BY region;"
BOUNCER = """
[databases]
postgres = host={folder} port=5432 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
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
    """A way to a server, for pgbench."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """`latencies`: milliseconds of each statement, in order; empty unless asked for."""

    tps: float
    latencies: tuple[float, ...] = ()

    def quantile(self, q: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(q * len(self.latencies)))]


def pgbench(route: Route, mode: str, clients: int, seconds: float, script: Path, log: Path | None = None) -> Run:
    """Raises LaunchError."""
    command = [find_binaries().program("pgbench"), "-n", "-f", str(script), "-M", mode, "-c", str(clients)]
    command += ["-j", str(min(clients, 2)), "-T", str(max(1, round(seconds)))]
    command += ["-l", "--log-prefix", str(log)] if log is not None else []
    environment = {**os.environ, **PASSWORD}
    done = subprocess.run([*command, *route.arguments], capture_output=True, text=True, check=False, env=environment)
    found = re.search(r"tps = ([0-9.]+)", done.stdout)
    if done.returncode or not found:
        raise LaunchError(f"pgbench failed: {done.stderr.strip()[-2000:]}")
    return Run(float(found[1]), latencies(log) if log is not None else ())


def latencies(log: Path) -> tuple[float, ...]:
    """Of pgbench's files, which it writes one for each thread."""
    found: list[float] = []
    for file in log.parent.glob(f"{log.name}.*"):
        found += [int(line.split()[2]) / 1000 for line in file.read_text().splitlines()]
        file.unlink()
    return tuple(sorted(found))


def facade_folder(proxy: Proxy) -> Path:
    """Where the facade's socket is: beside the data directory the postmaster was started with."""
    for child in psutil.Process(proxy.pid).children(recursive=True):
        command = child.cmdline()
        if command and Path(command[0]).name == "postgres" and "-D" in command:
            return Path(command[command.index("-D") + 1]).parent
    raise LaunchError("the proxy has no facade of its own")


def routes(proxy: Proxy) -> tuple[Route, Route]:
    through = ("-h", proxy.host, "-p", str(proxy.port), "-U", "ada", "shop")
    direct = ("-h", str(facade_folder(proxy)), "-p", "5432", "-U", "postgres", "postgres")
    return Route("proxy", through), Route("direct", direct)


@contextlib.contextmanager
def pgbouncer(folder: Path, work: Path) -> Iterator[Route | None]:
    """A pgbouncer before the facade in `folder`; None where the program is not installed."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        say("NOT MEASURED: pgbouncer is not installed (Debian: apt install pgbouncer)")
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = work / "pgbouncer"
    home.mkdir()
    (home / "pgbouncer.ini").write_text(BOUNCER.format(folder=folder, port=port, work=home))
    owner = folder.stat().st_uid  # it may not run as root, and must reach the facade's private socket
    identity = {"user": owner} if os.geteuid() == 0 else {}
    for path in (work, home, home / "pgbouncer.ini"):
        path.chmod(0o755)
    shutil.chown(home, owner) if identity else None
    process = subprocess.Popen([program, "-q", str(home / "pgbouncer.ini")], **identity)  # type: ignore[call-overload]
    try:
        _await(port)
        yield Route("pgbouncer", ("-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "postgres"))
    finally:
        process.terminate()
        process.wait()


def _await(port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise LaunchError("pgbouncer did not start")


def relay(proxy: Proxy, work: Path, options: argparse.Namespace) -> None:
    """Each round measures all ways in turn; ratios are the medians of the rounds'."""
    script = work / "select.sql"
    script.write_text("SELECT 1;\n")
    print("relay: SELECT 1, statements a second, and their ratio to the facade's own socket's")
    print("mode\tclients\tproxy\tpgbouncer\tdirect\tproxy\tpgbouncer")
    through, direct = routes(proxy)
    with pgbouncer(facade_folder(proxy), work) as other:
        ways = [through, other, direct] if other is not None else [through, direct]
        for mode in ("simple", "prepared"):
            for clients in (1, 16):
                say(f"relay: {mode}, {clients} clients")
                rounds = [
                    [pgbench(way, mode, clients, options.seconds, script).tps for way in ways] for _ in range(options.rounds)
                ]
                print(f"{mode}\t{clients}\t{_line(rounds)}", flush=True)


def _line(rounds: Sequence[Sequence[float]]) -> str:
    speeds = [f"{statistics.median(column):.0f}" for column in zip(*rounds, strict=True)]
    ratios = [
        f"{statistics.median(r / row[-1] for r, row in zip(column, rounds, strict=True)):.2f}"
        for column in zip(*rounds, strict=True)
    ]
    if len(speeds) == 2:
        speeds.insert(1, "-")
        ratios.insert(1, "-")
    return "\t".join((*speeds, *ratios[:-1]))


# reused answers


def reused(proxy: Proxy, work: Path, options: argparse.Namespace) -> None:
    """A grouped answer that is stored, by 16 clients at once, beside `SELECT 1` of the same clients."""
    through, _ = routes(proxy)
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
    """Proportional: a page that processes share counts once. It is what the system would get back."""
    total = 0
    for process in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def standing(pid: int) -> tuple[int, int, int, int]:
    """Open files and threads of the proxy, processes in all, the proxy's private memory."""
    main = psutil.Process(pid)
    return main.num_fds(), len(family(pid)), main.num_threads(), int(main.memory_full_info().uss)
