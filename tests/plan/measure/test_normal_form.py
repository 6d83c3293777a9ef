"""The normal form: other words for the same measurement get its names, other measurements never do."""

from __future__ import annotations

from itertools import combinations

import plan_harness
import pytest

from dpproxy.plan.measure.normal_form import _Form
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.measurement import Names
from dpproxy.tree.expr import FALSE, TRUE, Call, Column, Expr, InList, Lit, Ref
from dpproxy.tree.relation import Filter, Join, Scan

Identity = tuple[object, frozenset[object], frozenset[object]]


def identity(sql: str, catalog: Catalog) -> Identity:
    (measurement,) = plan_harness.plan(sql, catalog).measurements
    names = measurement.canonical
    assert isinstance(names, Names)
    assert len(names.columns) == len(measurement.bases) + sum(max(1, len(s.fractions)) for s in measurement.selections)
    assert len(set(names.keys)) == len(measurement.keys)
    return names.rows, frozenset(names.keys), frozenset(names.columns)


SAME = {
    "aliases, post-processing, constants, CTEs, order of predicates": [
        "SELECT region, count(*) FROM customers WHERE sex = 'F' AND birth_year > 1950 GROUP BY 1",
        "SELECT x.region AS r, count(*) AS n FROM customers x WHERE 1 = 1 AND birth_year > 1900 + 50 AND 'F' = x.sex "
        "GROUP BY x.region HAVING count(*) > 3 ORDER BY 2 LIMIT 3",
        "WITH x AS (SELECT * FROM customers WHERE sex = 'F') SELECT region, count(1) FROM x WHERE birth_year > 1950 GROUP BY 1",
        "SELECT region, 2 * n FROM (SELECT region, count(*) n FROM customers WHERE birth_year > 1950 AND sex = 'F' "
        "GROUP BY 1) t WHERE n > 3",
        "SELECT region, rank() OVER (ORDER BY count(*)) FROM customers WHERE 1950 < birth_year AND true "
        "AND (sex = 'F' AND birth_year > 1950) GROUP BY region",
    ],
    "joins": [
        "SELECT c.region, count(*) FROM customers c JOIN orders o ON o.customer_id = c.customer_id "
        "WHERE o.status IN ('open', 'paid') GROUP BY 1",
        "SELECT region, count(*) FROM orders JOIN customers USING (customer_id) "
        "WHERE status IN ('paid', 'open', 'open') GROUP BY 1",
        "SELECT c.region, count(*) FROM orders o, customers c WHERE o.status IN ('paid', 'open') "
        "AND c.customer_id = o.customer_id GROUP BY 1",
    ],
    "joins with a public table": [
        "SELECT p.kind, sum(i.quantity) FROM order_items i JOIN products p USING (product_id) GROUP BY 1",
        "SELECT p.kind, sum(i.quantity) FROM products p, order_items i WHERE i.product_id = p.product_id GROUP BY 1",
    ],
    "keys": [
        "SELECT sex, region, count(*), sum(income) FROM customers GROUP BY 1, 2",
        "SELECT sum(income), count(*), region, sex FROM customers GROUP BY region, sex",
        "SELECT sum(income), count(*), region, sex FROM customers GROUP BY GROUPING SETS ((region, sex))",
    ],
    "per-unit preparation": [
        "SELECT count(*) FROM (SELECT customer_id, count(*) n FROM orders GROUP BY 1) t WHERE n > 2",
        "WITH t AS (SELECT customer_id, count(*) n FROM orders GROUP BY 1 HAVING count(*) > 2) SELECT count(*) FROM t",
    ],
    "subqueries": [
        "SELECT count(*) FROM orders WHERE category IN (SELECT kind FROM products WHERE title = 'a' AND kind = 'b')",
        "SELECT count(*) FROM orders o WHERE o.category IN (SELECT p.kind FROM products p WHERE p.kind = 'b' AND 'a' = p.title)",
    ],
}


@pytest.mark.parametrize("statements", SAME.values(), ids=SAME.keys())
def test_other_words_for_the_same(statements: list[str], shop_catalog: Catalog) -> None:
    assert len({identity(sql, shop_catalog) for sql in statements}) == 1


DIFFERENT = [
    "SELECT region, count(*) FROM customers GROUP BY 1",
    "SELECT sex, count(*) FROM customers GROUP BY 1",
    "SELECT region, count(sex) FROM customers GROUP BY 1",
    "SELECT region, count(*) FROM customers WHERE sex = 'F' GROUP BY 1",
    "SELECT region, count(*) FROM customers WHERE sex <> 'F' GROUP BY 1",
    "SELECT region, count(*) FROM customers WHERE sex = 'F' OR sex IS NULL GROUP BY 1",
    "SELECT region, count(*) FROM customers WHERE birth_year > 1950 GROUP BY 1",
    "SELECT region, count(*) FROM customers WHERE birth_year < 1950 GROUP BY 1",
    "SELECT region, count(*) FILTER (WHERE sex = 'F') FROM customers GROUP BY 1",
    "SELECT region, sum(score) FROM customers GROUP BY 1",
    "SELECT region, avg(score) FROM customers GROUP BY 1",
    "SELECT region, sum(LEAST(score, 50)) FROM customers GROUP BY 1",
    "SELECT region, sum(income) FROM customers GROUP BY 1",
    "SELECT region, count(*) FROM customers JOIN orders USING (customer_id) GROUP BY 1",
    "SELECT region, count(*) FROM customers c JOIN orders USING (customer_id) WHERE c.sex = 'F' GROUP BY 1",
    "SELECT c.region, count(*) FROM customers c JOIN orders a USING (customer_id) JOIN orders b USING (customer_id) "
    "WHERE a.status = 'open' AND b.status = 'open' GROUP BY 1",
    "SELECT c.region, count(*) FROM customers c JOIN orders a USING (customer_id) JOIN orders b USING (customer_id) "
    "WHERE a.status = 'open' GROUP BY 1",
    "SELECT region, percentile_cont(0.5) WITHIN GROUP (ORDER BY income) FROM customers GROUP BY 1",
    "SELECT region, max(income) FROM customers GROUP BY 1",
    "SELECT vip, count(*) FROM customers GROUP BY 1",
    "SELECT paid, count(*) FROM orders GROUP BY 1",
    "SELECT paid, count(DISTINCT customer_id) FROM orders GROUP BY 1",
    "SELECT DISTINCT category FROM orders",
    "SELECT category, count(*) FROM orders GROUP BY 1",
    "SELECT upper(category), count(*) FROM orders GROUP BY 1",
]


def test_other_measurements_have_other_names(shop_catalog: Catalog) -> None:
    found = {}
    for sql in DIFFERENT:
        found[sql] = identity(sql, shop_catalog)
    for a, b in combinations(found, 2):
        assert found[a] != found[b], (a, b)


# --- the form by itself

A = Scan(tuple(Column(i, name, "int4") for i, name in enumerate("xy")), 0, ("main", "t"), ("x", "y"))
B = Scan(tuple(Column(i + 2, name, "int4") for i, name in enumerate("xy")), 1, ("main", "t"), ("x", "y"))
X, Y, U, V = (Ref("int4", c) for c in (*A.columns, *B.columns))
ONE, TWO = Lit("int4", "1"), Lit("int4", "2")


def call(op: str, *args: Expr, type_: str = "bool") -> Call:
    return Call(type_, op, args)


def test_conditions_on_two_scans_of_one_table_are_both_kept() -> None:
    """They have one text to sort by; dropping one of them would be another query."""
    on = call("=", Y, V)
    node = Filter(
        (*A.columns, *B.columns),
        Join((*A.columns, *B.columns), "inner", A, B, on),
        call("and", call("=", X, ONE), call("=", U, ONE)),
    )
    made = _Form().relation(node)
    assert isinstance(made, Filter)
    assert made.condition == call("and", call("=", X, ONE), call("=", U, ONE))
    assert made.columns == node.columns


def expression(expr: Expr) -> Expr:
    form = _Form()
    form.relation(A)
    return form.expr(expr)


def test_logic() -> None:
    p, q = call("=", X, ONE), call("=", Y, ONE)
    assert expression(call("and", q, TRUE, call("and", p, q))) == call("and", p, q)
    assert expression(call("or", q, FALSE, p)) == call("or", p, q)
    assert expression(call("and", p, call("=", ONE, TWO))) == FALSE
    assert expression(call("or", p, call("<>", ONE, TWO))) == TRUE
    assert expression(call("and", TRUE, call("=", ONE, ONE))) == TRUE


def test_comparisons() -> None:
    assert expression(call("<", ONE, X)) == call(">", X, ONE)
    assert expression(call("=", Y, X)) == call("=", X, Y)
    assert expression(call("<", Y, X)) == call("<", Y, X)
    null = Lit("int4", None)
    assert expression(call("=", null, null)) == call("=", null, null), "not true"
    padded = (Lit("bpchar", "a"), Lit("bpchar", "a "))
    assert expression(call("=", *padded)) == call("=", *padded), "equal for PostgreSQL"


def test_arithmetic_folds_where_it_cannot_overflow() -> None:
    assert expression(call("+", ONE, TWO, type_="int4")) == Lit("int4", "3")
    big = Lit("int4", str(2**31 - 1))
    assert expression(call("+", big, ONE, type_="int4")) == call("+", big, ONE, type_="int4")
    assert expression(call("-", Y, X, type_="int4")) == call("-", Y, X, type_="int4")
    assert expression(call("+", Y, X, type_="int4")) == call("+", X, Y, type_="int4")


def test_lists_are_sets() -> None:
    assert expression(InList("bool", X, (TWO, ONE, TWO), True)) == InList("bool", X, (ONE, TWO), True)
