"""Fields of intervals: bounds that hold the fields of all of them, of multiples, differences and ages."""

from __future__ import annotations

from fractions import Fraction

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.plan.operations import times
from dpproxy.plan.operations.bounds import scaled
from dpproxy.plan.properties.facts import Facts, facts
from dpproxy.tree.expr import Call, Expr
from dpproxy.tree.interval import OPEN, Interval

STAMP = ref(column(1, "timestamp", 0, 0))
DAY = 86_400


def between(lo: int, hi: int) -> Interval:
    return Interval(Fraction(lo), Fraction(hi))


def moment(lo: int, hi: int) -> Expr:
    return ref(column(1, "timestamp", lo, hi))


def known(field: str, interval: Expr) -> Facts:
    return facts(call(field, interval, type_="int8"))


@pytest.mark.parametrize(
    ("unit", "field", "found"),
    [
        ("0 2 0", "day", (-6, 10)),
        ("0 0 5400000000", "hour", (-5, 8)),  # an hour and a half, outwards
        ("0 1 0", "epoch", (-3 * DAY, 5 * DAY)),
        ("0 -2 0", "day", (-10, 6)),
    ],
)
def test_fields_of_multiples(unit: str, field: str, found: tuple[int, int]) -> None:
    assert scaled(between(-3, 5), unit, field).ends == found
    _, days, micros = (int(x) for x in unit.split())
    sizes = {"day": Fraction(days), "hour": Fraction(micros, 3600 * 10**6), "epoch": Fraction(days * DAY)}
    assert all(found[0] <= n * sizes[field] <= found[1] for n in range(-3, 6))
    times = call("interval_times", ref(column(2, "int4", -3, 5)), lit(unit, "interval"), lit("1000", "int8"), type_="interval")
    assert facts(Call("float8" if field == "epoch" else "int8", field, (times,))).bound.ends == found


@pytest.mark.parametrize(("unit", "field"), [("1 0 0", "day"), ("0 1 0", "month"), ("0 1 0", "minute")])
def test_months_and_other_fields_are_open(unit: str, field: str) -> None:
    assert scaled(between(0, 5), unit, field) == OPEN
    assert scaled(OPEN, "0 1 0", "day") == OPEN


def test_fields_of_differences() -> None:
    difference = call("ts_diff", moment(0, 10 * DAY), moment(0, 2 * DAY), type_="interval")
    found = known("day", difference)
    assert found.bound.ends == (-2, 10)
    assert found.span.ends == (-3_660_000, 3_660_000)
    assert known("hour", difference).bound.ends == (-23, 23)
    assert known("month", difference).bound.ends == (0, 0), "days are not carried into months"


def test_fields_of_any_interval() -> None:
    some = ref(column(1, "interval"))
    assert known("minute", some).bound.ends == (-59, 59)
    assert known("day", some).bound == OPEN
    assert known("day", some).span.ends == (-(2**31), 2**31)
    aged = call("age", moment(0, 3 * 365 * DAY), moment(0, 0), type_="interval")
    assert known("year", aged).bound.ends == (0, 3)


def test_steps() -> None:
    def step(unit: str) -> str | None:
        return times.step_of_unit((lit(unit, "text"), STAMP))

    assert [step(unit) for unit in ("month", "day", "hour", "minute", "no unit")] == ["month", "day", "hour", None, None]
    bins = [("0 7 0", "2024-01-01"), ("0 0 7200000000", "2024-01-01 03:00:00"), ("0 0 60000000", "2024-01-01")]
    found = [times.step_of_bins((lit(stride, "interval"), STAMP, lit(origin, "timestamp"))) for stride, origin in bins]
    assert found == ["day", "hour", None]
    assert [times.step_of_format((STAMP, lit(form, "text"))) for form in ("%Y-%m", "%Y-%d", "%H", "%M")] == [
        "month",
        "day",
        "hour",
        None,
    ]
