"""Calls of aggregates: what is understood is one value, what is not is refused by name."""

from __future__ import annotations

import plan_harness
import pytest

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INSUFFICIENT_PRIVILEGE, UNDEFINED_FUNCTION, Refusal
from dpproxy.policy.catalog import Catalog


def labels(call: str, catalog: Catalog) -> list[str]:
    """The basis columns of an aggregate call over the orders."""
    return [b.label for b in plan_harness.plan(f"SELECT {call} FROM orders", catalog).measurements[0].bases]


@pytest.mark.parametrize(
    ("call", "columns"),
    [
        ("count(*)", 1),
        ("count(note)", 1),
        ("avg(amount)", 2),
        ("sum(amount) FILTER (WHERE qty > 3)", 1),
        ("corr(amount, qty)", 6),
    ],
)
def test_each_call_has_its_columns(call: str, columns: int, shop_catalog: Catalog) -> None:
    assert len(labels(call, shop_catalog)) == columns


@pytest.mark.parametrize("call", ["avg()", "sum(amount, qty)", "corr(amount)", "min(amount, qty)", "variance(amount, 2)"])
def test_as_many_arguments_as_postgresql_takes(call: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal) as refused:
        labels(call, shop_catalog)
    assert refused.value.sqlstate == UNDEFINED_FUNCTION
    assert call.split("(")[0] in refused.value.message


@pytest.mark.parametrize(
    ("call", "says", "sqlstate"),
    [
        ("sum(amount ORDER BY ts)", "ORDER BY inside sum()", FEATURE_NOT_SUPPORTED),
        ("percentile_cont(qty) WITHIN GROUP (ORDER BY amount)", "a percentile", FEATURE_NOT_SUPPORTED),
        ("array_agg(amount)", "array_agg", INSUFFICIENT_PRIVILEGE),
    ],
)
def test_forms_that_are_not_understood(call: str, says: str, sqlstate: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal) as refused:
        labels(call, shop_catalog)
    assert refused.value.sqlstate == sqlstate
    assert says in refused.value.message


def test_what_one_person_has_no_mode_of(shop_catalog: Catalog) -> None:
    inner = "SELECT customer_id, mode() WITHIN GROUP (ORDER BY qty) AS x FROM orders GROUP BY 1"
    with pytest.raises(Refusal, match="within one unit"):
        plan_harness.plan(f"SELECT count(*) FROM ({inner}) t WHERE x > 1", shop_catalog)
