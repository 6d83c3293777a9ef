"""What a chosen day or instant comes as through the wire: of the type that plain SQL gives it, a day without a time of day, and near
the exact one.

The least of a column of days came as a time of day: of an instant among all seconds, though all that could be there were days.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

import duckdb
import pytest
import pytest_asyncio

from tests.worlds.skewed import DATA, SHOP
from tests.worlds.town import Town, town

pytestmark = pytest.mark.asyncio(loop_scope="module")

STAYS = """
CREATE TABLE stays AS SELECT i AS customer, DATE '2023-01-01' + CAST((i * 7919) % 365 AS INTEGER) AS night,
    TIMESTAMP '2023-01-01' + INTERVAL 1 MINUTE * ((i * 104729) % 525600) AS paid FROM range(2400) AS t(i);
"""
POLICY = SHOP.replace(
    "roles:\n",
    """  stays:
    unit: customer
    bounds: { rows: 1 }
    columns: { customer: unit, night: { range: [2023-01-01, 2023-12-31] }, paid: { range: [2023-01-01, 2023-12-31] } }
roles:
""",
    1,
)
MIDDLE = "percentile_disc(0.5) WITHIN GROUP (ORDER BY {})"
DAYS = [
    "min(night)",
    "max(night)",
    MIDDLE.format("night"),
    "min(paid::date)",
    MIDDLE.format("paid::date"),
    "max(night) FILTER (WHERE paid < '2023-07-01')",
    "max(CASE WHEN paid < '2023-07-01' THEN night END)",
    "min(coalesce(night, '2023-02-01'))",
    "greatest(max(night), min(night))",
    "min(night::timestamp)::date",
    "min(paid)::date",
]
MIDNIGHTS = [
    "min(night::timestamp)",
    MIDDLE.format("night::timestamp"),
    "max(date_trunc('day', paid))",
    "max(date_trunc('week', paid))",
    "min(date_trunc('month', night::timestamp))",
    "date_trunc('day', max(paid))",
]
INSTANTS = ["min(paid)", "max(paid)", MIDDLE.format("paid"), "greatest(max(paid), min(paid))"]
NUMBERS = {
    "max(night) - min(night)": int,
    "max(paid::date - '2023-01-01'::date)": int,
    "max(paid) - min(paid)": dt.timedelta,
    "max(paid - '2023-01-01'::timestamp)": dt.timedelta,
}
CALLS = {
    **dict.fromkeys(DAYS, dt.date),
    **dict.fromkeys((*MIDNIGHTS, *INSTANTS), dt.datetime),
    **NUMBERS,
}
FEW = dt.timedelta(20)
"""At epsilon 10 an answer is displaced by a few of 2,400 rows, of which some seven fall on each day."""
MONTHS = dt.timedelta(62)
"""Of months it is one of the next; what is below the least value is as near to it as that value is."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("times"), DATA + STAYS, POLICY) as made:
        yield made


def exact(world: Town, call: str) -> Any:
    with duckdb.connect(str(world.folder / "town.duckdb"), read_only=True) as data:
        found = data.execute(f"SELECT {call} FROM stays").fetchone()
    assert found is not None
    return found[0]


def instant(value: Any) -> dt.datetime:
    """A day as its midnight; a number of days or a duration as what is so long after a fixed one."""
    if isinstance(value, int | dt.timedelta):
        return dt.datetime(2000, 1, 1) + (value if isinstance(value, dt.timedelta) else dt.timedelta(value))
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("source", ["stays", "(SELECT night, paid FROM stays WHERE customer >= 0) AS s"])
async def test_it_is_of_its_type_and_near_the_exact_one(world: Town, call: str, source: str) -> None:
    async with world.client() as client:
        for binary in (False, True):
            cursor = await client.connection.execute(f"SELECT {call} FROM {source}", binary=binary)  # type: ignore[arg-type]
            ((found,),) = await cursor.fetchall()
            assert type(found) is CALLS[call]
            assert abs(instant(found) - instant(exact(world, call))) < (MONTHS if "month" in call else FEW)


@pytest.mark.parametrize("call", MIDNIGHTS)
async def test_what_is_made_of_days_has_no_time_of_day(world: Town, call: str) -> None:
    async with world.client() as client:
        ((found,),) = await client.ask(f"SELECT {call} FROM stays")
        assert found.time() == dt.time()
        for group, value in await client.ask(f"SELECT night > '2023-06-30', {call} FROM stays GROUP BY 1"):
            assert value.time() == dt.time(), group


@pytest.mark.parametrize("call", DAYS[:5])
async def test_its_ends_are_days_too(world: Town, call: str) -> None:
    async with world.client() as client:
        ((low, value, high),) = await client.ask(f"SELECT dpproxy.low({call}), {call}, dpproxy.high({call}) FROM stays")
        assert {type(end) for end in (low, value, high)} == {dt.date}
        assert low <= value <= high
        assert low <= exact(world, call) <= high


async def test_of_several_percentiles_each_is_a_day(world: Town) -> None:
    async with world.client() as client:
        ((found,),) = await client.ask("SELECT percentile_disc(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY night) FROM stays")
        assert {type(day) for day in found} == {dt.date}
        assert found == sorted(found)


async def test_the_day_of_an_instant_is_that_of_the_sessions_zone(world: Town) -> None:
    """Chosen among days, it is one of the days there can be; an instant keeps its time."""
    async with world.client() as client:
        await client.ask("SET TimeZone = 'Asia/Tokyo'")
        ((day, last),) = await client.ask("SELECT min(paid::date), max(date_trunc('day', paid)) FROM stays")
        assert type(day) is dt.date
        assert last.time() == dt.time()
        assert dt.date(2023, 1, 1) <= day < last.date() <= dt.date(2023, 12, 31)
