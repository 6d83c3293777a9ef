"""How time and memory grow with the data: some of the shared workload's queries from rows, and making the prepared copy.

Knows: the workload's data at several scales, the planner, DuckDB. Must not know: noise. Each scale is measured by a process of
its own under one bound of memory, beyond which DuckDB writes to the disk: what it took at most is that process's alone. The
picture has logarithmic axes, on which linear growth is a straight line of one slope.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import bench_accuracy
import bench_duckdb
import bench_plans
from bench_duckdb import DATABASE, ROWS, Bench

from dpproxy.acceleration.preparation import stored_tables
from dpproxy.engines import stored_stages
from dpproxy.plan.pipeline import planning
from dpproxy.policy.people import make_verifier

ORDERS = 10_000_000
"""At scale 1."""
STEPS = (10, 3, 1)
"""The largest scale is divided by these."""
FINER, LEAST = (100, 30), 1_000_000
"""And by these, where at least so many orders are left."""
MEMORY = "1GB"
USUAL = ("q01", "q05", "q16", "q20")
COPY = "the prepared copy"
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "growth.svg"

Point = dict[str, float]
"""Seconds of processors of each query, and bytes at most (`memory`), at one scale."""


def performance(work: Path, rounds: int, scale: float, only: Sequence[str] = ()) -> int:
    """Print the table and draw the picture. Returns the exit status."""
    folder = bench_accuracy.material()
    if folder is None:
        print("growth: the shared workload is not here (DPPROXY_SHARED, or ../shared beside the repository)", file=sys.stderr)
        return 1
    points: dict[float, Point] = {}
    for part in (*(finer for finer in FINER if ORDERS * scale / finer >= LEAST), *STEPS):
        own = work / f"{scale / part:.3g}"
        if not (own / "shop.duckdb").exists():
            made = [sys.executable, str(folder / "gen_data.py"), str(own), str(scale / part)]
            subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        command = [sys.executable, __file__, str(own / "shop.duckdb"), ",".join(only or USUAL), str(rounds)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        points[scale / part] = json.loads(done.stdout)
        told = ", ".join(f"{name} {value:.2f} s" for name, value in points[scale / part].items() if name != "memory")
        print(f"{ORDERS * scale / part:,.0f} orders: {told}; {points[scale / part]['memory'] / 1e9:.2f} GB at most", flush=True)
    PICTURE.write_text(picture(points))
    return 0


def one(data: Path, queries: Sequence[str], rounds: int) -> Point:
    """Measure one scale, the least of the rounds."""
    folder = bench_accuracy.material()
    assert folder is not None
    categories = ", ".join(f"cat{i:02}" for i in range(1, 21))
    verifier = make_verifier(bench_accuracy.PASSWORD)
    policy = data.with_name("growth.yaml")
    bounds = bench_accuracy.BOUNDS["10 in all"]
    policy.write_text(bench_accuracy.POLICY.format(bounds=bounds, categories=categories, verifier=verifier))
    rules, catalog = bench_plans.rules_of(policy)
    planner, role = bench_plans.planner_of(policy)
    bench = Bench(data, "growth", policy, {ROWS: ()})
    found: Point = {}
    with bench_duckdb.bench_files(bench) as root:
        root.execute(f"SET memory_limit = '{MEMORY}'; SET temp_directory = '{data.with_suffix('.tmp')}'")
        for query in bench_accuracy.workload(folder):
            if query.id not in queries:
                continue
            (statement,) = planner.split(query.sql)
            plan = planning(rules, catalog, "duckdb", 0, ())(statement, role, {}, ())
            texts = [text for m in plan.measurements for text in bench_duckdb.texts(root, m)]
            found[query.id] = min(bench_duckdb.run(root, texts)[1] for _ in range(rounds))
        made = stored_tables(rules, catalog, "duckdb")
        texts = [f"CREATE OR REPLACE TABLE {stored_stages.table(each.name)} AS {each.sql}" for each in made]
        found[COPY] = bench_duckdb.timed(lambda: [root.execute(each) for each in (*texts, f"CHECKPOINT {DATABASE}")])[1]
    return {**found, "memory": 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


# --- picture

WIDTH, HEIGHT, MARGIN = 560, 320, 60
COLOURS = ("#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#d62728")


def picture(points: dict[float, Point]) -> str:
    """Draw seconds of processors, and gigabytes, by the number of orders."""
    names = [*next(iter(points.values()))]
    values = [value / (1e9 if name == "memory" else 1) for point in points.values() for name, value in point.items()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = (math.log10(ORDERS * edge(points)) for edge in (min, max))

    def place(orders: float, value: float) -> tuple[float, float]:
        x = MARGIN + WIDTH * (math.log10(orders) - first) / (last - first)
        return x, MARGIN + HEIGHT * (high - math.log10(value)) / (high - low)

    size = f'width="{WIDTH + 3 * MARGIN + 60}" height="{HEIGHT + 2 * MARGIN}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">']
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    for scale in points:
        x, _ = place(ORDERS * scale, 10**low)
        parts.append(f'<path d="M{x:.0f} {MARGIN}V{MARGIN + HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.0f}" y="{MARGIN + HEIGHT + 18}" text-anchor="middle">{ORDERS * scale / 1e6:.1f} M</text>')
    for exponent in range(low, high + 1):
        _, y = place(10**first, 10**exponent)
        parts.append(f'<path d="M{MARGIN} {y:.0f}H{MARGIN + WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{y + 4:.0f}" text-anchor="end">{10.0**exponent:g}</text>')
    labels: dict[str, tuple[float, str]] = {}
    for name, colour in zip(names, COLOURS, strict=False):
        scaled = 1e9 if name == "memory" else 1
        line = [place(ORDERS * scale, point[name] / scaled) for scale, point in sorted(points.items())]
        dashed = ' stroke-dasharray="6 4"' if name == "memory" else ""
        where = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        parts.append(f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
        labels[f"memory, GB (bound {MEMORY})" if name == "memory" else name] = line[-1][1] + 4, colour
    lowest = 0.0
    for label, (y, colour) in sorted(labels.items(), key=lambda item: item[1]):  # none on top of another
        lowest = max(y, lowest + 13)
        parts.append(f'<text x="{MARGIN + WIDTH + 6}" y="{lowest:.0f}" fill="{colour}">{label}</text>')
    title = "Seconds of processors of the generated SQL from rows, by the number of orders"
    parts.append(f'<text x="{MARGIN}" y="{MARGIN - 20}">{title}</text></svg>')
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    json.dump(one(Path(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])), sys.stdout)
