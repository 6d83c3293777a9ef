"""What one unit reaches, by deletion and arrival: thousands of statements, whose danger is in joins, keys and bounds of groups.

`Sensitivity` deletes people and whales from a shop, and lets newcomers with everything arrive; see there for what it compares.
Long mode: `pytest -m long -n 2 tests/plan/test_reach.py`, 20,000 statements on each engine, a dot for each thousand. A statement that
fails is named with its seed; `asked(seed)` makes it again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import grammar
import plan_harness
import pytest
import reach_grammar
from each_engine import Engine
from plan_harness import AnyShop, Sensitivity

from dpproxy.errors import Refusal
from dpproxy.mechanisms.exact import Exact
from dpproxy.mechanisms.noise import DefaultNoise
from dpproxy.mechanisms.release import release
from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.model import Bounds, Mechanism, Policy

BOUNDS: tuple[tuple[Bounds | None, Mechanism], ...] = (
    (None, "auto"), (None, "gaussian"), (Bounds(2, None), "auto"), (Bounds(3, None), "laplace"), (Bounds(1, None, True), "auto"),
    (Bounds(2, None, True), "gaussian"), (Bounds(3, 2, True), "laplace"),
)  # fmt: skip
"""Of a unit's rows in each table that has several: the fixtures' own, all groups there are, whole contributions."""


@lru_cache
def bounded(which: int) -> Policy:
    bounds, mechanism = BOUNDS[which]
    given = plan_harness.policy()
    tables = {n: t if bounds is None or t.one or t.public else replace(t, bounds=bounds) for n, t in given.tables.items()}
    return replace(given, mechanism=mechanism, tables=tables)


@dataclass(frozen=True)
class Statement:
    asked: reach_grammar.Asked
    bounds: int
    role: str

    def problems(self, shop: AnyShop, catalog: Catalog) -> list[str] | None:
        """What is wrong with it; None where it is refused."""
        views = {TableName("public", name): text for name, text in self.asked.views}
        given = replace(bounded(self.bounds), views=views) if views else bounded(self.bounds)
        settings = {name.replace(".", "__"): value for name, value in self.asked.settings}
        if not views and not shop.takes(self.asked.sql):
            return None
        try:
            made = plan_harness.plan(self.asked.sql, catalog, given, self.role, **settings)
        except Refusal:
            return None
        if found := Sensitivity(shop).problems(made):
            return found
        for m in made.measurements:
            answers = map(shop.run, plan_harness.queries(m, plan_harness.values_of(made)))
            release(m, Exact(tuple(answers)), DefaultNoise())
        return []

    def __str__(self) -> str:
        return f"{reach_grammar.shortened(self.asked)} [{BOUNDS[self.bounds]}, {self.role}]"


def asked(seed: int) -> Statement:
    """Three of four are about what units reach, the others about values."""
    rng = random.Random(seed)
    made = reach_grammar.Asked(grammar.statement(rng.choice)) if seed % 4 == 3 else reach_grammar.statement(rng.choice)
    return Statement(made, rng.randrange(len(BOUNDS)), rng.choice(("analyst",) * 5 + ("careful",)))


def judged(seeds: Iterable[int], shop: AnyShop, catalog: Catalog) -> tuple[int, list[str]]:
    """How many statements were accepted, and what is wrong with which."""
    accepted, wrong = 0, []
    for seed in seeds:
        made = asked(seed)
        found = made.problems(shop, catalog)
        accepted += found is not None
        wrong += [f"seed {seed}: {made}: {found[:3]}"] if found else []
    return accepted, wrong


def test_random_statements(engine: Engine, shop_catalog: Catalog) -> None:
    accepted, wrong = judged(range(200), engine.quick_shop(2, 4), shop_catalog)
    assert wrong == []
    assert accepted > 100, "most statements must be accepted, or nothing is shown"


FIRST = int(os.environ.get("DPPROXY_FIRST_SEED", "1000"))
"""Other seeds are other statements."""


@pytest.mark.long
@pytest.mark.parametrize("thousand", range(20))
def test_random_statements_by_the_thousand(thousand: int, engine: Engine, shop_catalog: Catalog) -> None:
    first = FIRST + 1000 * thousand
    accepted, wrong = judged(range(first, first + 1000), engine.quick_shop(first // 1000, 5), shop_catalog)
    assert wrong == []
    assert accepted > 500
