"""Groups that a statement means: those listed are exactly those that a database which holds everything has rows of.

`domain_grammar` makes the statements, `domain_world` what they are held against. A database of some of the rows must then have its
rows in these groups, and no more of them than plain SQL counts.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import domain_grammar
import plan_harness
import pytest
from domain_grammar import Asked, is_test
from domain_world import DECLARED, World

from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.plan.properties import cells, domain_parts, key_domains, narrowing
from dpproxy.plan.properties.domain_parts import Parts

Groups = dict[tuple[str, ...], int]
CANNOT_BE = "cannot be"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def problems(asked: Asked, world: World, some: int) -> list[str] | None:
    """What the groups of a plan have against those of plain SQL; None where the statement is refused."""
    try:
        plan = plan_harness.plan(asked.sql, world.catalog, world.policy)
    except Refusal:
        return None
    world.use(asked.used, 0)
    listed, possible = _listed(plan, world), _exact(asked, world)
    if listed is None:
        return [f"keys are not declared: {asked.sql}"]
    found = [f"not listed: {g}" for g in sorted(possible.keys() - listed.keys())]
    found += _claimed_too_few(plan, listed)
    if possible and asked.exact:  # where no row can be at all, which groups have none is not looked into
        found += [f"{CANNOT_BE}: {g}" for g in sorted(listed.keys() - possible.keys())]
    world.use(asked.used, some)
    plain = _groups(world.exact(asked.sql))
    counted = (_listed(plan, world) or {}).items()
    picked = any(part.startswith("at most") and "groups" in part for part in plan.measurements[0].notes)
    wrong = sum(n > plain.get(group, 0) if picked else n != plain.get(group, 0) for group, n in counted)
    return [*found, f"{wrong} groups are counted otherwise"] if wrong else found


def _listed(plan: Plan, world: World) -> Groups | None:
    """The groups and their rows, without noise; None where they are not declared."""
    (measurement,) = plan.measurements
    if not measurement.dense:
        return None
    values = [world.rows(given.sql)[0][0] for given in plan.inputs]
    texts = [None if v is None else str(v) for v in values]
    (sql,) = plan_harness.queries(measurement, texts)
    rows = world.rows(sql.replace('"main".', ""))
    keys = len(measurement.keys)
    return {_text(row[:keys]): int(str(row[keys])) for row in rows}


def _claimed_too_few(plan: Plan, listed: Groups) -> list[str]:
    """What is counted before noise is drawn: an answer would fail there."""
    (measurement,) = plan.measurements
    if measurement.counted is None:
        return []
    others = [i for i in range(len(measurement.keys)) if i not in measurement.counted]
    most = max(Counter(tuple(group[i] for i in others) for group in listed).values(), default=0)
    return [f"{most} groups are listed, {measurement.l0} claimed"] if most > measurement.l0 else []


def _exact(asked: Asked, world: World) -> Groups:
    """The groups of plain SQL, of rows whose keys are made of declared values."""
    kept = [condition for key in asked.keys for condition in _declared(key)]
    within = Asked(asked.with_, asked.source, (*asked.conditions, *dict.fromkeys(kept)), asked.keys, asked.used)
    return _groups(world.exact(within.sql))


def _groups(rows: Sequence[tuple[object, ...]]) -> Groups:
    return {_text(row[:-1]): int(str(row[-1])) for row in rows}


def _declared(key: str) -> list[str]:
    """What is declared of the columns that a key carries; a test of them carries none."""
    if is_test(key):
        return []
    return [
        re.sub(rf"\b{column}\b", f"{alias}.{column}", DECLARED[column]) for alias, column in re.findall(r"\b([pef])\.(\w+)", key)
    ]


def _text(row: tuple[object, ...]) -> tuple[str, ...]:
    """Numbers of different types are alike."""
    return tuple(str(float(v)) if isinstance(v, (int, float, Decimal)) else str(v).removesuffix(" 00:00:00") for v in row)


def judged(seed: int, count: int, world: World) -> int:
    """How many statements were accepted. Fails where one of them lacks a group, or counts one otherwise, and where many list groups
    that cannot be: of a comparison with an undeclared value little is known, and so it may hold."""
    rng = random.Random(seed)
    asked = [domain_grammar.statement(rng.choice) for _ in range(count)]
    found = [(a.sql, problems(a, world, 1 + i % 5)) for i, a in enumerate(asked)]
    loose = [(sql, p) for sql, p in found if p and all(each.startswith(CANNOT_BE) for each in p)]
    assert not (wrong := [(sql, p[:4], len(p)) for sql, p in found if p and (sql, p) not in loose]), wrong
    assert len(loose) <= count / 25, loose
    return sum(p is not None for _, p in found)


def test_random_statements_list_the_groups_they_mean(world: World) -> None:
    assert judged(1, 150, world) > 120


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_random_statements_by_the_thousand(seed: int, world: World) -> None:
    assert judged(100 + seed, 1000, world) > 800


# --- planted bugs: what would be wrong, and a statement that shows it

Replaced = tuple[object, str, object]
PLANTED: dict[str, tuple[Replaced, tuple[str, ...], tuple[str, ...]]] = {
    "parts stay apart": (
        (Parts, "_linked", lambda self, groups: groups), ("(p.country, p.plan) IN (('AT', 'pro'), ('CH', 'free'))",),
        ("p.country", "p.plan")),
    "no condition is tried on hours": (
        (cells, "_compared", lambda *_: None), ("e.ts::time >= '09:30'",), ("extract(hour FROM e.ts)",)),
    "the first instant of an hour stands for all": (
        (cells, "_ends", lambda expr, _: (expr, expr)), ("e.ts::time >= '09:30'",), ("extract(hour FROM e.ts)",)),
    "hours are days": (
        (cells, "_step", lambda *_: "day"), (), ("extract(hour FROM e.ts)",)),
    "what is beside keys has declared values alone": (
        (domain_parts, "trial", lambda *_: None), ("e.kind <> 'view'", "p.plan < e.kind"), ("p.plan",)),
    "a group less is counted": (
        (key_domains, "groups_of", lambda _: 1), ("(e.kind, p.plan) IN (('pro', 'pro'), ('click', 'pro'))",), ("e.kind", "p.plan")),
    "conditions say nothing of a test's result": (
        (narrowing, "_compared", lambda *_: {True, False}), ("e.ts >= '2024-02-02'",), ("(e.ts >= '2024-02-01 12:00')",)),
    "conditions keep no NULL out of a test": (
        (narrowing, "present", lambda _: frozenset()), ("e.ts >= '2024-02-02'",), ("(e.ts >= '2024-02-02 12:00')",)),
    "subqueries say nothing": (
        (domain_parts, "is_public_alone", lambda _: False), ("e.day IN (SELECT day FROM holidays)",), ("e.day",)),
}  # fmt: skip
PLAIN = "people p JOIN events e ON e.person = p.id"


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (where, attribute, planted), conditions, keys = PLANTED[name]
    used = frozenset(c for c in ("day", "ts") if f"e.{c}" in " ".join((*conditions, *keys))) | {"kind"}
    asked = Asked("", PLAIN, conditions, keys, used)
    assert problems(asked, world, 1) == []
    monkeypatch.setattr(where, attribute, planted)
    assert problems(asked, world, 1)


OUTER = "SELECT {} FROM (VALUES ('pro'), ('none'), ('view')) v(x) CROSS JOIN holidays h LEFT JOIN ({}) e ON e.kind = v.x AND e.day = h.day"
EVENTS = "SELECT p.id, e.event, e.kind, e.day FROM people p JOIN events e ON e.person = p.id WHERE e.kind IN ('pro', 'view')"


def test_an_outer_join_keeps_all_public_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """ON does not say which of them there are, and a group that nobody is in is listed."""
    sql = OUTER.format("v.x, h.day, count(e.event)", EVENTS) + " GROUP BY 1, 2"
    world.use({"kind", "day"}, 1)
    expected = {(row[0], row[1]) for row in world.exact("SELECT x, day FROM (VALUES ('pro'), ('none'), ('view')) v(x), holidays")}

    def listed() -> set[tuple[object, object]]:
        (measurement,) = plan_harness.plan(sql, world.catalog, world.policy).measurements
        assert measurement.dense
        (text,) = plan_harness.queries(measurement, [])
        return {(row[0], row[1]) for row in world.rows(text.replace('"main".', ""))}

    assert listed() == expected
    monkeypatch.setattr(Parts, "_is_possible", lambda *_: True)
    assert listed() < expected, "the planted bug is found"
