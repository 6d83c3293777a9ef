"""What the proxy costs, as ratios of two things measured in turn in one run.

usage: scripts/bench [memory] [relay] [reused] [load] [planning] [aggregate] [accuracy] [speed] [tpch] [growth] [postgres]
       [extract] [neighbours] [honesty] [charges] [analysts] [collector] [engines] [report]
       [--seconds N] [--rounds N] [--idle N] [--cycles N] [--scale X] [--answers N]
       [--corpus FILE.jsonl] [--data-sets A,B] [--bounds A,B] [--verbose] [--case TEXT] [--queries A,B]
       [--data FOLDER] [--processes N] [--analysts N] [--minutes N] [--rows N] [--spark sc://HOST:PORT] [--flushes 0,2,5]
       default: everything up to aggregate; the others take long, and most need the shared material

A machine's speed changes from minute to minute; the ratio of two neighbours in time changes little. So each round
measures the one, then the other, and the median of the rounds' ratios is printed. No figure here fails a build.

  memory     resident memory of the idle proxy process, without the facade's
  relay      pgbench `SELECT 1` through the proxy and through pgbouncer, by TCP and by unix socket, and on the facade's own
             socket: 1 and 16 clients, statements a second and processor time; with --processes 2, two of each on one port
  reused     latency of a stored answer at 16 clients
  load       memory with 500 idle connections, and what 1,000 connections leave behind
  planning   text to plan of a joined, grouped query: never seen, and seen before; and of the corpus, where it is at hand
  aggregate  generated SQL beside the raw query over 10 M rows: one row a unit, and many bounded per unit
  accuracy   relative errors of the shared workload through a proxy, beside the best peer's; and where large users
             choose unlike small ones, beside the best single bound in hindsight; and of several measurements in one
             statement, beside each alone. --queries q01,favourites,together asks only these
  honesty    cells of the corpus's answers whose stated interval holds the exact answer
  speed      generated SQL beside the raw query for the shared workload in DuckDB, whole at --scale 1
  tpch       the same for TPC-H's queries about customers, whole at --scale 1; `tpchgen-cli` makes the data
  growth     time and memory of some of the workload's queries at tenths of --scale and more, as a picture
  postgres   generated SQL beside the raw query for the shared workload, 2 M orders in PostgreSQL, beside the best peer's
  extract    the same generated for an extract of that PostgreSQL, beside the raw query in PostgreSQL itself
  charges    durable charges a second of eight processes and of one, ledger in PostgreSQL, beside what eight clients insert;
             with flushes as this disk's, and with --flushes that take so many milliseconds longer
  analysts   --analysts of two proxies that share a ledger, for --minutes: latency, charges, and whether anything is lost
  collector  reports a second that `dpproxy collect serve` takes at 1, 10 and 50 a request, and what one costs it
  report     accuracy, honesty and planning of the sample shop beside stored figures: continuous integration prints it
  engines    a table of a million to --rows rows: time, memory of the proxy, bytes moved; in DuckDB, and on Sail or --spark
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import bench_accuracy
import bench_collector
import bench_duckdb
import bench_engines
import bench_extract
import bench_favourites
import bench_growth
import bench_honesty
import bench_ledger
import bench_neighbours
import bench_plans
import bench_postgres
import bench_report
import bench_together
import bench_tpch
import bench_wire
import psutil
from scratch_postgres import scratch_server

from dpproxy.demo import make_shop
from dpproxy.serve.launch import (
    LaunchError,
    Proxy,
    end_on_sigterm,
    launched,
)

ROOT = Path(__file__).resolve().parent.parent


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# memory


def memory(proxy: Proxy, work: Path, options: argparse.Namespace) -> None:
    """Print the memory of the idle proxy. `private` leaves out what other processes can share: the pages of programs and
    libraries."""
    usage = psutil.Process(proxy.pid).memory_full_info()
    print("memory: idle proxy without the facade, MB\nresident\tprivate")
    print(f"{usage.rss / 2**20:.0f}\t{usage.uss / 2**20:.0f}", flush=True)


THROUGH = {"memory": memory, "relay": bench_wire.relay, "reused": bench_wire.reused, "load": bench_wire.load}
"""Parts that need a running proxy, in the order in which they run: memory first, while it is still idle."""
DEFAULT = (*THROUGH, "planning", "aggregate")
PARTS = (
    *DEFAULT,
    "accuracy",
    "speed",
    "tpch",
    "growth",
    "postgres",
    "extract",
    "neighbours",
    "honesty",
    "charges",
    "analysts",
    "collector",
    "engines",
    "report",
)


@contextlib.contextmanager
def several(work: Path, processes: int) -> Iterator[tuple[str, ...]]:
    """Give what the command line says for so many processes; more than one need a ledger in PostgreSQL, which lasts as long."""
    if processes == 1:
        yield ()
        return
    with scratch_server(work / "ledger") as ledger:
        yield "--processes", str(processes), "--ledger", ledger.dsn()


def measure_all(parts: list[str], policy: Path, options: argparse.Namespace) -> None:
    work = policy.parent
    if not THROUGH.keys().isdisjoint(parts):
        shared = ("--connections-per-user", "500", "--unix-socket", str(work))
        with several(work, options.processes) as more, launched([policy], work / "state", options=(*shared, *more)) as proxy:
            for name, part in THROUGH.items():
                if name in parts:
                    part(proxy, work, options)
    if "planning" in parts:
        say("planning")
        bench_plans.planning(policy)
        if options.corpus.is_file():
            bench_plans.corpus(options.corpus, ROOT / "tests" / "corpus" / "policies")
    if "aggregate" in parts:
        say("aggregate: making 2 tables of 10 M rows")
        bench_plans.aggregate(work, options.rounds)
    if "accuracy" in parts:
        measure_accuracy(work / "accuracy", options)
    only = named_queries(options)
    for name, part in {"speed": bench_duckdb, "tpch": bench_tpch, "growth": bench_growth}.items():
        if name in parts:
            folder = options.data or work / name
            folder.mkdir(exist_ok=True)
            part.performance(folder, options.rounds, options.scale, only)
    if "postgres" in parts:
        say("postgres: making 2 M orders")
        folder = work / "postgres"
        folder.mkdir()
        bench_postgres.performance(folder, options.rounds, only=only)
    if "extract" in parts:
        say("extract: making 2 M orders")
        folder = work / "extract"
        folder.mkdir()
        bench_extract.performance(folder, options.rounds)
    if "neighbours" in parts:
        bench_neighbours.neighbours(policy, options.seconds, options.case)
    if "honesty" in parts:
        bench_honesty.honesty(options.corpus, options.data_sets, options.verbose, options.bounds)
    if "charges" in parts:
        bench_ledger.charges(work, options)
    if "analysts" in parts:
        bench_ledger.analysts(policy, options)
    if "collector" in parts:
        bench_collector.collector(work, options)
    if "engines" in parts:
        bench_engines.engines(work, options)
    if "report" in parts:
        bench_report.report(policy, work / "state of the report")


def named_queries(options: argparse.Namespace) -> list[str]:
    return [q for q in options.queries.split(",") if q]


def measure_accuracy(folder: Path, options: argparse.Namespace) -> None:
    only = named_queries(options)
    if not only or "favourites" in only:
        bench_favourites.favourites(options.answers)
    if not only or "together" in only:
        bench_together.together(options.answers)
    if not only or set(only) - {"favourites", "together"}:
        folder.mkdir()
        bench_accuracy.accuracy(folder, options.scale, options.answers, only)


def milliseconds(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="what the proxy costs, as ratios")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: up to aggregate")
    parser.add_argument("--seconds", type=float, default=3, help="of each pgbench run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, default=500, help="idle connections, for load")
    parser.add_argument("--cycles", type=int, default=1000, help="connections opened and closed, for load")
    parser.add_argument(
        "--scale", type=float, default=0.05, help="of the workload for accuracy, speed and growth; 1 is 10 M orders"
    )
    parser.add_argument("--answers", type=int, default=10, help="to each query, for accuracy")
    parser.add_argument(
        "--queries", default="", metavar="A,B", help="for accuracy, speed, tpch, growth and postgres; default: all, or usual ones"
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="for the same: where the data are made once, and stay")
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus" / "open.jsonl", metavar="FILE.jsonl")
    parser.add_argument("--data-sets", default="", metavar="A,B", help="of the corpus, for honesty; default: all")
    parser.add_argument("--case", default="", metavar="TEXT", help="those whose names hold it, for neighbours: 'CTEs 16' is one")
    parser.add_argument("--processes", type=int, default=1, help="of the proxy, for memory, relay, reused and load")
    parser.add_argument("--analysts", type=int, default=500)
    parser.add_argument(
        "--flushes", type=milliseconds, default="0,2,5", metavar="A,B", help="milliseconds that a flush takes longer, for charges"
    )
    parser.add_argument("--minutes", type=float, default=10, help="for analysts")
    parser.add_argument("--rows", type=int, default=10_000_000, help="at most, for engines")
    parser.add_argument("--spark", default="", metavar="sc://HOST:PORT", help="for engines; it reads the files of this machine")
    parser.add_argument(
        "--bounds", default="", metavar="A,B", help="own, rows, groups: of the policies, for honesty; default: all"
    )
    parser.add_argument("--verbose", action="store_true", help="each cell that an interval misses, for honesty")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="dpproxy-bench-") as folder:
        policy = Path(shutil.copy(ROOT / "policies" / "shop.yaml", folder))
        say("making the sample shop")
        make_shop(policy.with_name("shop.duckdb"))
        try:
            measure_all(options.parts or list(DEFAULT), policy, options)
        except LaunchError as error:
            say(str(error))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
