"""What is released first and then a constant: the facade's queries are run over invented releases."""

from __future__ import annotations

from typing import Any

import plan_harness
import psycopg
import pytest
from facade_answers import Cells, answered
from noiseless_orders import NoiselessOrders

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog

SHARE = "SELECT count(*) FILTER (WHERE paid)::numeric / count(*) FROM orders"


def staged(postgres: psycopg.Connection[Any], catalog: Catalog, sql: str, arrays: list[Cells]) -> tuple[Any, str]:
    """The one value that the facade evaluates first, and its type."""
    (given,) = plan_harness.plan(sql, catalog).inputs
    ((value,),) = answered(postgres, f"SELECT {given.sql}", arrays)
    return value, given.type


@pytest.mark.parametrize(
    "reading",
    [
        f"SELECT count(*) FROM orders WHERE amount > ({SHARE})",
        f"WITH m AS ({SHARE}) SELECT count(*) FROM orders WHERE amount > (SELECT * FROM m)",
        f"WITH m(x) AS ({SHARE}) SELECT count(*) FROM orders WHERE amount > (SELECT x FROM m AS n LIMIT 1)",
        f"WITH m(x) AS ({SHARE}), n(y) AS (SELECT x FROM m) SELECT count(*) FROM orders WHERE amount > (SELECT y FROM n)",
    ],
)
def test_a_scalar_is_computed_of_what_was_released(
    postgres: psycopg.Connection[Any], shop_catalog: Catalog, reading: str
) -> None:
    value, type_ = staged(postgres, shop_catalog, reading, [[50], [4]])
    assert (float(value), type_) == (12.5, "numeric")


@pytest.mark.parametrize(
    ("reading", "arrays"),
    [
        (f"SELECT count(*) FROM orders WHERE amount > ({SHARE})", [[50], [0]]),
        ("SELECT count(*) FROM orders WHERE qty > (SELECT 8 / (count(*) / 2) FROM orders)", [[1]]),
        (f"WITH m(x) AS ({SHARE}) SELECT count(*) FROM orders WHERE amount > (SELECT x FROM m)", [[50], [0]]),
        ("WITH m(x) AS (SELECT count(*) FROM orders) SELECT count(*) FROM orders WHERE qty > (SELECT 1 % x FROM m)", [[0]]),
    ],
)
def test_no_noisy_zero_fails(postgres: psycopg.Connection[Any], shop_catalog: Catalog, reading: str, arrays: list[Cells]) -> None:
    """What is charged for is answered: with NULL."""
    assert staged(postgres, shop_catalog, reading, arrays)[0] is None


def test_rows_are_handed_over_with_their_types(postgres: psycopg.Connection[Any], shop_catalog: Catalog) -> None:
    sql = """SELECT count(*) FROM orders o JOIN (SELECT status AS s, count(*) AS n, 6 / count(*) AS share FROM orders GROUP BY 1) r
      ON o.status = r.s WHERE o.qty > r.share AND o.amount > r.n"""
    value, type_ = staged(postgres, shop_catalog, sql, [["open", "paid", "void"], [3, 0, 12]])
    assert type_ == "rows(text,int8,int8)"
    assert sorted(value) == [["open", "3", "2"], ["paid", "0", None], ["void", "12", "0"]]


def test_instants_are_handed_over_as_the_session_shows_them(postgres: psycopg.Connection[Any], shop_catalog: Catalog) -> None:
    """The engine knows no session's zone: what it is given are local timestamps."""
    postgres.execute("SET TimeZone = 'Asia/Tokyo'")
    try:
        sql = "SELECT count(*) FROM orders WHERE ts >= (SELECT ts::timestamptz FROM orders GROUP BY ts ORDER BY count(*) DESC LIMIT 1)"
        (given,) = plan_harness.plan(sql, shop_catalog, TimeZone="Asia/Tokyo").inputs
        ((value,),) = answered(postgres, f"SELECT ({given.sql})::text", [["2024-03-01 12:00:00"], [7]])
    finally:
        postgres.execute("RESET TimeZone")
    assert (value, given.type) == ("2024-03-01 12:00:00", "timestamptz")


def test_public_rows_fail_as_in_postgresql(postgres: psycopg.Connection[Any], shop_catalog: Catalog) -> None:
    """Nothing has been charged for them: an error is the truth."""
    sql = "SELECT count(*) FROM orders o JOIN (SELECT 6 / x AS y FROM generate_series(0, 3) AS s(x) LIMIT 9) p ON o.qty = p.y"
    *_, given = plan_harness.plan(sql, shop_catalog).inputs
    assert (given.arrays, given.measurements) == ((), ())
    with pytest.raises(psycopg.errors.DivisionByZero):
        postgres.execute(f"SELECT {given.sql}".encode())
    *_, well = plan_harness.plan(sql.replace("series(0", "series(1"), shop_catalog).inputs
    ((value,),) = postgres.execute(f"SELECT {well.sql}".encode()).fetchall()
    assert value == [["6"], ["3"], ["2"]]


def test_bounds_of_a_mean_bound_what_is_made_of_it(shop_catalog: Catalog) -> None:
    """`amount` is within 0 and 1000, so is its mean: a sum of differences has bounds; of a sum over a count nothing is known."""
    (basis,) = (
        plan_harness.plan("SELECT sum(amount - (SELECT avg(amount) FROM orders)) FROM orders", shop_catalog).measurements[1].bases
    )
    assert basis.linf * basis.grid == pytest.approx(3 * 1000, rel=0.01)
    with pytest.raises(Refusal, match="bound"):
        plan_harness.plan(f"SELECT sum(amount - ({SHARE})) FROM orders", shop_catalog)


@pytest.mark.parametrize("value", ["array_agg(s)", "json_agg(s)", "some_function(max(s))"])
def test_a_type_that_is_not_known_is_refused(shop_catalog: Catalog, value: str) -> None:
    inner = f"WITH t AS MATERIALIZED (SELECT status AS s, count(*) AS n FROM orders GROUP BY 1) SELECT {value} AS v FROM t WHERE n > 3"
    sql = "SELECT count(*) FROM orders WHERE note = (SELECT v FROM (" + inner + ") u)"
    with pytest.raises(Refusal) as refused:
        plan_harness.plan(sql, shop_catalog)
    assert "Cast its result" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("sql", "measurements"),
    [
        ("SELECT count(*) FROM orders UNION ALL SELECT count(*) + 1 FROM orders", 1),
        ("SELECT (SELECT count(*) FROM orders), count(*) FROM orders", 1),
        ("SELECT (SELECT count(*) FROM orders), status, count(*) FROM orders GROUP BY status ORDER BY 2", 2),
        ("WITH m AS (SELECT count(*) AS n FROM orders) SELECT a.n, b.n FROM m AS a, m AS b", 1),
        ("SELECT a.n, b.status FROM (SELECT count(*) AS n FROM orders) a, (SELECT DISTINCT status FROM orders) b ORDER BY 2", 2),
    ],
)
def test_what_is_measured_is_put_together(orders: NoiselessOrders, sql: str, measurements: int) -> None:
    assert len(orders.plan(sql).measurements) == measurements
    assert orders.released(sql) == orders.itself(sql)


@pytest.mark.parametrize("sql", ["SELECT 'x' FROM orders GROUP BY 'x'"])
def test_a_query_of_nothing_is_refused(shop_catalog: Catalog, sql: str) -> None:
    with pytest.raises(Refusal, match="neither keys nor aggregates"):
        plan_harness.plan(sql, shop_catalog)


def test_constants_and_own_tables_are_the_facades(shop_catalog: Catalog) -> None:
    """What is asked of the facade first is `now()`; a table of `dpproxy` is arrays beside those that are released."""
    made = plan_harness.plan("SELECT count(*), (SELECT count(*) FROM dpproxy.policy) FROM orders WHERE ts < now()", shop_catalog)
    assert len(made.measurements) == len(made.inputs) == 1
    assert {(a.virtual, a.measurement) for a in made.arrays} == {(None, 0), ("policy", None)}
