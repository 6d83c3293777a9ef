"""Sums over runs of groups: chosen where they err less, proved and charged in integers, and a measurement of their own."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace

import numpy as np
import plan_harness
import pyarrow as pa
import pytest

from dpproxy.engines import literal
from dpproxy.kernel import verdict
from dpproxy.kernel.leaves import Unproven
from dpproxy.limits.side_threads import SideThreads
from dpproxy.mechanisms.charge_check import check
from dpproxy.mechanisms.noise import Released
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.model import Plan
from dpproxy.plan.report.typical_error import relative_error
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Mechanism
from dpproxy.privacy import running_sums
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_scale import gaussian_rho
from dpproxy.privacy.running_sums import Running, coefficients
from dpproxy.reuse.derivation import derive
from dpproxy.reuse.lookup import AnswerLookup
from dpproxy.reuse.matching import SpelledValues, StoredRelease, any_noise, serve
from tests.kernel.recorded import recorded

TOTALS = "sum(count(*)) OVER (ORDER BY signup)"
WEEK = "sum(count(*)) OVER (ORDER BY signup ROWS 6 PRECEDING)"
MONTH = "sum(sum(income)) OVER (ORDER BY signup ROWS 27 PRECEDING)"
DAYS = 91  # of the policy's range, and NULL


def planned(
    catalog: Catalog, outputs: str, mechanism: Mechanism = "gaussian", table: str = "customers", key: str = "signup"
) -> Plan:
    given = replace(plan_harness.policy("running"), mechanism=mechanism)
    return plan_harness.plan(f"SELECT {key}, {outputs} FROM {table} GROUP BY {key}", catalog, given)


def only(made: Plan) -> Measurement:
    (found,) = made.measurements
    return found


@pytest.mark.parametrize(
    ("outputs", "width"),
    [(TOTALS, DAYS), (WEEK, 7), (f"{TOTALS}, {MONTH}", 28), (f"{WEEK}, {WEEK.replace('6', '8')}", 7), (f"{TOTALS}, count(*)", None),
     ("avg(count(*)) OVER (ORDER BY signup ROWS 0 PRECEDING)", None)],
)  # fmt: skip
def test_sums_get_the_noise_where_all_of_them_are_better_for_it(shop_catalog: Catalog, outputs: str, width: int | None) -> None:
    """Of a single group a sum is not."""
    found = {basis.running for basis in only(planned(shop_catalog, outputs)).bases}
    assert {r.width if r else None for r in found} == {width}
    assert all(r is None or (r.key, r.length) == (0, DAYS) for r in found)


@pytest.mark.parametrize(
    ("outputs", "chosen"), [(TOTALS, False), (WEEK, False), (f"{TOTALS}, {TOTALS.replace('count(*)', 'sum(income)')}", True)]
)
def test_of_both_kinds_of_noise_the_better_one_is_chosen(shop_catalog: Catalog, outputs: str, chosen: bool) -> None:
    """One count over 91 days errs as much with Laplace noise on days, at no delta; two columns do not."""
    made = only(planned(shop_catalog, outputs, "auto"))
    assert all((basis.running is not None) == chosen for basis in made.bases)
    assert all((basis.mechanism == "gaussian") == chosen for basis in made.bases)
    assert all(basis.running is None for basis in only(planned(shop_catalog, outputs, "laplace")).bases)


@pytest.mark.parametrize("outputs", [TOTALS, f"{TOTALS}, {MONTH}"])
def test_the_charge_is_of_the_longest_column(shop_catalog: Catalog, outputs: str) -> None:
    """Computed in floats, from the coefficients: rho is spent, and no more; and by the door."""
    m = only(planned(shop_catalog, outputs))
    check(m, DefaultNoise())
    rho = 0.0
    for basis in m.bases:
        assert basis.running is not None
        norm = basis.running.within * math.hypot(*coefficients(basis.running.length, basis.running.width))
        rho += norm**2 / 2 / float(basis.scale) ** 2
    assert 0.995 < rho / float(gaussian_rho(10**6, 10**12)) <= 1


def test_a_claim_of_less_is_not_proved(shop_catalog: Catalog) -> None:
    """Planted: each number of a run smaller, or groups of which a unit may be in several."""
    given = plan_harness.policy("running")
    one = recorded("SELECT day, sum(sum(secs)) OVER (ORDER BY day) FROM visits GROUP BY 1", shop_catalog, given)
    found = verdict.derived(one.trees, one.leaves)
    verdict.check(found, one.claimed)
    (basis,) = one.claimed.bases
    running = basis.running
    assert running is not None

    def claiming(changed: Running | None = running, **more: int) -> Measurement:
        return replace(one.claimed, bases=(replace(basis, running=changed, **more),))

    wrong = [
        claiming(linf=basis.linf - 1), claiming(replace(running, within=running.within - 1)), claiming(replace(running, key=1)),
        claiming(replace(running, length=running.length + 50, width=running.width + 50)),
    ]  # fmt: skip
    for claimed in wrong:
        with pytest.raises(Unproven):
            verdict.check(found, claimed)
    several = replace(found, main=replace(found.main, groups=2))
    with pytest.raises(Unproven):
        verdict.check(several, replace(one.claimed, l0=2))


def test_explain_says_what_is_gained(shop_catalog: Catalog) -> None:
    text = "\n".join(planned(shop_catalog, TOTALS).explain)
    assert "only totals so far of 91 groups are asked for, and noise is on these (square-root factorisation)" in text
    assert "their errors are typically 2.9 times less than of groups added up, those of single groups" in text
    assert "for a sum of 91 groups" in text
    assert "sums of 28 of 91" in "\n".join(planned(shop_catalog, MONTH).explain)
    assert "square-root" not in "\n".join(planned(shop_catalog, f"{TOTALS}, count(*)").explain)


def test_where_groups_are_asked_for_beside_sums_they_get_the_noise(shop_catalog: Catalog) -> None:
    """By another SELECT of the statement, whichever comes first, or sums of other widths: one measurement, of groups."""
    sums, groups = (
        "SELECT signup, sum(count(*)) OVER (ORDER BY signup) FROM customers GROUP BY 1",
        "SELECT signup, count(*) FROM customers GROUP BY 1",
    )
    week = sums.replace("signup) FROM", "signup ROWS 6 PRECEDING) FROM")
    for one, other, on_sums in [(sums, groups, False), (groups, sums, False), (sums, week, False), (sums, sums, True)]:
        made = plan_harness.plan(f"({one}) UNION ALL ({other})", shop_catalog, plan_harness.policy("running"))
        m = only(made)
        assert (m.bases[0].running is not None) == on_sums
        assert m.bases[0].loss.epsilon == m.loss.epsilon == made.loss.epsilon
        check(m, DefaultNoise())


def test_totals_leave_sums_out(shop_catalog: Catalog) -> None:
    """The total beside sums over days is not weighted with them, as if days had noise of their own; with days it is."""
    within = "customers WHERE signup BETWEEN '2022-01-01' AND '2022-03-30'"
    for outputs, adjusted in ((TOTALS, False), ("count(*)", True)):
        sql = f"SELECT signup, {outputs} + 0 * (SELECT count(*) FROM {within}) FROM {within} GROUP BY 1"
        made = plan_harness.plan(sql, shop_catalog, plan_harness.policy("running"))
        assert [m.independent for m in made.measurements] == [adjusted] * 2
        assert any(b.running for m in made.measurements for b in m.bases) != adjusted


def test_sums_are_a_measurement_of_their_own(shop_catalog: Catalog) -> None:
    """Days by themselves are not told by it as accurately as they would be, nor the other way round."""
    names = [only(planned(shop_catalog, outputs)).canonical for outputs in (TOTALS, WEEK, f"count(*), {TOTALS}")]
    assert all(found is not None for found in names)
    assert len({found.columns for found in names if found}) == 3
    assert len({found.rows for found in names if found}) == 1
    assert [any(found.totals) for found in names if found] == [False, False, True]


def test_a_stored_sum_answers_neither_days_nor_sums_along_another_key(shop_catalog: Catalog) -> None:
    """Its days' noise is not independent, and the error that is told of sums is that along its key. Whatever the order of the keys."""
    days = "SELECT signup, score, count(*) FROM customers GROUP BY 1, 2"
    along = "SELECT {0}, {1}, sum(count(*)) OVER (PARTITION BY {1} ORDER BY {0}) FROM customers GROUP BY {2}"
    sql = [along.format("signup", "score", "signup, score"), along.format("signup", "score", "score, signup"),
           along.format("score", "signup", "score, signup"), days]  # fmt: skip
    lookup = AnswerLookup(None, "derive", "shop", "analyst", "duckdb", SpelledValues(literal, SideThreads(1)))
    plans = [only(plan_harness.plan(text, shop_catalog, plan_harness.policy("running"))) for text in sql]
    asked = [lookup._asked(m, m.canonical, ()) for m in plans if m.canonical is not None]
    assert [bool(m.bases[0].running) for m in plans] == [True, True, True, False]
    assert len({one.rows for one in asked}) == len({one.base for one in asked}) == 1
    keys, values = (pa.array(["a", "b"]), pa.array(["c", "d"])), (np.array([1, 2]),)
    now = dt.datetime.now(dt.UTC)
    for i, made in enumerate(asked):
        stored = StoredRelease("shop", made, Released(keys, values, 2), plans[i].loss, now, frozenset())
        for j, wanted in enumerate(asked):
            served = serve(stored, any_noise(wanted), subset=True) is not None
            assert served == (i == j or {i, j} == {0, 1}), (i, j)
            assert derive(any_noise(wanted), [stored]) is None or i == j == 3


@pytest.mark.parametrize("key", ["region", "date_part('week', signup)", "extract(week FROM signup)"])
def test_groups_in_an_order_that_backends_may_not_tell_are_no_runs(shop_catalog: Catalog, key: str) -> None:
    """Decimals may come as texts, of which 10 is before 9; texts are in the order of the facade's collation."""
    call = f"sum(sum(income)) OVER (ORDER BY {key})"
    m = only(planned(shop_catalog, f"{call}, {call.replace('income', 'income / 2')}", key=key))
    assert m.dense
    assert all(basis.running is None for basis in m.bases)


def test_one_measurement_for_all_windows_of_a_statement(shop_catalog: Catalog) -> None:
    """Averages over windows, by sums and counts or in the query around, share the days' sums and counts."""
    month = "(ORDER BY signup ROWS 27 PRECEDING)"
    ratio = f"sum(sum(income)) OVER {month} / sum(count(*)) OVER {month}, avg(avg(income)) OVER {month}, {MONTH}, {TOTALS}"
    m = only(planned(shop_catalog, ratio, "auto"))
    assert len(m.bases) <= 4
    days = "WITH d AS (SELECT signup, count(*) AS n, sum(income) AS s FROM customers GROUP BY 1)"
    around = f"{days} SELECT signup, sum(s) OVER w / sum(n) OVER w, avg(n) OVER w FROM d WINDOW w AS (ORDER BY signup)"
    assert len(only(plan_harness.plan(around, shop_catalog, plan_harness.policy("running"))).bases) == 2


def test_the_error_that_is_told_is_that_of_sums(shop_catalog: Catalog) -> None:
    made = planned(shop_catalog, TOTALS)
    (typical,) = made.typical
    (basis,) = only(made).bases
    assert basis.running is not None
    spread = float(basis.scale) * running_sums.typical_spread(DAYS, DAYS, DAYS)
    assert relative_error(typical, [np.full(DAYS, 1000)]) == pytest.approx(spread / 46_000), "of 46 days in the mean"
