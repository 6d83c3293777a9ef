"""Ordinary questions over a skewed shop: what is stated of errors holds, what is hidden is as small as is said, and what is public
is used: top lists, sizes of what is declared, foreign keys, declared values in subqueries, totals beside their parts."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import duckdb
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


AGGREGATES = {
    "purchases WHERE category <> 'vinyl' GROUP BY category": (
        "count(*)",
        "sum(amount)",
        "avg(amount)",
        "stddev(amount)",
        "count(DISTINCT customer)",
        "percentile_cont(0.95) WITHIN GROUP (ORDER BY amount)",
    ),
    "customers GROUP BY region": (
        "regr_slope(birth_year, extract(month FROM first_day))",
        "regr_r2(birth_year, extract(month FROM first_day))",
        "avg(birth_year)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY birth_year)",
    ),
}
RETENTION = """
WITH first AS (SELECT customer, date_trunc('month', min(bought)) AS cohort FROM purchases GROUP BY 1)
SELECT f.cohort, date_trunc('month', p.bought), count(DISTINCT p.customer)
FROM purchases AS p JOIN first AS f ON f.customer = p.customer GROUP BY 1, 2
"""


def exact(world: Town, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(world.folder / "town.duckdb"), read_only=True) as data:
        return data.execute(sql).fetchall()


@pytest.mark.parametrize("source", AGGREGATES)
async def test_every_aggregate_has_an_interval_that_holds(world: Town, source: str) -> None:
    """Intervals of counts and averages did not hold the truth, slopes had none, and r2 was 1."""
    key, calls = source.split()[-1], AGGREGATES[source]
    told = ", ".join(f"{call}, dpproxy.low({call}), dpproxy.high({call})" for call in calls)
    true = {row[0]: row[1:] for row in exact(world, f"SELECT {key}, {', '.join(calls)} FROM {source}")}
    missed, seen = [], 0
    async with world.client() as client:
        for group, *cells in await client.ask(f"SELECT {key}, {told} FROM {source}"):
            for number, truth in enumerate(map(float, true[group])):
                value, low, high = cells[3 * number : 3 * number + 3]
                assert value is not None
                assert low is not None or high is not None
                seen += 1
                if not (low is None or low <= truth) or not (high is None or truth <= high):
                    missed.append((group, calls[number], value, low, high, truth))
    assert seen == len(calls) * len(true)
    assert len(missed) <= 4, missed  # of 16 to 30, each told at 98.75 %: more are seen once in 10,000 runs


async def test_ends_of_what_is_chosen_hold(world: Town) -> None:
    """Of min, max and the 95th percentile nothing was told; 167 was answered for 96."""
    calls = ("min(amount)", "max(amount)", "percentile_cont(0.95) WITHIN GROUP (ORDER BY amount)")
    told = ", ".join(f"dpproxy.low({call}), {call}, dpproxy.high({call})" for call in calls)
    (true,) = exact(world, f"SELECT {', '.join(calls)} FROM purchases")
    async with world.client() as client:
        ((*cells,),) = await client.ask(f"SELECT {told} FROM purchases")
        for number, truth in enumerate(true):
            low, value, high = cells[3 * number : 3 * number + 3]
            assert low <= value <= high
            assert low <= truth <= high


async def test_who_buys_more_often_than_the_bound_says_is_in_a_group(world: Town) -> None:
    """`rows: 10` is no domain of how often somebody bought: tens of 0 and 1 alone were shown, and 54 customers with 30 in none."""
    tens = (
        "SELECT least(9, floor(n / 10)) AS tens, count(*) FROM "
        "(SELECT customer, count(*) AS n FROM purchases GROUP BY 1) AS c WHERE customer IS NOT NULL GROUP BY 1"
    )
    true = dict(exact(world, tens.replace("n / 10", "n // 10")))
    async with world.client() as client:
        shown = dict(await client.ask(tens))
        few = re.search(r"of fewer than about (\d+) customers are not shown", client.notices[-1])
    assert few is not None
    assert {number for number, customers in true.items() if customers > 2 * int(few[1])} <= set(shown)
    assert all(customers == pytest.approx(true[number], abs=6) for number, customers in shown.items())
    assert max(shown) > 1


async def test_a_sum_is_nearly_as_near_beside_a_distinct_count(world: Town) -> None:
    """7.8 % alone, 67 % beside `count(DISTINCT id)`: most of epsilon went there."""
    error = "dpproxy.stderr(sum(amount))"
    async with world.client() as client:
        ((alone,),) = await client.ask(f"SELECT {error} FROM purchases WHERE category = 'books'")
        beside = await client.ask(f"SELECT {error}, count(DISTINCT id) FROM purchases WHERE category = 'books'")
        assert beside[0][0] < 2.5 * alone


async def test_hidden_cells_are_as_small_as_is_said(world: Town) -> None:
    """Cells of 964, 810 and 736 customers were not shown, as groups of few customers."""
    async with world.client() as client:
        shown = {(cohort, month): number for cohort, month, number in await client.ask(RETENTION)}
        said = re.search(r"of fewer than about (\d+) customers .* where each is in 4, it takes about (\d+)", client.notices[-1])
    assert said is not None
    few, several = map(int, said.groups())
    true = {(cohort, month): number for cohort, month, number in exact(world, RETENTION)}
    assert 10 < few < several < 100
    assert max(number for cell, number in true.items() if cell not in shown) < several
    assert {cell for cell, number in true.items() if number > several} <= set(shown)
    assert len(shown) >= 18, "the first month of each cohort"


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


@pytest.mark.parametrize(
    "total", ["SELECT count(*) FROM {}", "SELECT sum(n) FROM (SELECT birth_year < %s, count(*) AS n FROM {} GROUP BY 1) b"]
)
async def test_a_total_beside_its_parts_is_their_sum(world: Town, total: str) -> None:
    """Each is measured by itself."""
    where = "customers WHERE region IN ('east', 'north', 'south', 'west') AND birth_year BETWEEN 1950 AND 2004"
    sql = f"SELECT region, count(*), ({total.format(where)}) FROM {where} GROUP BY region"
    async with world.client() as client:
        await client.ask("SET dpproxy.epsilon = 0.3")
        rows = await client.ask(sql, *([1980] if "%s" in sql else []))
        assert [region for region, _, _ in rows] == ["east", "north", "south", "west"]
        assert {whole for _, _, whole in rows} == {sum(part for _, part, _ in rows)}
        if "%s" not in sql:
            assert "adjusted with other measurements of the statement" in await client.explain(sql)


async def test_a_total_is_not_averaged_with_the_parts_that_it_was_added_up_from(world: Town) -> None:
    """Stored parts answer the total when it is asked alone; beside them it is a measurement of its own."""
    where = "customers WHERE region IN ('east', 'north', 'south', 'west') AND birth_year BETWEEN 1951 AND 2003"
    parts, total = f"SELECT region, count(*) FROM {where} GROUP BY region", f"SELECT count(*) FROM {where}"
    async with world.client() as client:
        await client.ask("SET dpproxy.reuse = derive")
        await client.ask("SET dpproxy.epsilon = 0.9")
        await client.ask(parts)
        await client.ask("SET dpproxy.epsilon = 0.3")
        await client.ask(total)
        assert client.notices[-1].startswith("reused, epsilon 0;")
        await client.ask(f"SELECT region, count(*), ({total}) FROM {where} GROUP BY region")
        assert re.match(r"charged epsilon 0\.\d+ \(1 of 2 measurements reused\)", client.notices[-1])


async def test_totals_of_a_rollup_count_those_who_are_in_no_group(world: Town) -> None:
    """142 of 2,400 have no year of birth: they are a cell that is measured, and not shown."""
    async with world.client() as client:
        rows = await client.ask("SELECT birth_year, grouping(birth_year), count(*) FROM customers GROUP BY ROLLUP (birth_year)")
        parts, (whole,) = {year: n for year, above, n in rows if not above}, [n for _, above, n in rows if above]
        assert sorted(parts) == list(range(1930, 2011))
        assert whole == pytest.approx(2400, abs=30)
        assert whole - sum(parts.values()) == pytest.approx(142, abs=30)
        assert "rows whose birth_year is NULL (`nulls`) or outside its declared `range`" in client.notices[-1]
        assert "typical error 0." in client.notices[-1]


async def test_no_more_distinct_values_than_are_declared(world: Town) -> None:
    """17 was told of 4, under noise much larger than 4."""
    async with world.client() as client:
        await client.ask("SET dpproxy.epsilon = 0.01")
        ends = []
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
            ends.append(high)
        assert max(ends) > 4, (
            "rows may hold other values than are declared: an interval excludes them only by a draw far below (2.5 %)"
        )


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
