"""Planning takes work in proportion to what is asked, and no more than a statement may take: counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import plan_harness
import pytest
from fixture_cases import ACCEPTED
from sqlglot import exp

from dpproxy.engines.base import Engine
from dpproxy.errors import Refusal
from dpproxy.plan import pipeline
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.outer import measured_select, select_keys, staged_rows, staging
from dpproxy.plan.properties import facts
from dpproxy.policy.catalog import Catalog
from dpproxy.sql import effort, guard, skeleton
from dpproxy.sql.dialect import copied
from dpproxy.sql.statements import split


def averages(n: int) -> str:
    return f"SELECT {', '.join(f'avg(qty + {i})' for i in range(n))} FROM orders"


def correlations(n: int) -> str:
    return f"SELECT {', '.join(f'corr(qty + {i}, qty * {i + 2})' for i in range(n))} FROM orders"


def grouped(n: int) -> str:
    return f"SELECT count(*) FROM orders GROUP BY {', '.join(f'qty + {i}' for i in range(n))}"


def filtered(n: int) -> str:
    return f"SELECT {', '.join(f'sum(qty) FILTER (WHERE qty > {i})' for i in range(n))} FROM orders"


def cases(n: int) -> str:
    return f"SELECT sum(CASE {' '.join(f'WHEN qty = {i} THEN {i}' for i in range(n))} END) FROM orders"


def nested(n: int) -> str:
    return f"SELECT sum({'abs(' * n}qty{')' * n}) FROM orders"


@pytest.fixture
def taken(shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """The steps that planning a statement takes."""
    found = [0]

    def counted(work: Callable[[], Any]) -> tuple[Any, int]:
        result, found[0] = effort.counted(work)
        return result, found[0]

    monkeypatch.setattr(pipeline, "counted", counted)

    def of(sql: str) -> int:
        found[0] = 0
        plan_harness.plan(sql, shop_catalog)
        return found[0]

    return of


@pytest.mark.parametrize(("form", "n"), [(averages, 60), (correlations, 20), (filtered, 60), (cases, 200), (nested, 8)])
def test_twice_as_much_takes_twice_the_steps(form: Callable[[int], str], n: int, taken: Callable[[str], int]) -> None:
    once, twice = taken(form(n)), taken(form(2 * n))
    assert 0 < once < twice < 2.3 * once


def test_keys_are_spelled_once_for_all_columns(taken: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column's name holds all keys: what they look like is found once."""
    spelled = 0
    plain = Engine.key

    def counted(self: Engine, *arguments: Any) -> str:
        nonlocal spelled
        spelled += 1
        return plain(self, *arguments)

    monkeypatch.setattr(Engine, "key", counted)

    def count(sums: int) -> int:
        nonlocal spelled
        spelled = 0
        values = ", ".join(f"sum(qty * {i + 2})" for i in range(sums))
        taken(f"SELECT {values} FROM orders GROUP BY {', '.join(f'qty + {i}' for i in range(12))}")
        return spelled

    few, many = count(5), count(40)
    assert few > 0
    assert few == many


def test_facts_are_found_once(taken: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A call asks for the facts of its arguments, and so does whoever spells it, at each level."""
    looks = 0
    plain = facts._found

    def counted(expr: Any) -> facts.Facts:
        nonlocal looks
        looks += 1
        return plain(expr)

    monkeypatch.setattr(facts, "_found", counted)

    def count(depth: int) -> int:
        nonlocal looks
        looks = 0
        taken(nested(depth))
        return looks

    assert 0 < count(20) < 2.5 * count(10)


def test_formulas_are_parsed_once_a_form(taken: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once an aggregate: that was a third of planning."""
    asked: list[str] = []
    plain = skeleton.parsed
    monkeypatch.setattr(skeleton, "parsed", lambda text: (asked.append(text), plain(text))[1])

    def count(n: int) -> int:
        skeleton._parsed_form.cache_clear()
        asked.clear()
        taken(f"SELECT {', '.join(f'corr(qty + {i}, qty * {i + 3})' for i in range(1, n + 1))} FROM orders")
        return sum("CASE" in text for text in asked)

    assert 0 < count(40) <= count(10) + 1


def test_formulas_are_as_the_parser_has_them_and_steps_far_below(
    taken: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known to be asked: one walk over every other fixture for both."""
    plain, seen = skeleton.parse_expression, 0

    def compared(text: str) -> exp.Expr:
        nonlocal seen
        seen += 1
        found = plain(text)
        assert repr(found) == repr(copied(skeleton.parsed(text)))
        return found

    for module in (measured_select, select_keys, staged_rows, staging, skeleton):
        monkeypatch.setattr(module, "parse_expression", compared)
    steps = [
        taken(case.sql)
        for case in ACCEPTED[::2]
        if case.policy == "shop" and not case.types and not case.settings and case.role == "analyst"
    ]
    assert seen > 250
    assert len(steps) > 50
    assert max(steps) < effort.MOST // 8


def test_grouping_sets_that_agree_are_not_parsed(taken: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Least squares of 45 sets are 300,000 characters of SQL: planning them took seven seconds, and then too many steps."""
    keys = [f"CASE WHEN income > {10_000 * i} THEN 'more' ELSE 'less' END" for i in range(10)]
    pairs = ", ".join(f"({a}, {b})" for a, b in combinations(keys, 2))
    longest = 0
    plain = skeleton.parsed

    def measured(text: str) -> exp.Expr:
        nonlocal longest
        longest = max(longest, len(text))
        return plain(text)

    monkeypatch.setattr(skeleton, "parsed", measured)
    skeleton._parsed_form.cache_clear()
    assert taken(f"SELECT count(*), avg(income) FROM customers GROUP BY GROUPING SETS ({pairs})") < effort.MOST // 2
    assert 0 < longest < 3_000


def test_there_is_an_end(shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "MOST", 1_000)
    assert plan_harness.plan(averages(2), shop_catalog).measurements
    with pytest.raises(Refusal, match="too complex") as caught:
        plan_harness.plan(averages(60), shop_catalog)
    assert (caught.value.sqlstate, caught.value.hint) == ("54001", "Ask for less at a time.")
    assert plan_harness.plan(averages(2), shop_catalog).measurements, "each statement has steps of its own"
    effort.step(10**9)  # nobody plans


def test_who_wants_no_plan_is_heard_at_the_next_step(shop_catalog: Catalog) -> None:
    """Wherever planning is: it ends, and not as a Refusal, for which the statement would be tried in other ways."""

    class After(effort.Stop):
        """Is asked for after so many looks."""

        def __init__(self, looks: int) -> None:
            self.looks = looks

        @property
        def asked(self) -> bool:  # type: ignore[override]
            self.looks -= 1
            return self.looks < 0

    sql = averages(20)
    never = After(10**9)
    plan = effort.stoppable(never, lambda: plan_harness.plan(sql, shop_catalog))
    looked = 10**9 - never.looks
    assert looked > 100
    for looks in range(0, looked, 7):
        stop = After(looks)
        with pytest.raises(effort.Stopped):
            effort.stoppable(stop, lambda: plan_harness.plan(sql, shop_catalog))
        assert stop.looks == -1, "it ends where it is told"
    assert plan_harness.plan(sql, shop_catalog) == plan


def test_much_of_everything(shop_catalog: Catalog) -> None:
    """Within each cap, and still too much."""
    keys = ", ".join(f"qty + {i}" for i in range(40))
    values = ", ".join(f"avg(qty + {i})" for i in range(60))
    with pytest.raises(Refusal, match="too complex"):
        plan_harness.plan(f"SELECT {values} FROM orders GROUP BY ROLLUP ({keys})", shop_catalog)


@pytest.mark.parametrize(
    ("allowed", "refused", "why"),
    [(averages(250), averages(257), "256 aggregates"), (grouped(64), grouped(65), "64 keys"), (correlations(60), correlations(90), "512 noisy")],
)  # fmt: skip
def test_caps(allowed: str, refused: str, why: str, shop_catalog: Catalog) -> None:
    assert plan_harness.plan(allowed, shop_catalog).measurements
    with pytest.raises(Refusal, match=why) as caught:
        plan_harness.plan(refused, shop_catalog)
    assert caught.value.sqlstate in ("54000", "54001")
    assert caught.value.hint


def deviations(n: int) -> str:
    return f"SELECT {', '.join(f'stddev(qty + {i})' for i in range(n))} FROM orders"


def statistics(n: int) -> str:
    """Of n pairs of values, whose columns serve all nine of a pair."""
    names = ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_sxx", "regr_syy", "regr_sxy")
    return f"SELECT {', '.join(f'{name}(qty + {i}, qty * {i + 2})' for i in range(n) for name in names)} FROM orders"


@pytest.mark.parametrize("sql", [correlations(86), correlations(200), deviations(250)])
def test_too_many_columns_are_refused_before_the_work(sql: str, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_select, "parse_expression", None)  # no formula is made a tree
    monkeypatch.setattr(arithmetic, "named", None)  # nor is its text written
    with pytest.raises(Refusal, match="512 noisy"):
        plan_harness.plan(sql, shop_catalog)


def test_columns_that_are_shared_count_once(shop_catalog: Catalog) -> None:
    """Many times six columns asked for, and few measured."""
    measured = plan_harness.plan(statistics(20), shop_catalog).measurements
    assert len(measured[0].bases) == 6 * 20


@pytest.mark.parametrize("around", ["{}", "EXPLAIN {};", "  COPY ({}) TO STDOUT"])
def test_a_wide_text_is_refused_as_it_stands(around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = around.format(averages(600))
    with pytest.raises(Refusal) as by_tokens:
        guard.check(guard.tokenize(text), text)
    monkeypatch.setattr(guard, "FaithfulPostgres", None)  # nothing is taken apart
    with pytest.raises(Refusal, match="256 aggregates") as caught:
        split(text, frozenset({"orders"}))
    assert (caught.value.sqlstate, caught.value.position) == (by_tokens.value.sqlstate, by_tokens.value.position)


def test_what_only_looks_wide() -> None:
    words = "count(" * 300
    assert split(f"SELECT '{words}' FROM orders", frozenset({"orders"}))
    assert split(f"SELECT 1 FROM orders -- {words}", frozenset({"orders"}))
    both = f"SELECT {', '.join(['count(*)'] * 200)} FROM orders"
    assert len(split(f"{both}; {both}", frozenset({"orders"}))) == 2
    assert split(averages(600), frozenset({"people"})), "what reads no private table is PostgreSQL's business"
