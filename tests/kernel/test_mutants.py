"""Mutants of real plans: none that the kernel accepts tells more of a unit than is claimed, by deletion of units.

The statements are those whose plans had bugs (findings of attacks on the product, P1 and P2), and one of each kind of relation and
bounding; those that are read from stored tables are run with the tables of each database. Long mode takes them from the planner's
grammars, and of stored tables from the fixtures, until 20,000 mutants are judged; with `DPPROXY_MUTANTS` the numbers of each part
are added to the file of that name, of which `scripts/mutants` makes docs/mutants.md.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import grammar
import plan_harness
import pytest
import reach_grammar
from fixture_cases import ACCEPTED, Case
from plan_harness import EMPTY, Sensitivity, Shop
from stored_harness import is_read, opened, prepare, read, tables_of

from dpproxy.engines import EngineSpeller
from dpproxy.errors import Refusal
from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.verdict import Trees, check, derived
from dpproxy.mechanisms import release
from dpproxy.mechanisms.noise import MechanismError
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.measurement import Measurement
from dpproxy.sql.template import Template
from dpproxy.tree.measured import Statement
from tests.kernel import mutants
from tests.kernel.mutants import everywhere, lesser
from tests.kernel.recorded import Recorded, recorded, recording

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


OF_KINDS = (
    "SELECT region, count(*), sum(qty % 7) FROM orders o JOIN customers c USING (customer_id) WHERE o.due > '2020-01-01' "
    "AND c.birth_year + 3 = o.qty + 1990 GROUP BY 1",
    "SELECT count(*) FROM (SELECT customer_id, lag(qty, 1, 0) OVER (PARTITION BY customer_id ORDER BY ts) AS q, left(status, 2) AS s, "
    "date_bin('7 days', ts, '2000-01-01') AS w FROM orders) t WHERE q > 3 AND w > '2020-01-01' AND s = 'op'",
    "SELECT sum(CASE WHEN status = 'open' THEN round(amount, 1) ELSE amount::int END) FROM orders WHERE extract(year FROM due) > 2000 "
    "AND status ~ '^o' AND coupon::int > 3",
)
"""Statements with operands of many kinds: an engine casts between some of them, and fails for some rows."""


READ = (
    ("whole", "SELECT status, count(*), sum(amount), avg(amount) FROM orders GROUP BY 1"),
    ("whole", "SELECT category, count(*), sum(qty) FROM orders GROUP BY 1"),
    ("shop", "SELECT page, sum(secs) FROM visits GROUP BY 1"),
)
"""Read from sums, from groups, and beside a weight."""


@dataclass
class Tally:
    """Mutants by operator: refused, harmless by deletion, failing in the engine whatever the data, and those that are accepted and
    leak, by their answers or by failing for some data alone."""

    refused: Counter[str] = field(default_factory=Counter)
    harmless: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)

    @property
    def judged(self) -> int:
        return sum(map(sum, (c.values() for c in (self.refused, self.harmless, self.broken)))) + len(self.leaks)


def text(tree: Statement) -> Any:
    """The query of a mutant, written as those of plans are."""
    return Template.of("duckdb", EngineSpeller("duckdb").query(tree).text)


@dataclass(frozen=True)
class Mutant:
    operator: str
    trees: Trees
    claimed: Measurement


def proved(made: Recorded, mutant: Mutant) -> Measurement | None:
    """The mutant's measurement, proved by the kernel; None where it is refused."""
    try:
        found = derived(mutant.trees, made.leaves, made.handed, made.stored)
        claimed = replace(mutant.claimed, counted=found.counted(mutant.claimed.l0))
        check(found, claimed)
    except Unproven:
        return None
    return claimed


def corrupted(made: Recorded) -> Iterator[Mutant]:
    trees, claimed = made.trees, made.claimed
    for name, main in (*mutants.mutants(trees.main), *everywhere(trees.main, made.stored)):
        yield Mutant(name, replace(trees, main=main), claimed)
    for i, side in enumerate(trees.side):
        for name, changed in mutants.mutants(side):
            yield Mutant(name, replace(trees, side=(*trees.side[:i], changed, *trees.side[i + 1 :])), claimed)
    for name, first in mutants.mutants(trees.first) if trees.first is not None else ():
        yield Mutant(f"first round: {name}", replace(trees, first=first), claimed)
    for name, less in (*lesser(claimed), ("fewer groups", replace(claimed, l0=claimed.l0 - 1))):
        yield Mutant(f"claim: {name.partition(' of ')[0]}", trees, less)


def judge(made: Recorded, shop: Shop, tame: Shop, tally: Tally, chosen: Sequence[Mutant]) -> None:
    for mutant in chosen:
        name = mutant.operator
        try:
            claimed = proved(made, mutant)
        except (TypeError, AttributeError, ValueError, KeyError):  # a tree that means nothing is no tree that a planner makes
            claimed = None
        if claimed is None:
            tally.refused[name] += 1
            continue
        problems = leaks(made, claimed, mutant.trees, shop, tame)
        if problems is None:
            tally.broken[name] += 1
        elif problems:
            tally.leaks.append(f"{name}: {problems[:2]}: {claimed.queries[0].parts}")
        else:
            tally.harmless[name] += 1


def leaks(made: Recorded, claimed: Measurement, trees: Trees, shop: Shop, tame: Shop) -> list[str] | None:
    """What deletion of units has against the claim; None for a query that no engine runs, whatever the data. That a query fails is
    an answer: one that fails on the hostile shop is run on a tame one, and on both without people."""
    try:
        queries = tuple(map(text, (trees.main, *trees.side)))
        claimed = with_first(replace(claimed, queries=queries), trees.first)
    except (LookupError, TypeError, ValueError, AssertionError, Refusal):
        return None
    values = plan_harness.values_of(made.plan)
    texts = plan_harness.queries(claimed, values)
    if error := failure(shop, None, texts):
        elsewhere = ((shop, EMPTY), (tame, None), (tame, EMPTY), *((shop, unit) for unit in shop.units))
        fails = all(failure(where, unit, texts) for where, unit in elsewhere)
        return None if fails else [f"fails for some data alone: {error}"]
    whole = [shop.run(sql) for sql in texts]
    try:
        release._check_declared(claimed, whole[0])
    except MechanismError:
        return []  # nothing is released
    return Sensitivity(shop).problems(replace(made.plan, measurements=(claimed,)))


def failure(shop: Shop, unit: int | str | None, texts: Sequence[str]) -> str:
    """The error of a query; empty where all are answered."""
    try:
        for sql in texts:
            shop.run(sql, unit)
    except duckdb.Error as error:
        return str(error)
    return ""


def with_first(claimed: Measurement, tree: Statement | None) -> Measurement:
    """The measurement with a mutant's query of the first round."""
    if tree is None or claimed.threshold is None or claimed.threshold.first is None:
        return claimed
    first = replace(claimed.threshold.first, query=text(tree))
    return replace(claimed, threshold=replace(claimed.threshold, first=first))


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop(1, 3, quick=True)


@pytest.fixture(scope="module")
def tame() -> Shop:
    return Shop(1, 0, quick=True, trouble=False)


def test_no_accepted_mutant_leaks(shop: Shop, tame: Shop, shop_catalog: Catalog) -> None:
    tally, rng = Tally(), random.Random(5)
    for name, sql in STATEMENTS:
        try:
            made = recorded(sql, shop_catalog, plan_harness.policy(name))
        except Refusal as refusal:
            pytest.fail(f"{sql}: {refusal}")
        every = list(corrupted(made))
        judge(made, shop, tame, tally, rng.sample(every, min(len(every), 60)))
    assert tally.leaks == []
    assert len(tally.refused | tally.harmless | tally.broken) >= 35, "operators"
    assert tally.refused.total() > tally.judged / 3


def test_no_accepted_mutant_of_kinds_fails_by_data(shop: Shop, tame: Shop, shop_catalog: Catalog) -> None:
    tally, rng = Tally(), random.Random(5)
    for sql in OF_KINDS:
        made = recorded(sql, shop_catalog, plan_harness.policy())
        every = [mutant for mutant in corrupted(made) if mutant.operator in mutants.OF_KINDS]
        judge(made, shop, tame, tally, rng.sample(every, min(len(every), 120)))
    assert tally.leaks == []
    assert len(tally.refused) >= 10, "operators"
    assert tally.refused.total() > 3 * tally.broken.total()


@pytest.fixture(scope="module")
def beside() -> tuple[Shop, Shop]:
    """A hostile and a tame shop."""
    return opened(Shop(1, 3, quick=True)), opened(Shop(1, 0, quick=True, trouble=False))


def read_from_tables(case: Case, shops: Sequence[Shop], catalog: Catalog) -> Recorded | None:
    """A plan that is read from stored tables, which are made beside each neighbour; None for one that is not."""
    given = plan_harness.policy(case.policy)
    tables = tables_of(case, given, catalog, [case.sql])
    try:
        made = recording(lambda: read(case, given, catalog, tables))
    except (Refusal, IndexError):
        return None
    for shop in shops:
        prepare(shop, tables, " ".join(table.name for table in tables))
    return made if is_read(made.plan) else None


def test_no_accepted_mutant_of_stored_tables_leaks(beside: tuple[Shop, Shop], shop_catalog: Catalog) -> None:
    tally, rng = Tally(), random.Random(7)
    for policy, sql in READ:
        made = read_from_tables(Case("mutants", policy, sql), beside, shop_catalog)
        assert made is not None, sql
        every = list(corrupted(made))
        stored = [mutant for mutant in every if "stored" in mutant.operator or "weight" in mutant.operator]
        judge(made, *beside, tally, [*rng.sample(stored, min(len(stored), 25)), *rng.sample(every, 10)])
    assert tally.leaks == []
    assert sum("stored" in name for name in tally.refused | tally.harmless) >= 8, "operators"


@pytest.mark.long
@pytest.mark.parametrize("part", range(20, 24))
def test_no_mutant_of_stored_tables_leaks(part: int, beside: tuple[Shop, Shop], shop_catalog: Catalog) -> None:
    """Of fixtures, whose plans are read from tables of their own and of their policy."""
    tally, rng = Tally(), random.Random(1100 + part)
    while tally.judged < 600:
        case = rng.choice(ACCEPTED)
        made = read_from_tables(case, beside, shop_catalog)
        if made is not None:
            every = list(corrupted(made))
            stored = [mutant for mutant in every if "stored" in mutant.operator or "weight" in mutant.operator]
            judge(made, *beside, tally, [*rng.sample(stored, min(len(stored), 30)), *rng.sample(every, min(len(every), 20))])
            assert tally.leaks == [], case.sql
    told(part, tally)


def told(part: int, tally: Tally) -> None:
    if file := os.environ.get("DPPROXY_MUTANTS"):
        with Path(file).open("a") as lines:
            lines.write(json.dumps({"part": part, **vars(tally)}) + "\n")


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_no_mutant_of_the_grammars_leaks(part: int, shop_catalog: Catalog) -> None:
    """In parts of a thousand, each of a few minutes."""
    tally, rng, shop, tame = Tally(), random.Random(1100 + part), Shop(2, 5, quick=True), Shop(2, 0, quick=True, trouble=False)
    policies = [plan_harness.policy(name) for name in ("shop", "whole", "busy")]
    while tally.judged < 1_000:
        aim = rng.choice((*reach_grammar.AIMS, ""))
        sql = reach_grammar.statement(rng.choice, aim).sql if aim else grammar.statement(rng.choice)
        try:
            made = recorded(sql, shop_catalog, rng.choice(policies))
        except (Refusal, IndexError):
            continue
        every = list(corrupted(made))
        judge(made, shop, tame, tally, rng.sample(every, min(len(every), 60)))
        assert tally.leaks == [], sql
    told(part, tally)
