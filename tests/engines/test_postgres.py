"""PostgreSQL's spelling: total whatever the data, taken by every version, parallel, and with the same answers as DuckDB's.

What both engines must keep alike is in `test_sensitivity`, `test_total_functions` and `test_engines_agree`. Here are expressions that
raise in PostgreSQL (numerics of 131,072 digits, the ends of the calendar), inside everything that can be around them; then
three speak: PostgreSQL about the analyst's own expression, the generated SQL there, and the generated SQL on DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import plan_harness
import psycopg
import pytest
import shop_world
from agreement import groups, plain_cell, plans
from fixture_cases import ACCEPTED, Case, sampled
from hypothesis import HealthCheck
from plan_harness import cells, queries, values_of
from postgres_expressions import EXPRESSIONS, ODD, WHOLE
from postgres_shop import PostgresShop
from scratch_postgres import Container, Scratch, container, docker_answers, installations, scratch_server

from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy

SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture(scope="module")
def small(server: Scratch) -> Iterator[PostgresShop]:
    made = PostgresShop(server, "small", 2, most=4)
    yield made
    made.close()


@pytest.fixture
def on_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_harness, "engine", "postgres")


# --- expressions that raise in PostgreSQL, and what each version makes of them


@pytest.mark.usefixtures("on_postgres")
@pytest.mark.parametrize("expression", ODD)
def test_no_value_raises(expression: str, small: PostgresShop, shop_catalog: Catalog) -> None:
    """As a key, in a predicate, in a sum, inside one unit's own aggregate, and as a column of a subquery."""
    accepted = 0
    for sql in (
        f"SELECT {expression}, count(*) FROM orders GROUP BY 1",
        f"SELECT count(*) FROM orders WHERE ({expression}) IS NOT NULL AND ({expression}) = ({expression})",
        f"SELECT sum(least(greatest(({expression})::float8, 0), 10)) FROM orders",
        f"SELECT count(*) FROM (SELECT customer_id, sum(({expression})::numeric) AS s, avg({expression}) AS a,"
        f" stddev({expression}) AS d, max({expression}) AS m FROM orders GROUP BY 1) t WHERE s * a > d OR m = m",
        f"SELECT count(*) FROM (SELECT customer_id, {expression} AS y FROM orders) t WHERE y * y > y",
        f"SELECT count(*) FROM (SELECT customer_id, {expression} AS y FROM orders) t WHERE y % 7 = 1 OR y / 3 = 5",
    ):
        if not small.takes(sql):
            continue
        try:
            made = plan_harness.plan(sql, shop_catalog)
        except Refusal:
            continue
        accepted += 1
        for measurement in made.measurements:
            for text in queries(measurement, values_of(made)):
                small.run(text)
    assert accepted >= 2


@pytest.mark.usefixtures("on_postgres")
@pytest.mark.parametrize("major", sorted(installations()))
def test_every_version_takes_the_generated_sql(
    major: int, tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog
) -> None:
    with scratch_server(tmp_path_factory.mktemp("version"), installations()[major]) as running:
        assert running.major == major
        _takes_all(running, shop_catalog)


@pytest.mark.usefixtures("on_postgres")
@pytest.mark.parametrize("image", [*(f"postgres:{major}" for major in range(14, 19)), "citusdata/citus:13.0"])
def test_every_image_takes_the_generated_sql(image: str, shop_catalog: Catalog) -> None:
    if not docker_answers():
        pytest.skip("DOCKER ABSENT: PostgreSQL 14 to 18 and Citus are not tried in containers")
    with container(image) as running:
        _takes_all(running, shop_catalog)


def _takes_all(server: Scratch | Container, shop_catalog: Catalog) -> None:
    shop = PostgresShop(server, "shop", 2, most=0)
    for case in ACCEPTED:
        plan = case.known_plan(shop_catalog)
        for measurement in plan.measurements:
            for text in queries(measurement, values_of(plan, case.values)):
                shop.run(text)
    shop.close()


@pytest.mark.usefixtures("on_postgres")
def test_plans_may_be_parallel(server: Scratch, shop_catalog: Catalog) -> None:
    """Nothing in the generated SQL keeps PostgreSQL from reading private tables with several processes."""
    shop = PostgresShop(server, "parallel", 2, most=0)
    shop.connection.execute("SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
    shop.connection.execute("SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; ANALYZE")
    serial = []
    for case in ACCEPTED:
        made = case.known_plan(shop_catalog)
        for text in (text for m in made.measurements for text in queries(m, values_of(made, case.values))):
            found = "\n".join(row[0] for row in shop.connection.execute(f"EXPLAIN {text}".encode()))
            if "Seq Scan" in found and "Gather" not in found and "SubPlan" not in found:  # PostgreSQL's own limit
                serial.append((str(case), text))
    shop.close()
    assert serial == []


def _planned(made: Any, case: Case) -> Plan:
    policy = plan_harness.policy(case.policy)
    values = {"search_path": "public", **{k: str(v) for k, v in case.settings.items()}}
    return made(plan_harness.statement(case.sql, policy), policy.roles[case.role], values, case.types)


# --- three that must agree


@pytest.fixture(scope="module")
def wide() -> Policy:
    return plan_harness.wide(plan_harness.policy())


@pytest.fixture(scope="module")
def tame(server: Scratch) -> Iterator[PostgresShop]:
    made = PostgresShop(server, "tame", 3, trouble=False)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tame_duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        shop_world.fill(connection, 3, trouble=False)
        yield connection


@pytest.mark.parametrize("sql", [*(f"SELECT {e} AS k, count(*) FROM orders GROUP BY 1" for e in EXPRESSIONS), *WHOLE])
def test_three_agree(
    sql: str, tame: PostgresShop, tame_duckdb: duckdb.DuckDBPyConnection, shop_catalog: Catalog, wide: Policy
) -> None:
    postgres, other = plans(sql, shop_catalog, wide)
    values = values_of(postgres)
    ours = groups(cells(tame.run(queries(postgres.measurements[0], values)[0]).select(["k0", "b0"])), 1)
    duck = tame_duckdb.sql(queries(other.measurements[0], values)[0]).project("k0, b0").fetchall()
    tame.connection.execute("SET search_path = main, pg_catalog")
    try:
        plain = groups(cells(tame.run(sql)), 1)
    finally:
        tame.connection.execute("SET search_path = pg_catalog")
    assert ours == plain
    assert groups(duck, 1) == plain


@pytest.mark.parametrize("case", sampled([c for c in ACCEPTED if c.exact in ("", "declared")], 6), ids=str)
def test_fixtures_agree(
    case: Case, tame: PostgresShop, tame_duckdb: duckdb.DuckDBPyConnection, shop_catalog: Catalog, wide: Policy
) -> None:
    """Whole measurements: the same groups and the same sums from both engines. A few: `tests/plan/test_exactness.py` compares the
    answer of each of them on either engine with PostgreSQL's own."""
    plans = [_planned(planning(wide, shop_catalog, dialect), case) for dialect in ("postgres", "duckdb")]
    values = values_of(plans[0], case.values)
    for ours, other in zip(plans[0].measurements, plans[1].measurements, strict=True):
        for mine, duck in zip(queries(ours, values), queries(other, values), strict=True):
            left = [tuple(map(plain_cell, row)) for row in cells(tame.run(mine))]
            right = [tuple(map(plain_cell, row)) for row in tame_duckdb.sql(duck).fetchall()]
            assert sorted(left, key=repr) == sorted(right, key=repr)


@pytest.mark.parametrize("part", ["day", "hour", "minute"])
def test_fields_of_intervals(
    part: str, tame: PostgresShop, tame_duckdb: duckdb.DuckDBPyConnection, shop_catalog: Catalog, wide: Policy
) -> None:
    """They are summed as far as differences of times go, below zero as well, and not as far as calendars go."""
    sql = f"SELECT sum(extract({part} FROM ts - due)) AS s FROM orders"
    postgres, other = plans(sql, shop_catalog, wide)
    (ours,) = cells(tame.run(queries(postgres.measurements[0], values_of(postgres))[0]).select(["b0"]))
    ((duck,),) = tame_duckdb.sql(queries(other.measurements[0], values_of(other))[0]).project("b0").fetchall()
    plain = tame.connection.execute(sql.replace("orders", "main.orders").encode()).fetchone()
    assert plain is not None
    assert int(ours[0]) == int(duck) == int(plain[0])
    assert abs(int(ours[0])) > 100


LONG_TEXTS = [
    "lower(coupon)", "trim(coupon)", "ltrim(note, coupon)", "coupon ~ 'y$'", "coupon ILIKE '%Y'", "coupon::int", "coupon::boolean",
    "upper(left(coupon, 5))", "coupon || coupon",
]  # fmt: skip


@pytest.mark.usefixtures("on_postgres")
def test_very_long_texts_raise_nothing(tame: PostgresShop, shop_catalog: Catalog) -> None:
    """PostgreSQL widens texts inside some functions, and raises when that takes more than a gigabyte."""
    connection = tame.connection
    connection.execute(
        "UPDATE main.orders SET coupon = repeat('x', 270000000) WHERE order_id = (SELECT min(order_id) FROM main.orders)"
    )
    try:
        with pytest.raises(psycopg.errors.InternalError_, match="invalid memory alloc request size"):
            connection.execute("SELECT count(*) FROM main.orders WHERE octet_length(coupon) > 1000000 AND coupon ~ 'y$'")
        tried = 0
        for expression in LONG_TEXTS:
            try:
                made = plan_harness.plan(f"SELECT count(*) FROM orders WHERE ({expression}) IS NOT NULL", shop_catalog)
            except Refusal:
                continue
            tried += 1
            for text in queries(made.measurements[0], values_of(made)):
                tame.run(text)
        assert tried == len(LONG_TEXTS)
    finally:
        connection.execute("UPDATE main.orders SET coupon = 'a-b' WHERE octet_length(coupon) > 1000000")
