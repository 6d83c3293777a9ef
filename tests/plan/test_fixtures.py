"""Every fixture: what is accepted with which numbers and which generated SQL, what is refused where and why."""

from __future__ import annotations

import fixture_pins
import plan_harness
import pytest
from fixture_cases import ACCEPTED, REFUSED, Case
from plan_harness import Shop

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog


@pytest.fixture(scope="module")
def empty() -> Shop:
    return Shop(1, 0)


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_accepted(case: Case, shop_catalog: Catalog, empty: Shop) -> None:
    assert fixture_pins.pinned(case.known(shop_catalog), case.values, empty) == case.accept


@pytest.mark.parametrize("case", [c for c in ACCEPTED if c.generates], ids=str)
def test_generated_sql(case: Case, shop_catalog: Catalog) -> None:
    made = case.known_plan(shop_catalog)
    values = plan_harness.values_of(made, case.values)
    texts = [text for m in made.measurements for text in plan_harness.queries(m, values)]
    assert [" ".join(text.split()) for text in texts] == [" ".join(text.split()) for text in case.generates]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused(case: Case, shop_catalog: Catalog) -> None:
    assert case.refuse is not None
    with pytest.raises(Refusal) as caught:
        case.plan(shop_catalog)
    refusal = caught.value
    assert refusal.sqlstate == case.refuse["sqlstate"]
    assert case.refuse["says"] in refusal.message
    assert case.refuse.get("hint", "") in (refusal.hint or "")
    query = plan_harness.statement(case.sql, plan_harness.policy(case.policy)).query
    at = query[refusal.position - 1 :] if refusal.position else ""
    assert at.startswith(case.refuse.get("at", "")), f"position is at {at[:20]!r}"
    assert bool(refusal.position) == ("at" in case.refuse)


def test_there_are_cases_of_every_kind() -> None:
    """The loader finds them: an empty list would pass everything above."""
    assert len(ACCEPTED) > 100
    assert len(REFUSED) > 60
    assert {g["groups"] for c in ACCEPTED for g in c.accept or ()} >= {"one", "declared", "threshold", "top 3"}
