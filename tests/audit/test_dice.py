"""The same cell rolls the same, whatever other cells there are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpproxy.audit.door_account import EXTREME, Dice, Roll

SCALE = Fraction(20)


def test_a_cell_rolls_by_its_name() -> None:
    one, other = Dice(["a", "b", "c"]), Dice(["b", "c"])
    rolls = one.laplace(SCALE, np.zeros(3, np.int64)), other.laplace(SCALE, np.zeros(2, np.int64))
    assert rolls[0][1:].tolist() == rolls[1].tolist()
    again = one.laplace(SCALE, np.zeros(3, np.int64)) if False else one.gaussian(SCALE, np.zeros(3, np.int64))
    assert again.tolist() != rolls[0].tolist(), "the next call rolls anew"
    assert np.abs(np.concatenate([*rolls, again])).max() <= 3 * SCALE
    parts = one.laplace(SCALE, np.zeros(6, np.int64))
    assert len(set(parts.tolist())) > 3, "each part of a column of steps rolls for itself"


def test_what_was_asked_is_noted() -> None:
    dice = Dice(["a", "b"])
    values = np.array([5, -7], np.int64)
    noisy = dice.laplace(SCALE, values)
    (call,) = dice.calls
    assert (call.mechanism, call.scale, call.values.tolist(), call.noisy.tolist()) == ("laplace", SCALE, [5, -7], noisy.tolist())


def test_loaded_dice_hide_or_show() -> None:
    for roll, expected in ((Roll.LOW, -EXTREME), (Roll.HIGH, EXTREME)):
        assert Dice(["a"], roll).laplace(SCALE, np.zeros(1, np.int64)).tolist() == [expected]
        assert Dice(["a"], roll, reach=9).laplace(SCALE, np.zeros(1, np.int64)).tolist() == [9 * roll.value]


def test_bits_are_one_stream() -> None:
    one, other = Dice([]), Dice([])
    assert [one.entropy(8), one.entropy(8)] == [other.entropy(8), other.entropy(8)]
    assert one.entropy(8) != one.entropy(8)
