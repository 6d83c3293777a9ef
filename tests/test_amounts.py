"""Amounts are whole numbers: what a policy may say of epsilon and delta is one of them, and every room counts in the same."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from dpproxy import amounts
from dpproxy.collect import ledger as collect_ledger
from dpproxy.policy import scalars


def test_the_least_amounts_are_one() -> None:
    assert scalars.micro(Decimal("0.000001")) == 1
    assert scalars.atto(Decimal("1e-18")) == 1


def test_every_room_counts_in_the_same() -> None:
    """The two numbers are defined once; devices have the first one again, since their wheel has no other room of the proxy's."""
    root = Path(amounts.__file__).parent
    definition = re.compile(r"^(MICRO|ATTO)\b.* = ", re.MULTILINE)
    assert sorted(path.name for path in root.rglob("*.py") if definition.search(path.read_text())) == ["amounts.py", "ledger.py"]
    assert amounts.MICRO == collect_ledger.MICRO
    assert (amounts.MICRO, amounts.ATTO) == (10**6, 10**18)


def test_digits_have_no_exponent() -> None:
    numbers = [0, 3, 711_300, 711_312_345.6, 2.52634e9, 0.1 + 0.2, 1.23456789e-7, -4e12, Decimal("1E+2"), float("inf")]
    expected = ["0", "3", "711300", "711312000", "2526340000", "0.3", "0.000000123457", "-4000000000000", "100", "Infinity"]
    assert [amounts.digits(n) for n in numbers] == expected
    assert amounts.digits(99.96, 2) == "100"
