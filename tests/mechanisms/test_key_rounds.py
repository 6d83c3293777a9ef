"""Groups found in two rounds: what each finds, what it must cost, and that more are found than in one."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.mechanisms import charge_check
from dpproxy.mechanisms.key_rounds import MOST_NUMBERS, found_first, places
from dpproxy.mechanisms.noise import Exact, FoundGroups, Int64, MechanismError
from dpproxy.mechanisms.noise_sources import OpenDPNoise
from dpproxy.mechanisms.release import release
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, FirstRound, Key, Measurement, Threshold
from dpproxy.privacy.noise_scale import gaussian_sigmas
from dpproxy.privacy.noise_tail import units_threshold
from dpproxy.sql.template import Template

FINE, L0, DELTA = 2**20, 1000, 5 * 10**11
QUERY = Template("duckdb", ("x",))
SIGMAS = gaussian_sigmas([(1, FINE)] * 2, [9, 1], 1_000_000, DELTA)


class Still(OpenDPNoise):
    """Noise that adds the same everywhere."""

    def __init__(self, shift: int = 0) -> None:
        super().__init__()
        self.shift = shift

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return values + self.shift

    laplace = gaussian


def basis(sigma: Fraction, share: int) -> Basis:
    loss = Loss.gaussian(1, FINE, sigma, share * 100_000, share * DELTA // 10)
    return Basis("weight", FINE, Fraction(1), "gaussian", sigma, loss, 2, FINE)


def measured(keys: int = 1, parts: tuple[int, int] = (DELTA * 9 // 10, DELTA // 10)) -> Measurement:
    bases = (basis(SIGMAS[0], 9), basis(SIGMAS[1], 1))
    taus = [units_threshold(sigma, L0, part, FINE, "gaussian") for sigma, part in zip(SIGMAS, parts, strict=True)]
    threshold = Threshold(0, taus[0], 1, sum(parts), None, FirstRound(QUERY, 1, taus[1], parts[1]))
    loss = bases[0].loss + bases[1].loss + Loss.delta_only(sum(parts))
    named = tuple(Key(f"k{i}", "text") for i in range(keys))
    return Measurement((QUERY,), named, bases, L0, False, threshold, loss, None)


def first_answer(weights: list[int], *keys: list[str | None]) -> Exact:
    columns = {f"k{i}": pa.array(key, pa.string()) for i, key in enumerate(keys)}
    numbers = pa.array(range(100, 100 + len(weights)), pa.int64())
    return Exact((pa.table({**columns, "b0": pa.array(weights, pa.int64()), "h": numbers}),))


def last_answer(weights: list[int], *keys: list[str | None]) -> Exact:
    columns = {f"k{i}": pa.array(key, pa.string()) for i, key in enumerate(keys)}
    zeros = pa.array([0] * len(weights), pa.int64())
    return Exact((pa.table({**columns, "b0": pa.array(weights, pa.int64()), "b1": zeros}),))


def first_tau(m: Measurement) -> int:
    assert m.threshold is not None
    assert m.threshold.first is not None
    return m.threshold.first.tau


def test_groups_at_the_first_threshold_are_found_with_their_numbers() -> None:
    m = measured(2)
    tau = first_tau(m)
    given = first_answer([tau, tau - 1, tau + 5], ["a", "b", None], ["x", None, None])
    found = found_first(m, given, Still())
    assert [key.to_pylist() for key in found.keys] == [["a", None], ["x", None]]
    assert found.numbers == (100, 102)
    assert found_first(m, given, Still(1)).numbers == (100, 101, 102)
    assert found_first(m, first_answer([], [], []), Still()).numbers == ()


def test_what_was_found_is_shown_though_nobody_weighs_it_any_more() -> None:
    m = measured(2)
    assert m.threshold is not None
    found = FoundGroups((pa.array([None, "gone"]), pa.array(["x", "x"])), (1, 2))
    keys = (["a", "a", None, None], ["x", "y", "x", "y"])
    given = last_answer([m.threshold.tau - 1, m.threshold.tau, 0, 0], *keys)
    assert [k.to_pylist() for k in release(m, given, Still(), found).keys] == [["a", None], ["y", "x"]]
    none = FoundGroups((pa.array([], pa.string()), pa.array([], pa.string())), ())
    assert [k.to_pylist() for k in release(m, given, Still(), none).keys] == [["a"], ["y"]]


def test_rounds_are_those_of_the_plan() -> None:
    m = measured()
    assert m.threshold is not None
    one = replace(m, threshold=replace(m.threshold, first=None))
    with pytest.raises(MechanismError):
        found_first(one, first_answer([1], ["a"]), Still())
    with pytest.raises(MechanismError):
        release(m, last_answer([1], ["a"]), Still())
    with pytest.raises(MechanismError):
        release(one, last_answer([1], ["a"]), Still(), FoundGroups((pa.array(["a"]),), (1,)))
    with pytest.raises(MechanismError):
        found_first(m, last_answer([1], ["a"]), Still())


def test_charges_that_do_not_cover_both_rounds() -> None:
    m = measured()
    assert m.threshold is not None
    assert m.threshold.first is not None
    charge_check.check(m, OpenDPNoise())
    first = m.threshold.first
    for wrong in (
        replace(m.threshold, tau=m.threshold.tau - 1),
        replace(m.threshold, first=replace(first, tau=first.tau - 1)),
        replace(m.threshold, first=replace(first, basis=0)),
        replace(m.threshold, first=replace(first, delta=first.delta * 2)),
        replace(m.threshold, first=replace(first, delta=0)),
        replace(m.threshold, delta=first.delta),
    ):
        with pytest.raises(MechanismError):
            charge_check.check(replace(m, threshold=wrong), OpenDPNoise())
    with pytest.raises(MechanismError):  # without the first round's noise
        charge_check.check(replace(m, loss=m.bases[0].loss + Loss.delta_only(m.threshold.delta)), OpenDPNoise())


@pytest.mark.parametrize("groups", [1, 7, L0])
def test_a_new_group_is_shown_in_either_round_with_probability_delta(groups: int) -> None:
    """Of a unit that is alone in so many groups, weighing 1 / sqrt(groups) in each: by the normal tail, both rounds together."""
    m = measured()
    assert m.threshold is not None
    weight = FINE / math.sqrt(groups)
    shown = 0.0
    for sigma, tau in ((SIGMAS[0], m.threshold.tau), (SIGMAS[1], first_tau(m))):
        shown += groups * math.erfc((tau - weight - 0.5) / float(sigma) / math.sqrt(2)) / 2
    assert shown <= DELTA / 10**18 * (1 + 1e-6)
    assert groups < L0 or shown > DELTA / 10**18 / 4


def test_places_of_groups_that_are_there() -> None:
    keys = [pa.chunked_array([["a", "b", None]])]
    found = FoundGroups((pa.array([None, "c", "a"]),), (3, 4, 5))
    assert sorted(places(found, keys, 3).tolist()) == [0, 2]


def test_few_enough_numbers_are_told() -> None:
    m, count = measured(), MOST_NUMBERS + 10
    found = found_first(m, first_answer([first_tau(m)] * count, [str(i) for i in range(count)]), Still())
    assert (len(found.numbers), len(found.keys[0])) == (MOST_NUMBERS, count)


def test_people_in_many_groups_hide_fewer_of_them() -> None:
    """Weights, noise and thresholds as above, in numpy: 4,000 people in 20 of 400 groups each, a third of them known to all."""
    m, rng = measured(), np.random.default_rng(4)
    assert m.threshold is not None
    size = np.arange(1, 401) ** -1.0
    member = np.array([np.bincount(rng.choice(400, 20, False, size / size.sum()), minlength=400) for _ in range(4000)])

    def shown(sigma: Fraction, tau: int, left: Int64) -> Int64:
        weight = left / np.sqrt(np.maximum(left.sum(axis=1, keepdims=True), 1))
        return np.flatnonzero(weight.sum(axis=0) * FINE + rng.normal(0, float(sigma), 400) >= tau)

    (alone,) = gaussian_sigmas([(1, FINE)], [1], 1_000_000, DELTA)
    one = shown(alone, units_threshold(alone, L0, DELTA, FINE, "gaussian"), member)
    early = shown(SIGMAS[1], first_tau(m), member)
    rest = member.copy()
    rest[:, early] = 0
    two = set(early) | set(shown(SIGMAS[0], m.threshold.tau, rest))
    assert len(two) > 1.2 * len(one) > 0
