"""Through the wire: `dpproxy.accuracy`, `dpproxy.other`, the largest groups, and what notices and EXPLAIN say of errors."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from tests.worlds.town import Town, town

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHOPS = "SELECT shop, count(*) FROM visits GROUP BY shop"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("told")) as made:
        yield made


async def test_the_least_epsilon_for_an_accuracy(world: Town) -> None:
    """250 persons a region: noise of scale 1 / epsilon is a relative error of 1.41 / (250 epsilon)."""
    async with world.client() as ada:
        await ada.ask("SET dpproxy.accuracy = '0.2%'")
        counts = await ada.ask("SELECT region, count(*) FROM people WHERE income >= 0 GROUP BY region")
        assert all(abs(n - 250) < 10 for _, n in counts)
        charged = float(ada.notices[-1].split("charged epsilon ")[1].split(";")[0])
        assert 2 < charged < 4
        assert "typical error 0." in ada.notices[-1]
        assert "epsilon 0.2 before, to find what accuracy 0.2% needs" in ada.notices[-1]
        await ada.ask("SET dpproxy.accuracy = '30%'")
        await ada.ask("SELECT sex, avg(income), sum(income) FROM people WHERE income >= 1 GROUP BY sex")
        assert ada.notices[-1].startswith("charged epsilon 0.2; ")
        await ada.ask("SET dpproxy.accuracy = '0.001%'")
        with pytest.raises(psycopg.Error, match=r"accuracy 0.001% needs about epsilon .*; a query may cost 10"):
            await ada.ask("SELECT region, count(*) FROM people WHERE income >= 2 GROUP BY region")
        before = world.account()
        with pytest.raises(psycopg.Error, match="counts, sums and averages alone"):
            await ada.ask("SELECT stddev(income) FROM people")
        assert world.account() == before


async def test_what_is_in_no_released_group(world: Town) -> None:
    """Three shops of 666 visits are released; with a filter that leaves few visits to each, all are in the other row."""
    async with world.client() as ada:
        await ada.ask("SET dpproxy.other = on")
        await ada.ask("SET dpproxy.epsilon = 10")
        shops = dict(await ada.ask(f"{SHOPS} ORDER BY shop"))
        assert set(shops) == {"shop 0", "shop 1", "shop 2", None}
        assert shops[None] < 60
        few = dict(await ada.ask("SELECT shop, count(*) FROM visits WHERE visit < 9 GROUP BY shop"))
        assert set(few) == {None}
        assert few[None] == pytest.approx(6, abs=60)


async def test_the_largest_groups_alone(world: Town) -> None:
    async with world.client() as ada:
        top = await ada.ask(f"{SHOPS} ORDER BY count(*) DESC LIMIT 1")
        assert len(top) == 1
        assert top[0][0] in ("shop 0", "shop 1", "shop 2")
        assert top[0][1] == pytest.approx(666, abs=60)
        told = "\n".join(line for (line,) in await ada.ask(f"EXPLAIN {SHOPS} ORDER BY count(*) DESC LIMIT 1"))
        assert "chosen by the exponential mechanism" in told
        assert "Expected typical error: " in told


async def test_how_many_the_bounds_cut_is_said_where_it_is_measured(world: Town) -> None:
    """Nobody here has more than three visits; said again, in the same words, of an answer that is shown again."""
    async with world.client("fay") as fay:
        sql = "SELECT sum(paid), count(*) FROM visits"
        told = "\n".join(line for (line,) in await fay.ask(f"EXPLAIN {sql}"))
        assert "persons that bounds cut: discrete Laplace" in told
        await fay.ask(sql)
        assert fay.notices[-1].startswith("charged epsilon 10;")
        said = re.search(r"bounds cut about (0|0\.\d+) % of persons \(`rows_per_group`: 3 rows of a person\)", fay.notices[-1])
        assert said is not None
        await fay.ask(f"{sql} LIMIT 5")
        assert fay.notices[-1].startswith("reused, epsilon 0;")
        assert said[0] in fay.notices[-1]


async def test_people_of_more_rows_than_the_bound_are_scaled_back_up(world: Town) -> None:
    """900 persons have 2 trips, 100 have 40: the bound of 4 rows would leave 2,200 of 5,800."""
    async with world.client("cy") as cy:
        await cy.ask("SET dpproxy.epsilon = 10")
        told = "dpproxy.low(count(*)), dpproxy.high(count(*)), dpproxy.stderr(count(*))"
        ((count, low, high, error),) = await cy.ask(f"SELECT count(*), {told} FROM trips")
        assert count == pytest.approx(5800, abs=12 * error)
        assert low <= min(count, 5800)
        assert count - low < 8 * error < 800
        assert high is None  # whoever has still more trips, noise hides
        lines = await cy.ask(f"SELECT line, count(*), {told} FROM trips GROUP BY line ORDER BY line")
        for line, truth in enumerate((1933, 1934, 1933)):
            _, count, low, high, error = lines[line]
            assert count == pytest.approx(truth, abs=6 * error)
            assert low <= count
            assert high is None
        ratio = await cy.ask("SELECT count(*) / count(DISTINCT person), dpproxy.low(count(*) * 2 + 1) FROM trips")
        assert 5800 < ratio[0][1] < 2 * 5800
        levels = await cy.ask("SELECT line, count(*), dpproxy.low(count(*)) FROM trips GROUP BY ROLLUP (line) ORDER BY line")
        assert len(levels) == 4
        assert levels[3][2] <= levels[3][1]
        assert levels[3][1] == pytest.approx(5800, rel=0.25)


async def test_a_percentile_has_an_interval(world: Town) -> None:
    """At the charge of the percentile alone; shown again for nothing, and by group."""
    middle = "percentile_cont(0.5) WITHIN GROUP (ORDER BY income)"
    ends = f"{middle}, dpproxy.low({middle}), dpproxy.high({middle})"
    async with world.client("cy") as cy:
        await cy.ask("SET dpproxy.epsilon = 5")
        ((value, low, high),) = await cy.ask(f"SELECT {ends} FROM people")
        assert cy.notices[-1].startswith("charged epsilon 5;")
        assert low <= value <= high
        assert 0 < high - low < 2000
        assert await cy.ask(f"SELECT {ends} FROM people ORDER BY 1") == [(value, low, high)]
        assert cy.notices[-1].startswith("reused, epsilon 0;")
        await cy.ask("SET dpproxy.confidence = 0.8")
        ((_, nearer_low, nearer_high),) = await cy.ask(f"SELECT {ends} FROM people")
        assert cy.notices[-1].startswith("charged")
        assert nearer_low <= nearer_high
        groups = await cy.ask(f"SELECT sex, {ends} FROM people GROUP BY sex ORDER BY sex")
        assert all(low <= value <= high for _, value, low, high in groups)
        with pytest.raises(psycopg.Error, match=r"stderr\(\) is not available for percentile_cont\(\)"):
            await cy.ask(f"SELECT dpproxy.stderr({middle}) FROM people")


async def test_notices_say_what_may_be_cut_and_can_be_turned_off(world: Town) -> None:
    async with world.client() as ada:
        await ada.ask("SELECT sum(paid) FROM visits")
        assert "typical error" in ada.notices[-1]
        cut = "what is beyond these bounds may be missing: `rows_per_group`: 3 rows of a person, `range` of paid"
        missing = "not counted, if there are any: rows of visits whose person is NULL (they belong to no person)"
        assert ada.notices[-1].endswith(f"{cut}; {missing}")
        await ada.ask("SET dpproxy.notices = off")
        await ada.ask("SELECT sum(paid), count(*) FROM visits")
        assert ada.notices == []
