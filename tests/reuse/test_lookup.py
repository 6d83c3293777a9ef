"""Stored answers through the wire: who pays for what, and that the noise is the same.

Each test asks about another range of ages of its own (`mine`), so that no test finds another's answers.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal

import psycopg
import pytest
import pytest_asyncio

from dpproxy.policy.problems import PolicyError
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.reuse.data_epoch import Refreshed
from dpproxy.reuse.lookup import AnswerLookup, RecentAnswers
from dpproxy.reuse.matching import Spell, SpelledValues
from dpproxy.reuse.store import AnswerStore
from tests.worlds.town import Town, town

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = itertools.count(1)


def mine() -> str:
    """A condition that no other test has; nearly all persons fulfil it."""
    return f"income <> {next(_numbers)}"


def sums(where: str) -> str:
    """Noise of scale 5000 on whole numbers: equal answers are the same release."""
    return f"SELECT region, sum(income) FROM people WHERE {where} GROUP BY region"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("town")) as made:
        yield made


@pytest.fixture(autouse=True)
def quiet(world: Town) -> None:
    world.backend.asked.clear()
    world.backend.before = None


async def test_other_words_cost_nothing_and_have_the_same_noise(world: Town) -> None:
    where = mine()
    async with world.client() as ada, world.client("bob") as bob:
        first = await ada.ask(sums(where))
        assert ada.notices[0].startswith("charged epsilon 1; ")
        before, asked = world.account(), len(world.backend.asked)
        assert await ada.ask(sums(where)) == first
        assert ada.notices[0].startswith("reused, epsilon 0; role analyst has epsilon ")
        assert (
            await bob.ask(f"SELECT p.region AS r, sum(p.income) AS s FROM people p WHERE 1 = 1 AND {where} GROUP BY 1") == first
        )
        assert (
            await bob.ask(f"WITH x AS (SELECT * FROM people WHERE {where}) SELECT region, sum(income) FROM x GROUP BY 1") == first
        )
        assert await bob.ask(f"{sums(where)} ORDER BY 2 DESC LIMIT 2") == sorted(sorted(first, key=lambda r: -r[1])[:2])
        assert await bob.ask(f"{sums(where)} HAVING sum(income) > 1e9") == []
        ranked = await bob.ask(f"SELECT region, rank() OVER (ORDER BY sum(income)) FROM people WHERE {where} GROUP BY 1")
        assert [r for r, _ in sorted(ranked, key=lambda r: r[1])] == [r for r, _ in sorted(first, key=lambda r: r[1])]
        assert (
            await bob.ask("SELECT region, sum(income) FROM people WHERE income <> %s GROUP BY 1", int(where.split()[-1])) == first
        )
        assert await bob.ask(f"SELECT * FROM ({sums(where)}) AS t") == first
        assert (world.account(), len(world.backend.asked)) == (before, asked)


async def test_every_way_to_ask_reuses(world: Town) -> None:
    sql = sums(mine())
    async with world.client() as ada:
        first = await ada.ask(sql)
        before = world.spent()
        async with ada.connection.cursor() as cursor, cursor.copy(f"COPY ({sql}) TO STDOUT") as copy:  # type: ignore[arg-type]
            copied = sorted([(r, int(n)) async for r, n in copy.rows()])
        await ada.ask(f"BEGIN; DECLARE c CURSOR FOR {sql}")
        fetched = await ada.ask("FETCH ALL FROM c")
        await ada.ask("COMMIT")
        for _ in range(3):
            prepared = await ada.connection.execute(sql, prepare=True)  # type: ignore[arg-type]
            assert sorted(await prepared.fetchall()) == first
        assert copied == fetched == first
        assert world.spent() == before


async def test_another_role_gets_the_same_noise_for_its_own_account(world: Town) -> None:
    sql = sums(mine())
    async with world.client() as ada, world.client("cy") as cy:
        first = await ada.ask(sql)
        before, asked = world.account(), len(world.backend.asked)
        told = await cy.explain(sql)
        assert "nothing stored answers this" in told
        assert "Charge now: epsilon 1" in told
        assert await cy.ask(sql) == first
        assert cy.notices[0].startswith("charged epsilon 1; role other has epsilon "), "as if it had been measured"
        assert world.account() == before | {"other": before["other"] + 1}
        newest = (await cy.ask("SELECT epsilon, measurements, reused FROM dpproxy.answers ORDER BY asked DESC LIMIT 1"))[0]
        assert newest == (Decimal(1), 1, False)
        assert await cy.ask(sql) == first
        assert cy.notices[0].startswith("reused, epsilon 0; ")
        assert world.account() == before | {"other": before["other"] + 1}
        assert len(world.backend.asked) == asked
        assert (await cy.ask("SELECT reused FROM dpproxy.answers ORDER BY asked DESC LIMIT 1"))[0] == (True,)


async def test_nobody_pays_more_than_asked(world: Town) -> None:
    """The frugal role asks at half the price: what another paid more for is not pressed on it."""
    sql = sums(mine())
    async with world.client() as ada, world.client("dee") as dee:
        first = await ada.ask(sql)
        before = world.account()
        assert await dee.ask(sql) != first
        half = Decimal("0.5")
        assert world.account() == before | {"frugal": before["frugal"] + half, "all": before["all"] + half}


async def test_at_least_as_accurate(world: Town) -> None:
    sql = sums(mine())
    async with world.client() as ada:
        await ada.ask("SET dpproxy.epsilon = 0.5")
        rough = await ada.ask(sql)
        await ada.ask("SET dpproxy.epsilon = 2")
        fine = await ada.ask(sql)
        assert fine != rough
        before = world.spent()
        await ada.ask("SET dpproxy.epsilon = 1")
        assert await ada.ask(sql) == fine
        assert world.spent() == before


async def test_only_what_is_missing_is_charged(world: Town) -> None:
    where = mine()
    one, two = (
        f"SELECT sum(income) FROM people WHERE {where}",
        f"SELECT sum(paid) FROM visits JOIN people ON id = person WHERE {where}",
    )
    async with world.client() as ada:
        ((first,),) = await ada.ask(one)
        before, asked = world.account(), len(world.backend.asked)
        told = await ada.explain(f"SELECT ({one}), ({two})")
        ((again, fresh),) = await ada.ask(f"SELECT ({one}), ({two})")
        assert again == first
        cost = world.spent() - before["analyst"]
        assert 0 < cost < 1
        assert world.account() == before | {"analyst": before["analyst"] + cost, "all": before["all"] + cost}
        assert f"charged epsilon {cost.normalize()} (1 of 2 measurements reused)" in ada.notices[0]
        assert "measurement 1 as released at" in told
        assert f"Charge now: epsilon {cost.normalize()}" in told
        assert len(world.backend.asked) == asked + 1
        assert await ada.ask(f"SELECT ({one}), ({two})") == [(first, fresh)]
        assert world.spent() - before["analyst"] == cost


async def test_staged_measurements(world: Town) -> None:
    """The inner answer decides what the outer one is: both are found again, by the same role and by another."""
    where = mine()
    inner = f"SELECT avg(income) FROM people WHERE {where}"
    sql = f"SELECT region, sum(income) FROM people WHERE {where} AND income > ({inner}) GROUP BY 1"
    async with world.client() as ada, world.client("cy") as cy:
        first = await ada.ask(sql)
        before, asked = world.account(), len(world.backend.asked)
        assert await ada.ask(sql) == first
        assert world.account() == before
        told = await ada.explain(sql)
        assert told.count("as released at") == 2
        assert "Charge now: epsilon 0" in told
        assert await cy.ask(sql) == first
        assert world.account() == before | {"other": before["other"] + 1}
        assert await cy.ask(sql) == first
        assert world.account() == before | {"other": before["other"] + 1}
        assert len(world.backend.asked) == asked


async def test_a_stored_inner_answer_leaves_the_outer_to_be_measured(world: Town) -> None:
    where = mine()
    inner = f"SELECT avg(income) FROM people WHERE {where}"
    async with world.client() as ada:
        await ada.ask(inner)
        before, asked = world.spent(), len(world.backend.asked)
        await ada.ask(f"SELECT region, sum(income) FROM people WHERE {where} AND income > ({inner}) GROUP BY 1")
        assert 0 < world.spent() - before < 1
        assert len(world.backend.asked) == asked + 1


async def test_off_asks_anew_and_keeps_what_it_gets(world: Town) -> None:
    sql = sums(mine())
    async with world.client() as ada, world.client("bob") as bob:
        first = await ada.ask(sql)
        await ada.ask("SET dpproxy.reuse = off")
        before = world.spent()
        second = await ada.ask(sql)
        assert second != first
        assert world.spent() - before == 1
        assert "Reuse: off" in await ada.explain(sql)
        assert await bob.ask(sql) == second, "the latest"
        await ada.ask("SET dpproxy.reuse = sometimes")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="exact, derive, off"):
            await ada.ask(sql)
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            await ada.explain(sql)


async def test_undeclared_groups_come_back_as_they_were(world: Town) -> None:
    where = mine()
    sql = f"SELECT shop, count(*), sum(paid) FROM visits JOIN people ON id = person WHERE {where} GROUP BY shop"
    async with world.client() as ada, world.client("cy") as cy:
        await ada.ask("SET dpproxy.epsilon = 10")
        await cy.ask("SET dpproxy.epsilon = 10")
        first, before = await ada.ask(sql), world.account()
        assert first
        assert await ada.ask(sql) == first
        assert world.account() == before
        assert await cy.ask(sql) == first
        assert world.account() == before | {"other": before["other"] + 10}


async def test_askers_at_once_make_it_once(world: Town) -> None:
    """30 sessions of two roles: one measurement; each role's account once."""
    sql, before = sums(mine()), world.account()

    async def slow() -> None:
        await asyncio.sleep(0.2)

    world.backend.before = slow

    async def one(user: str) -> object:
        async with world.client(user) as client:
            return await client.ask(sql)

    answers = await asyncio.gather(*(one(("ada", "bob", "cy")[i % 3]) for i in range(30)))
    assert all(a == answers[0] for a in answers)
    assert len(world.backend.asked) == 1
    assert world.account() == before | {r: before[r] + 1 for r in ("analyst", "other", "all")}


async def test_statements_that_share_parts_do_not_wait_for_each_other_forever(world: Town) -> None:
    where = mine()
    parts = [f"(SELECT sum(income) FROM people WHERE {where} AND sex = '{s}')" for s in "FM"]

    async def one(i: int) -> object:
        async with world.client() as client:
            found = await client.ask(f"SELECT {', '.join(parts if i % 2 else parts[::-1])}")
            return found[0] if i % 2 else found[0][::-1]

    answers = await asyncio.wait_for(asyncio.gather(*(one(i) for i in range(12))), 300)
    assert len(set(answers)) == 1
    assert len(world.backend.asked) == 2


async def test_who_waits_gets_what_the_first_paid_for_and_left(world: Town) -> None:
    sql, before = sums(mine()), world.spent()
    started, gate = asyncio.Event(), asyncio.Event()

    async def stuck() -> None:
        started.set()
        await gate.wait()

    world.backend.before = stuck
    async with world.client() as ada, world.client("bob") as bob:
        first = asyncio.ensure_future(ada.ask(sql))
        await asyncio.wait_for(started.wait(), 300)
        second = asyncio.ensure_future(bob.ask(sql))
        await ada.connection.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            await first
        assert not second.done()
        gate.set()
        assert len(await asyncio.wait_for(second, 300)) == 4
        assert len(world.backend.asked) == 1
        assert world.spent() - before == 1


async def test_who_waits_may_be_cancelled(world: Town) -> None:
    sql, gate, started = sums(mine()), asyncio.Event(), asyncio.Event()

    async def stuck() -> None:
        started.set()
        await gate.wait()

    world.backend.before = stuck
    async with world.client() as ada, world.client("bob") as bob:
        first = asyncio.ensure_future(ada.ask(sql))
        await asyncio.wait_for(started.wait(), 300)
        before = world.spent()
        second = asyncio.ensure_future(bob.ask(sql))
        await asyncio.sleep(0.1)
        await bob.connection.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            await asyncio.wait_for(second, 300)
        assert world.spent() == before
        gate.set()
        answer = await first
        assert await bob.ask(sql) == answer


async def test_what_failed_is_not_stored(world: Town) -> None:
    sql, before = sums(mine()), world.spent()

    async def broken() -> None:
        raise RuntimeError("secret")

    world.backend.before = broken
    async with world.client() as ada:
        with pytest.raises(psycopg.errors.SystemError):
            await ada.ask(sql)
        world.backend.before = None
        assert len(await ada.ask(sql)) == 4
        assert world.spent() - before == 2


async def test_an_exhausted_budget_still_answers_what_was_paid_for(world: Town) -> None:
    where = mine()
    async with world.client("dee") as dee:
        first = await dee.ask(sums(where))

        async def until_refused() -> None:
            for i in range(10):
                await dee.ask(sums(f"{where} AND income <> {1000 + i}"))

        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded) as refused:
            await until_refused()
        told = await dee.explain(sums(f"{where} AND income <> 2000"))
        assert "Left: role frugal has epsilon 0" in told
        assert "Refused: the privacy budget of your role does not cover this statement" in told
        assert "It renews at " in told
        assert "Refused" not in await dee.explain(sums(where)), "stored"
        assert "It renews at " in str(refused.value)
        assert "can be asked again at no cost" in str(refused.value)
        assert await dee.ask(sums(where)) == first


async def test_explain_in_json(world: Town) -> None:
    sql = sums(mine())
    async with world.client() as ada:

        async def reuse() -> dict[str, object]:
            ((text,),) = await ada.ask(f"EXPLAIN (FORMAT JSON) {sql}")
            return (text if isinstance(text, list) else json.loads(text))[0]["Privacy Plan"]["Reuse"]

        assert await reuse() == {"Mode": "exact", "Stored": [], "Charge Now": {"Epsilon": 1.0}}
        ((text,),) = await ada.ask(f"EXPLAIN (FORMAT JSON) {sql}")
        told = (text if isinstance(text, list) else json.loads(text))[0]["Privacy Plan"]
        assert [(a["Scope"], a["Name"]) for a in told["Left"]] == [("role", "analyst")]
        assert told["Refused"] is None
        await ada.ask(sql)
        found = await reuse()
        assert found["Charge Now"] == {"Epsilon": 0.0}
        assert [s["Measurement"] for s in found["Stored"]] == [1]  # type: ignore[attr-defined]


async def test_a_user_may_have_a_budget_within_the_roles(world: Town) -> None:
    async with world.client("eve") as eve, world.client("bob") as bob:
        for i in range(3):
            await eve.ask(sums(mine()))
            told = [n for n in eve.notices[0].split("; ") if "user eve" in n]
            assert told == (["80 % of the budget of user eve is spent"] if i == 2 else [])
        sql = sums(mine())
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="your user"):
            await eve.ask(sql)
        standing = await eve.ask("SELECT role, scope, epsilon_spent, epsilon_left FROM dpproxy.budget WHERE scope = 'user'")
        assert standing == [("analyst", "user", Decimal(3), Decimal(0))]
        first = await bob.ask(sql)
        assert await eve.ask(sql) == first, "the role has seen it"


async def test_a_role_is_warned_at_its_levels(world: Town, capsys: pytest.CaptureFixture[str]) -> None:
    async with world.client("cy") as cy:
        await cy.ask("SET dpproxy.epsilon = 10")
        for _ in range(8):
            await cy.ask(sums(mine()))
            if "80 % of the budget of role other is spent" in cy.notices[0]:
                break
        assert "dataset town" not in cy.notices[0], "what others spent is not told"
        left = (await cy.ask("SELECT epsilon_spent / epsilon_limit FROM dpproxy.budget"))[0][0]
        assert left >= Decimal("0.8")
    assert capsys.readouterr().out.count("budget level reached") >= 1


class TestDerived:
    async def test_from_finer_groups(self, world: Town) -> None:
        """What is left out is limited by WHERE to values that have groups: nobody else can be in the answer."""
        where, regions, sexes = mine(), "region IN ('east', 'north', 'south', 'west')", "sex IN ('M', 'F')"
        fine = f"SELECT region, sex, sum(income), count(*) FROM people WHERE {where} GROUP BY 1, 2"
        async with world.client() as ada:
            await ada.ask("SET dpproxy.epsilon = 10; SET dpproxy.reuse = derive")
            cells = {(r, s): (t, n) for r, s, t, n in await ada.ask(fine)}
            before = world.account()
            await ada.ask("SET dpproxy.epsilon = 0.5")

            def total(index: int, region: str = "", sex: str = "") -> int:
                return sum(int(v[index]) for (r, s), v in cells.items() if region in ("", r) and sex in ("", s))

            by_region = await ada.ask(f"SELECT region, sum(income) FROM people WHERE {where} AND {sexes} GROUP BY 1")
            assert by_region == [(r, total(0, r)) for r in ("east", "north", "south", "west")]
            assert await ada.ask(f"SELECT count(*) FROM people WHERE {where} AND {sexes} AND {regions}") == [(total(1),)]
            women = f"SELECT count(*) FROM people WHERE {where} AND sex = 'F' AND {regions}"
            assert await ada.ask(women) == [(total(1, sex="F"),)]
            two = f"SELECT sex, count(*) FROM people WHERE {where} AND region IN ('east', 'west') GROUP BY 1"
            assert await ada.ask(two) == [(s, total(1, "east", s) + total(1, "west", s)) for s in "FM"]
            told = await ada.explain(two)
            ((made,),) = await ada.ask("SELECT asked FROM dpproxy.answers WHERE NOT reused ORDER BY asked DESC LIMIT 1")
            assert re.search(r"measurement 1 computed from what was released at \S+ \S+ UTC, epsilon 0", told)
            assert f"{made:%Y-%m-%d %H:%M}" in told or f"{made + dt.timedelta(seconds=2):%Y-%m-%d %H:%M}" in told
            within = f"{where} AND {regions} AND {sexes}"
            rollup = await ada.ask(f"SELECT region, count(*) FROM people WHERE {within} GROUP BY ROLLUP (region)")
            assert set(rollup) == {(None, total(1)), *((r, total(1, r)) for r in ("east", "north", "south", "west"))}
            assert world.account() == before

    async def test_not_beyond_the_error_asked_for(self, world: Town) -> None:
        where = mine()
        async with world.client() as ada:
            await ada.ask("SET dpproxy.reuse = derive")
            await ada.ask(f"SELECT region, sex, count(*) FROM people WHERE {where} GROUP BY 1, 2")
            before = world.spent()
            await ada.ask(f"SELECT count(*) FROM people WHERE {where}")
            assert world.spent() - before == 1

    async def test_not_for_who_has_not_seen_it_nor_unless_asked(self, world: Town) -> None:
        where = mine()
        async with world.client() as ada, world.client("cy") as cy:
            await ada.ask("SET dpproxy.epsilon = 5")
            await ada.ask(f"SELECT region, sum(income), count(*) FROM people WHERE {where} GROUP BY 1")
            coarse, before = f"SELECT sum(income) FROM people WHERE {where}", world.account()
            await ada.ask("SET dpproxy.epsilon = 0.1")
            await ada.ask(coarse)
            await cy.ask("SET dpproxy.epsilon = 0.05; SET dpproxy.reuse = derive")
            await cy.ask(coarse)
            spent = {r: v - before[r] for r, v in world.account().items()}
            assert spent == {"analyst": Decimal("0.1"), "other": Decimal("0.05"), "frugal": 0, "all": Decimal("0.15")}

    async def test_a_mean_of_a_sum_and_a_count_asked_for_apart(self, world: Town) -> None:
        """And a sum of a mean's two columns. Two thousand times less noise than the figures have: they must agree."""
        where = mine()
        async with world.client() as ada:
            await ada.ask("SET dpproxy.epsilon = 10; SET dpproxy.reuse = derive")
            ((total,),) = await ada.ask(f"SELECT sum(income) FROM people WHERE {where}")
            ((count,),) = await ada.ask(f"SELECT count(income) FROM people WHERE {where}")
            before = world.account()
            await ada.ask("SET dpproxy.epsilon = 0.5")
            mean = f"SELECT avg(income) FROM people WHERE {where}"
            told = await ada.explain(mean)
            assert "computed from what was released at" in told
            assert told.count(" UTC") == 2
            assert (await ada.ask(mean))[0][0] == pytest.approx(total / count)
            assert world.account() == before
            await ada.ask("SET dpproxy.epsilon = 10")
            means = await ada.ask(f"SELECT region, avg(income), count(income) FROM people WHERE {where} GROUP BY 1")
            before = world.account()
            await ada.ask("SET dpproxy.epsilon = 0.5")
            sums_of = f"SELECT region, sum(income) FROM people WHERE {where} GROUP BY 1"
            found = {str(r): float(s) for r, s in await ada.ask(sums_of)}
            assert found == {r: pytest.approx(float(m * n), rel=1e-6) for r, m, n in means}
            assert world.account() == before

    async def test_a_subset_of_aggregates_keeps_its_noise(self, world: Town) -> None:
        where = mine()
        async with world.client() as ada:
            await ada.ask("SET dpproxy.epsilon = 10")
            wide = await ada.ask(f"SELECT region, sum(income), count(*), avg(income) FROM people WHERE {where} GROUP BY 1")
            before = world.account()
            await ada.ask("SET dpproxy.epsilon = 1; SET dpproxy.reuse = derive")
            few = await ada.ask(f"SELECT region, avg(income) FROM people WHERE {where} GROUP BY 1")
            assert few == [(r, a) for r, _, _, a in wide]
            assert world.account() == before


class TestTimes:
    """Restarts and epochs; each test opens the dataset anew."""

    async def test_a_restart_keeps_answers(self, world: Town) -> None:
        sql = sums(mine())
        async with world.client() as ada:
            first = await ada.ask(sql)
        before = world.account()
        await world.reopen()
        async with world.client() as ada:
            assert await ada.ask(sql) == first
        assert world.account() == before
        assert world.backend.asked == []

    async def test_a_new_epoch_is_measured_anew(self, world: Town) -> None:
        sql = sums(mine())
        before = world.spent()
        answers = []
        for epoch in ("one", "two", "one", "never changes", None):
            await world.reopen(epoch=epoch)
            async with world.client() as ada:
                answers.append(await ada.ask(sql))
        assert answers[0] == answers[2]
        assert len({str(a) for a in answers}) == 4
        assert world.spent() - before == 4
        await world.reopen()
        async with world.client() as ada:
            assert await ada.ask(sql) == answers[-1]

    async def test_an_epoch_a_public_table_tells(self, world: Town) -> None:
        sql, before = sums(mine()), world.spent()
        await world.reopen(epoch="SELECT max(load) FROM loads")
        async with world.client() as ada:
            first = await ada.ask(sql)
            assert await ada.ask(sql) == first
            inner = world.backend.inner

            async def later(query: object) -> int:
                return 2

            world.backend.number = later  # type: ignore[assignment]
            reuse = world.datasets["town"].reuse
            assert reuse is not None
            now, epoch = dt.datetime.now(dt.UTC), reuse.epoch
            assert isinstance(epoch, Refreshed)
            before_it = await epoch.current(now)
            object.__setattr__(epoch._epoch, "backend", world.backend)
            while await epoch.current(now) == before_it:
                await asyncio.sleep(0.05)
            assert await ada.ask(sql) != first
            assert inner is world.backend.inner
        assert world.spent() - before == 2

    async def test_the_epoch_must_not_be_private(self, world: Town) -> None:
        with pytest.raises(PolicyError, match="private table"):
            await world.reopen(epoch="SELECT count(*) FROM people")
        await world.reopen()

    async def test_answers_expire(self, world: Town) -> None:
        sql = sums(mine())
        await world.reopen(reuse_seconds=3600)
        async with world.client() as ada:
            first, before = await ada.ask(sql), world.spent()
            assert await ada.ask(sql) == first
            hour = (dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)).isoformat()
            world.answers._tables.db.execute("UPDATE releases SET created = ?", (hour,))
            world.answers._tables.db.execute("UPDATE seen SET at = ?", (hour,))
            object.__setattr__(world.datasets["town"].reuse, "recent", RecentAnswers())
            assert await ada.ask(sql) != first
            assert world.spent() - before == 1

    async def test_the_policy_may_forbid_it(self, world: Town) -> None:
        sql = sums(mine())
        await world.reopen(reuse_seconds=0)
        async with world.client() as ada:
            first, before = await ada.ask(sql), world.spent()
            assert await ada.ask(sql) != first
            assert world.spent() - before == 1
        await world.reopen()

    async def test_what_another_ledger_was_charged_is_not_paid_in_this_one(self, world: Town) -> None:
        """The state folder with a ledger put elsewhere: stored answers are nobody's in it."""
        sql = sums(mine())
        await world.reopen()
        async with world.client() as ada:
            first = await ada.ask(sql)
        mine_, world.ledger = world.ledger, SqliteLedger(world.folder / "another.sqlite")
        await world.reopen()
        async with world.client() as ada:
            assert await ada.ask(sql) != first
            assert world.account()["analyst"] == 1
        world.ledger.close()
        world.ledger = mine_
        await world.reopen()
        async with world.client() as ada:
            assert await ada.ask(sql) == first

    async def test_lost_answers_cost_budget_only(self, world: Town) -> None:
        sql = sums(mine())
        await world.reopen()
        async with world.client() as ada:
            first, before = await ada.ask(sql), world.spent()
            world.answers.close()
            assert await ada.ask(sql) != first
            assert world.spent() - before == 1
        (world.folder / "answers.sqlite").unlink()
        world.answers = AnswerStore(world.folder / "answers.sqlite")
        await world.reopen()


async def test_only_values_that_cannot_be_spelled_have_no_name(world: Town) -> None:
    """The measurement has the same value in it and will say so; a slip of ours is not taken for one."""
    dataset = world.datasets["town"]
    (statement,) = dataset.plans.split("SELECT count(*) FROM people WHERE income < $1")
    role = dataset.policy.roles["analyst"]
    measurement = dataset.plans.plan(statement, role, {"search_path": "public"}, ("int4",)).measurements[0]

    def shelf(literal: Spell) -> AnswerLookup:
        spelled = SpelledValues(literal, dataset.spelling)
        return AnswerLookup(dataset.reuse, "exact", "town", "analyst", "duckdb", spelled, "now")

    def refused(*_: object) -> str:
        raise ValueError("it is too long")

    assert shelf(dataset.literal).asked(measurement, ["7"]) is not None
    assert shelf(refused).asked(measurement, ["8"]) is None
    assert measurement.canonical is not None
    short = replace(measurement, canonical=replace(measurement.canonical, totals=()))
    with pytest.raises(ValueError, match="zip"):
        shelf(dataset.literal).asked(short, ["9"])
