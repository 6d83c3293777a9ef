"""Answers added up from finer releases: the sums are right, and nothing is returned that errs more than was asked for."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.mechanisms.noise import Released
from dpproxy.privacy.loss import Loss
from dpproxy.reuse.derivation import Derived, derive
from dpproxy.reuse.matching import Asked, Groups, StoredRelease

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
REGIONS, SEXES = ("north", "south", "east"), ("F", "M", None)
FINE = list(product(REGIONS, SEXES))
COUNTS = np.arange(10, 10 + len(FINE))


def asked(keys: tuple[str, ...] = (), noise: int = 100, accepts: dict[str, set[str]] | None = None, **more: object) -> Asked:
    """`open`: keys that may have other values than those there are groups for; `held`: those of one value a unit."""
    within = {k: frozenset(v) for k, v in (accepts or {}).items()}
    open_, held = more.pop("open", ()), more.pop("held", ())
    groups = tuple(Groups(f"values of {k}", (k,) if k in open_ else (), k in held) for k in keys)  # type: ignore[operator]
    columns = (("count",), (Fraction(noise),), None, "base", ("total count",))
    return replace(Asked("rows", keys, *columns, within, groups, True, 0, (True,), heavy=(False,)), **more)  # type: ignore[arg-type]


def stored(noise: int = 10, values: np.ndarray | None = None, **more: object) -> StoredRelease:
    """Counts by region and sex."""
    keys = (pa.array([r for r, _ in FINE]), pa.array([s for _, s in FINE]))
    released = Released(keys, (COUNTS if values is None else values,), len(FINE))
    made = asked(("region", "sex"), noise, **more)  # type: ignore[arg-type]
    return StoredRelease("shop", made, released, Loss(1), NOON, frozenset({"a"}), 1)


def rows(found: Derived | None) -> dict[tuple[object, ...], int]:
    assert found is not None
    released = found.released
    keys = zip(*(k.to_pylist() for k in released.keys), strict=True) if released.keys else [()]
    return dict(zip(keys, released.values[0].tolist(), strict=True))


def total(**within: object) -> int:
    return sum(
        int(c) for (r, s), c in zip(FINE, COUNTS, strict=True) if within.get("region", r) == r and within.get("sex", s) == s
    )


def test_coarser_groups() -> None:
    assert rows(derive(asked(("region",)), [stored()])) == {(r,): total(region=r) for r in REGIONS}
    assert rows(derive(asked(("sex",)), [stored()])) == {(s,): total(sex=s) for s in SEXES}
    assert rows(derive(asked(), [stored()])) == {(): COUNTS.sum()}
    assert rows(derive(asked(("sex", "region")), [stored()])) == {(s, r): total(region=r, sex=s) for r, s in FINE}


def test_a_filter_on_keys() -> None:
    within = {"region": {"north"}}
    assert rows(derive(asked(("sex",), accepts=within), [stored()])) == {(s,): total(region="north", sex=s) for s in SEXES}
    both = {"region": {"north", "south"}, "sex": {"F"}}
    assert rows(derive(asked(accepts=both), [stored()])) == {(): total(region="north", sex="F") + total(region="south", sex="F")}


@pytest.mark.parametrize("value", ["nowhere", "NORTH", ""])
def test_a_value_without_a_group_is_unknown_not_zero(value: str) -> None:
    assert derive(asked(accepts={"region": {value, "north"}}), [stored()]) is None


def test_a_release_of_fewer_rows_serves_only_within_these() -> None:
    north = {"region": {"north", "south"}}
    few = stored(accepts=north)
    assert derive(asked(("sex",)), [few]) is None
    assert derive(asked(("sex",), accepts={"region": {"north", "east"}}), [few]) is None
    assert derive(asked(("sex",), accepts=north), [few]) is not None
    assert rows(derive(asked(accepts={"region": {"north"}}), [few])) == {(): total(region="north")}


def test_other_rows_cut_groups_and_what_does_not_add_up_are_refused() -> None:
    coarse = asked(("region",))
    assert derive(coarse, [stored(base="other")]) is None
    assert derive(coarse, [stored(complete=False)]) is None
    assert derive(coarse, [stored(additive=(False,))]) is None
    assert derive(asked(("region", "sex")), [stored(additive=(False,))]) is not None, "nothing is added up"
    assert derive(coarse, [stored(totals=("other",))]) is None
    assert derive(coarse, [stored(totals=(None,))]) is None
    assert derive(replace(coarse, totals=(None,)), [stored(totals=(None,))]) is None
    assert derive(asked(("month",)), [stored()]) is None
    assert derive(asked(("region",), complete=False, groups=()), [stored()]) is None
    assert derive(coarse, []) is None


def test_rows_without_a_group_are_not_forgotten() -> None:
    """Sex may be something else than F, M and NULL: whoever is, is in no group of the release."""
    some = stored(open=("sex",))
    assert derive(asked(("region",)), [some]) is None
    assert derive(asked(), [some]) is None
    assert rows(derive(asked(("region",), accepts={"sex": {"F"}}), [some])) == {(r,): total(region=r, sex="F") for r in REGIONS}
    assert rows(derive(asked(("sex",), open=("sex",)), [some])) == {(s,): total(sex=s) for s in SEXES}, "lost in both"
    assert derive(asked(("region",), accepts={"region": {"north"}}), [some]) is None
    within = stored(open=("sex",), accepts={"sex": {"F", "X"}})
    assert derive(asked(("region",), accepts={"sex": {"F", "X"}}), [within]) is None, "X has no group"
    assert derive(asked(("region", "sex"), accepts={"sex": {"F", "X"}}, open=("sex",)), [within]) is not None
    made = replace(some.made, groups=tuple(replace(g, open=None) for g in some.made.groups))
    assert derive(asked(("region",), accepts={"sex": {"F"}}), [replace(some, made=made)]) is None, "nothing limits it"


def test_groups_of_other_values_are_other_groups() -> None:
    other = replace(asked(("region",)), groups=(Groups("other values", (), False),))
    assert derive(other, [stored()]) is None


def test_what_was_cut_in_groups_is_not_added_up() -> None:
    """A unit of 3 rows in each of two groups, at a bound of 3: 6 together, and 3 where the two are one group."""
    cut = stored(bound=3)
    assert derive(asked(("region",), bound=3), [cut]) is None
    assert derive(asked(("region",)), [cut]) is None
    assert derive(asked(("region",), bound=2), [stored(bound=3, held=("sex",))]) is None
    assert derive(asked(("region",), bound=3), [stored(bound=3, held=("region",))]) is None
    assert derive(asked(("region",), bound=3), [stored(bound=3, held=("sex",))]) is not None, "of one sex each"
    assert derive(asked(("region", "sex"), bound=3), [cut]) is not None
    assert derive(asked(("region",), accepts={"sex": {"F"}}, bound=3), [cut]) is not None, "one group each"
    assert derive(asked(("region",), accepts={"sex": {"F", "M"}}, bound=3), [cut]) is None


def test_sums_of_laplace_noise_need_less_of_it() -> None:
    """Of the same variance they are beyond the median of the other more often: an interval of confidence 0.5 would not hold."""
    made = stored(10, heavy=(True,))
    assert derive(asked(("region",), noise=23, heavy=(True,)), [made]) is None
    assert derive(asked(("region",), noise=25, heavy=(True,)), [made]) is not None
    assert derive(asked(("region", "sex"), noise=10, heavy=(True,)), [made]) is not None, "one cell is as it was"
    draws = np.random.default_rng(3).laplace(0, 1, (3, 200_000)).sum(0)
    scale = (3 / 0.52) ** 0.5
    for confidence in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99):
        assert (np.abs(draws) <= -scale * np.log(1 - confidence)).mean() >= confidence - 0.004


def test_error_decides() -> None:
    """Three cells of noise 10 have 17.3 together."""
    assert derive(asked(("region",), noise=17), [stored(10)]) is None
    assert derive(asked(("region",), noise=18), [stored(10)]) is not None
    assert derive(asked((), noise=29), [stored(10)]) is None
    assert derive(asked((), noise=30), [stored(10)]) is not None


def test_several_releases_are_averaged_by_inverse_variance() -> None:
    one, two = stored(10, COUNTS + 50), stored(20, COUNTS - 100)
    assert derive(asked(("region", "sex"), noise=9), [one]) is None
    found = derive(asked(("region", "sex"), noise=9), [one, two])
    assert found is not None
    assert found.sources == (one, two)
    assert (found.released.values[0] - COUNTS == (50 / 100 - 100 / 400) / (1 / 100 + 1 / 400)).all()
    assert derive(asked(("region", "sex"), noise=8), [one, two]) is None


def two_columns(noise: tuple[int, int], totals: tuple[str, str], values: tuple[np.ndarray, np.ndarray]) -> StoredRelease:
    keys = (pa.array([r for r, _ in FINE]), pa.array([s for _, s in FINE]))
    made = replace(
        asked(("region", "sex")), columns=totals, noise=tuple(map(Fraction, noise)), totals=totals, additive=(True, True),
        heavy=(False, False),
    )  # fmt: skip
    return StoredRelease("shop", made, Released(keys, values, len(FINE)), Loss(1), NOON, frozenset({"a"}), 1)


class TestMixes:
    """sum(x) = sum(x - 7) + 7 count(x): 9 cells of noise 10 and 7 x 2 have 51.6 together."""

    SUMS = COUNTS * 31
    CENTRED = COUNTS * 31 - 7 * COUNTS

    def asked(self, noise: int) -> Asked:
        return replace(asked((), noise), totals=("sum",), mixes=((("centred", 1), ("count", 7)),))

    def test_of_one_release(self) -> None:
        known = two_columns((10, 2), ("centred", "count"), (self.CENTRED, COUNTS))
        assert rows(derive(self.asked(52), [known])) == {(): self.SUMS.sum()}
        assert derive(self.asked(51), [known]) is None
        back = replace(self.asked(52), totals=("centred",), mixes=((("sum", 1), ("count", -7)),))
        assert rows(derive(back, [replace(known, made=replace(known.made, totals=("sum", "count")))])) is not None

    def test_of_two_releases(self) -> None:
        one, two = stored(10, self.CENTRED, totals=("centred",)), stored(2, COUNTS, totals=("count",))
        found = derive(self.asked(52), [one, two])
        assert rows(found) == {(): self.SUMS.sum()}
        assert found is not None
        assert found.sources == (one, two)
        assert derive(self.asked(52), [one]) is None
        assert derive(self.asked(51), [one, two]) is None

    def test_beside_the_column_itself(self) -> None:
        """Noise 51.6 and 3 x 20 have 39.1 by inverse variance."""
        known = two_columns((10, 2), ("centred", "count"), (self.CENTRED, COUNTS))
        itself = stored(20, self.SUMS + 5, totals=("sum",))
        found = derive(self.asked(40), [known, itself])
        shift = 45 * 2664 / (2664 + 3600)
        assert rows(found) == {(): round(int(self.SUMS.sum()) + shift)}
        assert derive(self.asked(39), [known, itself]) is None

    def test_what_could_overflow_is_not_made(self) -> None:
        known = two_columns((10, 2), ("centred", "count"), (self.CENTRED, COUNTS * 10**6))
        wide = replace(self.asked(10**15), mixes=((("centred", 1), ("count", 2**40)),))
        assert derive(wide, [known]) is None


def test_groups_are_matched_by_name() -> None:
    reverse = stored(10)
    keys = tuple(k.take(pa.array(range(len(FINE))[::-1])) for k in reverse.released.keys)
    reverse = replace(reverse, released=Released(keys, (reverse.released.values[0][::-1],), len(FINE)))
    found = derive(asked(("region", "sex"), noise=8), [stored(10), reverse])
    assert rows(found) == dict(zip(FINE, COUNTS.tolist(), strict=True))


def test_the_error_is_what_it_is_said_to_be() -> None:
    rng = np.random.default_rng(1)
    sums, means = [], []
    for _ in range(4000):
        one, two = (stored(n, COUNTS + np.rint(rng.laplace(0, n, len(FINE))).astype(np.int64)) for n in (10, 20))
        sums.append(rows(derive(asked(("region",)), [one]))["north",] - total(region="north"))
        means.append(rows(derive(asked(("region", "sex")), [one, two]))["north", "F"] - COUNTS[0])
    deviation = 2**0.5  # of Laplace noise, by its scale
    assert np.std(sums) == pytest.approx(deviation * 300**0.5, rel=0.06)
    assert np.std(means) == pytest.approx(deviation * (1 / (1 / 100 + 1 / 400)) ** 0.5, rel=0.06)


def test_sums_that_might_overflow_are_not_made() -> None:
    assert derive(asked(("region",)), [stored(10, np.full(len(FINE), 2**61))]) is None


def test_keys_of_other_types() -> None:
    keys = (pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2)]), pa.array([7, 8], pa.int64()))
    made = asked(("day", "n"), 10)
    found = StoredRelease("shop", made, Released(keys, (np.array([5, 6]),), 2), Loss(1), NOON, frozenset("a"), 1)
    assert rows(derive(asked((), accepts={"day": {"2024-01-02"}, "n": {"8", "7"}}), [found])) == {(): 6}
