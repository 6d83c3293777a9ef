"""Planning time, and the generated SQL beside the raw query, in this process: no server, no wire.

Knows: the planner, the DuckDB backend's introspection, DuckDB. The generated SQL is run on a plain connection: what is
compared is the work of two statements on one engine.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from dpproxy.answers.plan_cache import PlanCache, plans_for
from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend, Policy, Role

ROWS = 10_000_000
UNITS = 500_000
"""Of the table with many rows a unit: twenty rows each on average, as in the sample shop."""

POLICY = """
version: 1
dataset: big
backend: { duckdb: big.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1000, delta: 1e-5 }
tables:
  people:
    unit: id
    columns:
      id: unit
      region: { values: [r0, r1, r2, r3, r4] }
      age: { range: [0, 120] }
      income: { range: [0, 500000], resolution: 1 }
      balance: { range: [0, 1000], resolution: 0.01 }
      weight: { range: [0, 1000], resolution: 0.01 }
  visits:
    unit: person
    bounds: { rows_per_group: 20, groups: 5 }
    columns:
      person: unit
      kind: { values: [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9] }
      amount: { range: [0, 1000], resolution: 0.01 }
roles:
  analyst:
    budget: { epsilon: 1000, delta: 1e-5 }
    query: { epsilon: 1, max_epsilon: 1, delta: 1e-9 }
users: {}
"""

MAKE = f"""
CREATE TABLE people AS
SELECT i AS id, concat('r', hash(i * 8) % 5) AS region, (18 + hash(i * 8 + 1) % 70)::INTEGER AS age,
       (hash(i * 8 + 2) % 90000)::INTEGER AS income, ((hash(i * 8 + 6) % 100000) / 100)::DECIMAL(10,2) AS balance,
       (hash(i * 8 + 7) % 100000) / 100 AS weight FROM range({ROWS}) AS t(i);
CREATE TABLE visits AS
SELECT floor({UNITS} * pow(((hash(i * 8 + 3) >> 11)::DOUBLE) / 9007199254740992, 2))::BIGINT AS person,
       concat('k', hash(i * 8 + 4) % 10) AS kind, ((hash(i * 8 + 5) % 10000) / 100)::DECIMAL(10,2) AS amount
FROM range({ROWS}) AS t(i)
"""

ONE_ROW = "SELECT region, count(*) AS n, avg(age) AS age, sum(income) AS income FROM people GROUP BY region"
DECIMALS = "SELECT region, count(*) AS n, avg(balance) AS balance, sum(balance) AS total FROM people GROUP BY region"
DOUBLES = "SELECT region, count(*) AS n, avg(weight) AS weight, sum(weight) AS total FROM people GROUP BY region"
BOUNDED = "SELECT kind, count(*) AS n, sum(amount) AS amount FROM visits GROUP BY kind"
QUERIES = {"one row a unit": ONE_ROW, "of DECIMAL": DECIMALS, "of DOUBLE": DOUBLES, "bounded per unit": BOUNDED}
JOINED = (
    "SELECT c.region, date_trunc('month', o.ts) AS month, count(*) AS n, sum(i.quantity) AS items, avg(o.amount) AS a "
    "FROM customers c JOIN orders o ON o.customer_id = c.customer_id JOIN order_items i ON i.order_id = o.order_id "
    "WHERE o.amount < {constant} GROUP BY c.region, date_trunc('month', o.ts) HAVING count(*) > 10 ORDER BY 1, 2"
)


def rules_of(policy: Path) -> tuple[Policy, Catalog]:
    """Return a policy and the catalog of its data."""

    async def made() -> tuple[Policy, Catalog]:
        rules = load_file(policy).policy
        assert isinstance(rules.backend, DuckDBBackend)
        backend = DuckDB(rules.backend)
        try:
            public = frozenset(name for name, table in rules.tables.items() if table.kind.shown)
            return rules, await backend.with_public_ranges(await backend.introspect(), public)
        finally:
            await backend.close()

    return asyncio.run(made())


def planner_of(policy: Path) -> tuple[PlanCache, Role]:
    """Return the planner as the session has it, and the policy's first role."""
    rules, catalog = rules_of(policy)
    return plans_for(rules, catalog, "duckdb"), next(iter(rules.roles.values()))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def planning(policy: Path) -> None:
    """Measure the time from text to plan, for texts never seen and for one seen before."""
    planner, role = planner_of(policy)

    def plan(constant: int) -> float:
        text = JOINED.format(constant=constant)
        return seconds(lambda: planner.plan(planner.split(text)[0], role, {}, ()))

    first = plan(999)
    cold = sorted(plan(constant) for constant in range(100, 300))
    cached = statistics.median(plan(200) for _ in range(1000))
    print("planning: three tables joined, grouped by two keys, milliseconds\nfirst\tmedian\tp99\tcached")
    print(f"{first * 1e3:.1f}\t{statistics.median(cold) * 1e3:.2f}\t{cold[-2] * 1e3:.2f}\t{cached * 1e3:.3f}", flush=True)


def corpus(file: Path, policies: Path) -> None:
    """Measure the time from text to plan of every statement of a labelled file, in processor time: each the least of three, never
    seen before."""
    os.environ.setdefault("DPPROXY_CORPUS", str(file.resolve().with_name("db")))
    entries = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    found = {name: policies / f"{name}.yaml" for name in sorted({entry["dataset"] for entry in entries})}
    planners = {name: planner_of(path) for name, path in found.items() if path.is_file() and file.with_name("db").is_dir()}
    times: dict[str, list[float]] = {"answered": [], "all": []}
    for entry in entries:
        if entry["dataset"] in planners:
            spent, answered = min(_planned(entry["sql"], *planners[entry["dataset"]]) for _ in range(3))
            times["all"].append(spent)
            times["answered"] += [spent] if answered else []
    print("planning: the corpus, milliseconds of processor time\nstatements\tnumber\tmedian\tp99\tmost")
    for name, spent_on in times.items():
        spent_on.sort()
        median, p99, most = statistics.median(spent_on), spent_on[int(len(spent_on) * 0.99)], spent_on[-1]
        print(f"{name}\t{len(spent_on)}\t{median * 1e3:.2f}\t{p99 * 1e3:.2f}\t{most * 1e3:.2f}", flush=True)


def _planned(text: str, planner: PlanCache, role: Role) -> tuple[float, bool]:
    """Seconds, and whether every statement of the text has a plan."""
    planner.forget()
    start = time.process_time()
    try:
        for statement in planner.split(text):
            if statement.private:
                planner.plan(statement, role, {}, ())
    except Refusal:
        return time.process_time() - start, False
    return time.process_time() - start, True


def aggregate(work: Path, rounds: int) -> None:
    """Run the plan's measurement and the analyst's own words in turn, on one connection."""
    policy = work / "big.yaml"
    policy.write_text(POLICY)
    with duckdb.connect(str(work / "big.duckdb")) as database:
        database.execute(MAKE)
    planner, role = planner_of(policy)
    print(f"aggregate: {ROWS:,} rows in DuckDB, seconds\nquery\tgenerated\traw\tratio")
    with duckdb.connect(str(work / "big.duckdb"), read_only=True) as database:
        for name, raw in QUERIES.items():
            plan = planner.plan(planner.split(raw)[0], role, {}, ())
            texts = [query.render([], literal) for m in plan.measurements for query in m.queries]

            def run(queries: list[str]) -> float:
                return seconds(lambda: [database.execute(query).fetchall() for query in queries])

            run(texts), run([raw])  # the file is read into memory once
            pairs = [(run(texts), run([raw])) for _ in range(rounds)]
            ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"{name}\t{ours:.3f}\t{theirs:.3f}\t{ratio:.2f}", flush=True)
