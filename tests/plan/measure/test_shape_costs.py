"""What stored tables cost to read: by public numbers of groups alone, in the order that was measured."""

from __future__ import annotations

from dpproxy.plan.measure.stored_shapes import GUESSED, of_groups, of_sums


def test_sums_cost_nothing_for_each_unit_but_who_is_in_new_groups() -> None:
    assert of_sums(20, weighed=False) < of_sums(20, weighed=True) < of_groups(20, None)
    assert of_sums(20, weighed=False) == of_sums(None, weighed=False)


def test_groups_cost_by_how_many_are_declared() -> None:
    costs = [of_groups(size, None) for size in (1, 20, 24, GUESSED)]
    assert costs == sorted(costs)
    assert of_groups(None, None) == of_groups(GUESSED, None)


def test_what_is_added_up_costs_more() -> None:
    """By the unit alone less than by a key as well, and a narrow table that is added up less than a wide one as it is."""
    as_it_is, by_unit, by_key = (of_groups(20, keys) for keys in (None, 0, 1))
    assert by_unit < as_it_is < by_key
    assert of_groups(2, 1) < of_groups(480, None)


def test_why_is_told_in_public_numbers() -> None:
    assert of_sums(20, weighed=False).why == "bounded and added up"
    assert of_groups(480, 1).why == "at most 480 for each, to be added up and bounded"
    assert of_groups(None, None).why == "not declared, to be bounded"
