"""How many requests an address, and all of them together, may send: in memory, and gone within the hour.

Knows: token buckets, a key that is made anew. Must not know: what is sent. An address is never kept: a bucket's name is an
HMAC of it under a key of this process, which is drawn at its start and every hour; the buckets of the key before go with it.
Networks of IPv6 count as one address (64 bits of it), since whoever has one has all of them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dpproxy.waiting_places import network

KEY_SECONDS: Final = 3600.0
MOST_BUCKETS: Final = 100_000
"""Addresses that are told apart at a time; further ones share what all of them may send."""


@dataclass(frozen=True)
class Rates:
    """Requests: of an address in a minute, and of all of them together in a second."""

    per_address: float = 60
    total: float = 5000


class _Bucket:
    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens, self.at = tokens, at

    def take(self, now: float, per_second: float, most: float) -> float:
        """Take a token. Return 0, or the seconds until there is one."""
        self.tokens = min(most, self.tokens + (now - self.at) * per_second)
        self.at = now
        if self.tokens < 1:
            return (1 - self.tokens) / per_second
        self.tokens -= 1
        return 0.0


class Limits:
    """The buckets of one process."""

    def __init__(self, rates: Rates, clock: Callable[[], float]) -> None:
        """`clock`: seconds that only go forward."""
        self._rates, self._clock = rates, clock
        self._key, self._made = secrets.token_bytes(32), clock()
        self._buckets: dict[bytes, _Bucket] = {}
        self._total = _Bucket(rates.total, clock())

    def wait(self, address: str) -> float:
        """Count a request. Return 0 where it may go on, else after how many seconds the next one may."""
        now = self._clock()
        if now - self._made >= KEY_SECONDS:
            self._key, self._made = secrets.token_bytes(32), now
            self._buckets.clear()
        per_second, most = self._rates.per_address / 60, self._rates.per_address
        name = hmac.digest(self._key, network(address).encode(), hashlib.sha256)[:16]
        bucket = self._buckets.get(name)
        if bucket is None and len(self._buckets) < MOST_BUCKETS:
            bucket = self._buckets[name] = _Bucket(most, now)
        if bucket is not None and (seconds := bucket.take(now, per_second, most)):
            return seconds
        return self._total.take(now, self._rates.total, self._rates.total)
