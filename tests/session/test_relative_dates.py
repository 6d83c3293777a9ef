"""Statements of relative dates through the wire: constants while planning, narrowed groups, free for the rest of the day."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dpproxy.plan.measure.fingerprint import MOVING
from tests.worlds.skewed import DATA, SHOP
from tests.worlds.town import Town, town

pytestmark = pytest.mark.asyncio(loop_scope="module")

TODAY = dt.datetime.now(dt.UTC).date()
FIRST, LAST = TODAY - dt.timedelta(1096), TODAY + dt.timedelta(35)
POLICY = (
    SHOP.replace("2023-01-01, 2025-12-31", f"{FIRST}, {LAST}")
    + "views:\n  recent: >-\n    SELECT * FROM purchases WHERE bought >= current_date - 20\n"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("dates"), DATA, POLICY) as made:
        yield made


async def test_declared_days_are_narrowed_and_a_reload_is_free(world: Town) -> None:
    """36 months were shown for 13, and each reload was charged."""
    sql = (
        "SELECT date_trunc('month', bought) AS month, count(*) FROM purchases "
        "WHERE bought >= date_trunc('month', now()) - interval '12 months' AND bought < date_trunc('month', now()) GROUP BY 1"
    )
    async with world.client() as first, world.client("ada") as other:
        rows = await first.ask(sql)
        assert len(rows) == 12
        spent = world.account()
        assert await first.ask(sql) == rows
        assert await other.ask(sql + " ORDER BY 1") == rows
        assert world.account() == spent
        assert any("epsilon 0" in n for n in other.notices)


async def test_both_protocols_come_to_the_same(world: Town) -> None:
    async with world.client() as client:
        sql = "SELECT bought::date AS day, count(*) FROM purchases WHERE bought >= current_date - 30 AND bought < current_date GROUP BY 1"
        rows = await client.ask(sql)
        assert len(rows) == 30
        spent = world.account()
        for _ in range(7):  # prepared by the driver after the fifth
            assert await client.ask(sql + " HAVING count(*) > %s", -(10**9)) == rows
        assert world.account() == spent


async def test_a_transaction_has_one_time(world: Town) -> None:
    sql = "SELECT count(*) FROM purchases WHERE bought >= now() - interval '90 days'"
    async with world.client() as client:
        await client.ask("BEGIN")
        rows = await client.ask(sql)
        spent = world.account()
        assert any(MOVING in n for n in client.notices)
        assert await client.ask(sql) == rows
        assert world.account() == spent
        await client.ask("COMMIT")
        await client.ask(sql)
        assert world.account() != spent, "another time, another measurement: as it was said"
        assert MOVING in await client.explain(sql)


async def test_a_view_of_relative_dates_is_narrowed_too(world: Town) -> None:
    """From the day on which it was asked, which may have begun meanwhile, up to the end of what is declared."""
    async with world.client() as client:
        before = dt.datetime.now(dt.UTC).date()
        rows = await client.ask("SELECT bought::date AS day, count(*) FROM recent GROUP BY 1")
        firsts = {day - dt.timedelta(20) for day in (before, dt.datetime.now(dt.UTC).date())}
        days = sorted(day for day, _ in rows)
        assert days[0] in firsts
        assert days == [days[0] + dt.timedelta(i) for i in range((LAST - days[0]).days + 1)]


async def test_the_day_is_that_of_the_sessions_zone(world: Town) -> None:
    async with world.client() as client:
        for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
            await client.ask(f"SET TimeZone = '{zone}'")
            ((today,),) = await client.ask("SELECT current_date")
            rows = await client.ask(
                "SELECT bought::date AS day, count(*) FROM purchases WHERE bought::date = current_date GROUP BY 1"
            )
            assert [day for day, _ in rows] == [today]
