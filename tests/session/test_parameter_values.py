"""Plans that need to know a parameter's value: when they wait for it, where it is written, which refusal is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.privacy.loss import ZERO
from dpproxy.session import sql_prepare
from dpproxy.session.description import Description
from dpproxy.session.private_statement import PrivateStatement
from dpproxy.session.sql_prepare import UnplannedStatement, current, prepared
from dpproxy.sql.guard import MAX_LENGTH
from dpproxy.sql.statements import Statement, split

SQL = "SELECT date_trunc($1, joined) AS t, count(*) FROM people WHERE region = $2::text AND tags = $3 GROUP BY 1"
PLAN = Plan((), "SELECT 1", 0, (), (), ZERO, ())
OIDS = (25, 25, 1009)  # text, text, text[]
UNKNOWN, OTHER = Refusal("0A000", "date_trunc needs a constant unit", 8), Refusal("0A000", "no such unit", 21)


def statement(sql: str = SQL) -> Statement:
    (found,) = split(sql, frozenset({"people"}))
    return found


@dataclass
class World:
    """`answers` says what planning a text comes to: a plan, or a refusal."""

    answers: Callable[[str], Plan | Refusal]
    planned: list[str] = field(default_factory=list)
    fitted: list[str] = field(default_factory=list)
    description: Description = field(default_factory=lambda: Description(OIDS, None, {}))

    def plan(self, made: Statement) -> Plan:
        answer = self.answers(made.query)
        if isinstance(answer, Refusal):
            raise replace(answer)
        return answer

    async def planning(self, dataset: object, asker: object, made: Statement, description: object, ending: object) -> Plan:
        self.planned.append(made.query)
        return self.plan(made)

    async def fit(self, talk: object, dataset: object, asker: object, made: Statement, *rest: Any) -> PrivateStatement:
        self.fitted.append(made.query)
        return PrivateStatement(made, cast(Description, rest[0]), self.plan(made), "internal", "SELECT 1")

    async def prepared(self, sql: str = SQL) -> PrivateStatement | UnplannedStatement:
        return await prepared(none, none, none, statement(sql), self.description, "internal", none)

    async def current(self, found: PrivateStatement | UnplannedStatement, *texts: str | None) -> PrivateStatement:
        return await current(none, none, none, found, self.description, texts, none)


none = cast(Any, None)


async def nothing(*_: object) -> None:
    """There is no constant."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(lambda sql: PLAN)
    monkeypatch.setattr(sql_prepare, "fit", made.fit)
    monkeypatch.setattr(sql_prepare, "planned", made.planning)
    monkeypatch.setattr(sql_prepare, "foldable", nothing)
    return made


def needs_the_unit(sql: str) -> Plan | Refusal:
    if "'day'" in sql or "'month'" in sql:
        return PLAN
    return UNKNOWN if "$1" in sql else OTHER


async def test_what_can_be_planned_is_not_tried_with_values(world: World) -> None:
    assert isinstance(await world.prepared(), PrivateStatement)
    assert (world.fitted, world.planned) == ([SQL], [])


async def test_what_values_help_waits_for_them(world: World) -> None:
    world.answers = needs_the_unit
    found = await world.prepared()
    assert isinstance(found, UnplannedStatement)
    (example,) = world.planned
    assert example == SQL.replace("$1", "('day'::text)").replace("$2", "('day'::text)"), "arrays stay parameters"
    private = await world.current(found, "month", "it's", "{a}")
    assert private.statement.query == SQL.replace("$1", "('month'::text)").replace("$2", "('it''s'::text)")


async def test_zero_is_tried_where_another_number_does_not_help(world: World) -> None:
    world.description = Description((20,), None, {})
    world.answers = lambda sql: PLAN if "'0'" in sql else UNKNOWN
    assert isinstance(await world.prepared("SELECT count(*) FROM (SELECT 1 FROM people OFFSET $1) AS s"), UnplannedStatement)
    assert [sql.partition("OFFSET ")[2] for sql in world.planned] == ["('1'::int8)) AS s", "('0'::int8)) AS s"]


async def test_null_is_a_value(world: World) -> None:
    found = UnplannedStatement(statement(), world.description, "internal", UNKNOWN)
    assert "(NULL::text)" in found.valued((None, "x", None)).query


async def test_what_no_value_helps_is_refused_at_once(world: World) -> None:
    world.answers = lambda sql: UNKNOWN
    with pytest.raises(Refusal, match="constant unit") as refused:
        await world.prepared()
    assert refused.value.position == 8
    assert len(world.planned) == 2, "the values, and the array with them"


@pytest.mark.parametrize("sqlstate", ["42501", "42P01"])
async def test_other_refusals_are_not_about_values(world: World, sqlstate: str) -> None:
    world.answers = lambda sql: Refusal(sqlstate, "forbidden")
    with pytest.raises(Refusal, match="forbidden"):
        await world.prepared()
    assert world.planned == []


async def test_a_cancelled_statement_is_not_taken_for_a_plannable_one(world: World) -> None:
    world.answers = lambda sql: UNKNOWN if "$1" in sql else Refusal("57014", "canceling statement due to user request")
    with pytest.raises(Refusal, match="user request"):
        await world.prepared()


async def test_without_parameters_there_is_nothing_to_wait_for(world: World) -> None:
    world.answers, world.description = (lambda sql: UNKNOWN), Description((), None, {})
    with pytest.raises(Refusal, match="constant unit"):
        await world.prepared("SELECT count(*) FROM people")
    assert world.planned == []


async def test_the_place_of_a_refusal_is_told_where_it_is_in_the_clients_text(world: World) -> None:
    world.answers = needs_the_unit
    found = await world.prepared()
    with pytest.raises(Refusal, match="no such unit") as other:
        await world.current(found, "lustrum", "x", None)
    assert other.value.position is None, "it is a place in another text"
    world.answers = lambda sql: replace(UNKNOWN, position=99)
    with pytest.raises(Refusal, match="constant unit") as same:
        await world.current(found, "x", "x", None)
    assert same.value.position == 8, "the first one's"


async def test_a_plan_that_stands_is_not_fitted_again(world: World) -> None:
    private = await world.prepared()
    assert isinstance(private, PrivateStatement)
    again = Description(OIDS, None, {"dpproxy.epsilon": "2"})
    world.description = again
    found = await world.current(private, "day", "x", None)
    assert (found.description, found.plan, world.fitted) == (again, PLAN, [SQL])
    world.answers = lambda sql: replace(PLAN, outer="SELECT 2")
    assert (await world.current(private, "day", "x", None)).plan.outer == "SELECT 2"
    assert world.fitted == [SQL, SQL]


@pytest.mark.parametrize("most", [0, 1])
def test_values_that_make_a_statement_too_long_are_not_written(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Looking for their places takes as long as all of them are. An array is not written."""
    written: list[int] = []
    spell = sql_prepare.with_literals
    monkeypatch.setattr(sql_prepare, "with_literals", lambda sql, given: (written.append(1), spell(sql, given))[1])
    found = UnplannedStatement(statement(), World(lambda _: PLAN).description, "internal", UNKNOWN)
    room = MAX_LENGTH - len(SQL) - len("day")
    if most:
        with pytest.raises(Refusal, match="longer than") as refused:
            found.valued(["day", "x" * (room + 1), "{x}"])
        assert refused.value.sqlstate == "54001"
    else:
        assert "x" * room in found.valued(["day", "x" * room, "y" * MAX_LENGTH]).text
    assert len(written) == 1 - most
