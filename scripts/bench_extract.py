"""The shared workload measured in an extract of an embedded PostgreSQL, beside the analyst's own queries in that PostgreSQL.

Knows: the workload (in the shared material, not in this repository), the proxy's own steps from a policy to an extract with its
prepared copy. Must not know: the wire, noise. What is measured runs on the proxy's backend, so its place in a thread and its look
at the file are part of the time. Shapes: from rows; from stored tables, of the policy and of the workload's queries, which the
policy names (`accelerate: { queries: ... }`).
"""

from __future__ import annotations

import asyncio
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import bench_accuracy
import psycopg
from bench_duckdb import ASKED, ROWS
from bench_postgres import BOUNDS, SETTINGS, loaded, session_clock
from scratch_postgres import Scratch, scratch_server

from dpproxy.acceleration import copy_making
from dpproxy.acceleration.extract_tables import Extract
from dpproxy.answers import public_tables
from dpproxy.answers.plan_cache import plans_for
from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.plan.pipeline import PlanFunction, planning
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import Accelerate, PostgresBackend, Role
from dpproxy.policy.people import make_verifier
from dpproxy.privacy.measurement import Measurement
from dpproxy.serve.data_checks import checked_catalog
from dpproxy.serve.extracts import open_data
from dpproxy.serve.prepared_copies import folder_of, job_of, tables_of
from dpproxy.sql.statements import Statement

LEAST = 0.1  # seconds of a sample: PostgreSQL's processor time is counted in hundredths

Sample = tuple[float, float]  # seconds: of the clock, of processors


@dataclass(frozen=True)
class Work:
    """Something to be measured, and what tells the processor time it takes."""

    run: Callable[[], Awaitable[object]]
    spent: Callable[[], float]

    async def sample(self, times: int) -> Sample:
        wall, cpu = time.perf_counter(), self.spent()
        for _ in range(times):
            await self.run()
        return (time.perf_counter() - wall) / times, max(self.spent() - cpu, 1e-4) / times


@dataclass(frozen=True)
class Side:
    """An extract under one policy, and how statements are planned for it: from its rows, or with its prepared copy."""

    backend: Extract
    role: Role
    split: Callable[[str], tuple[Statement, ...]]
    plans: dict[str, PlanFunction]

    async def texts(self, shape: str, sql: str) -> list[str]:
        """Generated SQL; of two rounds, with the groups that the first finds but for its noise. Raises Refusal."""
        made = self.plans[shape](self.split(sql)[0], self.role, {}, ())
        return [text for m in made.measurements for text in await self._rounds(m)]

    async def _rounds(self, measurement: Measurement) -> list[str]:
        first = measurement.threshold.first if measurement.threshold is not None else None
        if first is None:
            return [text.render([], literal) for text in measurement.queries]
        looking = first.query.render([], literal)
        (weights,) = (await self.backend.run([looking]))._open()
        found = [n for n, weight in zip(weights["h"].to_pylist(), weights["b0"].to_pylist(), strict=True) if weight >= first.tau]
        return [looking, *(text.render([], literal, found) for text in measurement.queries)]


def performance(work: Path, rounds: int, scale: float = 1) -> int:
    """Print the table, for `scale` of the workload (1: 2 M orders). Returns the exit status."""
    folder = bench_accuracy.material()
    if folder is None:
        print("extract: the shared workload is not here (DPPROXY_SHARED, or ../shared beside the repository)", file=sys.stderr)
        return 1
    subprocess.run([sys.executable, str(folder / "gen_data.py"), str(work), str(scale)], check=True, stdout=subprocess.DEVNULL)
    queries = bench_accuracy.workload(folder)
    with scratch_server(work / "server", settings=SETTINGS) as server:
        loaded(server, work / "sub")
        print(
            f"extract of postgres {server.major}: generated SQL in DuckDB against raw in PostgreSQL, medians of {rounds} rounds, "
            f"scale {scale:g}: wall x / processor x (ms) of each shape"
        )
        for name, bounds in BOUNDS.items():
            if name != "2 in 5 groups":
                asyncio.run(
                    _measured(server, work, name, _policy(server, work, bounds, [q.sql for q in queries]), queries, rounds)
                )
    return 0


def _policy(server: Scratch, work: Path, bounds: str, asked: Sequence[str]) -> Loaded:
    categories = ", ".join(f"cat{i:02}" for i in range(1, 21))
    policy = work / "bench.yaml"
    verifier = make_verifier(bench_accuracy.PASSWORD)
    policy.write_text(bench_accuracy.POLICY.format(bounds=bounds, categories=categories, verifier=verifier))
    read = load_file(policy)
    rules = replace(read.policy, backend=PostgresBackend(server.dsn()), accelerate=Accelerate("extract", queries=tuple(asked)))
    return replace(read, policy=rules)


async def _measured(
    server: Scratch, work: Path, name: str, policy: Loaded, queries: Sequence[bench_accuracy.Query], rounds: int
) -> None:
    side = await _opened(server, work, name, policy)
    ratios: dict[str, list[Sample]] = {shape: [] for shape in side.plans}
    try:
        with psycopg.connect(server.conninfo(), autocommit=True, options="-c jit=off -c work_mem=64MB") as connection:
            spent = session_clock(connection, server)
            for query in queries:
                raw = Work(partial(_asked, connection, query.sql), spent)
                try:
                    texts = {shape: await side.texts(shape, query.sql) for shape in ratios}
                except Refusal as refusal:
                    print(f"{name}\t{query.id}\trefused: {refusal}", flush=True)
                    continue
                works = {shape: Work(partial(side.backend.run, own), time.process_time) for shape, own in texts.items()}
                found = await _in_turn({"raw": raw, **works}, rounds)
                cells = []
                for shape in works:
                    wall, cpu = (statistics.median(r[shape][i] / r["raw"][i] for r in found) for i in (0, 1))
                    ratios[shape].append((wall, cpu))
                    cells.append(f"{wall:.2f} / {cpu:.2f} ({1e3 * statistics.median(r[shape][0] for r in found):.0f})")
                least = 1e3 * statistics.median(r["raw"][0] for r in found)
                print("\t".join([name, query.id, *cells, f"raw {least:.0f}", query.kind]), flush=True)
    finally:
        await side.backend.close()
    for shape, samples in ratios.items():
        for what, own in zip(("wall", "processor"), zip(*samples, strict=True), strict=True):
            told = (
                f"geometric mean {statistics.geometric_mean(own):.2f}, median {statistics.median(own):.2f}, most {max(own):.1f}"
            )
            print(f"{name}\t{shape}\t{what}: faster than raw {sum(x < 1 for x in own)} of {len(own)}; {told}", flush=True)


async def _opened(server: Scratch, work: Path, name: str, policy: Loaded) -> Side:
    """Made as the proxy makes it; says what that takes beside reading each table once."""
    rules, state = policy.policy, work / f"state {name}"
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        scans = [f"COPY {table} TO '/dev/null' (FORMAT csv)" for table in ("users", "orders", "visits")]
        began = time.perf_counter()
        await _asked(connection, *scans)
        scan = time.perf_counter() - began
    began = time.perf_counter()
    data = await open_data(policy, state, lambda table, part: None)
    backend = data.backend
    assert isinstance(backend, Extract)
    taken = time.perf_counter() - began
    catalog, _ = await public_tables.read(rules, await checked_catalog(policy, backend), backend)
    tables = tables_of(rules, catalog, 0)
    job = job_of(rules, backend, tables, folder_of(rules, state))
    began = time.perf_counter()
    await copy_making.made(job, lambda table, part: None, background=False)
    copied = time.perf_counter() - began
    copy = job.folder.whole(job.key)
    assert copy is not None
    await backend.adopt(copy.path, job.name)
    stored = tuple(table for table in tables if table.name in copy.manifest.tables)
    print(
        f"{name}\textract: {taken:.1f} s, {backend.size / 2**20:.0f} MB (COPY of the tables: {scan:.1f} s); "
        f"{len(stored)} of {len(tables)} stored tables: {copied:.1f} s, {copy.manifest.size / 2**20:.0f} MB",
        flush=True,
    )
    shapes = {ROWS: (), ASKED: stored}
    plans = {shape: planning(rules, catalog, backend.dialect, 0, t) for shape, t in shapes.items()}
    return Side(backend, next(iter(rules.roles.values())), plans_for(rules, catalog, backend.dialect).split, plans)


async def _asked(connection: psycopg.Connection, *queries: str) -> None:
    for query in queries:
        cursor = connection.execute(query.encode())
        if cursor.description is not None:
            cursor.fetchall()


async def _in_turn(works: Mapping[str, Work], rounds: int) -> list[dict[str, Sample]]:
    """Samples of all in each round, after one run of each that fills caches."""
    times = {}
    for name, work in works.items():
        await work.sample(1)
        times[name] = max(1, math.ceil(LEAST / max((await work.sample(1))[0], 1e-4)))
    return [{name: await work.sample(times[name]) for name, work in works.items()} for _ in range(rounds)]
