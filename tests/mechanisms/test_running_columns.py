"""Runs of groups coded before noise and decoded after: exactly, wherever groups stand, and by no more than a column of the matrix."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.mechanisms import running_columns
from dpproxy.mechanisms.charge_check import check
from dpproxy.mechanisms.noise import LIMIT, Exact, MechanismError
from dpproxy.mechanisms.noise_sources import DefaultNoise, OwnNoise
from dpproxy.mechanisms.release import release
from dpproxy.privacy import noise_scale, running_sums
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, Measurement
from dpproxy.privacy.noise_error import deviation, sums_deviations
from dpproxy.privacy.running_sums import Running

DAYS = [0, 1, 2, 3, None]
PLACES = [("b", 2), ("a", 0), ("a", None), ("b", 0), (None, 3), ("a", 3), ("a", 1), ("b", None), (None, 0), ("b", 1),
          ("a", 2), ("b", 3), (None, None), (None, 2), (None, 1)]  # fmt: skip
"""Regions and days in no order: the day is key 1, and NULL comes last."""


def table(values: list[int], places: list[tuple[object, object]] = PLACES) -> pa.Table:
    regions = pa.array([region for region, _ in places], pa.string()).dictionary_encode()
    days = pa.array([day for _, day in places], pa.int64())
    return pa.table({"k0": regions, "k1": days, "b0": pa.array(values, pa.int64())})


def running(length: int = 5, width: int = 5, within: int = 3) -> Running:
    return Running(1, length, width, within)


def basis(run: Running, less: int = 0) -> Basis:
    linf = running_sums.changed(run) - less
    (sigma,) = noise_scale.gaussian_sigmas([(1, linf)], [1], 10**6, 10**12)
    loss = Loss.gaussian(1, linf, sigma, 10**6, 10**12)
    return Basis("sums", linf, Fraction(1), "gaussian", sigma, loss, 2, running_sums.PARTS, 1, False, run)


def measured(kit: SimpleNamespace, made: Basis) -> Measurement:
    return kit.measurement(made, keys=2)


def test_groups_are_coded_in_their_runs_and_decoded_to_their_places() -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(-(10**12), 10**12, len(PLACES))
    given = table(values.tolist())
    runs = running_columns.runs_of(given, 2, running())
    coded = running_columns.coded(values, runs).tolist()
    factors = running_sums.coefficients(5, 5)
    expected = []
    for region in ("a", "b", None):
        run = [int(values[PLACES.index((region, day))]) for day in DAYS]
        expected += [sum(factors[t - s] * run[s] for s in range(t + 1)) for t in range(5)]
    assert sorted(coded) == sorted(expected)
    assert running_columns.decoded(np.array(coded), runs).tolist() == values.tolist()


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("held", [5, 9])
def test_a_unit_moves_what_gets_noise_by_no_more_than_is_charged_for(width: int, held: int) -> None:
    """In whichever group it is, and also where values are held; planned runs may be longer than those there are."""
    run = running(held, width)
    runs, whole = running_columns.runs_of(table([0] * len(PLACES)), 2, run), running_sums.changed(run)
    for value in (0, -7, LIMIT // 2**20, LIMIT - 1, -LIMIT):
        before = np.full(len(PLACES), value, dtype=np.int64)
        for place in range(len(PLACES)):
            for by in (run.within, -run.within):
                after = before.copy()
                after[place] = np.clip(int(before[place]) + by, -LIMIT, LIMIT)
                one, other = (running_columns.coded(x, runs).tolist() for x in (before, after))
                assert math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True))) <= whole
                assert max(map(abs, one)) <= LIMIT


@pytest.mark.parametrize(
    "places",
    [PLACES[:-1], [*PLACES[:-1], ("c", 1)], [(None, day) for day in range(6)], [("a", 0), ("a", 0), ("b", 1)]],
    ids=["one is missing", "another run", "longer than planned", "uneven"],
)
def test_other_groups_than_planned_are_refused(kit: SimpleNamespace, places: list[tuple[object, object]]) -> None:
    with pytest.raises(MechanismError, match="no runs of the planned length"):
        release(measured(kit, basis(running())), Exact((table([0] * len(places), places),)), kit.Dice(0))


def test_without_noise_the_answer_is_exact_and_without_groups_empty(kit: SimpleNamespace) -> None:
    values = [5 * i - 20 for i in range(len(PLACES))]
    m = measured(kit, basis(running()))
    assert release(m, Exact((table(values),)), kit.Dice(0)).values[0].tolist() == values
    assert release(m, Exact((table([], []),)), kit.Dice(0)).rows == 0


def test_a_charge_for_less_than_a_unit_changes_is_refused(kit: SimpleNamespace) -> None:
    """Planted: a shorter column, a larger unit, more groups of a unit, groups that are not declared, another norm, other parts."""
    made = basis(running())
    check(measured(kit, made), DefaultNoise())
    wrong = [
        measured(kit, basis(running(), less=1)),
        measured(kit, replace(made, running=running(within=4))),
        measured(kit, replace(made, running=running(6, 6))),
        measured(kit, replace(made, running=replace(running(), key=2))),
        measured(kit, replace(made, norm=0)),
        measured(kit, replace(made, norm=1)),
        measured(kit, replace(made, fine=1)),
        replace(measured(kit, made), l0=2),
        replace(measured(kit, made), dense=False, keys=()),
        replace(measured(kit, made), counted=(0,)),
    ]
    for m in wrong:
        with pytest.raises(MechanismError):
            check(m, DefaultNoise())


def test_errors_are_those_that_are_told(kit: SimpleNamespace) -> None:
    """Of sums from the first group on, of the last 30, of single groups: within 8 % over a thousand runs of 90 groups."""
    run = Running(0, 90, 90, 1)
    made = basis(run)
    m = kit.measurement(made, keys=2)
    places = [(day, run_) for run_ in range(1000) for day in range(90)]
    keys = {"k0": pa.array([d for d, _ in places]), "k1": pa.array([r for _, r in places])}
    given = Exact((pa.table({**keys, "b0": pa.array(np.full(len(places), 1000))}),))
    noise = OwnNoise(np.random.default_rng(3).bytes)
    off = release(m, given, noise).values[0].reshape(1000, 90) - 1000
    anywhere, first = sums_deviations(made)
    totals = np.cumsum(off, axis=1)
    assert np.std(totals[:, [0, 9, 89]], axis=0) == pytest.approx(np.array(first)[[0, 9, 89]], rel=0.08)
    assert np.std(totals[:, 89] - totals[:, 59]) == pytest.approx(anywhere[29], rel=0.08)
    assert np.std(off[:, 89]) == pytest.approx(deviation(made), rel=0.08)
    assert np.abs(totals.mean(axis=0)).max() < 5 * first[-1] / math.sqrt(1000)
