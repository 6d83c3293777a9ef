"""Many numbers in one: sums and differences are those of the numbers, one by one, or there is None."""

from __future__ import annotations

from operator import add, sub

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.privacy.loss import LANE, MOST, ORDERS, RESERVES, UNREACHABLE, Loss, minus, packed, plus, times, unpacked

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


@given(st.lists(st.integers(0, (1 << 106) - 1), min_size=1, max_size=MOST), st.integers(1, (1 << 20) - 1))
@settings(max_examples=200, deadline=None)
def test_products_are_those_of_the_numbers(found: list[int], count: int) -> None:
    one = packed(found)
    product = times(one, count)
    assert product is not None
    assert unpacked(product, len(found)) == tuple(count * number for number in found)


@pytest.mark.parametrize(("number", "count"), [(1 << 107, 2), (MOST_OF_ALL, 1), (1, 1 << 20), (1, 0), (1, -1)])
@pytest.mark.parametrize("place", [0, 1, MOST - 1])
def test_products_that_might_not_fit(number: int, count: int, place: int) -> None:
    assert times(packed([0] * place + [number]), count) is None
    assert times(None, count) is None


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


@pytest.mark.parametrize("amount", [0, 1, 10**6, UNREACHABLE, 1 << 125, 1 << 130])
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_so_many_losses_are_their_sum(amount: int, count: int) -> None:
    total = of(amount)
    for _ in range(count - 1):
        total = total + of(amount)
    assert of(amount).times(count) == total
