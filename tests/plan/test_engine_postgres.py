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
from fixture_cases import ACCEPTED, Case
from hypothesis import HealthCheck
from plan_harness import cells, queries, values_of
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

ODD = [
    "big * big * big", "- big", "abs(big)", "big / qty", "big % qty", "big + 9223372036854775807", "qty::smallint",
    "amount * amount * amount", "amount / weight", "weight * weight * weight * weight", "weight / (weight * weight)",
    "sqrt(weight)", "ln(amount)", "log(weight)", "exp(weight)", "power(weight, 3)", "power(amount, 0.5)", "power(weight, weight)",
    "round(amount, 2)", "trunc(amount, -2)", "floor(weight)", "ceil(amount)", "sign(weight)", "weight::int", "amount::bigint",
    "weight::real", "amount::float8", "amount::float8 * weight", "weight::numeric", "weight::numeric * amount",
    "coupon::int", "coupon::bigint", "coupon::numeric", "coupon::float8", "coupon::date", "coupon::timestamp", "coupon::boolean",
    "coupon::uuid", "due + 1000000", "due - big::int", "due - ts::date", "ts + INTERVAL '4000 years'",
    "ts - INTERVAL '9000 years'", "ts - due", "due::timestamp", "ts::date", "date_trunc('decade', ts)",
    "date_trunc('week', due)", "extract(year FROM due)", "extract(isoyear FROM ts)", "extract(epoch FROM ts)",
    "extract(day FROM ts - due)", "to_char(ts, 'YYYY-MM')", "note || coupon || note", "replace(coupon, 'a', note)",
    "lpad(note, 20, 'x')", "split_part(coupon, '-', -1)", "substr(note, -3, 5)", "left(note, -2)",
    "nullif(amount, weight)", "coalesce(amount, weight)", "greatest(amount, weight, qty)", "CASE WHEN paid THEN big * 3 END",
    "width_bucket(amount, 0, 10, 5)", "width_bucket(weight, 0, 10, 5)", "width_bucket(big, ARRAY[1, 2])", "div(amount, weight::numeric)",
    "div(big, qty)", "cbrt(weight)", "log(amount, weight::numeric)", "degrees(weight)", "radians(weight)", "sin(weight)",
    "tan(big)", "asin(weight)", "acos(amount)", "atan2(weight, amount)", "~big", "big & qty", "big >> 3", "(big * big) | 1",
    "to_char(big, 'FM0000')", "to_char(amount, '00')", "initcap(note)", "repeat(note, 100)",
    "concat_ws('-', note, coupon)", "regexp_replace(note, '.', 'xyz', 'g')", "ascii(coupon)", "octet_length(note)", "translate(note, 'a', '')",
    "substring(note from '[a-z]+')", "(string_to_array(coupon, '-'))[2]", "extract(century FROM due)", "extract(julian FROM due)",
    "extract(microseconds FROM ts)", "extract(year FROM age(ts, due))", "extract(epoch FROM age(ts, due))", "ts - qty * INTERVAL '1 year'",
    "ts + big * INTERVAL '1 month'", "ts + age(ts, due)", "ts + make_interval(secs => qty)", "date_bin('1 hour', ts, '2024-01-01')",
    "make_date(qty, qty, qty)", "make_date(big::int, 2, 29)", "to_date(coupon, 'YYYY-MM-DD')", "to_date(note, 'YYYYMMDD')",
    "to_timestamp(coupon, 'YYYY-MM-DD HH24:MI:SS')", "to_timestamp(weight)", "to_timestamp(big)", "isfinite(due)", "ts::time > TIME '09:00'", "ts::text",
    "ts AT TIME ZONE 'Europe/Paris'", "ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo'", "date_trunc('day', due AT TIME ZONE 'Asia/Tokyo')",
    "to_char(ts, 'IYYY-IW D DDD WW HH12 AM Q Month')", "ROW(big, amount) < ROW(weight, qty)", "(due, due) OVERLAPS (due, due + 1)",
    "qty * 3000000000 * big % 7", "(big * big) % 5", "amount * weight + qty * big",
]  # fmt: skip


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


@pytest.mark.parametrize("major", sorted(installations()))
def test_every_version_takes_the_generated_sql(
    major: int, tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog
) -> None:
    with scratch_server(tmp_path_factory.mktemp("version"), installations()[major]) as running:
        assert running.major == major
        _takes_all(running, shop_catalog)


@pytest.mark.parametrize("image", [*(f"postgres:{major}" for major in range(14, 19)), "citusdata/citus:13.0"])
def test_every_image_takes_the_generated_sql(image: str, shop_catalog: Catalog) -> None:
    if not docker_answers():
        pytest.skip("DOCKER ABSENT: PostgreSQL 14 to 18 and Citus are not tried in containers")
    with container(image) as running:
        _takes_all(running, shop_catalog)


def _takes_all(server: Scratch | Container, shop_catalog: Catalog) -> None:
    shop = PostgresShop(server, "shop", 2, most=0)
    for case in ACCEPTED:
        made = planning(plan_harness.policy(case.policy), shop_catalog, "postgres")
        plan = _planned(made, case)
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
        made = case.plan(shop_catalog)
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

EXPRESSIONS = [
    "qty / 7", "-qty / 7", "(qty - 10) / 3", "(qty - 10) % 3", "-(qty % 4)", "big % 10", "(big - 500) / 100", "abs(qty - 10)",
    "qty * 1.5", "amount / 3 > 100", "round(amount)", "round(amount, 1)", "round(-amount, -1)", "trunc(amount)",
    "trunc(-amount, 1)", "floor(amount / 100)", "ceil(-amount / 100)", "round(weight)", "round(weight * 2)", "floor(-weight)",
    "weight::int", "amount::int", "(-amount)::bigint", "(weight + 0.5)::int", "qty::numeric(10,1)", "qty::text", "due::text",
    "paid::int", "qty::boolean", "paid::text", "sign(weight - 5)", "sqrt(qty)", "sqrt(nullif(qty, 3))", "exp(nullif(qty, 3) / 10.0) > 2", "power(qty, 2)", "exp(qty / 10.0) > 2",
    "ln(qty + 1) > 1", "log(qty + 1) > 1", "mod(qty, 3)", "greatest(qty, 5, big)", "least(qty, NULL, 5)",
    "coalesce(nullif(qty, 3), -1)", "nullif(category, 'toys')", "CASE WHEN qty > 5 THEN 'many' WHEN qty > 2 THEN 'some' END",
    "CASE status WHEN 'open' THEN 1 ELSE 0 END", "qty IS NULL", "paid IS TRUE", "paid IS NOT FALSE", "NOT paid",
    "paid OR NULL", "qty BETWEEN 3 AND 7", "qty IN (1, 2, 3)", "category IN ('toys', 'food')", "category NOT IN ('toys', NULL)",
    "category < 'food'", "category LIKE 't%'", "category LIKE '_o%'", "category NOT LIKE '%s'", "category ILIKE 'T%S'",
    "note LIKE '%\\%%'", "coupon LIKE '%#%%' ESCAPE '#'", "category ~ '^[tb]o'", "category ~* 'OO'", "category !~ 's$'",
    "lower(coupon)", "upper(category)", "length(note)", "length(coupon)", "substr(category, 2, 2)", "substring(category FROM 3)",
    "left(category, 2)", "left(category, -2)", "right(category, 3)", "right(category, -1)", "reverse(category)",
    "replace(category, 'o', '00')", "strpos(category, 'o')", "position('z' IN category)", "trim(coupon)", "ltrim(note, 'gl')",
    "rtrim(note, 'pek')", "lpad(category, 7, '*')", "rpad(category, 3, '-')", "split_part(note, ' ', 1)",
    "split_part(coupon, '-', 2)", "split_part(coupon, '-', -1)", "category || '-' || status", "category || NULL",
    "concat(category, NULL, qty)", "md5(category)", "starts_with(category, 'to')",
    "extract(year FROM ts)", "extract(month FROM due)", "extract(dow FROM ts)", "extract(isodow FROM due)",
    "extract(doy FROM ts)", "extract(week FROM ts)", "extract(quarter FROM due)", "extract(hour FROM ts)",
    "extract(isoyear FROM due)", "date_part('minute', ts) > 30", "extract(second FROM ts)", "extract(epoch FROM ts) > 1.71e9",
    "date_trunc('month', ts)", "date_trunc('week', due)", "date_trunc('hour', ts)", "date_trunc('quarter', due)",
    "date_trunc('decade', ts)", "date_trunc('year', ts)", "ts::date", "due::timestamp",
    "due + 30", "due - 45", "due - DATE '2024-01-01'", "ts::date - due", "due + INTERVAL '1 month'",
    "ts - INTERVAL '36 hours'", "(ts + INTERVAL '1 month')::date", "ts > due", "ts > '2024-03-01'", "due >= DATE '2024-06-30'",
    "extract(day FROM ts - TIMESTAMP '2024-01-01 06:00:00')", "to_char(ts, 'YYYY-MM')", "to_char(ts, 'HH24:MI') > '12:00'",
    "to_char(ts, 'Mon YYYY')", "to_char(due, 'FMDay')", "to_char(ts, 'DD/MM/YYYY')", "('x' || qty)::text",
    "(qty || '0')::int", "(qty || '.5')::numeric", "(qty || '.5')::numeric::int", "'2024-0' || (qty % 9 + 1)",
    "('2024-0' || (qty % 9 + 1) || '-01')::date",
    # buckets, numbers
    "width_bucket(amount, 0, 1000, 10)", "width_bucket(amount, 0.1, 0.7, 6)", "width_bucket(qty, 0, 20, 4)",
    "width_bucket(weight, -2, 40, 7)", "width_bucket(amount, ARRAY[10, 50.5, 500])", "width_bucket(qty, ARRAY[3, 3, 7])",
    "width_bucket(due, ARRAY['2024-03-01', '2024-06-01']::date[])", "div(qty, 3)", "div(-amount, 0.3)", "cbrt(qty * qty * qty)",
    "round(log(2, qty + 1), 6)", "round(degrees(qty)::numeric, 6)", "round(radians(qty)::numeric, 6)", "round(sin(qty)::numeric, 6)",
    "round(acos(qty / 20.0)::numeric, 6)", "round(atan2(qty, 3)::numeric, 6)", "tan(qty) > 1", "asin(cos(qty)) > 0.5",
    "round((pi() * qty)::numeric, 6)", "num_nulls(qty, coupon, nullif(qty, 3))", "num_nonnulls(coupon, paid)", "qty & 5",
    "qty | 8", "qty # 3", "~qty", "-qty >> 1", "big & 255", "(big | 1) & 3", "to_char(qty, 'FM000')", "to_char(-qty, '00')",
    "to_char(amount, '000')", "to_char(qty, '0')",
    # texts
    "initcap(note)", "initcap(coupon)", "concat_ws('-', category, NULL, qty, paid)", "format('%s: %s (100%%)', category, coupon)",
    "concat(category, paid)", "translate(note, 'gift', 'GF')", "overlay(category placing 'XX' from 2 for 1)",
    "overlay(category placing 'XX' from 3)", "repeat(status, 2)", "ascii(coupon)", "octet_length(coupon)", "chr(65) || status",
    "regexp_replace(note, '[aeiou]', '#')", "regexp_replace(note, '[aeiou]+', '', 'g')", "regexp_replace(note, '[G-P]', '', 'gi')",
    r"regexp_replace(note, '(.)t', '\1T')", "substring(note from '[a-m]+')", "substring(coupon from '-([0-9]+)')",
    "(regexp_match(note, '(l.)'))[1]", r"regexp_replace(note, '^(?:gi)?([a-m]*)(.+)$', '\1<\2')",
    r"regexp_replace(note, '^w?r(ap)?(.*)p?$', '\1|\2')", "(regexp_match(note, 'WRAP', 'i'))[1]", "regexp_replace(note, 'gift|late', 'x')",
    "category SIMILAR TO '(to|foo)%'", "category NOT SIMILAR TO '_o%s'", "coupon SIMILAR TO '%[0-9]'", "coupon SIMILAR TO '%.%'",
    "(string_to_array(note, ' '))[2]", "array_length(string_to_array(coupon, '-'), 1)", "cardinality(string_to_array(coupon, '-'))",
    "category ^@ 'to'", "category LIKE ANY (ARRAY['t%', '%k%'])", "category NOT LIKE ALL ('{t%,%k%}')",
    "category NOT ILIKE ANY (ARRAY['T%', NULL])", "category = SOME (ARRAY['toys', 'food'])", "category <> ALL (ARRAY['toys', 'food'])",
    "category = ANY ('{toys,food}')", "qty > ANY (ARRAY[5, NULL])", "qty >= ALL ('{3,4}'::int[])", "qty <> ANY (ARRAY[3])",
    # rows and tests
    "(qty, status) IN ((1, 'open'), (2, 'paid'))", "(qty, status) NOT IN ((1, 'open'))", "(qty, big) < (5, 10)",
    "(category, nullif(qty, 3), big) >= ('food', 3, 0)", "ROW(qty, paid) = ROW(1, true)", "ROW(qty, coupon) IS DISTINCT FROM ROW(1, NULL)",
    "qty BETWEEN SYMMETRIC 10 AND 5", "paid IS UNKNOWN", "paid IS NOT UNKNOWN",
    "(due, due + 30) OVERLAPS (DATE '2024-03-01', DATE '2024-04-01')", "(due, due) OVERLAPS (DATE '2024-03-01', DATE '2024-03-01')",
    "(ts, INTERVAL '40 days') OVERLAPS (TIMESTAMP '2024-05-01', TIMESTAMP '2024-03-01')",
    # times
    "extract(century FROM ts)", "extract(millennium FROM due)", "extract(decade FROM ts)", "extract(milliseconds FROM ts)",
    "extract(microseconds FROM ts)", "extract(julian FROM due)", "date_part('decade', due)",
    "extract(year FROM age(ts, TIMESTAMP '1990-05-17 10:00'))", "extract(month FROM age(ts, TIMESTAMP '1990-05-31 23:30'))",
    "extract(day FROM age(due, ts))", "extract(hour FROM age(due, ts))", "extract(minute FROM age(ts, due))",
    "extract(epoch FROM age(due, DATE '2023-01-31'))", "age(ts, due) > INTERVAL '1 month'", "date_part('month', age(DATE '2024-03-31', due))",
    "extract(second FROM ts - TIMESTAMP '2024-01-01 00:00:30')", "extract(hour FROM ts - due)", "extract(day FROM due::timestamp - ts)",
    "date_bin('7 days', ts, TIMESTAMP '2024-01-01')", "date_bin('15 minutes', ts, TIMESTAMP '2030-01-01 00:05')",
    "date_bin('6 hours', due, '2024-02-01')", "due + qty * INTERVAL '1 day'", "ts - INTERVAL '90 minutes' * qty",
    "due + make_interval(months => qty)", "due + make_interval(days => 3, hours => 2)", "make_date(2024, qty % 12 + 1, 15)",
    "make_date(2023, 2, qty + 1)", "make_date(extract(year FROM ts)::int, extract(month FROM due)::int, 1)",
    "to_date(to_char(due, 'DD/MM/YYYY'), 'DD/MM/YYYY')", "to_date(to_char(due, 'YYYYMMDD'), 'YYYYMMDD')",
    "to_date(to_char(due, 'DD.MM.YYYY'), 'DD.MM.YYYY')",
    "to_timestamp(to_char(ts, 'YYYY-MM-DD HH24:MI:SS'), 'YYYY-MM-DD HH24:MI:SS') AT TIME ZONE 'UTC'",
    "to_timestamp(1700000000 + qty) AT TIME ZONE 'UTC'", "isfinite(ts)", "isfinite(due)", "ts::time > '12:00'",
    "ts::time BETWEEN TIME '09:00' AND TIME '17:30:00'", "extract(hour FROM ts::time)", "ts::text", "ts::text LIKE '2024-02%'",
    "ts AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Paris'", "(ts AT TIME ZONE 'America/New_York') AT TIME ZONE 'UTC'",
    "date_trunc('day', ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Kolkata')", "timezone('UTC', timezone('Europe/Paris', ts))",
    "extract(hour FROM ts AT TIME ZONE 'UTC' AT TIME ZONE 'Australia/Lord_Howe')",
    "to_char(ts, 'YYYY-\"Q\"Q')", "to_char(ts, 'IYYY-\"W\"IW')", "to_char(due, 'Day')", "to_char(due, 'MONTH YYYY')",
    "to_char(due, 'mon')", "to_char(due, 'DY, FMDD. FMMonth')", "to_char(ts, 'FMHH12:MI AM')", "to_char(ts, 'HH:MI pm')",
    "to_char(ts, 'D ID DDD WW')", "to_char(ts, 'YYYY-MM-DD\"T\"HH24:MI:SS')", "to_char(due, 'FMMM/FMDD/YY')",
]  # fmt: skip


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


WHOLE = [
    "SELECT y / 7 AS k, count(*) FROM (SELECT customer_id, qty * 5000000000 AS y FROM orders) t GROUP BY 1",
    "SELECT s / 3 AS k, count(*) FROM (SELECT customer_id, sum(qty) AS s FROM orders GROUP BY 1) t GROUP BY 1",
    "SELECT m % 4 AS k, count(*) FROM (SELECT customer_id, max(qty) * 3 AS m, avg(qty) AS a FROM orders GROUP BY 1) t"
    " WHERE a > 5 GROUP BY 1",
    "SELECT s AS k, count(*) FROM (SELECT customer_id, sum(qty) OVER (PARTITION BY customer_id ORDER BY order_id) / 4 AS s"
    " FROM orders) t GROUP BY 1",
    "SELECT q AS k, count(*) FROM (SELECT customer_id, ntile(3) OVER (PARTITION BY customer_id ORDER BY due, order_id) AS q"
    " FROM orders) t GROUP BY 1",
    "SELECT l AS k, count(*) FROM (SELECT customer_id, lag(qty, 1, -1) OVER (PARTITION BY customer_id ORDER BY ts, order_id)"
    " AS l FROM orders) t GROUP BY 1",
    "SELECT r AS k, count(*) FROM (SELECT customer_id, rank() OVER (PARTITION BY customer_id ORDER BY coupon DESC) AS r"
    " FROM orders) t GROUP BY 1",
    "SELECT c.region AS k, count(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
    " WHERE o.qty > (SELECT avg(i.qty) FROM orders i WHERE i.customer_id = o.customer_id) GROUP BY 1",
    "SELECT o.status AS k, count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM visits v WHERE v.customer_id = o.customer_id"
    " AND v.day > o.due) GROUP BY 1",
    "SELECT o.status AS k, count(*) FROM orders o WHERE o.customer_id NOT IN (SELECT customer_id FROM visits) GROUP BY 1",
    "SELECT coalesce(p.kind, '?') AS k, count(*) FROM order_items i LEFT JOIN products p ON i.product_id = p.product_id + 3 GROUP BY 1",
    "SELECT k, count(*) FROM (SELECT customer_id, 'o' AS k FROM orders UNION ALL SELECT customer_id, 'v' FROM visits) t GROUP BY 1",
]  # fmt: skip


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


@pytest.mark.parametrize("case", [c for c in ACCEPTED if c.exact in ("", "declared")], ids=str)
def test_fixtures_agree(
    case: Case, tame: PostgresShop, tame_duckdb: duckdb.DuckDBPyConnection, shop_catalog: Catalog, wide: Policy
) -> None:
    """Whole measurements: the same groups and the same sums from both engines."""
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
