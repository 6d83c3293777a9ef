"""Amounts are whole numbers: what a policy may say of epsilon and delta is one of them, and every room counts in the same."""

from __future__ import annotations

from decimal import Decimal

from dpproxy import amounts
from dpproxy.policy import model, scalars
from dpproxy.privacy import loss


def test_the_least_amounts_are_one() -> None:
    assert scalars.micro(Decimal("0.000001")) == 1
    assert scalars.atto(Decimal("1e-18")) == 1


def test_every_room_counts_in_the_same() -> None:
    assert (model.MICRO, model.ATTO, loss.MICRO) == (amounts.MICRO, amounts.ATTO, amounts.MICRO)
    assert (amounts.MICRO, amounts.ATTO) == (10**6, 10**18)
