"""The generated SQL beside the analyst's own, in DuckDB: the shared workload, 10 M orders at scale 1, or another one.

Knows: workloads (the shared one is not in this repository), the planner, DuckDB. Must not know: the wire, noise. All
statements run in turn on connections with the settings of the proxy's own (`backends.duckdb`), so that a machine that gets faster
or slower changes all of them. Processor time says more than the clock where others use the machine. Stored tables are made as
`acceleration.preparation` says: of the policy alone, and of the workload's statements too.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import bench_accuracy
import bench_plans
import duckdb

from dpproxy.acceleration.preparation import stored_tables
from dpproxy.backends import duckdb as backend
from dpproxy.backends.duckdb_stages import KeptStages
from dpproxy.engines import literal, stored_stages
from dpproxy.engines.stored_stages import DATABASE
from dpproxy.errors import Refusal
from dpproxy.plan.context import StoredTable
from dpproxy.plan.pipeline import planning
from dpproxy.policy.people import make_verifier
from dpproxy.privacy.measurement import Measurement

Sample = tuple[float, float]  # seconds: of the clock, of processors
Connection = duckdb.DuckDBPyConnection


ROWS, STORED, ASKED = "from rows", "stored", "asked for"
SHAPES = (ROWS, STORED, ASKED)
"""Shapes: without stored tables; with those made of the policy; with those of the workload's statements too."""


@dataclass(frozen=True)
class Query:
    """One statement of a workload."""

    id: str
    kind: str
    sql: str


@dataclass(frozen=True)
class Bench:
    """A workload over a file of data under one policy: tables of each shape, made in a file beside the data."""

    data: Path
    name: str
    policy: Path
    tables: Mapping[str, tuple[StoredTable, ...]]


def performance(work: Path, rounds: int, scale: float, only: Sequence[str] = ()) -> int:
    """Print the table of all queries, or those of the ids in `only`. Data that are in `work` already are used again. Returns the
    exit status."""
    folder = bench_accuracy.material()
    if folder is None:
        print("speed: the shared workload is not here (DPPROXY_SHARED, or ../shared beside the repository)", file=sys.stderr)
        return 1
    data = work / "shop.duckdb"
    if not data.exists():
        made = [sys.executable, str(folder / "gen_data.py"), str(work), str(scale)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    queries = [Query(query.id, query.kind, query.sql) for query in bench_accuracy.workload(folder)]
    for name, bounds in bench_accuracy.BOUNDS.items():
        categories = ", ".join(f"cat{i:02}" for i in range(1, 21))
        verifier = make_verifier(bench_accuracy.PASSWORD)
        text = bench_accuracy.POLICY.format(bounds=bounds, categories=categories, verifier=verifier)
        table(data, name, text, queries, rounds, f"scale {scale:g}", only)
    return 0


def table(
    data: Path, name: str, policy: str, queries: Sequence[Query], rounds: int, told: str, only: Sequence[str] = ()
) -> Mapping[str, Sample]:
    """Print what each query takes under a policy, and the geometric means; return these by shape."""
    print(f"duckdb: generated SQL against raw, medians of {rounds} rounds, {told}: processor x / wall x (ms) of each shape")
    file = data.with_name("bench.yaml")
    file.write_text(policy)
    bench = _prepared(data, name, file, [query.sql for query in queries])
    found = [ratios for q in queries if not only or q.id in only if (ratios := _measured(bench, q, rounds))]
    means: dict[str, Sample] = {}
    for shape in SHAPES if found else ():
        cpu, wall = zip(*(ratios[shape] for ratios in found), strict=True)
        means[shape] = statistics.geometric_mean(cpu), statistics.geometric_mean(wall)
        print("\t".join([name, shape, "geometric mean, median, most", *map(_summary, (cpu, wall))]), flush=True)
    return means


def _summary(ratios: Sequence[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f}, {statistics.median(ratios):.2f}, {max(ratios):.1f}"


# --- stored tables


def _prepared(data: Path, name: str, policy: Path, asked: Sequence[str]) -> Bench:
    """Make the tables, and say what that costs beside reading each column of the data once."""
    rules, catalog = bench_plans.rules_of(policy)
    few, all_ = (stored_tables(rules, catalog, "duckdb", asked=statements) for statements in ((), asked))
    bench = Bench(data, name, policy, {ROWS: (), STORED: few, ASKED: all_})
    with bench_files(bench) as root:
        found = root.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'data'").fetchall()
        tables = [name for (name,) in found]
        hashed = {t: ", ".join(f"bit_xor(hash({column}))" for column in _columns(root, t)) for t in tables}
        scans = [f"SELECT {columns} FROM {t}" for t, columns in hashed.items()]  # statistics alone would answer max(...)
        [timed(lambda text=text: root.execute(text).fetchall()) for text in scans]
        wall, cpu = map(sum, zip(*(timed(lambda text=text: root.execute(text).fetchall()) for text in scans), strict=True))
        for which, wanted in ((STORED, few), (ASKED, all_)):
            spent = [_made(root, made) for made in wanted]
            mine = [times for times in spent if times is not None]
            own = [sum(times) for times in zip(*mine, strict=True)] if mine else [0.0, 0.0]
            print(
                f"{name}\tmaking {len(mine)} tables ({which})\t{own[1] / cpu:.1f}\t{own[0] / wall:.1f} full scans"
                f"\t({1e3 * wall:.0f}, {1e3 * own[0]:.0f} ms; {_file(bench).stat().st_size / 2**20:.0f} MB in all)",
                flush=True,
            )
    return bench


def _file(bench: Bench) -> Path:
    return bench.data.with_name(f"stored {bench.name}.duckdb")


@contextmanager
def bench_files(bench: Bench) -> Iterator[Connection]:
    """A connection with the data and the stored tables, set up as the proxy's."""
    options = {name: value for name, value in backend.LOCKED_DOWN.items() if name != "enable_external_access"}
    with duckdb.connect(":memory:", config=options) as root:
        root.execute(f"ATTACH '{_file(bench)}' AS {DATABASE}; ATTACH '{bench.data}' AS data (READ_ONLY); USE data")
        backend.set_for_measuring(root)
        yield root


def _columns(root: Connection, name: str) -> list[str]:
    return [row[0] for row in root.execute(f"DESCRIBE {name}").fetchall()]


def _made(root: Connection, made: StoredTable) -> Sample | None:
    """Make a table that is not there; return how long it took."""
    there = root.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [made.name]).fetchall()
    text = f"CREATE TABLE {stored_stages.table(made.name)} AS {made.sql}"
    return None if there else timed(lambda: [root.execute(each) for each in (text, f"CHECKPOINT {DATABASE}")])


def timed(work: Callable[[], object]) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


# --- queries


def _measured(bench: Bench, query: Query, rounds: int) -> dict[str, Sample]:
    """Print one line; return the ratios of processor time and of the clock by shape, none for a query that is refused."""
    planner, role = bench_plans.planner_of(bench.policy)
    rules, catalog = bench_plans.rules_of(bench.policy)
    (statement,) = planner.split(query.sql)
    try:
        plans = {shape: planning(rules, catalog, "duckdb", 0, t)(statement, role, {}, ()) for shape, t in bench.tables.items()}
    except Refusal as refusal:
        print(f"{bench.name}\t{query.id}\trefused: {refusal}", flush=True)
        return {}
    with bench_files(bench) as root:
        asked = {shape: [text for m in plan.measurements for text in texts(root, m)] for shape, plan in plans.items()}

        run(root, [query.sql])  # the file is read into memory once
        sides = {shape: own for shape, own in asked.items() if shape == ROWS or own != asked[ROWS]}
        for own in sides.values():
            run(root, own)
        found = [({shape: run(root, own) for shape, own in sides.items()}, run(root, [query.sql])) for _ in range(rounds)]
    return _told(bench, query, found)


def run(root: Connection, statements: Sequence[str]) -> Sample:
    """Run statements one after the other, as the backend runs those of one snapshot."""
    with root.cursor() as connection:
        connection.execute("USE data")
        stages = KeptStages(connection)
        return timed(lambda: [backend.read(connection, stages.read(statement)) for statement in statements])


def texts(root: Connection, measurement: Measurement) -> list[str]:
    """What is run for a measurement; of two rounds, with the groups that the first finds but for its noise."""
    first = measurement.threshold.first if measurement.threshold is not None else None
    if first is None:
        return [text.render([], literal) for text in measurement.queries]
    looking = first.query.render([], literal)
    weights = root.execute(f"SELECT h FROM ({looking}) AS weights WHERE b0 >= {first.tau}").fetchall()
    found = [number for (number,) in weights]
    return [looking, *(text.render([], literal, found) for text in measurement.queries)]


Round = tuple[dict[str, Sample], Sample]


def _told(bench: Bench, query: Query, rounds: Sequence[Round]) -> dict[str, Sample]:
    ratios: dict[str, Sample] = {}
    cells = [bench.name, query.id]
    for shape in SHAPES:
        used = shape if shape in rounds[0][0] else ROWS
        cpu, wall = (statistics.median(ours[used][i] / raw[i] for ours, raw in rounds) for i in (1, 0))
        ratios[shape] = cpu, wall
        cells.append(f"{cpu:.2f} / {wall:.2f} ({1e3 * statistics.median(ours[used][0] for ours, _ in rounds):.0f})")
    raw = 1e3 * statistics.median(raw[0] for _, raw in rounds)
    print("\t".join([*cells, f"raw {raw:.0f}", query.kind]), flush=True)
    return ratios
