"""docs/dialects.md: what other engines' and tools' SQL becomes, statement by statement, as the page says it.

Knows: the page's tables, the planner. Must not know: data. Each row of a table is a statement and its outcome: `runs`, or `refused:` and
how the message begins. Tableau's formulas stand in `tableau_formulas.txt`, each with its name; those that are refused are on the page.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import duckdb
import pytest

from dpproxy.authoring.verdicts import Bench, Refused
from dpproxy.backends.duckdb import DuckDB
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "dialects.md").read_text()
FORMULAS = Path(__file__).with_name("tableau_formulas.txt").read_text().splitlines()
ROW = re.compile(r"^\| `(?P<sql>[^`]+)` \| (?P<outcome>runs|refused: .+?) \|$", re.MULTILINE)

TABLES = """
CREATE TABLE professors (id INTEGER, item VARCHAR, quantity INTEGER);
CREATE TABLE t1 (id INTEGER, num_claims INTEGER);
CREATE TABLE T (id INTEGER, key VARCHAR, state VARCHAR, x INTEGER, income DOUBLE, age INTEGER);
CREATE TABLE orders (order_id BIGINT, id INTEGER, ts TIMESTAMP, due DATE, amount DOUBLE, weight DOUBLE, qty INTEGER, big BIGINT,
  status VARCHAR, category VARCHAR, coupon VARCHAR, paid BOOLEAN);
"""
POLICY = """
version: 1
dataset: examples
backend: { duckdb: examples.duckdb }
privacy_unit: { name: professor, key: professors.id }
budget: { epsilon: 1000, delta: 1e-3 }
tables:
  professors: { unit: id, unique: false, bounds: { rows_per_group: 3, groups: 2 }, columns: { id: unit, item: {}, quantity: { range: [0, 200] } } }
  t1: { unit: id, bounds: { rows_per_group: 3, groups: 2 }, columns: { id: unit, num_claims: { range: [0, 50] } } }
  t: { unit: id, bounds: { rows_per_group: 3, groups: 2 }, columns: { id: unit, key: {}, state: {}, x: { range: [0, 10] },
       income: { range: [0, 100000] }, age: { range: [0, 120] } } }
  orders:
    unit: id
    bounds: { rows_per_group: 3, groups: 2 }
    columns: { order_id: key, id: unit, ts: { range: [2024-01-01, 2024-06-30] }, due: { range: [2024-01-01, 2024-12-31] },
               amount: { range: [0, 1000] }, weight: { range: [-5, 50] }, qty: { range: [0, 20] }, big: { range: [0, 1000] },
               status: { values: [open, paid] }, category: {}, coupon: {}, paid: {} }
views: { view_on_professors: "SELECT id, item, quantity FROM professors" }
roles: { analyst: { budget: { epsilon: 100, delta: 1e-4 }, query: { epsilon: 1, max_epsilon: 10, delta: 1e-6 } } }
users: {}
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("dialects")
    with duckdb.connect(str(folder / "examples.duckdb")) as connection:
        connection.execute(TABLES)
    (folder / "examples.yaml").write_text(POLICY)
    policy = load_file(folder / "examples.yaml").policy

    async def introspected() -> Bench:
        backend = DuckDB(DuckDBBackend(str(folder / "examples.duckdb")))
        try:
            return Bench(policy, await backend.introspect(), "duckdb")
        finally:
            await backend.close()

    return asyncio.run(introspected())


def outcome(bench: Bench, sql: str) -> str:
    found = bench.verdict("analyst", sql)
    return f"refused: {found.message}" if isinstance(found, Refused) else "runs"


def test_statements_of_the_page(bench: Bench) -> None:
    rows = [(m["sql"], m["outcome"].replace("\\", "")) for m in ROW.finditer(PAGE)]
    assert len(rows) > 30, "the page has lost its tables"
    wrong = [(sql, found) for sql, said in rows if not (found := outcome(bench, sql)).startswith(said)]
    assert wrong == []


def test_formulas_of_tableau(bench: Bench) -> None:
    found = {name: outcome(bench, sql) for name, sql in (line.split("\t") for line in FORMULAS)}
    refused = sorted(name for name, said in found.items() if said != "runs")
    listed = sorted(re.findall(r"^- `([^`]+)`:", PAGE, re.MULTILINE))
    assert refused == listed
    assert f"{len(found) - len(refused)} of {len(found)}" in PAGE
