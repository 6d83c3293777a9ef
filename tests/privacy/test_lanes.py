"""Many numbers in one: sums and differences are those of the numbers, one by one, or there is None."""

from __future__ import annotations

from operator import add, sub

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.privacy.lanes import LANE, MOST, minus, packed, plus, unpacked
from dpproxy.privacy.loss import ORDERS, RESERVES, UNREACHABLE, Loss

MOST_OF_ALL = (1 << 8 * LANE - 1) - 1
numbers = st.one_of(st.integers(0, 10**12), st.integers(0, MOST_OF_ALL), st.sampled_from([0, 1, MOST_OF_ALL, UNREACHABLE]))
pairs = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=MOST)


@given(pairs)
@settings(max_examples=300, deadline=None)
def test_sums_and_differences_are_those_of_the_numbers(found: list[tuple[int, int]]) -> None:
    ones, others = [a for a, _ in found], [b for _, b in found]
    one, other = packed(ones), packed(others)
    assert one is not None
    assert unpacked(one, len(ones)) == tuple(ones)
    sums, left = tuple(map(add, ones, others)), tuple(map(sub, ones, others))
    total, rest = plus(one, other), minus(one, other)
    assert (total is None) == (max(sums) > MOST_OF_ALL)
    assert total is None or unpacked(total, len(ones)) == sums
    assert (rest is None) == (min(left) < 0)
    assert rest is None or unpacked(rest, len(ones)) == left


@pytest.mark.parametrize("bad", [[-1], [MOST_OF_ALL + 1], [0] * (MOST + 1)])
def test_what_does_not_fit(bad: list[int]) -> None:
    assert packed(bad) is None
    assert plus(packed(bad), 0) is plus(0, packed(bad)) is minus(packed(bad), 0) is minus(0, packed(bad)) is None


def of(number: int) -> Loss:
    return Loss(number, 2 * number, tuple(range(number, number + len(ORDERS))), (number,) * len(RESERVES), number)


@given(st.lists(st.sampled_from([0, 1, 10**6, UNREACHABLE, 1 << 125, 1 << 126, 1 << 130]), min_size=2, max_size=8))
@settings(max_examples=200, deadline=None)
def test_losses_add_up_however_large(amounts: list[int]) -> None:
    """One by one where they do not fit, and back again; a sum is the same value as the loss of the same numbers."""
    total, earlier = of(amounts[0]), of(amounts[0])
    for amount in amounts[1:]:
        total = total + of(amount)
    whole, count = sum(amounts), len(amounts)
    rdp = tuple(whole + count * i for i in range(len(ORDERS)))
    assert total == Loss(whole, 2 * whole, rdp, (whole,) * len(RESERVES), whole)
    assert hash(total) == hash(Loss(whole, 2 * whole, rdp, (whole,) * len(RESERVES), whole))
    if not earlier:
        return
    rest = sum(amounts[1:])
    left = total.since(earlier)
    assert (left.epsilon, left.delta, left.conversion, left.gdp) == (rest, 2 * rest, rest, (rest,) * len(RESERVES))
    assert left.rdp == tuple(rest + (count - 1) * i for i in range(len(ORDERS)))


def test_a_sum_that_did_not_go_on_from_there_is_refused() -> None:
    with pytest.raises(ValueError, match="not negative"):
        Loss(1).since(Loss(2))
