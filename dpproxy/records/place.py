"""Where a ledger is kept, by its address: a SQLite file or a PostgreSQL server; and the operator's tools on either.

Knows: addresses, keys, both kinds of ledger. Must not know: policies, the command line. One secret file serves all that
is sealed; each purpose has a key of its own, derived from it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from dpproxy.derived_keys import derived
from dpproxy.ledger.book import Book
from dpproxy.ledger.journal import NAMES, Journal, since_boot
from dpproxy.ledger.ledger import LedgerCorrupt, LedgerError
from dpproxy.ledger.witness import Seen, Witness, witness_of
from dpproxy.records import files, postgres
from dpproxy.records.files import SqliteReader
from dpproxy.records.postgres import PostgresLedger, PostgresReader
from dpproxy.records.record import Reader, Verified, current, verify, witnessed
from dpproxy.records.sqlite import SqliteLedger

FILE = "ledger.sqlite"  # in the state folder, unless an address is given
LEAST_KEY = 16  # bytes


class Place(Protocol):
    """A place is where a ledger's records are. `key` seals a record; None: records are not sealed. Every method raises
    LedgerError."""

    def open(self, key: bytes | None) -> Journal: ...

    def reader(self, dataset: str | None) -> Reader:
        """Return the record that holds this dataset; None where one record holds all."""
        ...

    def witness(self, dataset: str | None, key: bytes | None) -> Witness | None:
        """Return the witness of a record, which is kept outside of it."""
        ...

    def accept(self, dataset: str | None, reason: str, key: bytes | None) -> None:
        """Close every current window of a record that lacks what its witness has seen; from now on it counts as it is."""
        ...

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None: ...

    def backup(self, target: Path) -> None: ...

    def names(self) -> Book:
        """Return the record that says which data each dataset has been charged for."""
        ...


@dataclass(frozen=True)
class SqlitePlace:
    """The record is one file. `anchor`: a file outside, on another volume, that tells when the folder was put back as a whole."""

    path: Path
    anchor: Path | None = None

    def open(self, key: bytes | None) -> Journal:
        return SqliteLedger(self.path, key=key, boot=since_boot, witness=self.witness(None, key), reserve=True)

    def reader(self, dataset: str | None) -> Reader:
        return SqliteReader(self.path)

    def witness(self, dataset: str | None, key: bytes | None) -> Witness | None:
        return Witness(self.anchor, "", key, begins=False) if self.anchor is not None else None

    def accept(self, dataset: str | None, reason: str, key: bytes | None) -> None:
        _accept(SqliteLedger(self.path, key=key, witness=self.witness(None, key), accepting=True), "", reason)

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None:
        return files.repair(self.path, at=dt.datetime.now(dt.UTC), reason=reason, key=key)

    def backup(self, target: Path) -> None:
        files.backup(self.path, target)

    def names(self) -> Book:
        return current(self.reader(None))


@dataclass(frozen=True)
class PostgresPlace:
    """Each dataset has a record on a server. `state`: a proxy's own folder, which keeps what it has seen of each record."""

    dsn: str
    state: Path | None = None

    def open(self, key: bytes | None) -> Journal:
        return self._open(key)

    def _open(self, key: bytes | None, accepting: bool = False) -> Journal:
        seen = partial(self.witness, key=key)
        return PostgresLedger(self.dsn, key=key, boot=since_boot, witness_of=seen, accepting=accepting)

    def reader(self, dataset: str | None) -> Reader:
        return PostgresReader(self.dsn, _named(dataset))

    def witness(self, dataset: str | None, key: bytes | None) -> Witness | None:
        """Return the witness in the proxy's own folder; None on a machine that serves nothing."""
        if self.state is None or not self.state.exists():
            return None
        return witness_of(self.state, _named(dataset), key)

    def accept(self, dataset: str | None, reason: str, key: bytes | None) -> None:
        _accept(self._open(key, accepting=True), _named(dataset), reason)

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None:
        return postgres.repair(self.dsn, _named(dataset), at=dt.datetime.now(dt.UTC), reason=reason, key=key)

    def backup(self, target: Path) -> None:
        raise LedgerError("a ledger in PostgreSQL is backed up with PostgreSQL's own tools")

    def names(self) -> Book:
        return current(PostgresReader(self.dsn, NAMES))


def _accept(ledger: Journal, dataset: str, reason: str) -> None:
    try:
        ledger.exhaust(dataset, dt.datetime.now(dt.UTC), reason)
    finally:
        ledger.close()


def repair(place: Place, dataset: str | None, reason: str, key: bytes | None) -> Verified | None:
    """Make a record whole by charging more, and accept one that was rolled back, by charging more; None when it was neither."""
    repaired, witness = place.repair(dataset, reason, key), place.witness(dataset, key)
    try:
        witnessed(place.reader(dataset), witness)
    except LedgerCorrupt:
        place.accept(dataset, reason, key)
        repaired = verify(place.reader(dataset), key=key)
    return repaired


def begin_anchor(place: Place, dataset: str | None, key: bytes | None) -> None:
    """Begin a witness for a record that has none. Raises LedgerError when it has one."""
    witness, verified = place.witness(dataset, key), verify(place.reader(dataset), key=key)
    if witness is None:
        raise LedgerError("say where: --anchor PATH")
    if witness.read() is not None:
        raise LedgerError(f"{witness.path} exists already")
    book = current(place.reader(dataset))
    witness.note(Seen(book.ledger, verified.entries, bytes.fromhex(verified.hash), book.closures))
    witness.sync()
    witness.close()


def _named(dataset: str | None) -> str:
    if dataset is None:
        raise LedgerError("a ledger in PostgreSQL has a record for each dataset: say which one")
    return dataset


def place_of(address: str | None, state: Path, anchor: Path | None = None) -> Place:
    """Return the place at an address. `address`: a URI `postgresql://...`, or a path; None: a file in the state folder. Raises
    LedgerError."""
    if address is not None and address.startswith(("postgresql://", "postgres://")):
        if anchor is not None:
            raise LedgerError("--anchor is for a SQLite ledger: of one in PostgreSQL each --state keeps its own")
        return PostgresPlace(address, state)
    return SqlitePlace(Path(address) if address is not None else state / FILE, anchor)


def named(place: Place) -> str:
    """Return what tells a place from others, for people: a file, or that it is a server."""
    return str(place.path.resolve()) if isinstance(place, SqlitePlace) else "a ledger in PostgreSQL"


def read_secret(path: Path | None) -> bytes | None:
    """Read the secret in a file, without the white space around it. Raises LedgerError when it is too short or unreadable."""
    if path is None:
        return None
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise LedgerError(f"the key file {path} cannot be read: {error.strerror}") from error
    if len(secret) < LEAST_KEY:
        raise LedgerError(f"the key file {path} holds fewer than {LEAST_KEY} bytes")
    return secret


def ledger_key(secret: bytes | None) -> bytes | None:
    return derived(secret, "ledger") if secret is not None else None
