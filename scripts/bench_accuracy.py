"""How far off answers are: the shared workload through a real proxy, beside what peers reached on it.

Knows: the workload's tables and queries (in the shared material, not in this repository), PostgreSQL's protocol. Errors are
relative, of every cell of every answer, against the same SQL on the data itself: noise and what the bounds cut alike.
Peers' figures were measured at epsilon 1, user level, at most 10 rows a user, scale 1. Here the same charge and the same
bound, `rows: 10`; beside it, what a looser one gives: 10 rows of a user in each group. Pages visited, whose keys are not
declared, have the former in both.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from ruamel.yaml import YAML

from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import launched

PASSWORD = "bench"
BOUNDS = {"10 in all": "rows: 10", "10 a group": "rows_per_group: 10, groups: all"}
"""Name -> bounds of orders."""

POLICY = """
version: 1
dataset: bench
backend: {{ duckdb: shop.duckdb }}
privacy_unit: {{ name: user, key: users.user_id }}
budget: {{ epsilon: 1000000, delta: 0.01 }}
mechanism: auto
tables:
  users:
    unit: user_id
    columns:
      user_id: unit
      age: {{ range: [18, 90], resolution: 1 }}
      sex: {{ values: [F, M] }}
      region: {{ values: [north, south, east, west, center, coast, island, abroad] }}
      signup_date: {{ range: [2020-01-01, 2023-12-31] }}
  orders:
    unit: user_id
    bounds: {{ {bounds} }}
    columns:
      order_id: key
      user_id: unit
      ts: {{ range: [2024-01-01, 2025-12-31] }}
      product_category: {{ values: [{categories}] }}
      amount: {{ range: [0, 1000], resolution: 0.01 }}
      quantity: {{ range: [1, 10], resolution: 1 }}
  visits:
    unit: user_id
    bounds: {{ rows: 10 }}
    columns:
      user_id: unit
      ts: {{ range: [2024-01-01, 2025-12-31] }}
      page: {{}}
roles:
  analyst:
    budget: {{ epsilon: 1000000, delta: 0.01 }}
    query: {{ epsilon: 1, max_epsilon: 1, delta: 1e-6 }}
users:
  bench: {{ role: analyst, password: "{verifier}" }}
"""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Query:
    id: str
    kind: str
    sql: str
    keys: int  # leading columns that are keys


@dataclass
class Errors:
    """Holds relative errors of cells that were answered, and how many groups were not."""

    cells: list[float] = field(default_factory=list)
    missing: int = 0
    groups: int = 0
    refused: str = ""

    def text(self) -> str:
        if self.refused or not self.cells:
            return "refused" if self.refused else "nothing"
        found = f"{_percent(statistics.median(self.cells))} / {_percent(_p95(self.cells))}"
        return f"{found} ({self.missing / self.groups:.0%} missing)" if self.missing else found


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _percent(value: float) -> str:
    return f"{100 * value:.3g}"


def material() -> Path | None:
    """Return the shared workload, beside the repository or where the environment says."""
    root = os.environ.get("DPPROXY_SHARED") or Path(__file__).resolve().parents[2] / "shared"
    found = Path(root) / "bench"
    return found if (found / "queries.yaml").is_file() else None


def workload(folder: Path) -> list[Query]:
    listed = YAML(typ="safe").load((folder / "queries.yaml").read_text())
    return [Query(q["id"], q["kind"], q["sql"], q.get("pos", 0)) for q in listed]


def peers(folder: Path) -> dict[str, str]:
    """Return the best peer of each query by median error, as `median / p95 name`; empty for a query that none supports."""
    found = {}
    for query, cells in peer_rows(folder).items():
        errors = {title.removesuffix(" err"): cell for title, cell in cells.items() if title.endswith(" err")}
        known = [(float(m[1]), f"{cell} {name}") for name, cell in errors.items() if (m := re.match(r"([0-9.]+) /", cell))]
        found[query] = min(known)[1] if known else ""
    return found


def peer_rows(folder: Path) -> dict[str, dict[str, str]]:
    """Return what was measured of peers, query by query: cells by their columns' titles."""
    text = (folder / "peers.md").read_text()
    header = re.search(r"^\| query \| SN plan .*$", text, re.MULTILINE)
    if header is None:
        return {}
    titles = _cells(header[0])
    rows = {}
    for line in text[header.end() :].splitlines()[2:]:
        cells = _cells(line)
        if len(cells) != len(titles):
            break
        rows[cells[0]] = dict(zip(titles, cells, strict=True))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def accuracy(work: Path, scale: float, answers: int, only: Sequence[str] = ()) -> int:
    """Print the table, for the workload at `scale` (1: 10 M orders), of all queries or those named. Returns the exit status."""
    folder = material()
    if folder is None:
        print("accuracy: the shared workload is not here (DPPROXY_SHARED, or ../shared beside the repository)", file=sys.stderr)
        return 1
    subprocess.run([sys.executable, str(folder / "gen_data.py"), str(work), str(scale)], check=True, stdout=subprocess.DEVNULL)
    queries, best = [q for q in workload(folder) if not only or q.id in only], peers(folder)
    measured = {name: _through(work, name, queries, answers) for name in BOUNDS}
    print(f"accuracy: relative error in %, median / p95, epsilon 1, delta 1e-6, scale {scale:g}, {answers} answers a query")
    print("\t".join(["query", "kind", *BOUNDS, "best peer (scale 1)"]))
    for query in queries:
        print("\t".join([query.id, query.kind, *(measured[name][query.id].text() for name in BOUNDS), best.get(query.id, "")]))
    for query in queries:
        for name in BOUNDS:
            if measured[name][query.id].refused:
                print(f"{query.id}, {name}: {measured[name][query.id].refused}", file=sys.stderr)
    return 0


def _through(work: Path, name: str, queries: Sequence[Query], answers: int) -> dict[str, Errors]:

    categories = ", ".join(f"cat{i:02}" for i in range(1, 21))
    text = POLICY.format(bounds=BOUNDS[name], categories=categories, verifier=make_verifier(PASSWORD))
    policy = work / "bench.yaml"
    policy.write_text(text)
    with duckdb.connect(str(work / "shop.duckdb"), read_only=True) as data:
        truths = {q.id: data.execute(q.sql).fetchall() for q in queries}
    found = {}
    with launched([policy], work / f"state {name}") as proxy:
        place = {"host": proxy.host, "port": proxy.port, "user": "bench", "password": PASSWORD, "dbname": "bench"}
        with psycopg.connect(**place, autocommit=True) as connection:  # type: ignore[arg-type]
            connection.execute("SET dpproxy.notices = off")
            connection.execute("SET dpproxy.reuse = off")
            for query in queries:
                print(f"accuracy: {name}, {query.id}", file=sys.stderr, flush=True)
                found[query.id] = _asked(connection, query, truths[query.id], answers)
    return found


def _asked(connection: psycopg.Connection[Any], query: Query, truth: Sequence[Row], answers: int) -> Errors:
    errors = Errors()
    for _ in range(answers):
        try:
            rows = connection.execute(query.sql.encode()).fetchall()
        except psycopg.Error as error:
            errors.refused = str(error).splitlines()[0]
            return errors
        _compare(errors, query, rows, truth)
    return errors


def _compare(errors: Errors, query: Query, rows: Sequence[Row], truth: Sequence[Row]) -> None:
    """Groups are matched by their keys; an ordered answer cut by LIMIT is compared with all groups there are."""
    answered = {tuple(map(_key, row[: query.keys])): row[query.keys :] for row in rows}
    true = {tuple(map(_key, row[: query.keys])): row[query.keys :] for row in truth}
    errors.groups += len(true)
    errors.missing += sum(key not in answered for key in true)
    for key, values in true.items():
        if key in answered:
            errors.cells += list(_relative(answered[key], values))


def _relative(ours: Row, true: Row) -> Iterator[float]:
    for one, other in zip(ours, true, strict=True):
        if other:
            yield abs(float(one) - float(other)) / abs(float(other)) if one is not None else 1.0


def _key(value: Any) -> Any:
    """Engines differ in the types of keys: numbers as floats, instants as local times."""
    if isinstance(value, str | bool) or value is None:
        return value
    return value.replace(tzinfo=None).isoformat() if hasattr(value, "isoformat") else float(value)
