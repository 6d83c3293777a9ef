"""An operator's view of a record: verify, show, export; and what a repaired record is made of.

Knows: entries, hashes, how a reader hands them over. Must not know: files, databases (readers do), policies. Readers
give one snapshot, so all of this works while proxies write.

`rechained` is the rule of every repair: it can only ever charge more. Each entry that can still be read stays charged,
and since what was lost is unknown, every current window is closed (`entries.Exhausted`) until it ends or an operator
grants budget, with a reason that stays in the record.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hmac
import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol, TextIO

from dpproxy.ledger.book import Book
from dpproxy.ledger.entries import (
    CHECKPOINT_EVERY,
    NO_HASH,
    Checkpoint,
    ClockWrong,
    Entry,
    Exhausted,
    Head,
    Migrated,
    Opened,
    Row,
    check_seal,
    decode,
    row_of,
    seal,
)
from dpproxy.ledger.journal import MAX_JUMP
from dpproxy.ledger.ledger import Charge, LedgerCorrupt, LedgerError
from dpproxy.ledger.transaction import Stored, replay
from dpproxy.ledger.witness import Witness, check

UNSEEN = (Opened, Migrated, Checkpoint)
"""Entries that spend nothing and say nothing but how to read the others."""


class Reader(Protocol):
    """A reader reads one record. `snapshot` gives its head and its entries in order; raises LedgerError when it cannot be
    read."""

    @property
    def chain(self) -> str: ...

    def snapshot(self) -> AbstractContextManager[tuple[Head, Iterator[Stored]]]: ...

    def recent(self, most: int) -> list[Stored]:
        """Return the last entries, in order. Raises LedgerError."""
        ...


@dataclass(frozen=True)
class Verified:
    """What `verify` found of a record that holds together: how many entries, and the hash that names it all."""

    entries: int
    hash: str
    last: dt.datetime | None


def verify(reader: Reader, *, key: bytes | None = None) -> Verified:
    """Check the whole chain, the head, its seal. Raises LedgerCorrupt, LedgerError."""
    with reader.snapshot() as (head, rows):
        return _checked(reader.chain, head, rows, key)


def _checked(chain: str, head: Head, rows: Iterable[Stored], key: bytes | None) -> Verified:
    check_seal(key, chain, head)
    book = Book(MAX_JUMP)
    digest = replay(book, NO_HASH, rows)
    if (book.sequence, digest) != (head.sequence, head.hash):
        raise LedgerCorrupt("the entries and the head do not agree: entries were changed or lost")
    return Verified(book.sequence, digest.hex(), book.clock)


def current(reader: Reader) -> Book:
    """Tell where all accounts stand: added up from the last checkpoint, if there is one. Raises LedgerCorrupt, LedgerError."""
    with reader.snapshot() as (head, rows):
        checkpoint, book = head.sequence - head.sequence % CHECKPOINT_EVERY, Book(MAX_JUMP)
        try:
            replay(book, NO_HASH, rows, checkpoint)
            return book
        except LedgerCorrupt:
            if not checkpoint:
                raise
    with reader.snapshot() as (_, rows):
        book = Book(MAX_JUMP)
        replay(book, NO_HASH, rows)
    return book


def witnessed(reader: Reader, witness: Witness | None) -> None:
    """Tell whether the record holds what its witness has seen. Raises LedgerCorrupt, LedgerError."""
    seen = witness.read() if witness is not None else None
    if witness is None or seen is None:
        return
    book = current(reader)
    with reader.snapshot() as (_, rows):
        digest = next((digest for i, (_, digest) in enumerate(rows, 1) if i == seen.sequence), None)
    check(seen, book.ledger, book.closures, Head(seen.sequence, digest) if digest else None, witness)


def show(
    reader: Reader, *, role: str | None = None, dataset: str | None = None, since: dt.datetime | None = None
) -> Iterator[tuple[int, Entry]]:
    """Read (sequence, entry) in order. With `role`, only charges of that role. Raises LedgerError."""
    with reader.snapshot() as (_, rows):
        for body, _ in rows:
            sequence, entry = decode(body)
            if isinstance(entry, UNSEEN) or (since is not None and entry.at < since):
                continue
            if role is not None and not (isinstance(entry, Charge) and entry.role == role):
                continue
            if dataset is not None and getattr(entry, "dataset", dataset) != dataset:
                continue
            yield sequence, entry


def recent(reader: Reader, dataset: str, most: int) -> list[Charge]:
    """Return the last charges of a dataset among the record's last `most` entries, in order. Raises LedgerError."""
    entries = (decode(body)[1] for body, _ in reader.recent(most))
    return [entry for entry in entries if isinstance(entry, Charge) and entry.dataset == dataset]


def export(reader: Reader, out: TextIO, *, key: bytes | None = None) -> Verified:
    """Write every entry as a line of JSON with its hash, then a line with the head, signed if there is a key.

    The chain is checked as it is written: what `LedgerCorrupt` interrupts has no last line and does not verify.
    """

    def written(rows: Iterable[Stored]) -> Iterator[Stored]:
        for body, digest in rows:
            out.write(json.dumps({"entry": body, "hash": digest.hex()}) + "\n")
            yield body, digest

    with reader.snapshot() as (head, rows):
        verified = _checked(reader.chain, head, written(rows), key)
    end = {"chain": reader.chain, "sequence": verified.entries, "hash": verified.hash}
    signature = _signature(key, end).hex() if key else None
    out.write(json.dumps({"head": end, "signature": signature}) + "\n")
    return verified


def verify_export(lines: Iterable[str], *, key: bytes | None = None) -> Verified:
    """Check what `export` wrote. Raises LedgerCorrupt: a line changed, missing or added; no or another signature."""
    book, digest, end = Book(MAX_JUMP), NO_HASH, None
    try:
        for line in lines:
            data = json.loads(line)
            if end is not None:
                raise LedgerCorrupt("the export goes on after its head")
            if "head" in data:
                end = data
            else:
                digest = replay(book, digest, [(str(data["entry"]), bytes.fromhex(data["hash"]))])
        if end is None or (end["head"]["sequence"], end["head"]["hash"]) != (book.sequence, digest.hex()):
            raise LedgerCorrupt("the export does not end with the head of its entries")
        if key is not None and not hmac.compare_digest(str(end["signature"]), _signature(key, end["head"]).hex()):
            raise LedgerCorrupt("the export is not signed with this key")
    except LedgerError:
        raise
    except Exception as error:  # whatever damage has made of it
        raise LedgerCorrupt("a line of the export cannot be read") from error
    return Verified(book.sequence, digest.hex(), book.clock)


def _signature(key: bytes, head: dict[str, object]) -> bytes:
    """HMAC-SHA-256 over the head; `export` in it, so that a head's seal is not a signature."""
    return seal(key, f"export\0{head['chain']}", int(str(head["sequence"])), bytes.fromhex(str(head["hash"])))


def readable(rows: Iterable[Stored]) -> list[Entry]:
    """Return every entry that can be read, in order, whatever its hash says."""
    found: list[Entry] = []
    for body, _ in rows:
        with contextlib.suppress(LedgerCorrupt):
            found.append(decode(body)[1])
    return found


def rechained(entries: Iterable[Entry], at: dt.datetime, reason: str) -> list[Row]:
    """Return a record of the same entries, and the one that closes every window. Times never run backwards in it. It has the
    name of the old one, if that can be read: what was paid for there stays paid for."""
    entries = list(entries)
    former = next((entry.ledger for entry in entries if isinstance(entry, Opened)), str(uuid.uuid4()))
    kept = [entry for entry in entries if not isinstance(entry, UNSEEN)]
    rows, digest, ids = list[Row](), NO_HASH, set[str]()
    clock: dt.datetime | None = None
    for entry in [Opened(former), *kept, Exhausted(at, reason)]:
        if not isinstance(entry, Opened):
            clock = entry.at if isinstance(entry, ClockWrong) else max(entry.at, clock or entry.at)
            entry = replace(entry, at=clock)
        row = row_of(entry, len(rows) + 1, digest)
        if row.id in ids:
            continue
        ids |= {row.id} if row.id is not None else set()
        digest = row.hash
        rows.append(row)
    return rows


def sealed(rows: list[Row], chain: str, key: bytes | None) -> Head:
    """Return the head of a record that ends with these rows."""
    last = rows[-1]
    return Head(last.sequence, last.hash, seal(key, chain, last.sequence, last.hash) if key else None)
