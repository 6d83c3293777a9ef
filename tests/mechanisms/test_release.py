"""The door: shifted dice, refusals of what is not as planned, and the law of whole releases."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.mechanisms.noise import Exact, MechanismError
from dpproxy.mechanisms.noise_sources import DefaultNoise, OpenDPNoise, OwnNoise
from dpproxy.mechanisms.release import release
from dpproxy.privacy import noise_scale
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Threshold
from dpproxy.privacy.noise_tail import truncated_threshold, units_threshold

SEED = np.random.default_rng(19).bytes


@pytest.mark.parametrize("by", [-7, 0, 1, 10**6])
def test_shifted_dice(kit: SimpleNamespace, by: int) -> None:
    """Every released cell is the exact one moved by the dice: nothing passes by the noise, nothing else is done."""
    m = kit.measurement(kit.laplace_basis(), kit.gaussian_basis(5), kit.laplace_basis(10**9), keys=1)
    truth = [[3, 0, -4], [10**15, 1, 2], [-(2**61), 7, 2**61]]
    released = release(m, kit.exact([["a", None, "b"]], truth), kit.Dice(by))
    assert [v.tolist() for v in released.values] == [[x + by for x in column] for column in truth]
    assert released.keys[0].to_pylist() == ["a", None, "b"]
    assert released.rows == 3


def test_values_saturate_before_the_noise(kit: SimpleNamespace) -> None:
    released = release(kit.measurement(kit.laplace_basis()), kit.exact([], [[2**63 - 1]]), kit.Dice(-1))
    assert released.values[0].tolist() == [2**62 - 1]


@pytest.mark.parametrize(("counted", "fits", "over"), [((0, 1), 4, 3), ((1,), 2, 1)])
def test_declared_groups_are_counted_where_a_bound_rests_on_their_number(
    kit: SimpleNamespace, counted: tuple[int, ...], fits: int, over: int
) -> None:
    """Those that agree in the keys which do not differ among a unit's rows: here a and b, of two days each."""
    keys, values = [["a", "a", "b", "b"], ["1", "2", "1", "2"]], [[0, 0, 0, 0]]
    m = replace(kit.measurement(kit.laplace_basis(l0=4), keys=2, l0=fits), counted=counted)
    assert release(m, kit.exact(keys, values), kit.Dice(0)).rows == 4
    with pytest.raises(MechanismError, match="more declared groups than the plan says"):
        release(replace(m, l0=over), kit.exact(keys, values), kit.Dice(0))
    with pytest.raises(MechanismError, match="more declared groups"):
        release(replace(with_threshold(kit, kit.laplace_basis(1, l0=2)), counted=()), kit.exact([["a"]], [[9], [9]]), kit.Dice(0))


def with_threshold(kit: SimpleNamespace, units: object, min_units: int = 3, delta: int = 10**12) -> object:
    tau = units_threshold(units.scale, 2, delta, min_units, units.mechanism)
    return kit.measurement(kit.laplace_basis(9, l0=2), units, keys=1, l0=2, threshold=Threshold(1, tau, min_units, delta))


def test_the_threshold_is_held_against_noisy_units(kit: SimpleNamespace) -> None:
    m = with_threshold(kit, kit.laplace_basis(1, l0=2))
    tau = m.threshold.tau
    exact = kit.exact([["low", "at", "high"]], [[100, 200, 300], [tau - 1, tau, tau + 1]])
    assert release(m, exact, kit.Dice(0)).keys[0].to_pylist() == ["at", "high"]
    assert release(m, exact, kit.Dice(0)).values[0].tolist() == [200, 300]
    assert release(m, exact, kit.Dice(1)).keys[0].to_pylist() == ["low", "at", "high"]
    assert release(m, exact, kit.Dice(-2)).rows == 0


@pytest.mark.parametrize("linf", [2, 5])
def test_groups_are_kept_by_units_alone(kit: SimpleNamespace, linf: int) -> None:
    """A column that one unit moves by more than 1 lets a group of one unit pass, however high the threshold."""
    with pytest.raises(MechanismError, match="moves by more than 1"):
        release(with_threshold(kit, kit.laplace_basis(linf, l0=2)), kit.exact([["a"]], [[1], [1000]]), kit.Dice(0))


def test_no_group_at_all(kit: SimpleNamespace) -> None:
    m = with_threshold(kit, kit.laplace_basis(1, l0=2))
    table = pa.table({"k0": pa.array([], pa.string()), "b0": pa.array([], pa.int64()), "b1": pa.array([], pa.int64())})
    released = release(m, Exact((table,)), DefaultNoise())
    assert released.rows == 0
    assert [len(v) for v in released.values] == [0, 0]


TABLES = [
    ("missing column", {"k0": ["a"]}),
    ("extra column", {"k0": ["a"], "b0": [1], "b1": [2]}),
    ("other order", {"b0": [1], "k0": ["a"]}),
    ("NULL", {"k0": ["a"], "b0": pa.array([None], pa.int64())}),
    ("narrow", {"k0": ["a"], "b0": pa.array([1], pa.int32())}),
    ("floating", {"k0": ["a"], "b0": [1.0]}),
    ("decimal", {"k0": ["a"], "b0": pa.array([1], pa.decimal128(38))}),
    ("text", {"k0": ["a"], "b0": ["1"]}),
]


@pytest.mark.parametrize(("fault", "columns"), TABLES)
def test_a_table_unlike_the_plan_is_refused(kit: SimpleNamespace, fault: str, columns: dict[str, object]) -> None:
    with pytest.raises(MechanismError):
        release(kit.measurement(kit.laplace_basis(), keys=1), Exact((pa.table(columns),)), kit.Dice())


def test_other_counts_of_tables_and_rows_are_refused(kit: SimpleNamespace) -> None:
    m, one = kit.measurement(kit.laplace_basis()), pa.table({"b0": [1]})
    for tables in [(), (one, one), (pa.table({"b0": [1, 2]}),), (pa.table({"b0": pa.array([], pa.int64())}),)]:
        with pytest.raises(MechanismError):
            release(m, Exact(tables), kit.Dice())


def test_a_group_below_the_least_number_of_units_is_a_fault(kit: SimpleNamespace) -> None:
    """The threshold counts on the backend having dropped it."""
    m = with_threshold(kit, kit.laplace_basis(1, l0=2))
    with pytest.raises(MechanismError):
        release(m, kit.exact([["a", "b"]], [[5, 5], [1000, 2]]), kit.Dice())


def test_errors_say_nothing_about_data(kit: SimpleNamespace) -> None:
    texts = set()
    for cell in ("victim", "other"):
        with pytest.raises(MechanismError) as caught:
            release(kit.measurement(kit.laplace_basis()), Exact((pa.table({"b0": [cell]}),)), kit.Dice())
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_without_keys_there_is_one_group_and_no_threshold(kit: SimpleNamespace) -> None:
    m = replace(kit.measurement(kit.laplace_basis()), dense=False)
    assert release(m, kit.exact([], [[5]]), kit.Dice(1)).values[0].tolist() == [6]


def undercharged(kit: SimpleNamespace) -> list[tuple[str, object]]:
    """Plans with one planted bug each, in the numbers alone."""
    basis, gauss = kit.laplace_basis(5, l0=3), kit.gaussian_basis(5, l0=3)
    lap, gau = kit.measurement(basis, l0=3), kit.measurement(gauss, l0=3)
    shift = with_threshold(kit, kit.laplace_basis(1, l0=2))
    plain = kit.measurement(kit.laplace_basis(), keys=1)
    lower = replace(shift, threshold=replace(shift.threshold, tau=shift.threshold.tau - 1))
    return [
        (
            "scale a hair too small",
            replace(lap, bases=(replace(basis, scale=basis.scale * Fraction(10**9 - 1, 10**9)),)),
        ),
        ("sensitivity too small", replace(lap, bases=(replace(basis, linf=6),))),
        ("one more group per unit", replace(lap, l0=4)),
        ("epsilon too small", replace(lap, bases=(replace(basis, loss=Loss.pure(999_999)),))),
        ("total too small", replace(lap, loss=Loss.pure(999_999))),
        (
            "sigma a hair too small",
            replace(gau, bases=(replace(gauss, scale=gauss.scale * Fraction(10**9 - 1, 10**9)),)),
        ),
        ("sensitivity of Gaussian too small", replace(gau, bases=(replace(gauss, linf=6),))),
        ("one more group of Gaussian", replace(gau, l0=4)),
        ("Gaussian without delta", replace(gau, bases=(replace(gauss, loss=Loss.pure(1_000_000)),))),
        ("Renyi curve too low", replace(gau, bases=(replace(gauss, loss=replace(gauss.loss, rdp=(1,) * 32)),))),
        ("Gaussian curve too low", replace(lap, bases=(replace(basis, loss=replace(basis.loss, gdp=(1,) * 13)),))),
        ("tau too low", lower),
        ("delta of the threshold not charged", replace(shift, loss=shift.bases[0].loss + shift.bases[1].loss)),
        ("undeclared keys without threshold", replace(plain, dense=False)),
    ]


def test_planted_undercharges_are_refused(kit: SimpleNamespace) -> None:
    exact = Exact(())  # never opened
    for fault, m in undercharged(kit):
        for source in (kit.Dice(), OpenDPNoise(), OwnNoise(SEED)):
            with pytest.raises(MechanismError, match=r"charge|cost|threshold"):
                release(m, exact, source)
            assert fault


def test_right_charges_are_accepted(kit: SimpleNamespace) -> None:
    for epsilon in (1, 3, 100_000, 333_333, 10**6, 10**12):
        for l0, linf in [(1, 1), (3, 7), (1000, 10**6)]:
            basis = kit.laplace_basis(linf, l0, epsilon)
            for m in (kit.measurement(basis, l0=l0), kit.measurement(replace(basis, loss=Loss.pure(epsilon)), l0=l0)):
                release(m, kit.exact([], [[5]]), DefaultNoise())
    for epsilon in (10_000, 333_333, 10**6, 10**7):
        for l0, linf in [(1, 1), (3, 7), (1000, 10**6)]:
            m = kit.measurement(kit.gaussian_basis(linf, l0, epsilon), l0=l0)
            release(m, kit.exact([], [[5]]), DefaultNoise())


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("source", [OpenDPNoise(), OwnNoise(SEED)], ids=["library", "own"])
def test_released_cells_have_the_planned_law(kit: SimpleNamespace, mechanism: str, source: object) -> None:
    """Two-sided, through the door: the plan's scale passes, 30 % more or less fails."""
    basis = getattr(kit, f"{mechanism}_basis")(3, l0=2, epsilon=900_000)
    cells = 50_000
    m = kit.measurement(basis, keys=1, l0=2)
    released = release(m, kit.exact([list(range(cells))], [[41] * cells]), source)
    moved, pmf = released.values[0] - 41, getattr(kit, f"{mechanism}_pmf")
    reach = int(40 * basis.scale)
    assert kit.p_value(moved, lambda x: pmf(float(basis.scale), x), reach) > 1e-9
    for wrong in (1.3, 1 / 1.3):
        assert kit.p_value(moved, lambda x, w=wrong: pmf(float(basis.scale) * w, x), reach) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_lone_group_appears_with_probability_delta(kit: SimpleNamespace, mechanism: str) -> None:
    """Simulation with delta large enough to see: l0 groups of exactly min_units units show at most delta together."""
    delta, tries = ATTO // 50, 200_000
    units = kit.laplace_basis(1, l0=2) if mechanism == "laplace" else kit.gaussian_basis(1, l0=2, delta=10**15)
    m = with_threshold(kit, units, min_units=3, delta=delta)
    exact = kit.exact([np.arange(tries)], [[7] * tries, [3] * tries])
    shown = release(m, exact, OwnNoise(SEED)).rows / tries
    assert shown <= 0.01 + 5 * (0.01 / tries) ** 0.5
    assert shown >= 0.004  # and it is not needlessly strict: one step of tau is a factor e**(-1/scale) at most


ATTO = 10**18


def test_ratio_of_neighbours_by_enumeration(kit: SimpleNamespace) -> None:
    """Every outcome of a count, a unit present or not: probabilities differ by at most e**epsilon, and some by it."""
    for epsilon in (100_000, 1_000_000, 3_000_000):
        scale = float(kit.laplace_basis(4, 1, epsilon).scale)
        ratios = [kit.laplace_pmf(scale, x) / kit.laplace_pmf(scale, x - 4) for x in range(-200, 200)]
        bound = np.exp(epsilon / 1e6)
        assert max(ratios) <= bound * (1 + 1e-9)
        assert max(ratios) == pytest.approx(bound, rel=1e-6)
        assert min(ratios) == pytest.approx(1 / bound, rel=1e-6)


def held(kit: SimpleNamespace, reach_more: int = 0, min_units: int = 3, delta: int = 10**16) -> object:
    """Undeclared keys whose units get noise within +-reach."""
    units = kit.laplace_basis(1, l0=2)
    tau, reach = truncated_threshold(units.scale, 2, delta, min_units)
    threshold = Threshold(0, tau + reach_more, min_units, delta, reach + reach_more)
    return kit.measurement(units, kit.laplace_basis(9, l0=2), keys=1, l0=2, threshold=threshold)


def test_noise_within_reach_has_the_truncated_law(kit: SimpleNamespace) -> None:
    m = held(kit)
    reach, cells, scale = m.threshold.reach, 100_000, float(m.bases[0].scale)
    released = release(m, kit.exact([np.arange(cells)], [[1000] * cells, [0] * cells]), OwnNoise(SEED))
    moved = released.values[0] - 1000
    assert np.abs(moved).max() <= reach
    inside = sum(kit.laplace_pmf(scale, x) for x in range(-reach, reach + 1))
    assert kit.p_value(moved, lambda x: kit.laplace_pmf(scale, x) / inside if abs(x) <= reach else 0.0, 50) > 1e-9
    assert np.abs(released.values[1]).max() > reach  # the other columns' noise is not held


def test_a_lone_group_within_reach_appears_with_probability_delta(kit: SimpleNamespace) -> None:
    m, tries = held(kit), 200_000
    shown = release(m, kit.exact([np.arange(tries)], [[3] * tries, [7] * tries]), OwnNoise(SEED)).rows / tries
    wanted = 0.01 / 2
    assert wanted / np.e < shown < wanted + 5 * (wanted / tries) ** 0.5


def test_dice_move_groups_within_reach_too(kit: SimpleNamespace) -> None:
    m = held(kit)
    tau, reach = m.threshold.tau, m.threshold.reach
    exact = kit.exact([["low", "high"]], [[tau - 1, tau + 9], [5, 6]])
    for by in (-reach, 0, 1, reach):
        released = release(m, exact, kit.Dice(by))
        assert released.values[0].tolist() == [n + by for n in (tau - 1, tau + 9) if n + by >= tau]
    with pytest.raises(MechanismError, match="reach"):
        release(m, exact, kit.Dice(reach + 1))


def test_too_little_reach_is_refused(kit: SimpleNamespace) -> None:
    m = held(kit)
    release(held(kit, reach_more=5), kit.exact([["a"]], [[50], [1]]), OwnNoise(SEED))  # more noise than needed is fine
    t = m.threshold
    gauss = kit.measurement(kit.gaussian_basis(1, l0=2), keys=1, l0=2, threshold=t)
    for fault in (
        replace(m, threshold=replace(t, reach=t.reach - 1, tau=t.tau - 1)),
        replace(m, threshold=replace(t, tau=t.tau - 1)),
        replace(m, threshold=replace(t, reach=t.reach + 1)),  # tau has to follow
        replace(m, threshold=replace(t, delta=t.delta // 2)),
        gauss,
    ):
        with pytest.raises(MechanismError, match=r"threshold"):
            release(fault, Exact(()), OwnNoise(SEED))


def test_gaussian_columns_share_one_loss(kit: SimpleNamespace) -> None:
    """Two columns at half of it each are within (epsilon, delta) together, though not column by column."""
    epsilon, delta, l0 = 10**6, 10**12, 3
    sigma, _ = noise_scale.gaussian_sigmas([(l0, 5)] * 2, [1, 1], epsilon, delta)
    basis = replace(kit.gaussian_basis(5, l0), scale=sigma, loss=Loss.gaussian(l0, 5, sigma, epsilon // 2, delta // 2))
    release(kit.measurement(basis, basis, l0=l0), kit.exact([], [[1], [2]]), DefaultNoise())
    for bases in ((basis,), (basis, basis, replace(basis, loss=replace(basis.loss, epsilon=0, delta=0, conversion=0)))):
        with pytest.raises(MechanismError, match="charge"):
            release(kit.measurement(*bases, l0=l0), Exact(()), DefaultNoise())
