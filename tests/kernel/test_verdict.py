"""Claims of real plans against what is derived of their trees: less is refused, whichever number it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import plan_harness
import pytest
from plan_harness import Plan

from dpproxy.errors import UnprovenPlan
from dpproxy.kernel.contributions import Found, Reach
from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.verdict import Derived, check, derived
from dpproxy.plan import pipeline
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.measurement import Measurement
from tests.kernel.mutants import lesser
from tests.kernel.recorded import Recorded, recorded

STATEMENTS = (
    ("shop", "SELECT region, count(*), avg(income) FROM customers GROUP BY region"),
    ("shop", "SELECT category, status, count(*), sum(amount), avg(amount), count(DISTINCT qty) FROM orders GROUP BY 1, 2"),
    ("shop", "SELECT coupon, count(*), count(DISTINCT customer_id) FROM orders GROUP BY 1"),
    ("shop", "SELECT status, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM orders GROUP BY 1"),
    ("shop", "SELECT coupon, count(*) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 1"),
    ("whole", "SELECT status, sum(amount), avg(amount), count(*) FROM orders GROUP BY 1"),
    ("whole", "SELECT page, secs, count(*), count(DISTINCT customer_id) FROM visits GROUP BY 1, 2"),
    ("gaussian", "SELECT status || category AS k, count(*), sum(qty), avg(qty) FROM orders GROUP BY 1"),
    ("running", "SELECT day, sum(sum(secs)) OVER (ORDER BY day), sum(count(*)) OVER (ORDER BY day) FROM visits GROUP BY 1"),
)


@pytest.fixture(scope="module", params=STATEMENTS, ids=lambda s: f"{s[0]}: {s[1][:60]}")
def one(request: pytest.FixtureRequest, shop_catalog: Catalog) -> Recorded:
    name, sql = request.param
    if name != "gaussian":
        return recorded(sql, shop_catalog, plan_harness.policy(name))
    found = recorded(sql, shop_catalog, replace(plan_harness.policy("whole"), mechanism="gaussian"))
    assert found.trees.first is not None, "groups are looked for in two rounds"
    return found


def refused(found: Derived, claimed: Measurement) -> bool:
    try:
        check(found, claimed)
    except Unproven:
        return True
    return False


def test_what_is_claimed_is_proved(one: Recorded) -> None:
    check(derived(one.trees, one.leaves, one.handed), one.claimed)


def test_less_is_refused(one: Recorded) -> None:
    found = derived(one.trees, one.leaves, one.handed)
    accepted = [name for name, claim in lesser(one.claimed) if not refused(found, claim)]
    # a norm that is rounded up, or one over few groups, has room left; no claim is free to shrink by half
    assert [name for name in accepted if not name.startswith("linf of")] == []
    for name in accepted:
        basis = next(b for b in one.claimed.bases if name == f"linf of {b.label}")
        assert basis.norm, f"{name}: only where a norm is claimed of a unit that reaches few groups is there room"


def greater(found: Derived, claimed: Measurement) -> Iterator[tuple[str, Derived]]:
    """What is derived, with one number greater than what is claimed, or one thing otherwise."""
    main = found.main

    def of(query: Found, i: int, **changes: Any) -> Found:
        return replace(query, columns=(*query.columns[:i], replace(query.columns[i], **changes), *query.columns[i + 1 :]))

    for i, (reach, basis) in enumerate(zip(main.columns, claimed.bases, strict=True)):
        whole = (basis.linf * 2) ** max(basis.norm, 1)
        for name, changes in (
            ("more", {"hi": basis.linf * 2 + 1, "whole": whole, "norm": basis.norm}),
            ("less", {"lo": -basis.linf * 2 - 1, "whole": whole, "norm": basis.norm}),
            ("steps", {"steps": reach.steps + 1}),
        ):
            yield f"{name} of {basis.label}", replace(found, main=of(main, i, **changes))
    yield "keys", replace(found, main=replace(main, keys=main.keys + 1))
    yield "a column more", replace(found, main=replace(main, columns=(*main.columns, Reach(0, 1))))
    yield "declared", replace(found, main=replace(main, declared=not main.declared))
    yield "least units", replace(found, main=replace(main, least=main.least + 1))
    if not main.declared:
        yield "groups", replace(found, main=replace(main, groups=claimed.l0 + 1))
        yield "no bound of groups", replace(found, main=replace(main, groups=None))
    for i, side in enumerate(found.side):
        for name, changed in (
            ("keys", replace(side, keys=side.keys + 1)),
            ("size", replace(side, size=side.size + 1)),
            ("sensitivity", of(side, 0, hi=claimed.selections[0].sensitivity * 3)),
            ("varying", replace(side, varying=frozenset((7,)))),
        ):
            yield f"{name} of a selection", replace(found, side=(*found.side[:i], changed, *found.side[i + 1 :]))
        yield "a selection less", replace(found, side=found.side[:i])
    if (first := found.first) is None:
        yield "a first round", replace(found, first=replace(main, columns=main.columns[:1]))
    else:
        yield "no first round", replace(found, first=None)
        for name, changed in (
            ("groups", replace(first, groups=claimed.l0 + 1)), ("no bound of groups", replace(first, groups=None)),
            ("keys", replace(first, keys=first.keys + 1)), ("declared", replace(first, declared=True)),
            ("least", replace(first, least=first.least + 1)), ("weight", of(first, 0, hi=10**9)), ("sign", of(first, 0, lo=-1)),
        ):  # fmt: skip
            yield f"{name} of the first round", replace(found, first=changed)


def test_what_is_derived_and_not_claimed_is_refused(one: Recorded) -> None:
    found = derived(one.trees, one.leaves, one.handed)
    tried = list(greater(found, one.claimed))
    assert len(tried) >= 8
    assert [name for name, more in tried if not refused(more, one.claimed)] == []


def test_fewer_groups_are_refused_or_counted(one: Recorded) -> None:
    """Declared groups are the same whatever the data: fewer of them may be claimed, since they are counted before noise is drawn."""
    found, m = derived(one.trees, one.leaves, one.handed), one.claimed
    if m.l0 == 1:
        return
    fewer = replace(m, l0=m.l0 - 1)
    if not m.dense:
        assert refused(found, fewer)
    else:
        assert refused(found, fewer), "without being counted"
        assert found.counted(m.l0 - 1) is not None


def test_more_may_be_claimed(one: Recorded) -> None:
    found, m = derived(one.trees, one.leaves, one.handed), one.claimed
    more = replace(m, l0=m.l0 + 1, bases=tuple(replace(b, linf=b.linf * 2, signed=True) for b in m.bases))
    check(found, replace(more, counted=found.counted(more.l0)))


def test_an_unproven_plan_is_refused_before_anything_is_charged(shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator gets the plan; the analyst learns nothing but that there is none."""
    assert plan("SELECT count(*) FROM orders", shop_catalog).measurements[0].bases[0].linf == 3
    monkeypatch.setattr(pipeline, "calibrate", claiming_less(pipeline.calibrate))
    with pytest.raises(plan_harness.Unproved) as found:
        plan("SELECT count(*) FROM orders", shop_catalog)
    refusal = found.value.__cause__
    assert isinstance(refusal, UnprovenPlan)
    assert refusal.sqlstate == "XX000"
    assert "changes `count" in refusal.rule
    assert "Measurement(" in refusal.plan
    assert refusal.rule not in refusal.told
    assert "linf" not in refusal.told


def claiming_less(calibrate: Callable[..., list[Measurement]]) -> Callable[..., list[Measurement]]:
    def made(*args: Any) -> list[Measurement]:
        return [replace(m, bases=tuple(replace(b, linf=b.linf - 1) for b in m.bases)) for m in calibrate(*args)]

    return made


def plan(sql: str, catalog: Catalog, **settings: Mapping[str, str]) -> Plan:
    return plan_harness.plan(sql, catalog)
