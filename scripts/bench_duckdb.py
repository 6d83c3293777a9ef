"""The generated SQL beside the analyst's own, in DuckDB: the shared workload, 10 M orders at scale 1.

Knows: the workload (in the shared material, not in this repository), the planner, DuckDB. Must not know: the wire, noise. Both
statements run in turn on connections with the settings of the proxy's own (`backends.duckdb`), so that a machine that gets
faster or slower changes both. Processor time says more than the clock where others use the machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import bench_accuracy
import bench_plans

from dpproxy.backends import duckdb as backend
from dpproxy.errors import Refusal
from dpproxy.plan.engines import literal
from dpproxy.policy.model import DuckDBBackend
from dpproxy.policy.password import make_verifier

Sample = tuple[float, float]  # seconds: of the clock, of processors


def performance(work: Path, rounds: int, scale: float, only: Sequence[str] = ()) -> int:
    """Print the table of all queries, or those of the ids in `only`. Data that are in `work` already are used again. Returns the
    exit status."""
    folder = bench_accuracy.material()
    if folder is None:
        print("speed: the shared workload is not here (DPPROXY_SHARED, or ../shared beside the repository)", file=sys.stderr)
        return 1
    if not (work / "shop.duckdb").exists():
        made = [sys.executable, str(folder / "gen_data.py"), str(work), str(scale)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    queries = [query for query in bench_accuracy.workload(folder) if not only or query.id in only]
    print(f"duckdb: generated SQL against raw, medians of {rounds} rounds, scale {scale:g}: cpu x / wall x (raw, generated ms)")
    for name, bounds in bench_accuracy.BOUNDS.items():
        ratios = [found for query in queries if (found := _measured(work, name, bounds, query, rounds)) is not None]
        if ratios:
            cpu, wall = zip(*ratios, strict=True)
            print("\t".join([name, "geometric mean, median, most", *map(_summary, (cpu, wall))]), flush=True)
    return 0


def _summary(ratios: Sequence[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f}, {statistics.median(ratios):.2f}, {max(ratios):.1f}"


def _measured(work: Path, name: str, bounds: str, query: bench_accuracy.Query, rounds: int) -> Sample | None:
    """Print one line; return the ratios of processor time and of the clock, None for a query that is refused."""
    categories = ", ".join(f"cat{i:02}" for i in range(1, 21))
    policy = work / "bench.yaml"
    verifier = make_verifier(bench_accuracy.PASSWORD)
    policy.write_text(bench_accuracy.POLICY.format(bounds=bounds, categories=categories, verifier=verifier))
    planner, role = bench_plans.planner_of(policy)
    try:
        plan = planner.plan(planner.split(query.sql)[0], role, {}, ())
    except Refusal as refusal:
        print(f"{name}\t{query.id}\trefused: {refusal}", flush=True)
        return None
    texts = [text.render([], literal) for m in plan.measurements for text in m.queries]
    root, database = backend._attached(DuckDBBackend(str(work / "shop.duckdb")))

    def run(statements: Sequence[str]) -> Sample:
        wall, cpu = time.perf_counter(), time.process_time()
        connection = root.cursor()
        connection.execute(f'USE "{database}"')
        for statement in statements:
            connection.sql(statement).to_arrow_table()
        return time.perf_counter() - wall, time.process_time() - cpu

    try:
        run([query.sql]), run(texts)  # the file is read into memory once
        pairs = [(run(texts), run([query.sql])) for _ in range(rounds)]
    finally:
        root.close()
    wall, cpu = (statistics.median(ours[i] / raw[i] for ours, raw in pairs) for i in (0, 1))
    raw, ours = (1e3 * statistics.median(pair[i][0] for pair in pairs) for i in (1, 0))
    print(f"{name}\t{query.id}\t{cpu:.1f}\t{wall:.1f}\t({raw:.0f}, {ours:.0f})\t{query.kind}", flush=True)
    return cpu, wall
