"""What is said of what an answer leaves out: what bounds cut, rows in no declared group, groups of too few units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plan_harness
import pytest

from dpproxy.mechanisms import sampler
from dpproxy.plan.model import Cut, LeftOut, Plan
from dpproxy.plan.report import omissions
from dpproxy.plan.report.omissions import left_out_told, rows_text, sizes
from dpproxy.policy.catalog import Catalog

ROWS, GROUPS = Cut(0, "customers", ("3 rows",)), Cut(2, "customers", ("2 groups",))
VALUES = {0: [np.array([200]), np.array([50])], 2: [np.array([200]), np.array([2])]}


@pytest.mark.parametrize(
    ("units", "beyond", "said"),
    [
        (100, -3, "about 0 %"),
        (100, 130, "about 100 %"),
        (0, 5, "an unknown share"),
        (-4, -2, "an unknown share"),
        (3000, 10, "about 0.33 %"),
    ],
)
def test_noisy_shares(units: int, beyond: int, said: str) -> None:
    told = omissions.share_cut(Cut(0, "customers", ("3 rows",)), [np.array([units]), np.array([beyond])])
    assert told.startswith(said)
    assert told.endswith("(3 rows)")


def test_what_is_measured_comes_first_and_each_once() -> None:
    said = "bounds cut about 25 % of customers (3 rows); bounds cut about 1 % of customers (2 groups); "
    assert (
        omissions.cuts_told((ROWS, GROUPS, ROWS), VALUES, ("x", "y")) == f"{said}what is beyond these bounds may be missing: x, y"
    )


def test_of_what_is_not_released_nothing_is_told() -> None:
    assert omissions.cuts_told((ROWS, GROUPS), {2: VALUES[2]}, ()) == "bounds cut about 1 % of customers (2 groups)"
    assert omissions.cuts_told((ROWS,), {}, ()) == ""


def test_words() -> None:
    assert rows_text(LeftOut("day", True)) == "rows whose day is NULL (`nulls`)"
    assert rows_text(LeftOut("day", True, "range")) == "rows whose day is NULL (`nulls`) or outside its declared `range`"
    assert rows_text(LeftOut("kind", False, "values")) == "rows whose kind is not one of its declared values (`values`)"


def test_a_notice_names_both_kinds_of_rows() -> None:
    assert left_out_told((), ()) == ""
    assert left_out_told([LeftOut("day", True)], ["rows of flights whose tailnum is NULL (they belong to no plane)"]) == (
        "not counted, if there are any: rows whose day is NULL (`nulls`), "
        "rows of flights whose tailnum is NULL (they belong to no plane)"
    )


BY_CATEGORY = "SELECT category, count(*) FROM orders GROUP BY 1"


def planned(sql: str, catalog: Catalog, policy: str = "shop") -> Plan:
    return plan_harness.plan(sql, catalog, plan_harness.policy(policy))


def test_declared_groups_are_all_shown(shop_catalog: Catalog) -> None:
    assert planned("SELECT status, count(*) FROM orders GROUP BY 1", shop_catalog).hidden == ()


def test_units_who_are_kept_to_some_of_their_groups(shop_catalog: Catalog) -> None:
    made = planned(BY_CATEGORY, shop_catalog)
    (measurement,) = made.measurements
    found = sizes(measurement)
    assert found is not None
    half, nearly = found
    assert made.hidden == (
        f"groups of fewer than about {half} customers are not shown (of those of {nearly} or more, 95 % are); "
        f"a customer counts in 2 groups at most: where each is in 8, it takes about {4 * half}",
    )
    assert any("Hidden: groups of fewer than about" in line for line in planned(f"EXPLAIN {BY_CATEGORY}", shop_catalog).explain)


def test_units_who_weigh_less_in_each_of_several_groups(shop_catalog: Catalog) -> None:
    made = planned(BY_CATEGORY, shop_catalog, "whole")
    found = sizes(made.measurements[0])
    assert found is not None
    assert "where each is in 4, it takes about" in made.hidden[0]
    norm = made.measurements[0].bases[made.measurements[0].threshold.basis].norm  # type: ignore[union-attr]
    assert made.hidden[0].endswith(str(found[0] * {1: 4, 2: 2}[norm]))


def test_units_in_one_group_each(shop_catalog: Catalog) -> None:
    (said,) = planned("SELECT vip::text || name, count(*) FROM customers GROUP BY 1", shop_catalog).hidden
    assert said.endswith("95 % are)")


def test_values_of_an_aggregate_without_groups(shop_catalog: Catalog) -> None:
    made = planned("SELECT bool_and(vip) FROM customers", shop_catalog)
    found = sizes(made.measurements[0])
    assert found is not None
    assert made.hidden == (
        f"of the values of bool_and(), those that fewer than about {found[0]} customers share do not count "
        f"(of those that {found[1]} or more share, 95 % do)",
    )


def test_chosen_groups(shop_catalog: Catalog) -> None:
    made = planned(f"{BY_CATEGORY} ORDER BY 2 DESC LIMIT 1", shop_catalog)
    top = made.measurements[0].top
    assert top is not None
    assert made.hidden == (f"groups with count(*) below about {top.absent} are not shown",)


@pytest.mark.parametrize("sql", [BY_CATEGORY, "SELECT name, count(*) FROM customers GROUP BY 1"])
def test_as_many_are_shown_as_is_said(sql: str, shop_catalog: Catalog) -> None:
    (measurement,) = planned(sql, shop_catalog).measurements
    threshold, found = measurement.threshold, sizes(measurement)
    assert threshold is not None
    assert found is not None
    basis = measurement.bases[threshold.basis]
    assert basis.mechanism == "laplace"
    for size, least, most in ((found[0], 0.45, 0.75), (found[1], 0.94, 1.0), (found[0] // 2, 0.0, 0.1)):
        noise = sampler.laplace(basis.scale, 4000, np.random.default_rng(1).bytes)
        shown = float(np.mean(size * basis.fine + noise >= threshold.tau))
        assert least <= shown <= most, (size, shown)


def test_no_group_below_the_least_number_of_units(shop_catalog: Catalog) -> None:
    (measurement,) = planned(BY_CATEGORY, shop_catalog).measurements
    assert measurement.threshold is not None
    many = replace(measurement, threshold=replace(measurement.threshold, min_units=10**6))
    assert (sizes(many) or (0, 0))[0] == 10**6
