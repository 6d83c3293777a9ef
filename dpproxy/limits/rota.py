"""Who has the loop next, when more is to be done at once than a slice of it: roles take turns, then their users, then sessions.

Knows: seconds of processor, callbacks, the loop. Must not know: messages, sessions, debts. A piece of work lasts a slice at most
(`SLICE`); thirty sessions of a user that each have one to do would have the loop for thirty slices before anybody else. So all
of them together do a slice's worth each time the loop comes round. What is left waits here, and the loop hears of new bytes in
between. Whoever has had least is next, as in fair queuing: a user of another role, or another user of the same role, waits for
a slice or two, however many sessions somebody opens.

`fair_share` says over seconds who has to wait for whom. It knows what was taken once it is taken; this knows what is to be done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

SLICE: Final = 0.003
"""Seconds of processor after which work that goes on message by message lets others have the loop."""

T = TypeVar("T")
Path = tuple[Hashable, Hashable]
"""A role, and a user of it."""


@dataclass(eq=False)
class _User(Generic[T]):
    served: float
    waiting: deque[T] = field(default_factory=deque)


@dataclass(eq=False)
class _Role(Generic[T]):
    """`served`: seconds that it has had. `reached`: what the user had who was last chosen of it; `waiting`: pieces."""

    served: float
    reached: float = 0.0
    users: dict[Hashable, _User[T]] = field(default_factory=dict)
    waiting: int = 0


class Order(Generic[T]):
    """Pieces of work that wait, and what roles and users have had since any last waited. Pure.

    Whoever comes has had as much as who was chosen last: nobody saves time up.
    """

    def __init__(self) -> None:
        self._roles: dict[Hashable, _Role[T]] = {}
        self._reached = 0.0
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def put(self, path: Path, piece: T) -> None:
        """Let a piece wait: behind those of its user, whatever session they are of."""
        role, user = self._found(path)
        user.waiting.append(piece)
        role.waiting += 1
        self._waiting += 1

    def take(self) -> T:
        """Return the piece that is next. Raises ValueError where none waits."""
        role = self._next_role()
        user = _next_user(role)
        self._reached, role.reached = max(self._reached, role.served), max(role.reached, user.served)
        role.waiting -= 1
        self._waiting -= 1
        return user.waiting.popleft()

    def charge(self, path: Path, seconds: float) -> None:
        """Note what a piece has taken."""
        role, user = self._found(path)
        role.served += seconds
        user.served += seconds

    def first(self, path: Path) -> bool:
        """Return whether a piece that comes now is before all that wait."""
        if not self._waiting:
            return True
        role, (name, user) = self._next_role(), path
        own = self._roles.get(name)
        if own is not role:
            return (self._reached if own is None else max(own.served, self._reached)) < role.served
        mine = role.users.get(user)
        return (role.reached if mine is None else max(mine.served, role.reached)) < _next_user(role).served

    def forget(self) -> None:
        """Begin anew: nobody waits, so that nobody is owed anything."""
        self._roles.clear()
        self._reached = 0.0

    def _found(self, path: Path) -> tuple[_Role[T], _User[T]]:
        name, user = path
        role = self._roles.setdefault(name, _Role(self._reached))
        if not role.waiting:
            role.served = max(role.served, self._reached)
        found = role.users.setdefault(user, _User(role.reached))
        if not found.waiting:
            found.served = max(found.served, role.reached)
        return role, found

    def _next_role(self) -> _Role[T]:
        return min((role for role in self._roles.values() if role.waiting), key=lambda role: role.served)


def _next_user(role: _Role[T]) -> _User[T]:
    return min((user for user in role.users.values() if user.waiting), key=lambda user: user.served)


@dataclass(eq=False)
class Piece:
    """A piece of work that waits."""

    go: Callable[[], None] | None

    def cancel(self) -> None:
        """Do not begin it."""
        self.go = None


class Rota:
    """Begins pieces of work each time the loop comes round: of those that are done at once a slice's worth, of those that only
    wake a task one, since what it takes is not known before."""

    def __init__(self) -> None:
        self._order: Order[Piece] = Order()
        self._spent = 0.0  # since the loop came round
        self._coming = False

    def passes(self, path: Path) -> bool:
        """Return whether a piece may be begun at once."""
        return self._spent < SLICE and self._order.first(path)

    def call(self, path: Path, go: Callable[[], None]) -> Piece:
        """Have `go` called when it is its turn."""
        piece = Piece(go)
        self._order.put(path, piece)
        self._come()
        return piece

    def took(self, path: Path, seconds: float) -> None:
        """Note what a piece has taken."""
        self._spent += seconds
        self._order.charge(path, seconds)
        self._come()

    def _come(self) -> None:
        if not self._coming:
            self._coming = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        self._coming, self._spent = False, 0.0
        while self._order and self._spent < SLICE:
            piece, before = self._order.take(), self._spent
            if piece.go is not None:
                piece.go()
                if self._spent == before:
                    break
        if self._order:
            self._come()
        else:
            self._order.forget()


class Place:
    """One session in the rota."""

    def __init__(self, rota: Rota, path: Path) -> None:
        self._rota, self.path = rota, path

    def passes(self) -> bool:
        """Return whether something may be done for the session at once."""
        return self._rota.passes(self.path)

    def call(self, go: Callable[[], None]) -> Piece:
        """Have `go` called when it is the session's turn."""
        return self._rota.call(self.path, go)

    def turn(self) -> Generator[Any, None, None]:
        """Wait for the session's turn, within a coroutine that is driven by hand."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        piece = self.call(lambda: None if turn.done() else turn.set_result(None))
        try:
            yield from turn.__await__()
        finally:
            piece.cancel()

    def took(self, seconds: float) -> None:
        """Note what was taken for it."""
        self._rota.took(self.path, seconds)
