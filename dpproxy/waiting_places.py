"""Places for connections that nobody vouches for yet, and which of them gives way when places are short.

Knows: names of networks, the order in which connections were last heard of. Must not know: sockets, clocks, what a connection
waits for. Whoever has not logged in costs nothing to make, so a number of places alone would let one stranger fill them and lock
everybody else out. Therefore nobody is turned away at the door: a newcomer always gets a place, and somebody else loses theirs.

Theory. Two things are scarce for an attacker: networks, and messages that carry a login on. The place that is lost is of the
network that has most of them, and there of the connection that was not heard of for longest. So somebody from another network
loses nothing to a flood from one; and somebody from the same network loses a place only where as many connections as the network
may have came while nothing was heard of theirs. What counts as heard is a whole step of the login, never a byte.

Each operation takes the same time however many wait: a flood must not make itself expensive.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

LOOPBACK: Final = "loopback"
"""All addresses of this machine's own network: who may use one of them may use each of the 16 million."""

C = TypeVar("C")


class WaitingPlaces(Generic[C]):
    """Who waits. `places`: of all together; `of_one`: of one network. Both are at least 1."""

    def __init__(self, places: int, of_one: int) -> None:
        self._places, self._of_one = places, of_one
        self._networks: dict[str, OrderedDict[C, None]] = {}  # of each, who was not heard of for longest comes first
        self._whose: dict[C, str] = {}
        self._sizes: dict[int, OrderedDict[str, None]] = {}  # networks by how many wait, in the order they were last heard of
        self._most = 0

    def __len__(self) -> int:
        return len(self._whose)

    def __iter__(self) -> Iterator[C]:
        return iter(tuple(self._whose))

    def enter(self, connection: C, network: str) -> C | None:
        """Give a newcomer a place; return who loses theirs for it and waits no more."""
        self._whose[connection] = network
        members = self._networks.setdefault(network, OrderedDict())
        members[connection] = None
        self._resized(network, len(members) - 1)
        if len(members) > self._of_one:
            return self._oldest(network)
        if len(self._whose) > self._places:
            return self._oldest(next(iter(self._sizes[self._most])))
        return None

    def heard(self, connection: C) -> None:
        """Note that a connection has made a step."""
        network = self._whose.get(connection)
        if network is not None:
            members = self._networks[network]
            members.move_to_end(connection)
            self._sizes[len(members)].move_to_end(network)

    def leave(self, connection: C) -> None:
        """Give a place back. Whoever has none gives nothing back."""
        network = self._whose.pop(connection, None)
        if network is None:
            return
        members = self._networks[network]
        del members[connection]
        self._resized(network, len(members) + 1)
        if not members:
            del self._networks[network]

    def _oldest(self, network: str) -> C:
        found = next(iter(self._networks[network]))
        self.leave(found)
        return found

    def _resized(self, network: str, before: int) -> None:
        if before:
            del self._sizes[before][network]
            if not self._sizes[before]:
                del self._sizes[before]
        now = len(self._networks[network])
        if now:
            self._sizes.setdefault(now, OrderedDict())[network] = None
        if now > self._most or self._most not in self._sizes:
            self._most = now


def network(address: str) -> str:
    """Return what an address counts as: an IPv6 address as the 64 bits of its network, since one person has all of that."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_loopback:
        return LOOPBACK
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
    return str(found)
