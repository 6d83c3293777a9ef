"""Real statements on Sail and on Spark: the numbers that DuckDB measures, before noise, or a refusal by name.

Long mode: all data sets on Sail and, by `scripts/spark`, on Spark itself. Shapes are those each engine reports; bounds do not
bind. DPPROXY_CORPUS_SETS names the data sets to try, separated by commas. What was found is printed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import plan_harness
import pytest
from agreement import plain_cell
from corpus_spark import loaded, taken
from generous import generous

from dpproxy.answers.plan_cache import private_names
from dpproxy.backends import spark_catalog
from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines.spark import PICK
from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend, Policy
from dpproxy.sql.statements import split
from dpproxy.sql.template import Dialect
from tests.worlds import spark_servers

POLICIES = Path(__file__).parent / "policies"
ALL = sorted(p.stem for p in POLICIES.glob("*.yaml"))
ASKED = tuple(filter(None, os.environ.get("DPPROXY_CORPUS_SETS", "").split(",")))
PICKED = "groups picked in another order"
ON_SPARK_ONLY = "not supported on Spark"


@dataclass
class Found:
    """How many statements came to which end, and what differs."""

    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Side:
    """One engine over one data set."""

    dialect: Dialect
    policy: Policy
    catalog: Catalog

    def plans(self, sql: str) -> list[Plan]:
        """Raises Refusal."""
        plan, role = planning(self.policy, self.catalog, self.dialect), self.policy.roles["analyst"]
        return [plan(s, role, {"search_path": "public"}, ()) for s in split(sql, private_names(self.policy)) if s.private]


async def _shapes(path: Path, public: frozenset[Any]) -> Catalog:
    backend = DuckDB(DuckDBBackend(str(path)))
    try:
        return await backend.with_public_ranges(await backend.introspect(), public)
    finally:
        await backend.close()


def sides(name: str, corpus: Path, session: Any, folder: Path) -> tuple[Side, Side]:
    """DuckDB and Spark, each with what it says of its tables itself."""
    source = corpus / "db" / f"{name}.duckdb"
    with mock.patch.dict(os.environ, DPPROXY_CORPUS=str(corpus / "db")):
        policy = load_file(generous(POLICIES / f"{name}.yaml", source, folder)).policy
    public = frozenset(n for n, t in policy.tables.items() if t.kind.shown)
    there = spark_catalog.introspected(session, ValueError).tables
    changed = {taken(n.name).lower(): n for n in policy.tables if taken(n.name) != n.name}  # statements keep their names
    named = {changed.get(n.name.lower(), n): t for n, t in there.items()}
    ranged = {n: spark_catalog.with_ranges(session, t) if n in public else t for n, t in named.items()}
    return Side("duckdb", policy, asyncio.run(_shapes(source, public))), Side("spark", policy, Catalog(ranged))


def compared(name: str, corpus: Path, session: Any, folder: Path) -> Found:
    loaded(session, corpus / "db" / f"{name}.duckdb", folder)
    duck, spark = sides(name, corpus, session, folder)
    found = Found()
    with duckdb.connect(str(corpus / "db" / f"{name}.duckdb"), read_only=True) as source:
        source.execute("SET TimeZone = 'UTC'")
        for entry in map(json.loads, (corpus / "open.jsonl").read_text().splitlines()):
            if entry["dataset"] == name and "duckdb" in entry["runs_on"]:
                _compare(entry, duck, spark, source, session, found)
    return found


def _compare(entry: dict[str, Any], duck: Side, spark: Side, source: Any, session: Any, found: Found) -> None:
    try:
        wanted = duck.plans(entry["sql"])
    except Refusal:
        found.ends["refused on every engine"] += 1
        return
    try:
        made = spark.plans(entry["sql"])
    except Refusal as refusal:
        found.ends["refused on Spark"] += 1
        if ON_SPARK_ONLY not in refusal.message:
            found.wrong.append(f"{entry['id']}: refused: {refusal.message}")
        return
    if not any(p.measurements for p in wanted):
        found.ends["nothing to measure"] += 1
        return
    problems = list(_differences(wanted, made, source, session))
    if problems and PICKED in problems:
        found.ends[f"{PICKED} ({entry['id']})"] += 1
        return
    found.ends["different" if problems else "equal"] += 1
    found.wrong += [f"{entry['id']}: {p}" for p in problems[:1]]


def _differences(wanted: Sequence[Plan], made: Sequence[Plan], source: Any, session: Any) -> Iterator[str]:
    """What differs; `PICKED` where a unit has more groups than it may, and each engine keeps others of them."""
    for one, two in zip(wanted, made, strict=True):
        for a, b in zip(one.measurements, two.measurements, strict=True):
            texts = (plan_harness.queries(m, plan_harness.values_of(p)) for m, p in ((a, one), (b, two)))
            for left, right in zip(*texts, strict=True):
                try:
                    says = _rows(session.sql(right).toArrow())
                except Exception as error:  # the client raises what the server names, and gRPC's own
                    yield f"{type(error).__name__}: {str(error)[:300]}"
                    return
                expected = _rows(source.execute(left).to_arrow_table())
                if says != expected and PICK[0] in right:
                    yield PICKED
                elif says != expected:
                    yield f"{list((says - expected).items())[:4]} instead of {list((expected - says).items())[:4]}"


def _rows(table: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(plain_cell, row.values())) for row in table.to_pylist())


def _judged(found: Found, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{name}: {', '.join(f'{n} {end}' for end, n in sorted(found.ends.items()))}")
    assert found.wrong == []
    assert found.ends["equal"]


@pytest.mark.long
@pytest.mark.parametrize("name", ASKED or ALL)
def test_sail_measures_what_duckdb_measures(name: str, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with spark_servers.sail() as address, spark_servers.session(address) as session:
        _judged(compared(name, shared / "corpus", session, tmp_path), name, capsys)


@pytest.mark.long
@pytest.mark.parametrize("name", ASKED or ALL)
def test_spark_measures_what_duckdb_measures(name: str, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with spark_servers.session(spark_servers.spark()) as session:
        _judged(compared(name, shared / "corpus", session, tmp_path), name, capsys)
