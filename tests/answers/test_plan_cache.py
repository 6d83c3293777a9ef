"""Texts and plans, remembered: by all that decides them. What a role's texts are taken for depends on names it may know, and on no
others: they would be told by the difference."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import tracemalloc
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

import pytest
from structlog.testing import capture_logs

from dpproxy.answers import plan_cache
from dpproxy.answers.dataset import Settings
from dpproxy.answers.plan_cache import (
    AT_ONCE,
    ROOM_OF_PLANS,
    SHORT,
    MemoizedCall,
    PlanCache,
    known_to,
    plans_for,
    private_names,
)
from dpproxy.errors import Refusal, UnprovenPlan
from dpproxy.facade.ddl import Shown
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.model import Bounds, Budget, ColumnPolicy, ColumnRole, Policy, QueryLimits, Role, TablePolicy, UnitPath
from dpproxy.privacy.loss import ZERO
from dpproxy.sql.effort import counted, step
from dpproxy.sql.repeatability import CLOCK
from dpproxy.sql.statements import Statement
from dpproxy.table_terms import TableName
from tests.worlds.scripted import PEOPLE, catalog, policy

T = TypeVar("T")
SALARIES = TableName("public", "salaries")


def rules() -> tuple[Policy, Catalog]:
    """`narrow` sees people only; nobody sees the column `bonus`."""
    base, analyst = policy(), policy().roles["analyst"]
    columns = {"id": ColumnPolicy("id", ColumnRole.UNIT), "bonus": ColumnPolicy("bonus", ColumnRole.HIDDEN)}
    columns["paid"] = ColumnPolicy("paid")
    salaries = TablePolicy(SALARIES, UnitPath("id"), True, Bounds(1, 1), columns)
    narrow = replace(analyst, name="narrow", tables=frozenset({PEOPLE}))
    shape = tuple(CatalogColumn(name, name, "int4") for name in columns)
    found = Catalog({**catalog().tables, SALARIES: CatalogTable(SALARIES, ("main", "salaries"), shape)})
    return replace(base, tables={**base.tables, SALARIES: salaries}, roles={"analyst": analyst, "narrow": narrow}), found


def test_a_role_knows_what_its_facade_shows() -> None:
    given, found = rules()
    analyst, narrow = (known_to(Shown(given, found, given.roles[name])) for name in ("analyst", "narrow"))
    assert analyst.private == {"people", "salaries"}
    assert analyst.columns == {"id", "region", "paid"}
    assert (narrow.private, narrow.columns, narrow.tables) == ({"people"}, {"id", "region"}, {"people"})


def test_other_names_make_no_difference() -> None:
    """A table that one may not read is taken for one that does not exist: PostgreSQL says of both that they do not."""
    given, found = rules()
    planner = plans_for(given, found, "duckdb")
    for form in ("LOCK TABLE {}", "SELECT * FROM {}", "SELECT |/ x FROM {}", "CREATE TABLE {} (x int)", "TRUNCATE {}"):
        one, other = (planner.split(form.format(name), given.roles["narrow"]) for name in ("salaries", "nonesuch"))
        assert [(s.kind, s.private) for s in one] == [(s.kind, s.private) for s in other], form
        assert not one[0].private
        assert planner.split(form.format("salaries"), given.roles["analyst"])[0].private
    for form in ("SELECT region AS {0}, count(*) FROM people GROUP BY 1 HAVING {0} <> 'x'",):
        for name in ("bonus", "paid"):
            (mine,) = planner.split(form.format(name), given.roles["narrow"])
            (plain,) = planner.split(form.format("other_word"), given.roles["narrow"])
            assert mine.query.replace(name, "other_word") == plain.query


ROLE = Role("analyst", Budget(1, 0), QueryLimits(1, 1, 0), None)
EMPTY = Plan((), "", 0, (), (), ZERO, ())


class Counting:
    """A planner that is asked as seldom as possible: what it was asked, and by what it answers."""

    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[tuple[str, str, dict[str, str | None], tuple[str, ...]]] = []
        self.threads: list[threading.Thread] = []
        self.refuses = refuses

    def __call__(self, statement: Statement, role: Role, settings: Settings, types: tuple[str, ...]) -> Plan:
        self.asked.append((statement.query, role.name, dict(settings), types))
        self.threads.append(threading.current_thread())
        if self.refuses:
            raise Refusal("0A000", "not this one", 3, "detail", "hint")
        return EMPTY


def one(plans: PlanCache, text: str) -> Statement:
    (statement,) = plans.split(text)
    return statement


def test_a_plan_is_kept_by_all_that_decides_it() -> None:
    plan = Counting()
    plans = PlanCache(frozenset({"people"}), plan)
    statement = one(plans, "SELECT count(*) FROM people")
    other = one(plans, "SELECT count(*) FROM people WHERE id = 1")
    asked: list[tuple[Statement, Role, Settings, tuple[str, ...]]] = [
        (statement, ROLE, {"a": "1"}, ()),
        (other, ROLE, {"a": "1"}, ()),
        (statement, replace(ROLE, name="clerk"), {"a": "1"}, ()),
        (statement, ROLE, {"a": "2"}, ()),
        (statement, ROLE, {"a": "1"}, ("int4",)),
    ]
    for _ in range(2):
        for each in asked:
            assert plans.plan(*each) is EMPTY
    assert len(plan.asked) == len(asked)
    plans.forget()
    plans.plan(*asked[0])
    assert len(plan.asked) == len(asked) + 1


def test_another_function_plans_from_then_on() -> None:
    """What the one before said is forgotten; texts stay split."""
    before, after = Counting(), Counting()
    plans = PlanCache(frozenset({"people"}), before)
    statement = one(plans, "SELECT count(*) FROM people")
    plans.plan(statement, ROLE, {}, ())
    plans.replan(after)
    for _ in range(2):
        plans.plan(statement, ROLE, {}, ())
    assert (len(before.asked), len(after.asked)) == (1, 1)


def test_a_plan_is_good_for_as_long_as_the_clock_shows_what_it_looks_at() -> None:
    """None is made again for a clock that a statement does not look at, and none is kept for a time of day."""
    plan = Counting()
    views = {"recent": "SELECT * FROM people WHERE day >= current_date - 7"}
    plans = PlanCache(frozenset({"people", "recent"}), plan, views=views)
    clocks = ("2024-05-17 08:00:00.000001", "2024-05-17 19:00:00.000001", "2024-05-18 08:00:00.000001")
    for text, shown in (
        ("SELECT count(*) FROM people", [None]),
        ("SELECT count(*) FROM people WHERE day >= current_date - 7", ["2024-05-17", "2024-05-18"]),
        ("SELECT count(*) FROM recent", ["2024-05-17", "2024-05-18"]),
        ("SELECT count(*) FROM people WHERE day >= now() - interval '7 days'", [c for c in clocks for _ in range(2)]),
    ):
        statement = one(plans, text)
        plan.asked.clear()
        for clock in clocks:
            for _ in range(2):
                plans.plan(statement, ROLE, {CLOCK: clock}, ())
        assert [settings[CLOCK] for _, _, settings, _ in plan.asked] == shown, text


def test_a_refusal_is_remembered_and_each_gets_its_own() -> None:
    """Whoever shows one may move its position."""
    plan = Counting(refuses=True)
    plans = PlanCache(frozenset({"people"}), plan)
    statement, told = one(plans, "SELECT count(*) FROM people"), []
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            plans.plan(statement, ROLE, {}, ())
        told.append(refused.value)
        refused.value.position = 99
    assert len(plan.asked) == 1
    assert told[0] is not told[1]
    assert (told[1].sqlstate, told[1].message, told[1].detail, told[1].hint) == ("0A000", "not this one", "detail", "hint")


def test_a_plan_that_is_not_proved_is_told_to_the_operator_alone() -> None:
    def unproven(*_: object) -> Plan:
        raise UnprovenPlan("XX000", "dpproxy cannot prove this", rule="a unit reaches more than 3 groups", plan="of 5 groups")

    plans = PlanCache(frozenset({"people"}), unproven)
    with capture_logs() as logs, pytest.raises(Refusal) as refused:
        plans.plan(one(plans, "SELECT count(*) FROM people"), ROLE, {}, ())
    (log,) = logs
    assert (log["error"], log["rule"], log["plan"], log["statement"]) == (
        "UnprovenPlan", "a unit reaches more than 3 groups", "of 5 groups", "SELECT count(*) FROM people",
    )  # fmt: skip
    assert (refused.value.sqlstate, refused.value.message) == ("XX000", f"internal error, incident {log['incident']}")


def test_the_oldest_is_forgotten_first() -> None:
    asked: list[int] = []

    def double(n: int) -> int:
        asked.append(n)
        return 2 * n

    memo = MemoizedCall(double, 2, 100, lambda _key, _said: 1)
    assert [memo(n) for n in (1, 2, 1, 3, 1)] == [2, 4, 2, 6, 2]
    assert asked == [1, 2, 3]
    assert (memo.has(1), memo.has(2), memo.has(3)) == (True, False, True)
    memo.clear()
    assert not memo.has(1)


def test_what_is_remembered_has_room() -> None:
    """The oldest go until the rest fits; what does not fit alone is not kept; nothing is counted twice."""
    memo = MemoizedCall(len, 100, 10, lambda key, said: said)
    for text in ("aaaa", "bbb", "cc", "aaaa", "dddd"):
        assert memo(text) == len(text)
    assert [memo.has(text) for text in ("aaaa", "bbb", "cc", "dddd")] == [True, False, True, True]
    assert memo.held == 10
    assert memo("e" * 11) == 11
    assert (memo.held, memo.has("dddd")) == (0, False)
    memo("dddd")
    memo.clear()
    assert memo.held == 0


HUGE, WIDE = "x" * 2_000_000, "\N{GRINNING FACE}" * 30_000
ROOM = 2 << 20


@pytest.mark.parametrize(("text", "count"), [(HUGE, 3), (WIDE, 20)])
def test_texts_that_differ_do_not_pile_up(text: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those that are refused for their length nor those whose characters take four bytes each. There is room for an
    eighth of what a proxy keeps: each byte is followed here."""
    monkeypatch.setattr(plan_cache, "ROOM_OF_TEXTS", ROOM)
    plans = PlanCache(frozenset({"people"}), Counting())

    def ask(number: int) -> None:
        with contextlib.suppress(Refusal):
            plans.split(f"SELECT count(*) FROM people -- {number} {text}")

    ask(0)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            ask(number)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= ROOM, "and it is more than all of them would take"
    assert (count - 1) * sys.getsizeof(text) > ROOM


def test_settings_count_as_well() -> None:
    """They decide about a plan, and a session chooses their length."""
    plans = PlanCache(frozenset({"people"}), lambda *_: EMPTY)
    statement = one(plans, "SELECT count(*) FROM people")
    tracemalloc.start()
    try:
        for number in range(100):
            plans.plan(statement, ROLE, {"search_path": f"{number:03}" * 1_000_000}, ())
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= ROOM_OF_PLANS


async def test_long_texts_are_planned_beside_the_loop_and_short_ones_at_once() -> None:
    plan, waited = Counting(), []
    plans = PlanCache(frozenset({"people"}), plan)

    def race(work: Awaitable[T]) -> Awaitable[T]:
        waited.append(work)
        return work

    short = one(plans, "SELECT count(*) FROM people")
    long = one(plans, f"SELECT count(*) FROM people WHERE region <> '{'x' * SHORT}'")
    await plans.plan_aside(short, ROLE, {}, (), race)
    assert (waited, plan.threads) == ([], [threading.main_thread()])
    await plans.plan_aside(long, ROLE, {}, (), race)
    assert len(waited) == 1
    assert plan.threads[1] is not threading.main_thread()
    await plans.plan_aside(long, ROLE, {}, (), race)
    assert len(waited) == 1, "it is known now"


async def test_a_short_text_that_takes_long_is_planned_beside_the_loop() -> None:
    """What is short may be of many steps: a few words double and double. It is begun on the loop, where most are short indeed."""
    threads: list[threading.Thread] = []

    def plan(*_: object) -> Plan:
        threads.append(threading.current_thread())
        counted(lambda: step(AT_ONCE + 1))
        return EMPTY

    plans, main = PlanCache(frozenset({"people"}), plan), threading.main_thread()
    await plans.plan_aside(one(plans, "SELECT count(*) FROM people"), ROLE, {}, (), lambda work: work)
    assert [thread is main for thread in threads] == [True, False]


def test_private_names_are_tables_and_views() -> None:
    rules = replace(policy(), views={TableName("public", "recent"): "SELECT 1"})
    assert private_names(rules) == {"people", "recent"}
