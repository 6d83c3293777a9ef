"""What the pipeline adds to its stages: a second attempt with another tree, and what is said of it."""

from __future__ import annotations

import json

import plan_harness

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
