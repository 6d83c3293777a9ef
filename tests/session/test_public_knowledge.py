"""What is public, or was released before, is used: top lists, sizes of what is declared, foreign keys, declared values in subqueries."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.worlds.skewed import DATA, SHOP
from tests.worlds.town import Town, town

pytestmark = pytest.mark.asyncio(loop_scope="module")

VISITS = """
CREATE TABLE regions (code VARCHAR PRIMARY KEY, name VARCHAR);
INSERT INTO regions VALUES ('east', 'East'), ('north', 'North'), ('south', 'South'), ('west', 'West');
CREATE TABLE visits (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, region VARCHAR NOT NULL REFERENCES regions (code), other VARCHAR);
INSERT INTO visits SELECT i, i % 2400, ['east', 'north', 'south', 'west'][1 + i % 4], CASE WHEN i % 3 = 0 THEN 'east' END FROM range(5000) AS t(i);
"""
POLICY = SHOP.replace(
    "roles:\n",
    """  regions: { public: true }
  visits:
    unit: customer
    bounds: { rows: 10, groups: 10 }
    columns: { id: key, customer: unit, region: { values: [east, north, south, west] }, other: {} }
roles:
""",
    1,
)
TOP = "SELECT category AS c__, count(*) AS n FROM purchases GROUP BY 1 ORDER BY 2 DESC LIMIT 2"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("public"), DATA + VISITS, POLICY) as made:
        yield made


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT category, sum(amount) FROM purchases WHERE category IN (SELECT c__ FROM ({TOP}) t) GROUP BY 1",
        f"SELECT p.category, sum(amount) FROM purchases p JOIN ({TOP}) t ON p.category = t.c__ GROUP BY 1",
        f"WITH t AS ({TOP}) SELECT p.category, sum(amount) FROM purchases p, t WHERE p.category = t.c__ GROUP BY 1",
        f"WITH t AS ({TOP}) SELECT p.category, sum(amount) FROM purchases p WHERE p.category IN (SELECT c__ FROM t) GROUP BY 1",
    ],
)
async def test_a_released_top_list_is_the_list_of_groups(world: Town, sql: str) -> None:
    async with world.client() as client:
        rows = await client.ask(sql)
        assert len(rows) == 2, "of five declared ones"
        assert all(total > 10_000 for _, total in rows), "those that are not on the list have nothing but noise"


async def test_no_more_distinct_values_than_are_declared(world: Town) -> None:
    """17 was told of 4, under noise much larger than 4."""
    async with world.client() as client:
        await client.ask("SET dpproxy.epsilon = 0.01")
        for year in range(1900, 1906):
            sql = (
                "SELECT count(DISTINCT region), count(DISTINCT date_trunc('year', first_day)), count(DISTINCT birth_year), "
                "count(DISTINCT first_day > '2023-06-01'), dpproxy.high(count(DISTINCT region)), "
                f"dpproxy.low(count(DISTINCT region)) FROM customers WHERE birth_year <> {year}"
            )
            ((regions, years, births, halves, high, low),) = await client.ask(sql)
            assert 0 <= regions <= 4
            assert 0 <= years <= 5, "two, and what cut weeks at both ends could add"
            assert 0 <= births <= 81
            assert 0 <= halves <= 2
            assert low <= regions
            assert high > 4, "rows may hold other values than are declared: the interval does not exclude them"


async def test_a_left_join_along_a_foreign_key_adds_no_group(world: Town) -> None:
    async with world.client() as client:
        rows = await client.ask("SELECT r.name, count(*) FROM visits v LEFT JOIN regions r ON v.region = r.code GROUP BY 1")
        assert [name for name, _ in rows] == ["East", "North", "South", "West"]
        told = await client.explain("SELECT r.name, count(*) FROM visits v LEFT JOIN regions r ON v.region = r.code GROUP BY 1")
        assert "Groups: all declared ones" in told
        rows = await client.ask("SELECT r.name, count(*) FROM visits v LEFT JOIN regions r ON v.other = r.code GROUP BY 1")
        assert {name for name, _ in rows} == {"East", None}, "a row without a match is a group where there may be one"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT d, count(*) FROM (SELECT date_trunc('month', first_day) AS d FROM customers WHERE first_day >= '2024-01-01') s GROUP BY 1",
        "WITH c AS (SELECT date_trunc('month', first_day) AS d FROM customers) SELECT d, count(*) FROM c WHERE d >= '2024-01-01' GROUP BY 1",
        "SELECT date_trunc('month', first_day::timestamp AT TIME ZONE 'UTC' AT TIME ZONE 'Etc/GMT-1'), count(*) FROM customers "
        "WHERE first_day >= '2024-01-01' GROUP BY 1",
    ],
)
async def test_declared_days_are_not_lost_on_their_way(world: Town, sql: str) -> None:
    """Twelve months are declared; only six have anybody."""
    async with world.client() as client:
        assert len(await client.ask(sql)) in (12, 13), "the last evening of the year is in the next one there"
