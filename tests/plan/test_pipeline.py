"""What the pipeline adds to its stages: a second attempt with another tree, and what is said of it."""

from __future__ import annotations

import json

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog

LATERAL = "SELECT sum(l.n) FROM customers c CROSS JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer_id = c.customer_id) l"
TWO_RULES = (
    "SELECT l.twice, count(*) FROM customers c JOIN (orders o JOIN order_items i ON i.order_id = o.order_id) "
    "ON o.customer_id = c.customer_id, LATERAL (SELECT o.qty * 2 AS twice) l GROUP BY 1"
)


def test_explain_names_the_rules_in_one_line(shop_catalog: Catalog) -> None:
    made = plan_harness.plan(TWO_RULES, shop_catalog)
    assert made.rewritten == ("parenthesised_joins", "lateral_expressions")
    assert made.explain[2] == "  Rewritten before planning: parenthesised joins, lateral expressions"
    (text,) = plan_harness.plan(f"EXPLAIN (PRIVACY, FORMAT JSON) {LATERAL}", shop_catalog).explain
    assert json.loads(text)[0]["Privacy Plan"]["Rewritten"] == ["lateral lookups"]


def test_what_binds_as_it_stands_is_not_rewritten(shop_catalog: Catalog) -> None:
    made = plan_harness.plan("SELECT count(*) FROM customers", shop_catalog)
    assert made.rewritten == ()
    assert not any("Rewritten" in line for line in made.explain)
    (text,) = plan_harness.plan("EXPLAIN (FORMAT JSON) SELECT count(*) FROM customers", shop_catalog).explain
    assert "Rewritten" not in json.loads(text)[0]["Privacy Plan"]


def refusal(sql: str, catalog: Catalog) -> tuple[str, str]:
    """What is said of a statement, and the text at its position."""
    with pytest.raises(Refusal) as caught:
        plan_harness.plan(sql, catalog)
    return caught.value.message, sql[(caught.value.position or len(sql) + 1) - 1 :]


def test_of_two_refusals_the_first_is_shown(shop_catalog: Catalog) -> None:
    """The rewritten tree reads the parts of the union where it is read, after `v`; nobody wrote it so."""
    sql = (
        "WITH u AS (SELECT email AS x FROM customers UNION ALL SELECT title FROM products), v AS (SELECT nope FROM orders) "
        "SELECT (SELECT count(*) FROM v), count(*) FROM u"
    )
    message, at = refusal(sql, shop_catalog)
    assert message == 'column "email" is not available here'
    assert at.startswith("email AS x")


def test_a_form_that_is_still_there_is_refused_where_it_was_written(shop_catalog: Catalog) -> None:
    sql = "SELECT x, count(*) FROM (SELECT region, customer_id AS x FROM customers UNION ALL SELECT region, 1 FROM regions) u GROUP BY 1"
    message, at = refusal(sql, shop_catalog)
    assert message == "UNION of private and public rows: the public ones belong to no customer"
    assert at.startswith("region, customer_id AS x")


@pytest.mark.parametrize(
    ("sql", "says", "at"),
    [
        (LATERAL.replace("sum(l.n)", "sum(l.nope)"), 'column "l.nope" is not available here', "l.nope"),
        (LATERAL.replace("count(*)", "foo(1)"), "function foo() is not allowed", "foo(1) AS n"),
        (TWO_RULES.replace("GROUP BY", "WHERE c.nope = 1 GROUP BY"), 'column "c.nope" is not available here', "c.nope = 1"),
        (TWO_RULES.replace("o.qty", "o.nope"), 'column "o.nope" is not available here', "o.nope"),
    ],
)
def test_behind_a_form_that_is_gone_the_rest_is_refused(sql: str, says: str, at: str, shop_catalog: Catalog) -> None:
    """`LATERAL is not supported` would be no help: without the other mistake it is."""
    message, found = refusal(sql, shop_catalog)
    assert message.startswith(says)
    assert found.startswith(at)
