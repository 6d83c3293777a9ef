"""Every allowed function and operator is total: no value of any type makes the generated SQL fail.

An error after the charge would be one bit about the data. Each expression is evaluated over the ends of every type,
infinities, NaN, NULL and texts that look like numbers and dates. What is refused is refused before.
"""

from __future__ import annotations

import plan_harness
import pytest
from each_engine import Engine
from plan_harness import AnyShop
from typed_expressions import EXPRESSIONS, FROM

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog

BATCH = 25  # expressions a statement: a failing one is then found by itself


@pytest.fixture
def shops(engine: Engine) -> tuple[AnyShop, ...]:
    return tuple(engine.shop(seed, 0) for seed in (1, 2))


def fails(expressions: list[str], shops: tuple[AnyShop, ...], catalog: Catalog) -> str:
    """The error of a statement over all of them; empty when there is none."""
    items = ", ".join(f"count({e})" for e in expressions)
    made = plan_harness.plan(f"SELECT {items} {FROM}", catalog)
    try:
        for shop in shops:
            shop.run(plan_harness.queries(made.measurements[0], plan_harness.values_of(made))[0])
    except Exception as error:  # whatever it is, it would follow a charge
        return str(error)
    return ""


def accepted(expression: str, catalog: Catalog) -> bool:
    try:
        plan_harness.plan(f"SELECT count({expression}) {FROM}", catalog)
    except Refusal:
        return False
    return True


@pytest.mark.parametrize("start", range(0, len(EXPRESSIONS), 4 * BATCH))
def test_no_value_raises(start: int, shops: tuple[AnyShop, ...], shop_catalog: Catalog) -> None:
    chosen = [
        e
        for e in EXPRESSIONS[start : start + 4 * BATCH]
        if shops[0].takes(f"SELECT count({e}) {FROM}") and accepted(e, shop_catalog)
    ]
    for at in range(0, len(chosen), BATCH):
        batch = chosen[at : at + BATCH]
        if fails(batch, shops, shop_catalog):
            assert {e: found for e in batch if (found := fails([e], shops, shop_catalog))} == {}


def test_most_are_accepted(shop_catalog: Catalog) -> None:
    sample = EXPRESSIONS[::7]
    assert sum(accepted(e, shop_catalog) for e in sample) > 0.85 * len(sample)
