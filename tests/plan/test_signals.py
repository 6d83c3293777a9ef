"""How a call that reaches another session may be written; its numbers are inputs, its results arrays."""

from __future__ import annotations

import json

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.model import Array, Input
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.loss import ZERO


def test_numbers_are_inputs_and_results_are_arrays(shop_catalog: Catalog) -> None:
    sql = "SELECT pg_cancel_backend($1), NOT pg_catalog.pg_terminate_backend(7, 100) AS gone"
    made = plan_harness.plan(sql, shop_catalog, types=("int4",))
    assert made.inputs == (Input("$1", "int4"), Input("7", "int4"))
    assert made.arrays == (Array("bool", None, 0, signal="cancel"), Array("bool", None, 1, signal="terminate"))
    assert (made.measurements, made.loss) == ((), ZERO)
    assert 'AS "pg_cancel_backend"' in made.outer
    assert "backend(" not in made.outer
    assert "$2" in made.outer
    assert "$3" in made.outer


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity",
        "SELECT count(*) FROM customers WHERE pg_cancel_backend(1)",
        "SELECT pg_terminate_backend((SELECT 1))",
        "SELECT pg_cancel_backend()",
        "SELECT pg_cancel_backend(1, 2, 3)",
    ],
)
def test_in_no_query_over_rows(sql: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal, match="takes one number") as refused:
        plan_harness.plan(sql, shop_catalog)
    assert refused.value.sqlstate == "0A000"
    assert "without FROM" in (refused.value.hint or "")


def test_explain_says_that_nothing_is_measured(shop_catalog: Catalog) -> None:
    (text,) = plan_harness.plan("EXPLAIN (FORMAT JSON) SELECT pg_cancel_backend(1)", shop_catalog).explain
    assert json.loads(text)[0]["Privacy Plan"]["Measurements"] == []
