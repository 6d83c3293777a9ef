"""Refusals of the planner in one wording: what is not there, and what to write instead."""

from __future__ import annotations

import plan_harness
import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.refusals import AROUND, unsupported
from dpproxy.policy.catalog import Catalog


def test_the_wording() -> None:
    found = unsupported("x", "Write y.")
    assert (found.sqlstate, found.message, found.hint) == (
        "0A000",
        "x is not supported below an aggregate over private rows",
        "Write y.",
    )
    assert unsupported("x").hint == AROUND, "what always helps, where nothing else is known to"


@pytest.mark.parametrize(
    "sql",
    ["SELECT sum(income) FROM customers TABLESAMPLE SYSTEM (10)", "SELECT count(*) FROM customers WHERE pg_sleep(1) IS NULL"],
)
def test_what_no_rule_knows_is_refused(sql: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal) as caught:
        plan_harness.plan(sql, shop_catalog)
    assert caught.value.sqlstate.startswith(("0A", "42"))
