"""How many bytes of clients' messages a server holds: by user and in all, and who waits until there is room.

Knows: numbers, users' names, who holds how much. Must not know: sockets, messages. A client may send a message of 16 MB, may have
sent most of it and stop, and may do so in each of its sessions: a cap on one message bounds nothing. What a session holds at all
times (`FREE`) is not counted, so that ordinary statements never wait.

Theory. Room is taken for a whole message when its header is known, not as its bytes come: of two messages that each have half of
the room that both need, neither would ever be whole. Who finds no room waits and is not read from, in the order of coming; a
message that has its room can always be completed, and then gives it back. Whole messages count even where there was no room for
them: they are worked off without more of it. What a session has of a message that it may not go on with does not count, or
sessions that wait could fill the room and wait for each other; that is one piece read from the socket at most.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from dpproxy.wire.framing import MAX_MESSAGE

FREE: Final = 64 * 1024
"""Bytes that each session may hold uncounted: nearly every statement, and the pipelines of drivers."""
OF_USER: Final = 2 * (MAX_MESSAGE + 1)
"""Bytes for all sessions of a user: two of the longest messages, so that one that is slow does not stop the next."""
OF_ALL: Final = 4 * OF_USER
"""Bytes for all users: 128 MB, so that one user can take a quarter."""


class Holder(Protocol):
    """A session. `user`: whose it is."""

    @property
    def user(self) -> str: ...

    def granted(self) -> None:
        """There is room now for what it waited for."""
        ...


class BufferPool:
    """Who may hold how much."""

    def __init__(self, of_user: int = OF_USER, of_all: int = OF_ALL) -> None:
        self._of_user, self._of_all = of_user, of_all
        self._held: dict[Holder, int] = {}
        self._users: Counter[str] = Counter()
        self._all = 0
        self._waiting: dict[Holder, int] = {}

    @property
    def held(self) -> int:
        """Return the bytes for which room is taken."""
        return self._all

    def hold(self, holder: Holder, whole: int, want: int) -> bool:
        """Take room for `want` bytes, of which `whole` are of messages that are whole, instead of what was taken before.
        False: it has room for these alone, waits for the rest, and will be told."""
        whole, want = max(0, whole - FREE), max(0, want - FREE)
        before = self._held.get(holder, 0)
        if want <= before:
            self._waiting.pop(holder, None)
            self._take(holder, want)
        else:
            self._waiting[holder] = want  # who waits already keeps the place in the order
            self._take(holder, whole)
        self._serve(holder)
        return holder not in self._waiting

    def leave(self, holder: Holder) -> None:
        """Give everything back."""
        self._waiting.pop(holder, None)
        self._take(holder, 0)
        self._serve()

    def _take(self, holder: Holder, size: int) -> None:
        more = size - self._held.get(holder, 0)
        self._all += more
        self._users[holder.user] += more
        if size:
            self._held[holder] = size
        else:
            self._held.pop(holder, None)
        if not self._users[holder.user]:
            del self._users[holder.user]

    def _serve(self, asking: Holder | None = None) -> None:
        """Give room in the order of asking. Who waits for other sessions of the same user holds up nobody else."""
        full: set[str] = set()
        for holder, want in list(self._waiting.items()):
            if holder.user in full:
                continue
            more = want - self._held.get(holder, 0)
            if self._users[holder.user] + more > self._of_user:
                full.add(holder.user)
            elif self._all + more > self._of_all:
                break
            else:
                del self._waiting[holder]
                self._take(holder, want)
                if holder is not asking:
                    holder.granted()
