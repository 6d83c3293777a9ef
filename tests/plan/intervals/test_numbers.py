"""Calls that stand for numbers of noise give way to them, and to nothing else."""

from __future__ import annotations

from fractions import Fraction

import plan_harness

from dpproxy.plan.intervals.numbers import DEVIATION, EXCESS, HALF, NORMAL, TAU, text_with_error_numbers
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy import noise_error

CONFIDENCE = Fraction(19, 20)


def test_each_call_is_its_number(shop_catalog: Catalog) -> None:
    (measurement,) = measurements = plan_harness.plan("SELECT count(*) FROM orders GROUP BY category", shop_catalog).measurements
    (basis, *_), threshold, told = measurement.bases, measurement.threshold, noise_error.each(CONFIDENCE)
    assert threshold is not None
    numbers = {
        f"{HALF}(0, 0, 1, 1)": noise_error.told_half(basis, told),
        f"{HALF}(0, 0, 2, 9)": noise_error.told_half(basis, 1 - (1 - told) / 2, 9),
        f"{DEVIATION}(0, 0, 4)": noise_error.deviation(basis, 4),
        f"{EXCESS}(0, 0, 1)": noise_error.excess(basis),
        f"{NORMAL}(0, 10)": noise_error.normal_point(1 - (1 - told) / 10),
        f"{NORMAL}(1, 1)": noise_error.normal_point(1 - (1 - told) * noise_error.CHOSEN),
        f"{TAU}(0)": threshold.tau,
    }
    found = text_with_error_numbers(f"SELECT {', '.join(numbers)}, half(0)", measurements, CONFIDENCE)
    *texts, other = found.removeprefix("SELECT ").split(", ")
    assert other == "half(0)"
    assert list(map(float, texts)) == list(map(float, numbers.values()))


def test_a_text_without_calls_stays_as_it_is() -> None:
    assert text_with_error_numbers("SELECT  1", (), CONFIDENCE) == "SELECT  1"
