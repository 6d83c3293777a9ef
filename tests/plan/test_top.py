"""The k largest groups of undeclared keys: chosen, measured alone, told; and charged for both.

The law of the choice and its privacy are tested by enumeration in `tests/mechanisms`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import plan_harness
import pyarrow as pa
import pytest

from dpproxy.amounts import MICRO
from dpproxy.mechanisms.noise import Exact, MechanismError
from dpproxy.mechanisms.noise_sources import OpenDPNoise
from dpproxy.mechanisms.release import release
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Bounds
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_tail import top_threshold

SQL = "SELECT category, count(*) FROM orders GROUP BY category ORDER BY count(*) DESC LIMIT 3"
ALL = "SELECT category, count(*) FROM orders GROUP BY category ORDER BY count(*) DESC"
SCORES = {"toys": 90_000, "food": 70_000, "tools": 50_000, "books": 300, "rare": 3}


def planned(sql: str, catalog: Catalog) -> Measurement:
    (measurement,) = plan_harness.plan(sql, catalog, plan_harness.policy("busy")).measurements
    return measurement


def exact(scores: dict[str, int]) -> Exact:
    names = sorted(scores)
    return Exact((pa.table({"k0": names, "b0": pa.array([scores[n] for n in names], pa.int64())}),))


def test_the_largest_groups_are_released_in_the_backends_order(shop_catalog: Catalog) -> None:
    released = release(planned(SQL, shop_catalog), exact(SCORES), OpenDPNoise())
    assert released.keys[0].to_pylist() == ["food", "tools", "toys"]
    assert [round(int(v), -4) for v in released.values[0]] == [70_000, 50_000, 90_000]
    assert len(set(released.values[0]) & set(SCORES.values())) < 3, "noise is added"


def test_fewer_than_k_when_the_others_are_small(shop_catalog: Catalog) -> None:
    """ "No further one" has a score of its own, by the numbers alone: no key is told that few units have."""
    measurement = planned(SQL, shop_catalog)
    top = measurement.top
    assert top is not None
    assert top.absent == top_threshold(3, 8, 3, top.epsilon, top.delta, 1)
    few = {"toys": 90_000, "rare": 3, "odd": 1}
    for _ in range(20):
        assert release(measurement, exact(few), OpenDPNoise()).keys[0].to_pylist() == ["toys"]
    assert release(measurement, exact({}), OpenDPNoise()).rows == 0


def test_choosing_three_is_more_exact_than_releasing_all(shop_catalog: Catalog) -> None:
    """The same charge; noise of the counts for 3 groups of a unit, not for 8, and beside no count of units."""
    chosen, everything = planned(SQL, shop_catalog), planned(ALL, shop_catalog)
    assert chosen.loss.epsilon == everything.loss.epsilon
    assert chosen.bases[0].scale < everything.bases[0].scale / 2


@pytest.mark.parametrize(
    "forged",
    [
        lambda m: replace(m, top=replace(m.top, absent=m.top.absent - 1)),
        lambda m: replace(m, top=replace(m.top, k=4)),
        lambda m: replace(m, top=replace(m.top, epsilon=m.top.epsilon + 1)),
        lambda m: replace(m, top=replace(m.top, delta=m.top.delta // 2)),
        lambda m: replace(m, top=None),
        lambda m: replace(m, dense=True),
        lambda m: replace(m, loss=m.bases[0].loss),
        lambda m: replace(m, bases=(replace(m.bases[0], scale=m.bases[0].scale * Fraction(9, 10)),)),
    ],
)
def test_less_noise_than_is_charged_releases_nothing(forged: object, shop_catalog: Catalog) -> None:
    assert callable(forged)
    with pytest.raises(MechanismError):
        release(forged(planned(SQL, shop_catalog)), exact(SCORES), OpenDPNoise())


def test_it_is_told(shop_catalog: Catalog) -> None:
    text = "\n".join(plan_harness.plan("EXPLAIN " + SQL, shop_catalog, plan_harness.policy("busy")).explain)
    assert "Groups: the 3 groups with nearly the highest count(*), of groups with count(*) of about " in text
    assert "exponential mechanism" in text


# --- of declared groups

MONTHS = "SELECT ts::date, count(*) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 2"


def declared(catalog: Catalog, sql: str = MONTHS) -> Measurement:
    """Groups by day, all of which a customer may reach."""
    given = plan_harness.policy("busy")
    tables = {n: replace(t, bounds=Bounds(3, None)) if n.name == "orders" else t for n, t in given.tables.items()}
    (measurement,) = plan_harness.plan(sql, catalog, replace(given, tables=tables)).measurements
    return measurement


def test_of_many_declared_groups_the_largest_are_chosen_without_a_threshold(shop_catalog: Catalog) -> None:
    chosen, everything = declared(shop_catalog), declared(shop_catalog, MONTHS.partition(" ORDER")[0])
    top = chosen.top
    assert top is not None
    assert (top.absent, top.delta, chosen.loss.delta) == (None, 0, 0)
    assert chosen.l0 == everything.l0 > 100
    assert chosen.reach == 2
    assert chosen.loss.epsilon <= everything.loss.epsilon
    spent = Fraction(2 * top.epsilon, MICRO) + 2 * chosen.bases[0].linf / chosen.bases[0].scale
    assert spent * MICRO <= chosen.loss.epsilon
    assert chosen.bases[0].scale < everything.bases[0].scale / 20
    assert chosen.queries[0].parts == everything.queries[0].parts, "declared groups are all looked at"


def test_all_declared_groups_are_released_where_that_is_as_exact(shop_catalog: Catalog) -> None:
    assert declared(shop_catalog, "SELECT status, count(*) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 1").top is None
    assert declared(shop_catalog, MONTHS.replace("LIMIT 2", "LIMIT 200")).top is None


def test_declared_groups_that_are_not_are_not_released(shop_catalog: Catalog) -> None:
    """Without a threshold every group must be there whatever the data: `dense` says that it is."""
    given = declared(shop_catalog)
    assert given.top is not None
    for forged in (replace(given, dense=False), replace(given, top=replace(given.top, epsilon=given.top.epsilon * 2))):
        with pytest.raises(MechanismError):
            release(forged, exact(SCORES), OpenDPNoise())
    released = release(given, exact({"a": 0, "b": 10**6, "c": 0, "d": 10**6}), OpenDPNoise())
    assert released.keys[0].to_pylist() == ["b", "d"]


def test_a_unit_changes_counts_alone(shop_catalog: Catalog) -> None:
    given = plan_harness.policy("busy")
    tables = {n: replace(t, bounds=Bounds(3, None)) if n.name == "orders" else t for n, t in given.tables.items()}
    made = plan_harness.plan(MONTHS, shop_catalog, replace(given, tables=tables))
    assert plan_harness.Sensitivity(plan_harness.Shop(1)).problems(made) == []
    text = "\n".join(made.explain)
    assert "declared ones; chosen by the exponential mechanism" in text
