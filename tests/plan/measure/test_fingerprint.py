"""Names of measurements and their parts: what they share with others, and what tells them apart. That equal words have equal names is
in `test_normal_form`."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest

from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.measurement import Names


def names(sql: str, catalog: Catalog) -> Names:
    (measurement,) = plan_harness.plan(sql, catalog).measurements
    assert measurement.canonical is not None
    return measurement.canonical


def test_finer_groups_and_filters_on_keys_share_their_base(shop_catalog: Catalog) -> None:
    fine = names("SELECT region, sex, count(*), sum(income) FROM customers WHERE birth_year > 1950 GROUP BY 1, 2", shop_catalog)
    coarse = names("SELECT sum(income) FROM customers WHERE birth_year > 1950 AND region IN ('north', 'east')", shop_catalog)
    assert fine.base == coarse.base
    assert set(coarse.totals) < set(fine.totals)
    (accept,) = coarse.accepts
    assert (accept.key in fine.keys, accept.values) == (True, ("east", "north"))
    other = names("SELECT sum(income) FROM customers WHERE birth_year > 1951", shop_catalog)
    assert other.base != fine.base


def test_what_cannot_be_added_up(shop_catalog: Catalog) -> None:
    cut = names("SELECT qty, count(*) FROM orders GROUP BY 1", shop_catalog)
    assert not cut.complete, "a unit's groups are cut"
    thresholded = names("SELECT category, count(*) FROM orders GROUP BY 1", shop_catalog)
    assert not thresholded.complete, "small groups are missing"
    units = names(
        "SELECT status, count(DISTINCT customer_id), count(DISTINCT note), max(qty) FROM orders GROUP BY 1", shop_catalog
    )
    assert units.additive == (True, False, False)
    assert units.totals[1:] == (None, None)
    assert units.bound, "a unit is in several groups"
    assert not units.groups[0].held, "and would be counted in each"
    constant = names("SELECT region, count(DISTINCT customer_id) FROM customers GROUP BY 1", shop_catalog)
    assert (constant.additive, constant.bound) == ((True,), 0)
    joined = names("SELECT region, count(*) FROM orders JOIN customers USING (customer_id) GROUP BY 1", shop_catalog)
    assert joined.bound
    assert joined.groups[0].held


def test_what_says_which_rows_groups_hold(shop_catalog: Catalog) -> None:
    def open_of(key: str, where: str = "TRUE") -> tuple[object, ...] | None:
        return names(f"SELECT {key}, count(*) FROM customers WHERE {where} GROUP BY 1", shop_catalog).groups[0].open

    region = names("SELECT region, count(*) FROM customers GROUP BY 1", shop_catalog)
    assert region.groups[0].open == region.keys, "values of a policy keep no other values out of a table"
    assert open_of("CASE WHEN region = 'north' THEN 1 ELSE 2 END") == region.keys
    assert open_of("CASE WHEN income > 1000 THEN 1 WHEN sex = 'F' THEN 2 END") == ()
    assert open_of("income > 1000") == (), "NULL is a group of it"
    year = names("SELECT birth_year, count(*) FROM customers GROUP BY 1", shop_catalog).keys
    assert open_of("birth_year / 10") == open_of("birth_year > 1950") == year, "a year beyond the range is in no group"
    some = names("SELECT region, count(*) FROM customers WHERE region IN ('north', 'east') GROUP BY 1", shop_catalog)
    assert some.groups == region.groups
    assert some.accepts[0].key == region.keys[0]


def test_a_subset_of_aggregates_has_a_subset_of_names(shop_catalog: Catalog) -> None:
    all_of_them = names("SELECT region, count(*), sum(income), avg(score) FROM customers GROUP BY 1", shop_catalog)
    fewer = names("SELECT region, sum(income) FROM customers GROUP BY 1", shop_catalog)
    assert (fewer.rows, fewer.keys) == (all_of_them.rows, all_of_them.keys)
    assert set(fewer.columns) < set(all_of_them.columns)


def test_two_keys_with_one_domain_are_told_apart(shop_catalog: Catalog) -> None:
    (made,) = plan_harness.plan(
        "SELECT vip, coalesce(vip, false), count(*) FROM customers GROUP BY 1, 2", shop_catalog
    ).measurements
    assert made.canonical is not None
    assert len(set(made.canonical.keys)) == 2


PARTS = [
    "count(*)",
    "sum(income)",
    "avg(score)",
    "count(DISTINCT region)",
    "count(phone)",
    "sum(income) FILTER (WHERE vip)",
    "max(income)",
]


@pytest.mark.parametrize("keys", ["", "region", "region, sex"])
def test_a_column_is_named_by_itself(keys: str, shop_catalog: Catalog) -> None:
    """Beside whatever others it is measured, and in whatever order: `column` stands for the same values."""
    group = f" GROUP BY {keys}" if keys else ""
    all_of_them = set(names(f"SELECT {', '.join(reversed(PARTS))} FROM customers{group}", shop_catalog).columns)
    alone = [names(f"SELECT {part} FROM customers{group}", shop_catalog).columns for part in PARTS]
    assert set().union(*alone) == all_of_them
    assert len(set(alone)) == len(PARTS)


def test_keys_have_an_order_of_their_own(shop_catalog: Catalog) -> None:
    one = names("SELECT region, sex, count(*) FROM customers GROUP BY 1, 2", shop_catalog)
    other = names("SELECT sex, region, count(*) FROM customers GROUP BY 1, 2", shop_catalog)
    assert (one.rows, one.columns, one.keys) == (other.rows, other.columns, other.keys[::-1])


def test_sums_are_mixed_of_others(shop_catalog: Catalog) -> None:
    """sum(x - c) = sum(x) - c count(x): a mean's sum is told by a plain sum and a count, and the other way round."""
    mean = names("SELECT avg(birth_year) FROM customers", shop_catalog)
    plain = names("SELECT sum(birth_year) FROM customers", shop_catalog)
    counted = names("SELECT count(birth_year) FROM customers", shop_catalog)
    (total, one), (count, times) = next(mix for mix in mean.mixes if mix)
    assert (total, count) == (plain.totals[0], counted.totals[0])
    assert (one, times) == (1, -1965), "the middle of the declared years"
    (back, _), (_, again) = next(mix for mix in plain.mixes if mix)
    assert back in mean.totals
    assert again == -times


def test_nothing_is_mixed_where_bounds_cut(shop_catalog: Catalog) -> None:
    assert not any(names("SELECT avg(qty) FROM orders", shop_catalog).mixes), "a unit's rows are cut"
    assert not any(names("SELECT avg(wealth::float8) FROM customers", shop_catalog).mixes), "NaN is counted and not summed"


def test_the_least_units_tell_undeclared_groups_apart(shop_catalog: Catalog) -> None:
    def rows(sql: str, least: int) -> object:
        policy = plan_harness.policy()
        roles = {**policy.roles, "analyst": replace(policy.roles["analyst"], min_units=least)}
        (made,) = plan_harness.plan(sql, shop_catalog, replace(policy, roles=roles)).measurements
        assert made.canonical is not None
        return made.canonical.rows

    undeclared, declared = "SELECT category, count(*) FROM orders GROUP BY 1", "SELECT region, count(*) FROM customers GROUP BY 1"
    assert rows(undeclared, 1) != rows(undeclared, 7)
    assert rows(declared, 1) == rows(declared, 7)


def test_ends_of_a_percentile_are_others_than_itself(shop_catalog: Catalog) -> None:
    median = "percentile_disc(0.5) WITHIN GROUP (ORDER BY income)"
    plain = names(f"SELECT {median} FROM customers", shop_catalog).columns
    fractions = names("SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY income) FROM customers", shop_catalog).columns
    assert not set(plain) & set(fractions)


def test_the_sum_of_a_mean_says_that_its_count_is_beside_it(shop_catalog: Catalog) -> None:
    """Rows of a unit beyond the bound weigh alike by that count, which counts a few more values."""

    def beside(sql: str) -> int:
        return sum("beside its count" in str(column) for column in names(sql, shop_catalog).columns)

    assert beside("SELECT avg(qty) FROM orders") == 1
    assert beside("SELECT sum(qty) FROM orders") == 0
    assert beside("SELECT avg(income) FROM customers") == 0, "one row a unit is never beyond the bound"
