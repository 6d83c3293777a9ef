"""`dpproxy.rows` and `dpproxy.groups`: a session asks for tighter bounds than the policy's, never for looser ones."""

from __future__ import annotations

import plan_harness
import pytest
from plan_harness import Shop

from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog

GROUPED = "SELECT category, count(*) FROM orders GROUP BY category"
WHOLE = "SELECT count(*), sum(amount) FROM orders"


def numbers(made: Plan) -> list[tuple[int, list[int]]]:
    return [(m.l0, [b.linf for b in m.bases]) for m in made.measurements]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (2, [3, 1])),
        ({"dpproxy__rows": "1"}, (2, [1])),  # rows are units
        ({"dpproxy__groups": "1"}, (1, [3, 1])),
        ({"dpproxy__rows": "2", "dpproxy__groups": "1"}, (1, [2, 1])),
        ({"dpproxy__rows": "4", "dpproxy__groups": "1000"}, (2, [3, 1])),
    ],
)
def test_bounds_are_the_tighter_ones(settings: dict[str, str], expected: tuple[int, list[int]], shop_catalog: Catalog) -> None:
    assert numbers(plan_harness.plan(GROUPED, shop_catalog, role="careful", **settings)) == [expected]


def test_a_sum_of_fewer_rows_has_less_noise(shop_catalog: Catalog) -> None:
    loose, tight = (plan_harness.plan(WHOLE, shop_catalog, **s).measurements[0] for s in ({}, {"dpproxy__rows": "1"}))
    assert [3 * b.linf for b in tight.bases] == [b.linf for b in loose.bases]
    assert all(a.scale < b.scale for a, b in zip(tight.bases, loose.bases, strict=True))
    assert (tight.loss.epsilon, tight.loss.delta) == (loose.loss.epsilon, loose.loss.delta)
    assert tight.canonical != loose.canonical


@pytest.mark.parametrize(
    "sql",
    [
        GROUPED,
        WHOLE,
        "SELECT status, count(DISTINCT qty), percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM orders GROUP BY 1",
    ],
)
@pytest.mark.parametrize("settings", [{"dpproxy__rows": "1"}, {"dpproxy__groups": "1"}])
def test_nobody_moves_an_answer_by_more(sql: str, settings: dict[str, str], shop_catalog: Catalog) -> None:
    made = plan_harness.plan(sql, shop_catalog, **settings)
    assert plan_harness.Sensitivity(Shop(5)).problems(made) == []


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "10000000000"])
@pytest.mark.parametrize("name", ["rows", "groups"])
def test_what_is_no_bound_is_refused(name: str, text: str, shop_catalog: Catalog) -> None:
    with pytest.raises(Refusal, match=f"dpproxy.{name} must be a whole number") as refused:
        plan_harness.plan(WHOLE, shop_catalog, **{f"dpproxy__{name}": text})
    assert refused.value.sqlstate == "22023"
