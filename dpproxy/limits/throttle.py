"""How many passwords can be guessed: attempts to log in, counted by user and address.

Knows: names, addresses, clocks it is given. Must not know: passwords, sockets, policies. Memory is bounded whatever is tried:
what is counted is counted in cells, and a secret says who shares one.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import socket
import struct
import sys
from array import array
from collections import OrderedDict
from typing import Final

from dpproxy.waiting_places import network

GUESSES: Final = 1_000
"""Wrong passwords for one user from one address that are looked at as they come: a pool of connections that starts with an
old password, and somebody who floods the address a user shares, are to be told from the right one for some time."""
STRANGERS_GUESSES: Final = 10_000
"""The same for one user from all addresses together from where it has not logged in before."""
GUESSES_A_SECOND: Final = 1.0
"""Given back, up to the numbers above: at most 87,400 guesses on the first day for a user from an address, 86,400 on each day
after; and no more than 96,400 and 86,400 from all strange addresses together."""
PATIENCE: Final = 1.0
"""Seconds an attempt may have to wait for its turn; who would wait longer is turned away unheard."""
CELLS: Final = 1 << 16
"""Of the memory for pairs of user and address, and of that for users: half a megabyte each. What shares a cell shares its
guesses; a secret decides what does, so that nobody can aim at another's cell."""
KNOWN: Final = 10_000
"""Pairs of user and address that have logged in, remembered; the oldest go first."""


class _Buckets:
    """Guesses left, by cell. A cell's number is the time at which it is full again: one number says all."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._full = array("d", bytes(8 * CELLS))
        self._secret = secrets.token_bytes(16)

    def wait(self, key: tuple[str, ...], now: float) -> float:
        """Return seconds until a guess is left."""
        return max(0.0, self._full[self._cell(key)] - now - (self._size - 1) / GUESSES_A_SECOND)

    def take(self, key: tuple[str, ...], now: float) -> None:
        cell = self._cell(key)
        self._full[cell] = max(self._full[cell], now) + 1 / GUESSES_A_SECOND

    def give(self, key: tuple[str, ...]) -> None:
        self._full[self._cell(key)] -= 1 / GUESSES_A_SECOND

    def _cell(self, key: tuple[str, ...]) -> int:
        text = "\0".join(key).encode("utf-8", "replace")
        return int.from_bytes(hashlib.blake2b(text, key=self._secret, digest_size=4).digest()) % CELLS


class Throttle:
    """Bounds how many passwords can be guessed; never by the address alone, which many people may share.

    An attempt takes a guess before it is heard, and gets it back when it was right. So right passwords cost nothing and wait
    for nothing, until somebody has used up what their own user has at their own address. Then attempts are heard one a
    second, and whoever cannot be within `PATIENCE` is turned away: that a right one among thousands of wrong ones is told
    from them at once, and the wrong ones are not, is impossible.
    """

    def __init__(self) -> None:
        self._pairs, self._users = _Buckets(GUESSES), _Buckets(STRANGERS_GUESSES)
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def begin(self, address: str, user: str, now: float) -> float | None:
        """Take a guess: the seconds until it may be heard; None: there is none."""
        buckets = self._of(address, user)
        wait = max(bucket.wait(key, now) for bucket, key in buckets)
        if wait > PATIENCE:
            return None
        for bucket, key in buckets:
            bucket.take(key, now)
        return wait

    def succeeded(self, address: str, user: str) -> None:
        """Give a guess back: the password was right. From now on this is no strange address to the user."""
        for bucket, key in self._of(address, user):
            bucket.give(key)
        pair = (network(address), user)
        self._known[pair] = None
        self._known.move_to_end(pair)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def _of(self, address: str, user: str) -> list[tuple[_Buckets, tuple[str, ...]]]:
        pair = (network(address), user)
        return [(self._pairs, pair)] if pair in self._known else [(self._pairs, pair), (self._users, (user,))]


# How long ago a client's message arrived, though the loop comes to read it only now.
#
# Knows: what the system tells of a connection. Must not know: messages, sessions. Linux tells when a TCP connection last
# received anything, to some milliseconds; it takes 5 microseconds to ask. Elsewhere, and of unix sockets, nothing is known.


_LAST_RECEIVED: Final = struct.Struct("=52xI")
"""Milliseconds since data last came, in the system's own struct (<linux/tcp.h>): behind eight bytes the twelfth word of four."""


def seconds_waited(transport: asyncio.BaseTransport) -> float:
    """Return seconds since the last bytes of a client arrived; 0 where nobody knows."""
    connected = transport.get_extra_info("socket")
    if sys.platform != "linux" or connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return 0.0
    try:
        facts = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED.size)
    except OSError:  # it has gone already
        return 0.0
    return float(_LAST_RECEIVED.unpack(facts)[0]) / 1000 if len(facts) == _LAST_RECEIVED.size else 0.0
