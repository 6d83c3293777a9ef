"""How many requests an address may send, and that nothing of it is kept."""

from __future__ import annotations

import pytest

from dpproxy.collector import limits
from dpproxy.collector.limits import KEY_SECONDS, Limits, Rates


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def taken(limits: Limits, address: str, times: int) -> int:
    return sum(limits.wait(address) == 0 for _ in range(times))


def test_an_address_has_its_rate(clock: Clock) -> None:
    bucket = Limits(Rates(per_address=60, total=1000), clock)
    assert taken(bucket, "192.0.2.1", 100) == 60
    assert 0 < bucket.wait("192.0.2.1") <= 1
    assert taken(bucket, "192.0.2.2", 100) == 60
    clock.now += 10
    assert taken(bucket, "192.0.2.1", 100) == 10
    clock.now += 1000
    assert taken(bucket, "192.0.2.1", 100) == 60


def test_all_together_have_theirs(clock: Clock) -> None:
    bucket = Limits(Rates(per_address=60, total=100), clock)
    assert sum(taken(bucket, f"192.0.2.{n}", 30) for n in range(10)) == 100
    clock.now += 0.5
    assert taken(bucket, "198.51.100.1", 100) == 50


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1%eth0", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        (":not:an:address", ":not:another", False),
    ],
)
def test_networks_of_ipv6_are_one_address(clock: Clock, one: str, other: str, same: bool) -> None:
    bucket = Limits(Rates(per_address=1), clock)
    assert bucket.wait(one) == 0
    assert (bucket.wait(other) > 0) is same


def test_addresses_beyond_the_bound_share_what_all_may_send(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BUCKETS", 2)
    bucket = Limits(Rates(per_address=1, total=5), clock)
    assert [taken(bucket, f"192.0.2.{n}", 2) for n in range(4)] == [1, 1, 2, 1]


def test_no_address_is_kept_and_buckets_go_with_their_key(clock: Clock) -> None:
    bucket = Limits(Rates(per_address=1), clock)
    bucket.wait("203.0.113.77")
    assert not any(form in repr(vars(bucket)) for form in ("203.0.113.77", repr(bytes([203, 0, 113, 77]))[2:-1]))
    assert bucket.wait("203.0.113.77") > 0
    key, names = bucket._key, set(bucket._buckets)
    clock.now += KEY_SECONDS
    assert bucket.wait("203.0.113.77") == 0
    assert bucket._key != key
    assert len(bucket._buckets) == 1
    assert not names & bucket._buckets.keys()
