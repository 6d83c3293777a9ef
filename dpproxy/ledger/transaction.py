"""One chain of entries, carried on: entries are appended with their checkpoints, stored rows are checked and taken up.

Knows: books, entries, hashes. Must not know: stores, threads, who asked. A transaction is a copy of a book with the rows that
were appended to it; whoever commits these rows publishes the copy, whoever fails drops it, and nothing happened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dpproxy.ledger.book import Book
from dpproxy.ledger.entries import CHECKPOINT_EVERY, Entry, Head, Row, decode, link, row_of
from dpproxy.ledger.ledger import Charge, ChargeRequest, LedgerCorrupt, LedgerError

# What a ledger needs of the place its record is kept in.
#
# Knows: rows, heads. Must not know: SQL, files, what entries mean. `sqlite` and `postgres` are stores; `journal` is the one
# user of a store.

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


AT_ONCE = 1000
"""Entries that are read before they are taken up together: a long record need not fit into memory."""


@dataclass
class Transaction:
    """A transaction is one chain, locked and caught up: `book` is a copy that holds every row appended so far; `charges` has
    those that were asked for and exist. `supposed`: it is not locked, and not known to end here until it is committed."""

    book: Book
    digest: bytes
    charges: dict[str, Charge] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    supposed: bool = False

    def append(self, entry: Entry) -> None:
        """Append an entry, and a checkpoint where one is due."""
        self._append(entry)
        if (self.book.sequence + 1) % CHECKPOINT_EVERY == 0:
            self._append(self.book.checkpoint())

    def _append(self, entry: Entry) -> None:
        row = row_of(entry, self.book.sequence + 1, self.digest)
        self.book.apply(row.sequence, entry)
        self.digest = row.hash
        self.rows.append(row)

    def charge(self, request: ChargeRequest) -> Charge:
        """Append the charge that a request asks for, and return it; a request whose charge exists gets that one.

        Raises BudgetExhausted; LedgerError for the clock, or for an id that stands for something else."""
        earlier = self.charges.get(request.id)
        if earlier is not None:
            return _same(earlier, request)
        charge = self.book.decide(request)
        self.append(charge)
        self.charges[request.id] = charge
        return charge


def _same(charge: Charge, request: ChargeRequest) -> Charge:
    def of(x: Charge | ChargeRequest) -> tuple[object, ...]:
        return (x.dataset, x.role, x.user, x.loss, x.dataset_loss, x.statement)

    if of(charge) != of(request):
        raise LedgerError("the id of a charge was used for another statement")
    return charge


def replay(book: Book, digest: bytes, rows: Iterable[Stored], checkpoint: int = 0) -> bytes:
    """Check rows against the chain and take them up. Returns the last hash. Raises LedgerCorrupt.

    What comes before the checkpoint of that sequence is checked against the chain alone; what it adds up to is in it.
    """
    sequence, read = book.sequence, list[tuple[int, Entry]]()
    for body, stored in rows:
        sequence += 1
        digest = link(digest, body)
        if digest != stored:
            raise LedgerCorrupt(f"entry {sequence} of the ledger was changed, or one before it was lost")
        if sequence > checkpoint:
            read.append(decode(body))
            if len(read) == AT_ONCE:
                with _taken_up():
                    book.apply_all(read)
                read.clear()
        elif sequence == checkpoint:
            with _taken_up():
                book.restore(*decode(body))
    with _taken_up():
        book.apply_all(read)
    return digest


@contextlib.contextmanager
def _taken_up() -> Iterator[None]:
    """Entries that can be read one by one, and say together what no ledger of ours says."""
    try:
        yield
    except LedgerError:
        raise
    except Exception as error:
        raise LedgerCorrupt("entries of the ledger do not add up") from error
