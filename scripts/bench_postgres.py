"""The generated SQL beside the analyst's own, in an embedded PostgreSQL: the shared workload over 2 M orders.

Knows: the workload (in the shared material, not in this repository), the planner, psycopg. Must not know: the wire, noise.
Peers were measured on the same rows: every order of a fifth of the users at scale 1. Both statements run in turn on one
connection with the settings of the proxy's own sessions. Processor time is what peers' figures are of, and on a busy machine
the only one that means anything.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import bench_accuracy
import psutil
import psycopg
from scratch_postgres import Scratch, scratch_server

from dpproxy.answers.dataset import Plans
from dpproxy.answers.plan_cache import plans_for
from dpproxy.backends.postgres import DEFAULTS, Postgres
from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.policy.load import load_file
from dpproxy.policy.model import PostgresBackend, Role
from dpproxy.policy.people import make_verifier
from dpproxy.privacy.measurement import Measurement

SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
"""Memory that holds the tables. The embedded server has no parallel workers; nor can peers' have had any, whose ratios of
clock and of processor time agree."""

TABLES = """
CREATE TABLE users (user_id bigint PRIMARY KEY, age int, sex text, region text, signup_date date);
CREATE TABLE orders (order_id bigint PRIMARY KEY, user_id bigint, ts timestamp, product_category text,
                     amount double precision, quantity int);
CREATE TABLE visits (user_id bigint, ts timestamp, page text);
"""

BOUNDS = {**bench_accuracy.BOUNDS, "2 in 5 groups": "rows_per_group: 2, groups: 5"}
"""Name -> bounds of orders: each is enforced by another shape of SQL."""

LEAST = 0.1  # seconds of a sample: processor time is counted in hundredths

Sample = tuple[float, float]  # seconds: of the clock, of processors


def performance(work: Path, rounds: int, scale: float = 1, only: Sequence[str] = ()) -> int:
    """Print the table, for `scale` of the workload (1: the 2 M orders peers were measured on); of `only` these queries, where
    some are named. Returns the exit status."""
    folder = bench_accuracy.material()
    if folder is None:
        print("postgres: the shared workload is not here (DPPROXY_SHARED, or ../shared beside the repository)", file=sys.stderr)
        return 1
    subprocess.run([sys.executable, str(folder / "gen_data.py"), str(work), str(scale)], check=True, stdout=subprocess.DEVNULL)
    best = peers(folder)
    with scratch_server(work / "server", settings=SETTINGS) as server:
        loaded(server, work / "sub")
        measured = {name: list(_measured(server, work, name, folder, rounds, only)) for name in BOUNDS}
    titles = [f"{name}: cpu x\twall x" for name in measured]
    print(f"postgres {server.major}: generated SQL against raw, medians of {rounds} rounds, scale {scale:g}")
    print("\t".join(["query", "kind", "raw ms", *titles, "best peer cpu x (scale 1)"]))
    for rows in zip(*measured.values(), strict=True):
        query, kind, raw = rows[0][:3]
        print("\t".join([query, kind, raw, *(row[3] for row in rows), best.get(query, "")]))
    return 0


def peers(folder: Path) -> dict[str, str]:
    """Return the least slowdown of a peer on PostgreSQL for each query, in processor time; empty for a query that none
    supports."""
    rows = bench_accuracy.peer_rows(folder)
    return {
        query: min((cell for title, cell in cells.items() if title.endswith("PG cpu x") and cell), key=float, default="")
        for query, cells in rows.items()
    }


def loaded(server: Scratch, folder: Path) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(TABLES)
        for table in ("users", "orders", "visits"):
            copied = f"COPY {table} FROM STDIN (FORMAT csv)"
            with connection.cursor() as cursor, cursor.copy(copied) as copy, (folder / f"{table}.csv").open("rb") as data:
                while chunk := data.read(1 << 20):
                    copy.write(chunk)
        connection.execute("VACUUM ANALYZE")


def _measured(server: Scratch, work: Path, name: str, folder: Path, rounds: int, only: Sequence[str] = ()) -> Iterator[list[str]]:
    """Of each query: id, kind, raw milliseconds, ratios of processor and clock time."""
    planner, role = _planner(server, work, name)
    settings = " ".join(f"-c {setting}={ours}" for setting, (_, ours) in DEFAULTS.items())
    with psycopg.connect(server.conninfo(), autocommit=True, options=f"{settings} -c search_path=public") as connection:
        for query in bench_accuracy.workload(folder):
            if only and query.id not in only:
                continue
            print(f"postgres: {name}, {query.id}", file=sys.stderr, flush=True)
            try:
                plan = planner.plan(planner.split(query.sql)[0], role, {}, ())
            except Refusal as refusal:
                yield [query.id, query.kind, "", f"refused: {refusal}\t"]
                continue
            texts = [text for m in plan.measurements for text in _texts(connection, m)]
            times, ours, raw = _in_turn(connection, server, texts, [query.sql], rounds)
            cpu, wall = (statistics.median(a[i] / b[i] for a, b in zip(ours, raw, strict=True)) for i in (1, 0))
            yield [query.id, query.kind, f"{1e3 * statistics.median(s[0] for s in raw) / times:.0f}", f"{cpu:.2f}\t{wall:.2f}"]


def _texts(connection: psycopg.Connection, measurement: Measurement) -> list[str]:
    """Return what is run for a measurement; of two rounds, with the groups that the first finds but for its noise."""
    first = measurement.threshold.first if measurement.threshold is not None else None
    if first is None:
        return [text.render([], literal) for text in measurement.queries]
    looking = first.query.render([], literal)
    weights = connection.execute(f"SELECT h FROM ({looking}) AS weights WHERE b0 >= {first.tau}".encode()).fetchall()
    return [looking, *(text.render([], literal, [number for (number,) in weights]) for text in measurement.queries)]


def _planner(server: Scratch, work: Path, name: str) -> tuple[Plans, Role]:
    categories = ", ".join(f"cat{i:02}" for i in range(1, 21))
    verifier = make_verifier(bench_accuracy.PASSWORD)
    policy = work / "bench.yaml"
    policy.write_text(bench_accuracy.POLICY.format(bounds=BOUNDS[name], categories=categories, verifier=verifier))
    rules = load_file(policy).policy

    async def made() -> Plans:
        backend = Postgres(PostgresBackend(server.dsn()))
        try:
            return plans_for(rules, await backend.introspect(), backend.dialect)
        finally:
            await backend.close()

    return asyncio.run(made()), next(iter(rules.roles.values()))


def _in_turn(
    connection: psycopg.Connection, server: Scratch, ours: Sequence[str], raw: Sequence[str], rounds: int
) -> tuple[int, list[Sample], list[Sample]]:
    """How often each ran in a sample, and samples of the two, after one run of each that fills caches."""
    spent = session_clock(connection, server)

    def run(queries: Sequence[str]) -> Sample:
        wall, cpu = time.perf_counter(), spent()
        for _ in range(times):
            for query in queries:
                connection.execute(query.encode()).fetchall()
        return time.perf_counter() - wall, spent() - cpu

    times = 1
    times = max(1, math.ceil(LEAST / run(raw)[0]))  # the first run fills caches
    run(ours)
    pairs = [(run(ours), run(raw)) for _ in range(rounds)]
    return times, [a for a, _ in pairs], [b for _, b in pairs]


def session_clock(connection: psycopg.Connection, server: Scratch) -> Callable[[], float]:
    """Return what tells the processor seconds of the session's process, and of the server's children that ended (parallel
    workers)."""
    session, postmaster = psutil.Process(connection.info.backend_pid), psutil.Process(server.server.pid)

    def spent() -> float:
        own, ended = session.cpu_times(), postmaster.cpu_times()
        return float(own.user + own.system + ended.children_user + ended.children_system)

    return spent
