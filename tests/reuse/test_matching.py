"""When a stored release answers what is asked: the same thing, at least as exactly, and never at a hidden price."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.mechanisms.noise import Released
from dpproxy.privacy.loss import Loss
from dpproxy.reuse.matching import Asked, Groups, StoredRelease, any_noise, at_the_price, exposure, name, serve

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
MADE = Asked("rows", ("region", "day"), ("count", "sum"), (Fraction(10), Fraction(1, 3)), 50)
RELEASED = Released((pa.array(["e"]), pa.array([dt.date(2024, 5, 1)])), (np.array([5], np.int64), np.array([7], np.int64)), 1)
LOSS = Loss(100_000, 7)


def stored(made: Asked = MADE, loss: Loss = LOSS) -> StoredRelease:
    return StoredRelease("shop", made, RELEASED, loss, NOON, frozenset({"a"}))


def test_names_are_unambiguous() -> None:
    assert len({name("shop", "1", "S"), name("shop", "1S"), name("sho", "p1", "S"), name("shop", "", "1", "S")}) == 4
    noise = (Fraction(10),)
    assert Asked("r", ("a",), ("b", "c"), noise * 2).exact != Asked("r", ("a", "b"), ("c",), noise).exact


def test_the_order_of_parts_is_no_part_of_the_name() -> None:
    turned = replace(MADE, keys=MADE.keys[::-1], columns=MADE.columns[::-1], noise=MADE.noise[::-1])
    assert (turned.exact, turned.identity) == (MADE.exact, MADE.identity)
    crossed = replace(MADE, noise=MADE.noise[::-1])
    assert crossed.exact == MADE.exact
    assert crossed.identity != MADE.identity, "each column has its own noise"
    assert replace(MADE, tau=51).identity != MADE.identity


def test_everything_comes_back_from_json() -> None:
    whole = replace(
        MADE,
        base="base",
        totals=("total", None),
        accepts={"region": frozenset({"e", "n"})},
        groups=(Groups("values", ("region",), True), Groups("values", None, False)),
        complete=True,
        bound=3,
        additive=(True, False),
        heavy=(False, True),
        mixes=((("total", 2),), ()),
    )
    assert Asked.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    assert Asked.from_json(json.loads(json.dumps(MADE.to_json()))) == MADE
    for broken in ({}, whole.to_json() | {"noise": ["?"]}, whole.to_json() | {"groups": [1]}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Asked.from_json(broken)


@pytest.mark.parametrize(
    ("change", "serves"),
    [
        ({}, True),
        ({"noise": (Fraction(11), Fraction(1))}, True),
        ({"noise": (Fraction(9_995, 1000), Fraction(1, 3))}, True),  # the remainder of a division
        ({"noise": (Fraction(9), Fraction(1, 3))}, False),
        ({"noise": (Fraction(10), Fraction(1, 4))}, False),
        ({"tau": 60}, True),
        ({"tau": 49}, True),  # whatever rounding made of the same bounds
        ({"tau": 48}, False),
        ({"tau": None}, False),
        ({"rows": "others"}, False),
        ({"keys": ("region",)}, False),
        ({"keys": ("region", "month")}, False),
        ({"columns": ("count",), "noise": (Fraction(10),)}, False),
        ({"columns": ("count", "avg")}, False),
    ],
)
def test_only_the_same_at_least_as_exactly(change: dict[str, object], serves: bool) -> None:
    assert (serve(stored(), replace(MADE, **change)) is not None) == serves  # type: ignore[arg-type]


def test_parts_come_in_the_order_asked() -> None:
    turned = replace(MADE, keys=MADE.keys[::-1], columns=MADE.columns[::-1], noise=MADE.noise[::-1])
    found = serve(stored(), turned)
    assert found is not None
    assert [k.to_pylist() for k in found.keys] == [[dt.date(2024, 5, 1)], ["e"]]
    assert [v.tolist() for v in found.values] == [[7], [5]]


def test_more_columns_than_asked_for_on_demand() -> None:
    few = replace(MADE, columns=("sum",), noise=(Fraction(1, 3),))
    assert serve(stored(), few) is None
    found = serve(stored(), few, subset=True)
    assert found is not None
    assert [v.tolist() for v in found.values] == [[7]]


def test_of_two_equal_columns_the_one_that_is_exact_enough() -> None:
    """A measurement may have one column twice, as `count(*)` beside an average has."""
    made = replace(MADE, columns=("count", "count"), noise=(Fraction(10), Fraction(2)))
    found = serve(stored(made), replace(made, noise=(Fraction(3), Fraction(20))))
    assert found is not None
    assert [v.tolist() for v in found.values] == [[7], [5]]


def test_any_noise_serves_whatever_was_made() -> None:
    wanted = any_noise(replace(MADE, noise=(Fraction(1, 10**6),) * 2, tau=1))
    assert serve(stored(), wanted) is not None
    assert any_noise(replace(MADE, tau=None)).tau is None, "undeclared groups are another question"


def test_a_role_is_exposed_to_no_more_than_it_was_told() -> None:
    assert at_the_price(stored(), MADE, LOSS)
    assert not at_the_price(stored(), MADE, Loss(99_999, 7))
    assert not at_the_price(stored(), MADE, Loss(100_000, 6))


def test_gaussian_noise_of_others_is_the_very_noise_that_was_asked_for() -> None:
    """What it costs together with the statement's other measurements is computed from the sigmas that were asked for."""
    gaussian = Loss.gaussian(1, 1, Fraction(10), 100_000, 7)
    nearly = replace(MADE, noise=tuple(n * Fraction(1001, 1000) for n in MADE.noise))
    assert at_the_price(stored(loss=gaussian), MADE, gaussian)
    assert not at_the_price(stored(loss=gaussian), nearly, gaussian)
    assert not at_the_price(stored(loss=Loss(1)), nearly, gaussian)
    assert at_the_price(stored(), nearly, LOSS), "prices of other noise add up whatever it is beside"


def test_exposure_is_at_least_the_loss_and_the_price() -> None:
    price = Loss(100_000, 9)
    vector = Loss.laplace_vector(3, Fraction(1, 30))
    both = exposure(stored(loss=vector), price)
    for part in (vector, price):
        assert (both.epsilon, both.delta) >= (part.epsilon, part.delta)
        assert both.failure >= part.failure
        assert all(a >= b for a, b in zip(both.rdp + both.gdp, part.rdp + part.gdp, strict=True))
    assert exposure(stored(), LOSS) == LOSS
