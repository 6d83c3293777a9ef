"""What a ledger needs of the place its record is kept in.

Knows: rows, heads. Must not know: SQL, files, what entries mean. `sqlite` and `postgres` are stores; `journal` is the one
user of a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from dpproxy.ledger.entries import Head, Row
from dpproxy.ledger.ledger import LedgerError

Stored = tuple[str, bytes]
"""(body, hash) of an entry."""


class Store(Protocol):
    """A store keeps chains of entries. One thread uses it. Every method may raise StoreError, after which the transaction is
    void or its outcome unknown, and `recover` is called before anything else."""

    def begin(self, chain: str, known: int) -> tuple[Head, Sequence[Stored]]:
        """Start a transaction that no other writer of this chain can enter. What comes with the head are entries
        after `known`, in order; `rows` has what is missing of them."""
        ...

    def suppose(self, chain: str, head: Head) -> bool:
        """Start a transaction as if the chain ended with this head, which nobody was asked; `commit` raises HeadMoved when it
        does not. False where nothing was started, since asking costs little."""
        ...

    def last(self, chain: str) -> int:
        """Return the last sequence; 0 when there is none."""
        ...

    def rows(self, chain: str, after: int) -> Iterable[Stored]:
        """Return the entries after a sequence, in order; also outside a transaction."""
        ...

    def find(self, chain: str, ids: Sequence[str]) -> dict[str, str]:
        """Return the bodies of the entries with these ids, by id; also outside a transaction."""
        ...

    def append(self, chain: str, rows: Sequence[Row], head: Head) -> None:
        """Add rows and their head. This or `commit` raises KnownCharge for an id that exists."""
        ...

    def commit(self) -> None:
        """Make the transaction durable, which it is when this returns."""
        ...

    def settle(self) -> None:
        """Make every row that could be read durable, which it is when this returns; outside a transaction."""
        ...

    def rollback(self) -> None: ...

    @property
    def waiting(self) -> bool:
        """Tell whether the store holds something ready for the next `begin`, which `rest` gives back when none comes."""
        ...

    def rest(self) -> None: ...

    def recover(self) -> None:
        """Come back to a state in which `begin` may work."""
        ...

    def close(self) -> None: ...


class StoreError(LedgerError):
    """The store failed; see Store."""


class HeadMoved(StoreError):
    """The chain does not end where it was supposed to: somebody else has written to it."""


class KnownCharge(StoreError):
    """A charge of this id exists: somebody asks for it again."""
