"""Mutants of real plans: none that the kernel accepts tells more of a unit than is claimed, by deletion of units.

The statements are those whose plans had bugs (findings of attacks on the product, P1 and P2), and one of each kind of relation and
bounding. Long mode takes them from the planner's grammars, until 20,000 mutants are judged.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import grammar
import plan_harness
import pytest
import reach_grammar
from plan_harness import Sensitivity, Shop

from dpproxy.errors import Refusal
from dpproxy.mechanisms import release
from dpproxy.mechanisms.noise import MechanismError
from dpproxy.plan.engines import engine
from dpproxy.plan.engines.base import template
from dpproxy.plan.engines.measured import Query, Source
from dpproxy.plan.kernel.leaves import Unproven
from dpproxy.plan.kernel.verdict import Trees, check, derived
from dpproxy.plan.logical.measured import Statement, rows_of
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.measurement import Measurement
from tests.plan.kernel.mutants import mutants
from tests.plan.kernel.recorded import Recorded, recorded

STATEMENTS = (
    ("shop", "SELECT c.income, o.category, percentile_cont(0.5) WITHIN GROUP (ORDER BY o.amount) FROM orders o JOIN customers c "
             "USING (customer_id) GROUP BY 1, 2"),
    ("shop", "SELECT region, count(*) FROM customers c FULL JOIN (SELECT customer_id, qty FROM orders) o USING (customer_id) GROUP BY 1"),
    ("shop", "SELECT count(*) FROM (SELECT DISTINCT o.customer_id, a.region FROM customers a JOIN customers b USING (customer_id) "
             "RIGHT JOIN orders o ON o.customer_id = a.customer_id AND o.amount > 5) t"),
    ("shop", "SELECT category, status, count(*), sum(amount), avg(amount), count(DISTINCT qty) FROM orders GROUP BY 1, 2"),
    ("shop", "SELECT status, count(*), avg(amount) FROM (SELECT DISTINCT ON (customer_id) customer_id, status, amount "
             "FROM orders ORDER BY customer_id, ts) t GROUP BY 1"),
    ("shop", "SELECT region, count(*) FROM customers c WHERE c.birth_year NOT IN (SELECT qty FROM orders o WHERE o.customer_id = c.customer_id)"
             " GROUP BY 1"),
    ("shop", "SELECT region, avg(n) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY 1) t JOIN customers USING "
             "(customer_id) GROUP BY 1"),
    ("shop", "SELECT count(*) FROM order_items JOIN orders USING (order_id) WHERE EXISTS (SELECT FROM customers c WHERE "
             "c.customer_id = orders.customer_id AND c.income > 100)"),
    ("whole", "SELECT status, sum(amount), avg(amount), count(*) FROM orders GROUP BY 1"),
    ("whole", "SELECT page, secs, count(*), count(DISTINCT customer_id) FROM visits GROUP BY 1, 2"),
)  # fmt: skip


@dataclass
class Tally:
    """Mutants by operator: refused, harmless by deletion, failing in the engine, and those that are accepted and leak."""

    refused: Counter[str] = field(default_factory=Counter)
    harmless: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)

    @property
    def judged(self) -> int:
        return sum(map(sum, (c.values() for c in (self.refused, self.harmless, self.broken)))) + len(self.leaks)


def text(tree: Statement) -> Any:
    """The query of a mutant, written as those of plans are."""
    return template("duckdb", Query.of(tree, Source.of(rows_of(tree).child, engine("duckdb"))).text)


def claiming(made: Recorded, trees: Trees) -> Measurement | None:
    """The measurement with a mutant's queries, proved by the kernel; None where it is refused."""
    try:
        found = derived(trees, made.leaves)
        claimed = replace(made.claimed, counted=found.counted(made.claimed.l0))
        check(found, claimed)
    except Unproven:
        return None
    return claimed


def corrupted(made: Recorded) -> Iterator[tuple[str, Trees]]:
    for name, main in mutants(made.trees.main):
        yield name, replace(made.trees, main=main)
    for i, side in enumerate(made.trees.side):
        for name, changed in mutants(side):
            yield name, replace(made.trees, side=(*made.trees.side[:i], changed, *made.trees.side[i + 1 :]))
    for name, first in mutants(made.trees.first) if made.trees.first is not None else ():
        yield f"first round: {name}", replace(made.trees, first=first)


def judge(made: Recorded, shop: Shop, tally: Tally, chosen: Sequence[tuple[str, Trees]]) -> None:
    for name, trees in chosen:
        try:
            claimed = claiming(made, trees)
        except (TypeError, AttributeError, ValueError, KeyError):  # a tree that means nothing is no tree that a planner makes
            claimed = None
        if claimed is None:
            tally.refused[name] += 1
            continue
        problems = leaks(made, claimed, trees, shop)
        if problems is None:
            tally.broken[name] += 1
        elif problems:
            tally.leaks.append(f"{name}: {problems[:2]}: {claimed.queries[0].parts}")
        else:
            tally.harmless[name] += 1


def leaks(made: Recorded, claimed: Measurement, trees: Trees, shop: Shop) -> list[str] | None:
    """What deletion of units has against the claim; None for a query that no engine runs, whatever the data."""
    try:
        queries = tuple(map(text, (trees.main, *trees.side)))
        claimed = with_first(replace(claimed, queries=queries), trees.first)
    except (KeyError, TypeError, ValueError, AssertionError, Refusal):
        return None
    values = plan_harness.values_of(made.plan)
    try:
        whole = [shop.run(sql) for sql in plan_harness.queries(claimed, values)]
    except duckdb.Error:
        return None
    try:
        release._check_declared(claimed, whole[0])
    except MechanismError:
        return []  # nothing is released
    return Sensitivity(shop).problems(replace(made.plan, measurements=(claimed,)))


def with_first(claimed: Measurement, tree: Statement | None) -> Measurement:
    """The measurement with a mutant's query of the first round."""
    if tree is None or claimed.threshold is None or claimed.threshold.first is None:
        return claimed
    first = replace(claimed.threshold.first, query=text(tree))
    return replace(claimed, threshold=replace(claimed.threshold, first=first))


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop(1, 3, quick=True)


def test_no_accepted_mutant_leaks(shop: Shop, shop_catalog: Catalog) -> None:
    tally, rng = Tally(), random.Random(5)
    for name, sql in STATEMENTS:
        try:
            made = recorded(sql, shop_catalog, plan_harness.policy(name))
        except Refusal as refusal:
            pytest.fail(f"{sql}: {refusal}")
        every = list(corrupted(made))
        judge(made, shop, tally, rng.sample(every, min(len(every), 60)))
    assert tally.leaks == []
    assert len(tally.refused | tally.harmless | tally.broken) >= 35, "operators"
    assert tally.refused.total() > tally.judged / 3


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_no_mutant_of_the_grammars_leaks(part: int, shop_catalog: Catalog) -> None:
    """In parts of a thousand, each of a few minutes."""
    tally, rng, shop = Tally(), random.Random(1100 + part), Shop(2, 5, quick=True)
    policies = [plan_harness.policy(name) for name in ("shop", "whole", "busy")]
    while tally.judged < 1_000:
        aim = rng.choice((*reach_grammar.AIMS, ""))
        sql = reach_grammar.statement(rng.choice, aim).sql if aim else grammar.statement(rng.choice)
        try:
            made = recorded(sql, shop_catalog, rng.choice(policies))
        except (Refusal, IndexError):
            continue
        every = list(corrupted(made))
        judge(made, shop, tally, rng.sample(every, min(len(every), 60)))
        assert tally.leaks == [], sql
    print(tally)
