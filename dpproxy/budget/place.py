"""Where a ledger is kept, by its address: a SQLite file or a PostgreSQL server; and the operator's tools on either.

Knows: addresses, keys, both kinds of ledger. Must not know: policies, the command line. One secret file serves all that
is sealed; each purpose has a key of its own, derived from it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dpproxy.budget import files, postgres
from dpproxy.budget.files import SqliteReader
from dpproxy.budget.journal import Journal, since_boot
from dpproxy.budget.ledger import LedgerError
from dpproxy.budget.postgres import PostgresLedger, PostgresReader
from dpproxy.budget.record import Reader, Verified
from dpproxy.budget.sealing import derived
from dpproxy.budget.sqlite import SqliteLedger

FILE = "ledger.sqlite"  # in the state folder, unless an address is given
LEAST_KEY = 16  # bytes


class Place(Protocol):
    """`key`: what the record is sealed with, None when it is not. Every method raises LedgerError."""

    def open(self, key: bytes | None) -> Journal: ...

    def reader(self, dataset: str | None) -> Reader:
        """The record that holds this dataset; None where one record holds all."""
        ...

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None: ...

    def backup(self, target: Path) -> None: ...


@dataclass(frozen=True)
class SqlitePlace:
    path: Path

    def open(self, key: bytes | None) -> Journal:
        return SqliteLedger(self.path, key=key, boot=since_boot)

    def reader(self, dataset: str | None) -> Reader:
        return SqliteReader(self.path)

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None:
        return files.repair(self.path, at=dt.datetime.now(dt.UTC), reason=reason, key=key)

    def backup(self, target: Path) -> None:
        files.backup(self.path, target)


@dataclass(frozen=True)
class PostgresPlace:
    dsn: str

    def open(self, key: bytes | None) -> Journal:
        return PostgresLedger(self.dsn, key=key, boot=since_boot)

    def reader(self, dataset: str | None) -> Reader:
        return PostgresReader(self.dsn, _named(dataset))

    def repair(self, dataset: str | None, reason: str, key: bytes | None) -> Verified | None:
        return postgres.repair(self.dsn, _named(dataset), at=dt.datetime.now(dt.UTC), reason=reason, key=key)

    def backup(self, target: Path) -> None:
        raise LedgerError("a ledger in PostgreSQL is backed up with PostgreSQL's own tools")


def _named(dataset: str | None) -> str:
    if dataset is None:
        raise LedgerError("a ledger in PostgreSQL has a record for each dataset: say which one")
    return dataset


def place_of(address: str | None, state: Path) -> Place:
    """`address`: a URI `postgresql://...`, or a path; None: a file in the state folder."""
    if address is not None and address.startswith(("postgresql://", "postgres://")):
        return PostgresPlace(address)
    return SqlitePlace(Path(address) if address is not None else state / FILE)


def read_secret(path: Path | None) -> bytes | None:
    """The secret in a file, without the white space around it. Raises LedgerError when it is too short or unreadable."""
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
