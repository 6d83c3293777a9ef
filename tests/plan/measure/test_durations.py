"""Intervals with a declared range: what is added up of them is what the policy allows, and it is what PostgreSQL says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace

import plan_harness
import pytest
from each_engine import Engine
from exact_harness import Outcome, Pair, difference
from plan_harness import AnyShop, Sensitivity

from dpproxy.errors import Refusal
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog, CatalogColumn
from dpproxy.policy.model import ColumnPolicy, Policy
from dpproxy.table_terms import TableName

VISITS = TableName("public", "visits")
SEED = 17
"""Of a shop that no other test uses, since this one adds a column."""
STAYS = ("NULL", "'2 months 3 days'", "'-5 days'", "'40 days 26:00:00'", "'1 year -330 days'", "'00:00:00.000001'", "'9 days'")
"""Within 30 days and beyond, with months that are made up for by days."""
ADDED = """
ALTER TABLE {schema}visits ADD COLUMN stay INTERVAL;
UPDATE {schema}visits SET stay = CAST(CASE (coalesce(customer_id, 0) * 3 + length(coalesce(page, ''))) % 8 {whens} ELSE '36:15:00' END
  AS INTERVAL);
"""
WITHIN = ("NULL", "'33 days'", "'-5 days'", "'40 days 26:00:00'", "'70 days -960 hours'", "'00:00:00.5'", "'9 days'")
"""Within a range of -10 to 100 days, and without months, parts of which PostgreSQL rounds in means to a millionth of a day."""


def added(stays: tuple[str, ...], schema: str = "") -> str:
    whens = " ".join(f"WHEN {i} THEN {stay}" for i, stay in enumerate(stays))
    return ADDED.format(schema=schema, whens=whens)


def ranged(given: Policy, low: int = 0, high: int = 30) -> Policy:
    """The policy with a range of `stay`, in days."""
    lasts = dt.timedelta(days=low), dt.timedelta(days=high)
    table = given.tables[VISITS]
    columns = {**table.columns, "stay": ColumnPolicy("stay", lasts=lasts)}
    return replace(given, tables={**given.tables, VISITS: replace(table, columns=columns)})


@pytest.fixture(scope="module")
def with_stays(shop_catalog: Catalog) -> Catalog:
    table = shop_catalog.tables[VISITS]
    more = replace(table, columns=(*table.columns, CatalogColumn("stay", "stay", "interval", True)))
    return replace(shop_catalog, tables={**shop_catalog.tables, VISITS: more})


@pytest.fixture
def shop(engine: Engine) -> AnyShop:
    def made() -> AnyShop:
        found = engine.shop(SEED, 6)
        for schema in ("main", *(f"beside_{n}" for n in (*found.units, plan_harness.NOBODY, plan_harness.SHUFFLED))):
            for statement in added(STAYS, f"{schema}.").split(";")[:2]:
                found.execute(statement)
        return found

    shop: AnyShop = engine.once("stays", made)
    return shop


ANSWERED = [
    "SELECT sum(stay) FROM visits",
    "SELECT page, avg(stay), count(*) FROM visits GROUP BY page",
    "SELECT avg(coalesce(stay, interval '1 day')) FROM visits",
    "SELECT sum(least(stay, interval '10 days')) FROM visits",
    "SELECT avg(CASE WHEN page = 'home' THEN stay END), min(stay), max(stay) FROM visits",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY stay) FROM visits WHERE stay > interval '1 hour'",
    "SELECT sum(extract(epoch FROM stay) / 3600) FROM visits",
    "SELECT avg(extract(epoch FROM stay)) FROM visits",
    "SELECT c.region, sum(v.stay) FROM customers c LEFT JOIN visits v USING (customer_id) GROUP BY 1",
    "WITH t AS (SELECT page, stay AS s FROM visits WHERE secs > 0) SELECT page, avg(s) FROM t GROUP BY 1",
]


@pytest.mark.parametrize("sql", ANSWERED)
def test_nobody_adds_more_than_the_policy_says(sql: str, shop: AnyShop, with_stays: Catalog) -> None:
    try:
        made = plan_harness.plan(sql, with_stays, ranged(plan_harness.policy()))
    except Refusal as refusal:
        pytest.fail(f"{refusal}")
    assert Sensitivity(shop).problems(made) == []


def test_the_range_is_what_a_person_adds(engine: Engine, with_stays: Catalog) -> None:
    made = plan_harness.plan("SELECT sum(stay) FROM visits", with_stays, ranged(plan_harness.policy()))
    (basis,) = made.measurements[0].bases
    assert basis.linf * basis.grid == 2 * 30 * 86_400  # two rows of 30 days, in seconds


def test_what_the_range_cuts_is_told(engine: Engine, with_stays: Catalog) -> None:
    made = plan_harness.plan("SELECT sum(stay) FROM visits", with_stays, ranged(plan_harness.policy()))
    assert [cut for cut in made.cuts if "stay" in str(cut)]


def test_without_a_range_it_is_refused(engine: Engine, with_stays: Catalog) -> None:
    given = ranged(plan_harness.policy())
    table = given.tables[VISITS]
    bare = replace(table, columns={**table.columns, "stay": ColumnPolicy("stay")})
    with pytest.raises(Refusal, match="interval without bounds"):
        plan_harness.plan("SELECT sum(stay) FROM visits", with_stays, replace(given, tables={**given.tables, VISITS: bare}))


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    given = ranged(plan_harness.wide(plan_harness.policy()), -10, 100)
    running = Pair(tmp_path_factory.mktemp("stays"), given, request.param, changes=added(WITHIN))
    yield running
    running.close()


@pytest.mark.parametrize("sql", ANSWERED)
def test_without_noise_it_is_what_postgresql_says(sql: str, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_harness, "planning", lambda policy, catalog, _: planning(policy, catalog, pair.dialect))
    made = plan_harness.plan(sql, pair.catalog, ranged(plan_harness.wide(plan_harness.policy()), -10, 100))
    ours, _ = pair.answer(made)
    assert not difference(in_milliseconds(ours), in_milliseconds(pair.plain(sql)), ordered=False)


def in_milliseconds(outcome: Outcome) -> Outcome:
    """An outcome whose intervals are numbers: PostgreSQL cuts off what is smaller than a microsecond, and here it is rounded."""
    rows = (tuple(round(c.total_seconds(), 3) if isinstance(c, dt.timedelta) else c for c in row) for row in outcome.rows)
    return Outcome(outcome.names, tuple(rows))
