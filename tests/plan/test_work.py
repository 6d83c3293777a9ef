"""What one person's rows make an engine do, against what EXPLAIN says of it: random statements, run where the person has more rows
each time, and the rows counted that the engine itself says it went through.

Long mode: `pytest -m long tests/plan/test_work.py`, 2,000 statements on each engine. `asked(seed)` makes a statement again.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import plan_harness
import pytest
import work_grammar
from each_engine import ENGINES
from plan_harness import Unproved
from scratch_postgres import Scratch
from work_world import OTHERS, DuckDBWork, PostgresWork, Work

from dpproxy.errors import Refusal
from dpproxy.kernel.growth import Growth
from dpproxy.kernel.shares import Share, Size
from dpproxy.kernel.verdict import derived
from dpproxy.plan.measure.row_costs import Cost, Estimate
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.template import Dialect
from tests.kernel.recorded import recorded

SIZES = (0, 40, 80, 160)
FEW = (0, 20, 40)
"""For statements that grow with the fourth power."""
SLACK = 1.3
"""Terms of lower powers, and other people's rows."""
LEAST = 2_000
"""Fewer rows than that tell nothing of how they grow."""


@pytest.fixture(scope="module")
def works(scratch: Scratch) -> Iterator[dict[Dialect, Work]]:
    with contextlib.closing(PostgresWork(scratch, (20, *SIZES))) as postgres:
        yield {"duckdb": DuckDBWork((20, *SIZES)), "postgres": postgres}


def asked(seed: int) -> str:
    return work_grammar.statement(random.Random(seed).choice)


def stated(sql: str, catalog: Catalog) -> tuple[Size, list[str]] | None:
    """What EXPLAIN states of a statement, and what is run; None where it is refused."""
    try:
        made = recorded(sql, catalog)
    except Refusal:
        return None
    queries = plan_harness.queries(made.claimed, [])
    return derived(made.trees, made.leaves, made.handed).growth, queries


def problem(size: Size, queries: list[str], work: Work, sizes: tuple[int, ...] = SIZES) -> str:
    """What is gone through beyond what is stated; empty where nothing is."""
    for query in queries:
        counts = [work.rows(query, rows) for rows in sizes]
        assert counts[-1] > 0, "nothing was counted"
        grown = [count - counts[0] for count in counts]
        for (fewer, before), (more, after) in zip(
            zip(sizes, grown, strict=True), zip(sizes[1:], grown[1:], strict=True), strict=False
        ):
            if fewer and after > LEAST and after > SLACK * max(before, LEAST / 4) * (more / fewer) ** size.power:
                return f"{counts} rows for {sizes}, stated is R^{size.power}: {query}"
        most = (
            size.times * (OTHERS + 1) ** 2 * (sizes[-1] + 2 * OTHERS) ** size.power
        )  # others' rows are read, too: once, and again
        if grown[-1] > SLACK * most:
            return f"{counts} rows for {sizes}, stated is at most {size.times} * R^{size.power}: {query}"
    return ""


def judged(seeds: range, dialect: Dialect, work: Work, catalog: Catalog, patch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    patch.setattr(plan_harness, "engine", dialect)
    accepted, wrong = 0, []
    for seed in seeds:
        made = stated(asked(seed), catalog)
        if made is not None:
            accepted += 1
            found = problem(*made, work)
            wrong += [f"seed {seed}: {asked(seed)}: {found}"] if found else []
    return accepted, wrong


@pytest.mark.parametrize("dialect", ENGINES)
def test_work_grows_as_explain_states(
    dialect: Dialect, works: dict[Dialect, Work], shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted, wrong = judged(range(80), dialect, works[dialect], shop_catalog, monkeypatch)
    assert wrong == []
    assert accepted > 25, "many statements must be accepted, or nothing is shown"


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("dialect", ENGINES)
def test_work_of_very_many_statements(
    dialect: Dialect, part: int, works: dict[Dialect, Work], shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = 1000 + 200 * part
    accepted, wrong = judged(range(first, first + 200), dialect, works[dialect], shop_catalog, monkeypatch)
    assert wrong == []
    assert accepted > 70


# --- planted bugs: what was wrong once, put back


def _the_planner_adds_nothing(patch: pytest.MonkeyPatch) -> None:
    """What a subquery goes through for each row around it was taken for no more than the rows around it, or its own."""
    times = Cost.times
    patch.setattr(Cost, "times", lambda self, flow: replace(times(self, flow), power=max(self.power, flow.power), rows=1))


def _the_kernel_counts_a_subquery_once(patch: pytest.MonkeyPatch) -> None:
    """It was a relation by itself."""

    def planted(self: Growth, again: Size | None, share: Share) -> None:
        if again is not None:
            self._counted(again, share.private)

    patch.setattr(Growth, "_gone_through", planted)


def _the_planner_computes_columns_once(patch: pytest.MonkeyPatch) -> None:
    """A derived table was taken to hold what its subqueries say."""
    project = Estimate._project
    patch.setattr(Estimate, "_project", lambda self, node: replace(project(self, node), late=frozenset()))


def _the_kernel_computes_columns_once(patch: pytest.MonkeyPatch) -> None:
    project = Growth._project
    patch.setattr(Growth, "_project", lambda self, node: replace(project(self, node), late={}))


Plant = Callable[[pytest.MonkeyPatch], None]
RELATED = "b.customer_id = a.customer_id AND c.customer_id = b.customer_id AND b.big < a.big + z.qty + 9999"
AVERAGE = (
    "SELECT customer_id, qty, (SELECT avg(b.big) FROM orders b WHERE b.customer_id = a.customer_id AND b.big < a.qty + 9999)"
)
PLANTED: dict[str, tuple[Plant, Plant, tuple[Dialect, ...], tuple[str, ...]]] = {
    "a subquery once": (_the_planner_adds_nothing, _the_kernel_counts_a_subquery_once, ENGINES, (
        "SELECT count(*) FROM orders a, orders z WHERE z.customer_id = a.customer_id AND a.qty < 9999 + (SELECT avg(b.qty) FROM "
        f"orders b, orders c WHERE {RELATED})",
        "SELECT count(*) FROM orders a, orders z WHERE z.customer_id = a.customer_id AND a.qty NOT IN (SELECT b.qty + 9999 FROM orders b "
        "WHERE b.customer_id = a.customer_id AND b.big < a.big + z.qty + 9999)",
        "SELECT (SELECT max(b.qty) FROM orders b, orders c WHERE "
        f"{RELATED}) > 3, count(*) FROM orders a, orders z WHERE z.customer_id = a.customer_id GROUP BY 1",
    )),
    "a column once": (_the_planner_computes_columns_once, _the_kernel_computes_columns_once, ("postgres",), (
        f"SELECT count(*) FROM ({AVERAGE} AS x FROM orders a) d JOIN visits v USING (customer_id) WHERE v.secs < d.x + 9999",
        f"SELECT count(*) FROM ({AVERAGE} AS x FROM orders a) d WHERE EXISTS (SELECT 1 FROM visits v WHERE "
        "v.customer_id = d.customer_id AND v.secs > d.x + 9999)",
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(
    name: str, works: dict[Dialect, Work], shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, kernel, dialects, statements = PLANTED[name]
    for sql in statements:
        assert stated(sql, shop_catalog) is None, "refused"
    planner(monkeypatch)
    for sql in statements:
        with pytest.raises(Unproved):
            stated(sql, shop_catalog)
    kernel(monkeypatch)
    for dialect in dialects:
        monkeypatch.setattr(plan_harness, "engine", dialect)
        for sql in statements:
            made = stated(sql, shop_catalog)
            assert made is not None
            assert problem(*made, works[dialect], FEW), f"by data: {sql}"


MISLEADING = " AND ".join(f"a.qty % {n} = a.big % {n}" for n in (3, 5, 7, 11, 13))
"""True of all rows, and taken to be true of one in two hundred each."""


def test_misled_estimates_do_not_make_work_grow(
    works: dict[Dialect, Work], shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL goes through pairs again for each row where it takes this row for the only one: with nested loops."""
    monkeypatch.setattr(plan_harness, "engine", "postgres")
    made = stated(
        f"SELECT count(*) FROM orders a WHERE {MISLEADING} AND EXISTS (SELECT 1 FROM visits b, visits c WHERE b.customer_id = a.customer_id "
        "AND c.customer_id = b.customer_id AND b.secs < c.secs + 9999 AND b.secs = a.qty)", shop_catalog,
    )  # fmt: skip
    postgres = works["postgres"]
    assert isinstance(postgres, PostgresWork)
    assert made is not None
    assert problem(*made, postgres, FEW) == ""
    postgres.set("enable_nestloop", "on")
    try:
        assert problem(*made, postgres, FEW)
    finally:
        postgres.set("enable_nestloop", "off")
