"""Attack cases that planning decides: refused, or harmless whatever the victim's rows say.

The cases are shared material; each names an SQL text and what must happen. `reject`: refused before any charge, or not
concerned with private tables at all, so that the empty facade answers. `accept-and-safe`: planned, and the generated
SQL runs on the data with the victim and without it and keeps what the plan claims. `reject-or-safe`: either.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import plan_harness
import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from dpproxy.answers.plan_cache import private_names
from dpproxy.backends.duckdb import DuckDB
from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import check
from dpproxy.policy.load import load_policy
from dpproxy.policy.model import DuckDBBackend, Policy
from dpproxy.sql.statements import split
from tests.worlds.work import TooMuch, calls

VICTIM = 42
MOST = 1_000_000
"""Function calls that reading and planning any of the texts may take; none takes a fifth of it."""

EXTREMES = "MIN and MAX are answered by the exponential mechanism on rank, like any percentile"
OTHERWISE = {
    "raw-output-23": EXTREMES,
    "raw-output-43": EXTREMES,
    "shadowing-08": EXTREMES,
    "sensitivity-14": "CORR is answered from noisy moments",
    "error-value-01": "casts are total: what is no number is NULL, and no message depends on data",
    "function-31": "above a measurement the facade runs what PostgreSQL runs; the number is the facade's own",
    "statement-43": "several statements in one query are answered one by one; a rollback gives nothing back",
    "groups-11": "a key column of the policy cannot be shown in any expression",
    "overflow-02": "identifiers are not summed",
    "sensitivity-07": "SUM(DISTINCT) has no mechanism here; it is refused with what to use instead",
    "join-05": "generate_series is not yet joined with private rows",
    "join-07": "unnest is not yet joined with private rows",
    "join-27": "count(*) of clinics without visits would count the rows an outer join pads",
}
"""Cases that end otherwise than labelled, by id, with the reason; what the plan claims must hold all the same."""

DDL = """
CREATE TABLE patients (user_id INTEGER PRIMARY KEY, name VARCHAR, age INTEGER, sex VARCHAR, zip VARCHAR, weight DOUBLE,
  disease VARCHAR, income DOUBLE);
CREATE TABLE visits (visit_id INTEGER PRIMARY KEY, user_id INTEGER, ts TIMESTAMP, clinic_id INTEGER, cost DOUBLE, note VARCHAR);
CREATE TABLE clinics (clinic_id INTEGER PRIMARY KEY, city VARCHAR, beds INTEGER);
INSERT INTO clinics VALUES (1, 'Ulm', 100), (2, 'Bonn', 250), (3, 'Kiel', 80);
"""


def fill(connection: duckdb.DuckDBPyConnection, victim: bool) -> None:
    """The clinic's data; the same but for the victim."""
    rng = random.Random(7)
    connection.execute(DDL)
    visit = 0
    for user in (u for u in range(1, 61) if u != VICTIM):
        row = (user, f"name{user}", rng.randint(18, 95), rng.choice("FM"), f"9{rng.randint(1000, 1099)}")
        more = (rng.uniform(40, 120), rng.choice(("flu", "gout", "mumps")), float(rng.randint(0, 150_000)))
        connection.execute("INSERT INTO patients VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [*row, *more])
        for _ in range(rng.randint(0, 5)):
            visit += 1
            stamp = f"202{rng.randint(0, 5)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)} 10:00:00"
            values = [visit, user, stamp, rng.randint(1, 3), float(rng.randint(0, 999)), rng.choice(("ok", "late", None))]
            connection.execute("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?)", values)
    if victim:
        connection.execute("INSERT INTO patients VALUES (42, 'victim', 97, 'F', '94000', 'NaN', 'kuru', 987654)")
        connection.execute(
            "INSERT INTO visits SELECT 10000 + i, 42, TIMESTAMP '2023-01-01' + i * INTERVAL 1 DAY, i % 5, 5000, 'x' "
            "FROM range(50) r(i)"
        )


@lru_cache
def policy() -> Policy:
    return load_policy(Path(__file__).parent / "clinic.policy.yaml")


class Clinic:
    """The databases with and without the victim, and the planner over them."""

    def __init__(self, folder: Path) -> None:
        path = folder / "clinic.duckdb"
        with duckdb.connect(str(path)) as connection:
            fill(connection, victim=True)
        self.catalog = asyncio.run(_introspected(path))
        assert not check(policy(), self.catalog)
        self._plan = planning(policy(), self.catalog, "duckdb")
        self._data = {victim: duckdb.connect(":memory:", config={"threads": 1}) for victim in (True, False)}
        for victim, connection in self._data.items():
            fill(connection, victim)

    def plans(self, sql: str) -> list[Plan]:
        """Plans of the statements that concern private tables. Raises Refusal."""
        settings = {"search_path": '"$user", public'}
        statements = split(sql, private_names(policy()))
        asked = [s for s in statements if s.private and s.kind != "explain"]  # EXPLAIN is told, not measured
        return [self._plan(s, policy().roles["analyst"], settings, ()) for s in asked]

    def problems(self, made: Plan) -> list[str]:
        """What the victim's presence changes beyond what the plan claims. Raises duckdb.Error."""
        found: list[str] = []
        for measurement in made.measurements:
            texts = plan_harness.queries(measurement, plan_harness.values_of(made))
            for text in texts[1:]:
                self._run(text, True)
                self._run(text, False)
            found += plan_harness.compared(measurement, self._run(texts[0], True), self._run(texts[0], False))
        return found

    def _run(self, sql: str, victim: bool) -> pa.Table:
        return self._data[victim].sql(sql).to_arrow_table()


async def _introspected(path: Path) -> Catalog:
    backend = DuckDB(DuckDBBackend(str(path)))
    public = frozenset(t.name for t in policy().tables.values() if t.kind.shown)
    found = await backend.with_public_ranges(await backend.introspect(), public)
    await backend.close()
    return found


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    return Clinic(tmp_path_factory.mktemp("clinic"))


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, dict[str, Any]]:
    content = YAML(typ="safe").load((shared / "attacks" / "open.yaml").read_text())
    return {c["id"]: c for c in content["cases"] if "sql" in c}


def judged(clinic: Clinic, case: dict[str, Any]) -> str:
    """What is wrong with what becomes of a case; empty when nothing is."""
    plans: list[Plan] | None = None

    def plan() -> None:
        nonlocal plans
        with contextlib.suppress(Refusal):
            plans = clinic.plans(str(case["sql"]))

    try:
        calls(plan, MOST)
    except TooMuch:
        return "it takes too much work to plan"
    measured = [made for made in plans or () if made.measurements]
    labelled = case["id"] not in OTHERWISE
    if labelled and case["expected"] == "reject" and measured:
        return f"it is answered: {measured[0].outer}"
    if labelled and case["expected"] == "accept-and-safe" and plans is None:
        return "it is refused"
    for made in measured:
        found = clinic.problems(made)
        if found:
            return found[0]
    return ""


def test_every_case(clinic: Clinic, cases: dict[str, dict[str, Any]]) -> None:
    wrong: dict[str, str] = {}
    for name, case in cases.items():
        if found := judged(clinic, case):
            wrong[name] = f"{' '.join(str(case['sql']).split())[:120]}: {found}"
    assert not wrong, "\n" + "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_exceptions_are_needed(cases: dict[str, dict[str, Any]]) -> None:
    assert set(OTHERWISE) <= set(cases)


def test_the_same_text_gets_the_same_plan_or_refusal(clinic: Clinic, cases: dict[str, dict[str, Any]]) -> None:
    for case in cases.values():
        assert _outcome(clinic, str(case["sql"])) == _outcome(clinic, str(case["sql"]))


def _outcome(clinic: Clinic, sql: str) -> object:
    try:
        return clinic.plans(sql)
    except Refusal as refusal:
        return (refusal.sqlstate, refusal.message, refusal.position, refusal.detail, refusal.hint)
