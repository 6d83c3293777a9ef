"""Answers become proposals with their error; what may be noise is not proposed."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from dpproxy.authoring.paid_questions import Account, Aim, Answer, Asked, Subject, account, measured
from tests.worlds.clinic import CATALOG, DECIDED, PEOPLE, VISITS

AGE, SEX, DAY, WARD = (PEOPLE, "age"), (PEOPLE, "sex"), (VISITS, "day"), (VISITS, "ward")


def answer(aim: Aim, about: Subject, *rows: tuple[Any, ...], within: int = 0, hidden: int = 0) -> Answer:
    return Answer(Asked(aim, about, ""), Decimal("0.1"), rows, Account(within, hidden))


COUNT = answer("people", PEOPLE, (1000,), within=30)
OF_VISITS = answer("people", VISITS, (1000,), within=30)


def test_what_explain_says() -> None:
    outputs = [{"Within": 43.6, "Aggregate": "count"}, {"Within Ranks": 12}]
    said = [{"Privacy Plan": {"Measurements": [{"Groups": {"Threshold": 188}, "Outputs": outputs}, {"Outputs": []}]}}]
    assert account(json.dumps(said)) == Account(44, 188)


def test_ends_are_rounded_outwards_and_tell_their_error() -> None:
    found = measured(
        CATALOG,
        DECIDED,
        [COUNT, answer("ends", AGE, ("17", "1234"), within=20), answer("ends", DAY, ("2021-03-04", "2024-05-06"))],
    )
    assert found.ranges == {AGE: ("17", "1300"), DAY: ("2021-01-01", "2024-12-31")}
    assert found.origins[AGE] == "of all but about 5 % of persons at each end, give or take 20 (epsilon 0.1)"
    assert found.people == "about 1000 persons, give or take 30 (epsilon 0.1)"
    assert measured(CATALOG, DECIDED, [answer("ends", AGE, ("-15", "-15"))]).ranges[AGE] == ("-15", "-14"), (
        "an empty range is none"
    )
    assert measured(CATALOG, DECIDED, [answer("ends", AGE, (None, None))]).ranges == {}


def test_what_may_be_off_by_all_that_lies_beyond_is_not_proposed() -> None:
    """51 ranks of 1,000 people: the end may be anywhere."""
    found = measured(
        CATALOG,
        DECIDED,
        [COUNT, OF_VISITS, answer("ends", AGE, ("17", "1234"), within=51), answer("rows", VISITS, ("7",), within=51)],
    )
    assert (found.ranges, found.bounds) == ({}, {})
    assert (
        found.origins[AGE]
        == "not measured: at epsilon 0.1 ranks are off by up to 51, and 5 % of persons with rows here are about 50"
    )
    assert found.origins[VISITS] == found.origins[AGE]


def test_values() -> None:
    found = measured(CATALOG, DECIDED, [COUNT, answer("values", SEX, ("F", 480), ("M", 500), (None, 90), hidden=80)])
    assert found.values == {SEX: ("F", "M")}
    assert found.origins[SEX] == "measured; there may be others of fewer than about 80 persons (epsilon 0.1)"
    found = measured(CATALOG, DECIDED, [COUNT, answer("values", SEX, ("F", 480), hidden=300)])
    assert found.origins[SEX].startswith("TODO complete it: measured")
    found = measured(CATALOG, DECIDED, [COUNT, answer("values", SEX, hidden=80)])
    assert (found.values, found.origins[SEX]) == ({}, "no value of at least about 80 persons (epsilon 0.1)")
    found = measured(CATALOG, DECIDED, [COUNT, answer("values", SEX, *((f"v{i}", 9) for i in range(51)), hidden=8)])
    assert (found.values, found.origins[SEX]) == ({}, "more than 50 values of at least about 8 persons (epsilon 0.1)")


def test_whole_numbers_are_values_where_these_are_few_and_nearly_all() -> None:
    def kept(*rows: tuple[int, int], hidden: int = 20) -> bool:
        return measured(CATALOG, DECIDED, [OF_VISITS, answer("values", WARD, *rows, hidden=hidden)]).values == {
            WARD: tuple(r[0] for r in rows)
        }

    assert kept((1, 600), (2, 390))
    assert not kept((1, 600), (2, 290)), "a tenth of people have others"
    assert not kept((1, 600), (99, 390)), "far between"
    assert not kept((1, 600), (2, 390), hidden=101), "wards of a tenth of people may be missing"
    assert not kept()


def test_bounds() -> None:
    rows = answer("rows", VISITS, ("123",), within=9)
    found = measured(CATALOG, DECIDED, [OF_VISITS, rows])
    assert found.bounds == {VISITS: (130, 10)}
    found = measured(CATALOG, DECIDED, [OF_VISITS, rows, answer("groups", VISITS, ("4",), within=8)])
    assert found.bounds == {VISITS: (130, 4)}
    assert found.origins[VISITS] == (
        "rows of about 95 % of persons, give or take 9 (epsilon 0.1); groups by one column likewise, give or take 8 (epsilon 0.1)"
    )
    assert measured(CATALOG, DECIDED, [answer("rows", VISITS, ("1",))]).bounds == {VISITS: (2, 2)}, "one row is a promise"


def test_a_table_of_nobody_has_no_bounds() -> None:
    """The percentile of no rows is any number."""
    nobody = answer("people", VISITS, (0,), within=30)
    found = measured(
        CATALOG,
        DECIDED,
        [COUNT, nobody, answer("rows", VISITS, ("620",), within=9), answer("ends", DAY, ("1950-01-01", "2090-01-01"), within=9)],
    )
    assert (found.bounds, found.ranges) == ({}, {})
