"""Every allowed function and operator is total: no value of any type makes the generated SQL fail.

An error after the charge would be one bit about the data. Each expression is evaluated over the ends of every type,
infinities, NaN, NULL and texts that look like numbers and dates. What is refused is refused before.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

import plan_harness
import pytest
from each_engine import Engine
from plan_harness import AnyShop
from typed_expressions import EXPRESSIONS, FROM

from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog

BATCH = 25  # expressions a statement: a failing one is then found by itself


@pytest.fixture
def shops(engine: Engine) -> tuple[AnyShop, ...]:
    return tuple(engine.shop(seed, 0) for seed in (1, 2))


def statements(expressions: list[str], catalog: Catalog) -> Iterator[tuple[list[str], Plan]]:
    """Statements over all of them that are accepted, as few as those that are refused leave: each is left out where it is met."""
    items, sql = [f"count({e})" for e in expressions], "SELECT "
    ends = [len(sql) + n for n in itertools.accumulate(len(item) + 2 for item in items)]
    try:
        yield expressions, plan_harness.plan(f"{sql}{', '.join(items)} {FROM}", catalog)
    except Refusal as refusal:
        if len(expressions) == 1:
            return
        at = len(items) // 2 if refusal.position is None else min(bisect.bisect_left(ends, refusal.position), len(items) - 1)
        for part in (expressions[:at], expressions[at : at + 1], expressions[at + 1 :]):
            if part:
                yield from statements(part, catalog)


def failure(made: Plan, shops: tuple[AnyShop, ...]) -> str:
    """The error of a statement; empty when there is none."""
    try:
        for shop in shops:
            shop.run(plan_harness.queries(made.measurements[0], plan_harness.values_of(made))[0])
    except Exception as error:  # whatever it is, it would follow a charge
        return str(error)
    return ""


@pytest.mark.parametrize("start", range(0, len(EXPRESSIONS), 4 * BATCH))
def test_no_value_raises(start: int, shops: tuple[AnyShop, ...], shop_catalog: Catalog) -> None:
    chosen = [e for e in EXPRESSIONS[start : start + 4 * BATCH] if shops[0].takes(f"SELECT count({e}) {FROM}")]
    for at in range(0, len(chosen), BATCH):
        for batch, made in statements(chosen[at : at + BATCH], shop_catalog):
            if failure(made, shops):
                alone = {e: failure(one, shops) for e in batch for _, one in statements([e], shop_catalog)}
                assert {e: found for e, found in alone.items() if found} == {}


GUARDED = (
    "substr(o.status, o.qty - 9, o.qty - 4)", "left(o.status, -o.qty)", "split_part(c.region, o.status, o.qty - 3)",
    "split_part(c.region, left(o.status, o.qty - 20), o.qty)", "(string_to_array(o.status, 'p'))[2]", "div(o.qty, o.qty - 3)",
    "cardinality(string_to_array(o.status, 'a'))", "cot(o.qty - 3)", "mod(o.qty, o.qty - 3)", "ln(o.qty - 3)", "sqrt(o.qty - 3)",
    "width_bucket(o.qty, ARRAY[0, 3, 15])", "extract(century FROM c.signup)", "extract(decade FROM o.due)",
    "to_date(o.status, 'YYYY-MM-DD')", "to_date(o.qty || '-' || o.qty, 'IYYY-IW')", "(o.ts, o.due) OVERLAPS (o.due, o.ts)", "c.region LIKE o.status || '\\'",
    "o.status ILIKE '%' || right(c.region, o.qty - 4)", "c.signup + (o.qty - 0.5) * interval '1 day' > o.due",
    "o.due - 1e9 * o.qty * interval '36 hours' < c.signup", "make_date(o.qty, o.qty, o.qty)",
    "CASE WHEN o.qty > 3 THEN substr(c.region, 1, o.qty - 4) END", "CASE WHEN o.qty <> 3 THEN 1 / (o.qty - 3) END",
    "coalesce(nullif(o.qty, 3), 1 / o.qty)", "o.qty > ALL (SELECT p.qty FROM orders p WHERE p.customer_id = o.customer_id)",
)  # fmt: skip
"""Expressions that are total by a guard, a CASE of the plan or of an engine's spelling, of columns with declared values."""


@pytest.mark.parametrize("start", range(0, len(GUARDED), 9))
def test_guards_hold_where_groups_are_enumerated(start: int, shops: tuple[AnyShop, ...], shop_catalog: Catalog) -> None:
    """As keys of declared groups: tests are then tried in every combination, also in those that no row has."""
    asked = {
        e: plan_harness.plan(f"SELECT {e} AS k, count(*) {FROM} GROUP BY 1", shop_catalog) for e in GUARDED[start : start + 9]
    }
    assert {e: found for e, made in asked.items() if (found := failure(made, shops))} == {}


def test_most_are_accepted(shop_catalog: Catalog) -> None:
    sample = EXPRESSIONS[::7]
    found = [
        e for at in range(0, len(sample), BATCH) for batch, _ in statements(sample[at : at + BATCH], shop_catalog) for e in batch
    ]
    assert len(found) > 0.85 * len(sample)
    assert set(sample[:BATCH]) & set(found) == {e for e in sample[:BATCH] if list(statements([e], shop_catalog))}


COMPUTED = (
    "SELECT count(*) FROM (SELECT customer_id, score * score AS q FROM customers) t WHERE q * q * q > 5",
    "SELECT sum(q) FROM (SELECT customer_id, least(score * score, 9) AS q FROM customers) t WHERE q + 2147483647 > 5",
    "SELECT count(*) FROM (SELECT customer_id, max(score * score) AS q FROM customers GROUP BY 1) t WHERE q * q > 5",
    "SELECT count(*) FROM (SELECT customer_id, sum(q) AS q FROM (SELECT customer_id, score * score AS q FROM customers) s GROUP BY 1) t",
    "SELECT count(*) FROM (SELECT customer_id, birth_year * birth_year AS q FROM customers GROUP BY 1, 2) t WHERE q * q * q * q * q > 5",
    "SELECT score * score AS q, count(*) FROM customers GROUP BY 1",
    "SELECT count(left(status, q)), count(substr(status, q, q)), count(split_part(status, 'a', q)) FROM "
    "(SELECT customer_id, status, qty * qty AS q FROM orders) t",
    *(
        f"SELECT count(*) FROM (SELECT {name}({value}, 1, {other}) OVER (PARTITION BY customer_id ORDER BY ts) AS q FROM orders) t "
        "WHERE q IS NOT NULL"
        for name in ("lag", "lead")
        for value, other in (
            ("qty", "customer_id * 2000000000"), ("qty", "big"), ("amount", "weight"), ("amount", "0"), ("due", "ts"),
            ("qty", "1.5"), ("due", "'2001-01-01'"),
        )
    ),
)  # fmt: skip
"""What an engine would take for another type: columns computed beyond the range of theirs, and rows that are not there."""


@pytest.mark.parametrize("sql", COMPUTED)
def test_what_is_computed_is_of_its_type(sql: str, shops: tuple[AnyShop, ...], shop_catalog: Catalog) -> None:
    assert failure(plan_harness.plan(sql, shop_catalog), shops) == ""
