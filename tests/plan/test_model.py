"""Plans are values: frozen, the same for the same statement, and whole: every number and name in them points at what is there."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import plan_harness
import pytest
from fixture_cases import ACCEPTED, Case

from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.measurement import Measurement


def columns(measurement: Measurement) -> int:
    """Keys, bases, what is drawn of selections, and three more columns beside each basis that is measured in steps."""
    drawn = sum(max(len(s.fractions), 1) for s in measurement.selections)
    return len(measurement.keys) + len(measurement.bases) + drawn + 3 * sum(b.steps > 1 for b in measurement.bases)


@pytest.mark.parametrize("case", ACCEPTED[::4], ids=str)
def test_what_a_plan_refers_to_is_there(case: Case, shop_catalog: Catalog) -> None:
    made = case.known_plan(shop_catalog)
    for array in made.arrays:
        assert (array.measurement is None) == (array.virtual is not None)
        if array.measurement is not None:
            assert array.column < columns(made.measurements[array.measurement])
    for given in made.inputs:
        assert all(i < len(made.arrays) for i in given.arrays)
        assert {made.arrays[i].measurement for i in given.arrays} - {None} <= set(given.measurements)
    for typical in made.typical:
        assert len(typical.deviations) == (0 if typical.ranks else len(typical.columns))
        assert typical.measurement < len(made.measurements)
    holes = {int(n) for n in re.findall(r"\$(\d+)", re.sub(r"'[^']*'", "", made.outer))}
    assert all(1 <= n <= made.parameters + len(made.arrays) for n in holes)
    assert made.parameters == len(case.types)


def test_equal_statements_have_equal_plans(shop_catalog: Catalog) -> None:
    sql = "SELECT region, avg(income) FROM customers GROUP BY 1"
    one, other = (plan_harness.plan(sql, shop_catalog) for _ in range(2))
    assert one == other
    with pytest.raises(FrozenInstanceError):
        one.outer = ""  # type: ignore[misc]


def test_the_charge_is_of_all_measurements(shop_catalog: Catalog) -> None:
    made = plan_harness.plan("SELECT count(*), (SELECT count(*) FROM orders) FROM customers", shop_catalog)
    assert len(made.measurements) == 2
    assert made.loss.epsilon >= max(m.loss.epsilon for m in made.measurements)
    assert made.loss.epsilon <= sum(m.loss.epsilon for m in made.measurements)
