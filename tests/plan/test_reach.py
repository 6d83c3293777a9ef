"""What one unit reaches, by deletion and arrival: thousands of statements, whose danger is in joins, keys and bounds of groups.

`Sensitivity` deletes people and whales from a shop, and lets newcomers with everything arrive; see there for what it compares.
Long mode: `pytest -m long -n 2 tests/plan/test_reach.py`, 20,000 statements on each engine (5,000 on Sail), a thousand in each
part. A statement that fails is named with its seed; `asked(seed)` makes it again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import grammar
import plan_harness
import pytest
import reach_grammar
from each_engine import ALL_ENGINES, ENGINES, Engine
from plan_harness import AnyShop, Sensitivity, Unproved

from dpproxy.errors import Refusal
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.bind import from_clause, joins
from dpproxy.plan.context import Context, Counter
from dpproxy.plan.measure import compiler
from dpproxy.plan.properties import key_domains, null_padding
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.key_domains import Dense
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Bounds, Mechanism, Policy
from dpproxy.table_terms import TableName
from dpproxy.tree.expr import Column, Expr
from dpproxy.tree.relation import Rows

BOUNDS: tuple[tuple[Bounds | None, Mechanism], ...] = (
    (None, "auto"), (None, "gaussian"), (Bounds(2, None), "auto"), (Bounds(3, None), "laplace"), (Bounds(1, None, True), "auto"),
    (Bounds(2, None, True), "gaussian"), (Bounds(3, 2, True), "laplace"),
)  # fmt: skip
"""Of a unit's rows in each table that has several: the fixtures' own, all groups there are, whole contributions."""


@lru_cache
def bounded(which: int) -> Policy:
    bounds, mechanism = BOUNDS[which]
    given = plan_harness.policy()
    tables = {n: t if bounds is None or t.one or t.kind.shown else replace(t, bounds=bounds) for n, t in given.tables.items()}
    return replace(given, mechanism=mechanism, tables=tables)


UNPROVEN = "the kernel cannot prove its plan"


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
        except Unproved:
            return [UNPROVEN]
        except Refusal:
            return None
        judge = Sensitivity(shop)
        if found := judge.problems(made):
            return found
        for m in made.measurements:
            plan_harness.released(m, plan_harness.values_of(made), judge.whole, DefaultNoise())
        return []

    def __str__(self) -> str:
        return f"{reach_grammar.shortened(self.asked)} [{BOUNDS[self.bounds]}, {self.role}]"


def asked(seed: int) -> Statement:
    """Most are about what units reach, the others about values; most often the policy bounds no groups."""
    rng = random.Random(seed)
    aims = (*reach_grammar.AIMS, "")
    aim = aims[seed % len(aims)]
    made = reach_grammar.statement(rng.choice, aim) if aim else reach_grammar.Asked(grammar.statement(rng.choice))
    bounds = (2, 2, 3, 3, 4) if aim == "beside" else (0, 1, 2, 2, 3, 3, 4, 5, 6)
    return Statement(made, rng.choice(bounds), rng.choice(("analyst",) * 5 + ("careful",)))


def judged(
    seeds: Sequence[int], shop: AnyShop, catalog: Catalog, progress: Callable[[int, int], None] = lambda done, of: None
) -> tuple[int, list[str]]:
    """How many statements were accepted, and what is wrong with which."""
    accepted, wrong = 0, []
    for done, seed in enumerate(seeds):
        progress(done, len(seeds))
        made = asked(seed)
        found = made.problems(shop, catalog)
        accepted += found is not None
        wrong += [f"seed {seed}: {made}: {found[:3]}"] if found else []
    return accepted, wrong


@pytest.mark.parametrize("engine", ALL_ENGINES, indirect=True)
def test_random_statements(engine: Engine, shop_catalog: Catalog) -> None:
    accepted, wrong = judged(range(60), engine.quick_shop(2, 4), shop_catalog)
    assert wrong == []
    assert accepted > 30, "most statements must be accepted, or nothing is shown"


FIRST = int(os.environ.get("DPPROXY_FIRST_SEED", "1000"))
"""Other seeds are other statements."""


THOUSANDS = [*((engine, i) for engine in ENGINES for i in range(20)), *(("spark", i) for i in range(5))]
"""Fewer on Sail, where one takes ten times as long."""


@pytest.mark.long
@pytest.mark.parametrize(("engine", "thousand"), THOUSANDS, indirect=["engine"])
def test_random_statements_by_the_thousand(
    engine: Engine, thousand: int, shop_catalog: Catalog, progress: Callable[[int, int], None]
) -> None:
    first = FIRST + 1000 * thousand
    accepted, wrong = judged(range(first, first + 1000), engine.quick_shop(first // 1000, 5), shop_catalog, progress)
    assert wrong == []
    assert accepted > 500


# --- planted bugs: what was wrong once, put back


Plant = Callable[[pytest.MonkeyPatch], None]


def _declared_values_bound_all(patch: pytest.MonkeyPatch) -> None:
    """The declared groups of the keys that vary were taken for all there are, beside undeclared ones as well."""
    reach = compiler._reach

    def planted(
        rows: Rows, keys: list[Expr], dense: Dense | None, declared: bool, bound: int | None, scaled: bool
    ) -> tuple[int, bool, str]:
        own = key_domains.dense_domain([k for k in keys if not facts(k).constant], rows) if keys else None
        size = own.size if own is not None else None
        l0, pick, note = reach(rows, keys, dense, declared, bound, scaled)
        return l0, pick and not (size is not None and l0 >= size), note

    patch.setattr(compiler, "_reach", planted)


def _outer_joins_keep_constants(patch: pytest.MonkeyPatch) -> None:
    """A column stayed the same in all rows of a unit where an outer join leaves some of them without a value."""

    def planted(column: Column) -> Column:
        return replace(null_padding.nulled_column(column), constant=column.constant)

    for module in (joins, from_clause):
        patch.setattr(module, "nulled_column", planted)


def _outer_joins_keep_one(patch: pytest.MonkeyPatch) -> None:
    """A row a unit stayed one where another table's rows are kept whole."""
    left = joins.join_left

    def planted(a: Rows, b: Rows, on: list[Expr], context: Context, counter: Counter) -> Rows:
        found = left(a, b, on, context, counter)
        return replace(found, one=found.one or (a.one and found.unit is not None))

    patch.setattr(joins, "join_left", planted)


PEOPLE, BOUGHT = "SELECT customer_id, name FROM customers", "SELECT customer_id, coalesce(note, 'x') AS name FROM orders"
PLANTED: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "declared values bound all": (_declared_values_bound_all, (
        "SELECT c.name, o.status, count(*) FROM orders o JOIN customers c USING (customer_id) GROUP BY 1, 2",
        "SELECT c.name, v.secs > 100, percentile_cont(0.5) WITHIN GROUP (ORDER BY v.secs) FROM visits v JOIN customers c USING"
        " (customer_id) GROUP BY 1, 2",
        "SELECT c.phone, extract(month FROM v.day), max(v.secs) FROM visits v JOIN customers c USING (customer_id) GROUP BY 1, 2",
    )),
    "outer joins keep constants": (_outer_joins_keep_constants, (
        f"SELECT name, count(*) FROM ({PEOPLE}) a FULL JOIN ({BOUGHT}) b USING (customer_id, name) GROUP BY a.name, name",
        f"SELECT a.name, count(*) FROM ({PEOPLE}) a NATURAL RIGHT JOIN ({BOUGHT}) b GROUP BY 1",
        "SELECT c.name, count(*) FROM orders o LEFT JOIN customers c ON c.customer_id = o.customer_id AND o.qty > 5 GROUP BY 1",
    )),
    "outer joins keep one": (_outer_joins_keep_one, (
        "SELECT count(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id",
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str, engine: Engine, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, statements = PLANTED[name]
    made = [Statement(reach_grammar.Asked(sql), BOUNDS.index((Bounds(2, None), "auto")), "analyst") for sql in statements]
    shop = engine.quick_shop(2, 4)
    assert [s.problems(shop, shop_catalog) for s in made] == [[]] * len(made)
    plant(monkeypatch)
    assert any(UNPROVEN in (s.problems(shop, shop_catalog) or ()) for s in made), "by the kernel"
    plan_harness.believe(monkeypatch)
    assert any(s.problems(shop, shop_catalog) for s in made), "and by data"
