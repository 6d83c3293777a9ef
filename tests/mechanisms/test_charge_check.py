"""Columns whose sensitivity is a norm over all groups, measured in parts of a grid unit: what is checked, and what is released."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.mechanisms import charge_check
from dpproxy.mechanisms.noise import Exact, Int64, MechanismError
from dpproxy.mechanisms.noise_sources import OpenDPNoise
from dpproxy.mechanisms.release import release
from dpproxy.privacy import noise_scale
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, Key, Measurement, Threshold, Top
from dpproxy.privacy.noise_error import deviation, half_width
from dpproxy.privacy.noise_tail import top_threshold, units_threshold
from dpproxy.sql.template import Template

FINE, ROWS, GROUPS = 1024, 10, 1000
RHO = noise_scale.rho_for(500_000, 10**11)


class Shifted(OpenDPNoise):
    """Noise that is always `by` parts."""

    def __init__(self, by: int) -> None:
        self.by = by

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return values + self.by


def basis(rho: Fraction = RHO, linf: int = ROWS * FINE) -> Basis:
    sigma = noise_scale.gaussian_sigma(1, linf, rho)  # one group's worth, however many there are
    return Basis("n", linf, Fraction(1), "gaussian", sigma, Loss.gaussian(1, linf, sigma, 500_000, 10**11), 2, FINE)


def measured(*bases: Basis, threshold: Threshold | None = None) -> Measurement:
    loss = sum((b.loss for b in bases), Loss(0)) + Loss.delta_only(threshold.delta if threshold else 0)
    return Measurement(
        (Template("duckdb", ("x",)),), (Key("k", "text"),), bases, GROUPS, threshold is None, threshold, loss, None
    )


def exact(*columns: list[int]) -> Exact:
    names = [f"key {i}" for i in range(len(columns[0]))]
    return Exact((pa.table({"k0": names} | {f"b{i}": pa.array(c, pa.int64()) for i, c in enumerate(columns)}),))


@pytest.mark.parametrize("by", [0, 1, 511, 512, -512, -513, 5 * FINE])
def test_released_values_are_rounded_to_the_grid(by: int) -> None:
    values = [0, 7 * FINE, 7 * FINE + 300, -3 * FINE]
    released = release(measured(basis()), exact(values), Shifted(by))
    assert released.values[0].tolist() == [round(Fraction(v + by, FINE) + Fraction(1, 10**9)) for v in values]


def test_the_noise_is_that_of_one_group() -> None:
    released = release(measured(basis()), exact([0] * 4000), OpenDPNoise())
    sigma = ROWS * float((1 / (2 * RHO)) ** Fraction(1, 2))
    assert np.std(released.values[0]) == pytest.approx(sigma, rel=0.05)
    assert deviation(basis()) == pytest.approx(sigma, rel=1e-6)
    inside = np.mean(np.abs(released.values[0]) <= half_width(basis(), Fraction(95, 100)))
    assert 0.94 <= inside <= 0.965


def test_a_norm_is_charged_as_it_is() -> None:
    charge_check.check(measured(basis()), OpenDPNoise())
    thinner = replace(basis(), scale=basis().scale * Fraction(999, 1000))
    each_group = replace(basis(), norm=0)  # as if linf were the bound of each of the thousand groups
    laplace = replace(basis(), mechanism="laplace", loss=Loss.pure(500_000))
    for forged in (thinner, each_group, laplace):
        with pytest.raises(MechanismError):
            charge_check.check(measured(forged), OpenDPNoise())


def test_thresholds_on_weights() -> None:
    """A new group weighs at most `min_units`: the threshold is that, in parts, and the tail of the noise."""
    weight = basis(linf=FINE)
    for least in (1, 4):
        tau = units_threshold(weight.scale, GROUPS, 10**11, least * FINE, "gaussian")
        assert tau > least * FINE + 5 * weight.scale
        kept = Threshold(0, tau, least, 10**11)
        at = exact([tau - 1, tau, 10 * tau])
        assert release(measured(weight, threshold=kept), at, Shifted(0)).keys[0].to_pylist() == ["key 1", "key 2"]
        with pytest.raises(MechanismError):
            charge_check.check(measured(weight, threshold=replace(kept, tau=tau - 1)), OpenDPNoise())


LEAST = top_threshold(3, 3, 1, 1000, 10**9, 2)
DECLARED = Top(3, 0, 1000, None, 1, 0, Loss.bounded_range(1000, 3))
FOUND = Top(3, 0, 1000, LEAST, 2, 10**9, Loss.bounded_range(1000, 3) + Loss.delta_only(10**9))


@pytest.mark.parametrize(
    ("dense", "top", "wrong"),
    [
        (True, DECLARED, ""),
        (False, FOUND, ""),
        (False, replace(FOUND, absent=LEAST + 5), ""),
        (False, DECLARED, "in two ways"),
        (True, FOUND, "in two ways"),
        (True, replace(DECLARED, score=1), "by no count"),
        (True, replace(DECLARED, score=-1), "by no count"),
        (False, replace(FOUND, absent=LEAST - 1), "lower than its delta allows"),
        (False, replace(FOUND, min_units=3), "lower than its delta allows"),
        (True, replace(DECLARED, epsilon=1001), "loss of its choices"),
        (True, replace(DECLARED, k=4), "loss of its choices"),
        (False, replace(FOUND, loss=DECLARED.loss), "loss of its choices"),
    ],
)
def test_groups_that_are_chosen_are_charged(kit: SimpleNamespace, dense: bool, top: Top, wrong: str) -> None:
    """And those that nobody declared come of few units as seldom as delta says."""
    units = kit.laplace_basis(1, l0=3, epsilon=100_000)
    made = replace(kit.measurement(units, keys=1, l0=3), dense=dense, loss=units.loss + top.loss, top=top)
    if wrong:
        with pytest.raises(MechanismError, match=wrong):
            charge_check.check(made, OpenDPNoise())
    else:
        charge_check.check(made, OpenDPNoise())
