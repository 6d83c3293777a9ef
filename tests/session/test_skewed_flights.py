"""Ordinary questions over flights of which some were cancelled, some have no plane and some a carrier nobody declared: no row
vanishes without a word, equal questions are one measurement, and what is charged is told the same everywhere.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import duckdb
import psycopg
import pytest
import pytest_asyncio

from tests.worlds.skewed import DATA, FLIGHTS
from tests.worlds.town import Town, town

pytestmark = pytest.mark.asyncio(loop_scope="module")

CAREFUL = """  careful:
    min_units: 60
    budget: { epsilon: 100000, delta: 1e-2, every: month }
    query: { epsilon: 10, max_epsilon: 100, delta: 1e-6 }
users:
  cy: { role: careful, password: "VERIFIER" }
"""
POLICY = FLIGHTS.replace("users:\n", CAREFUL, 1).replace("      weekend: {}\n", "      weekend: {}\n      gate: {}\n")
GATES = """
ALTER TABLE flights ADD PRIMARY KEY (id);
ALTER TABLE flights ADD COLUMN gate VARCHAR;
UPDATE flights SET gate = 'G' || id % 5;
"""
STATUS = "CASE WHEN dep_delay > 15 THEN 'late' WHEN dep_delay IS NULL THEN 'cancelled' ELSE 'ontime' END"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("flights"), DATA + GATES, POLICY) as made:
        yield made


def exact(world: Town, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(world.folder / "town.duckdb"), read_only=True) as data:
        return data.execute(sql).fetchall()


@pytest.mark.parametrize("key", [STATUS, "dep_delay IS NULL", "CASE WHEN carrier IN ('AA', 'B6') THEN carrier ELSE 'other' END"])
async def test_rows_of_null_and_of_anything_else_are_groups(world: Town, key: str) -> None:
    """No row was `cancelled`, and of `year IS NULL` there was only `false`."""
    sql = f"SELECT {key}, count(*) FROM flights WHERE tailnum IS NOT NULL GROUP BY 1"
    true = dict(exact(world, sql))
    async with world.client() as client:
        shown = dict(await client.ask(sql))
        assert shown.keys() == true.keys()
        assert all(shown[group] == pytest.approx(true[group], abs=60) for group in true)
        assert "rows whose" not in client.notices[-1]


async def test_a_plane_without_a_year_is_counted(world: Town) -> None:
    async with world.client() as client:
        shown = dict(await client.ask("SELECT year IS NULL, count(*) FROM planes GROUP BY 1"))
        assert shown == {False: pytest.approx(1434, abs=30), True: pytest.approx(66, abs=30)}


async def test_rows_of_nobody_and_rows_that_are_not_declared_are_told(world: Town) -> None:
    """In the notice, in EXPLAIN and in `dpproxy.tables`, with the setting; counts are told to nobody who asks."""
    nobody, others = (
        "rows of flights whose tailnum is NULL",
        "rows whose carrier is NULL (`nulls`) or not one of its declared values (`values`)",
    )
    sql = "SELECT carrier, count(*) FROM flights GROUP BY 1"
    async with world.client() as client:
        assert [carrier for carrier, _ in await client.ask(sql)] == ["AA", "B6", "DL", "UA"]
        told = client.notices[-1].partition("not counted, if there are any: ")[2]
        explained = await client.explain(sql)
        ((table,),) = await client.ask(
            "SELECT t::text FROM dpproxy.tables t WHERE t::text LIKE '%flights%' AND t::text LIKE '%tailnum%'"
        )
        assert nobody in told
        assert others in told
        assert nobody in explained
        assert others in explained
        assert "NULL" in table
        assert "119" not in told
        assert "120" not in told + table


@pytest.mark.parametrize("total", ["sum(1)", "count(1)", "count(id)", "count(DISTINCT id)"])
async def test_other_names_of_a_count_are_the_count(world: Town, total: str) -> None:
    """`SUM(1)` was measured apart from `count(*)`."""
    async with world.client() as client:
        for row in await client.ask(f"SELECT carrier, count(*), {total} FROM flights GROUP BY 1"):
            assert row[1] == row[2]
        spent = world.account()
        whole = await client.ask("SELECT carrier, count(*) FROM flights GROUP BY 1")
        assert whole == await client.ask(f"SELECT carrier, {total} FROM flights GROUP BY 1")
        assert world.spent("role", "analyst") - spent["analyst"] <= 10


async def test_a_role_of_more_careful_thresholds_shares_what_is_declared(world: Town) -> None:
    """A role with another `min_units` measured again where no group is held to it."""
    sql = "SELECT carrier, avg(dep_delay) FROM flights GROUP BY 1"
    async with world.client() as first, world.client("cy") as other:
        rows = await first.ask(sql)
        spent = world.spent("dataset", "town")
        assert await other.ask(sql) == rows
        assert world.spent("dataset", "town") == spent


async def test_a_refused_accuracy_says_what_it_has_charged(world: Town) -> None:
    """What looks how much an accuracy needs is charged: the refusal has to say so."""
    async with world.client() as client:
        await client.ask("SET dpproxy.accuracy = '0.00001%'")
        before = world.spent("role", "analyst")
        with pytest.raises(psycopg.Error) as refused:
            await client.ask("SELECT weekend, count(*) FROM flights WHERE dep_delay > 3 GROUP BY 1")
        charged = world.spent("role", "analyst") - before
        said = str(refused.value)
        if charged:
            assert f"epsilon {charged.normalize():f}" in said
        else:
            assert "charged" not in said
        await client.ask("SET dpproxy.accuracy = '0.00001%'")
        with pytest.raises(psycopg.Error):
            await client.ask("SELECT stddev(dep_delay) FROM flights")
        assert world.spent("role", "analyst") - before == charged, "what is refused before it is looked at costs nothing"


async def test_what_was_charged_is_the_same_everywhere(world: Town) -> None:
    """In the notice, in `dpproxy.answers`, in `dpproxy.budget` and for operators: delta was told in three ways."""
    async with world.client("cy") as client:
        await client.ask("SET dpproxy.epsilon = 7")
        await client.ask("SELECT gate, count(*) FROM flights GROUP BY 1")
        told = client.notices[-1]
        charged = re.match(
            r"charged epsilon 7 and delta ([0-9.]+); role careful has epsilon ([0-9.]+) and delta ([0-9.]+) left", told
        )
        assert charged is not None
        ((answer,),) = await client.ask("SELECT delta FROM dpproxy.answers ORDER BY asked DESC LIMIT 1")
        assert answer == Decimal(charged[1])
        ((epsilon_left, delta_left, delta_spent),) = await client.ask(
            "SELECT epsilon_left, delta_left, delta_spent FROM dpproxy.budget WHERE scope = 'role'"
        )
    assert float(charged[2]) == pytest.approx(float(epsilon_left), abs=1)
    assert float(charged[3]) == pytest.approx(float(delta_left), rel=0.01)
    command = [sys.executable, "-m", "dpproxy", "budget", str(world.folder / "town.yaml"), "--state", str(world.folder)]
    shown = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    (line,) = (line.split("\t") for line in shown.stdout.splitlines() if "\tcareful\t" in line)
    assert [Decimal(cell) for cell in (line[6], line[7], line[9])] == [epsilon_left, delta_spent, delta_left]
