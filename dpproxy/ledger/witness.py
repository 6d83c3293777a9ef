"""What a proxy remembers of a record outside of it, so that a record put back as a whole is noticed.

Knows: one small file, heads. Must not know: stores, entries. A snapshot of a volume, a copied folder, a server restored to a
point in time: such a record is whole in itself, only shorter. A witness is a file on another volume (`--anchor`), or, for a
record on a server, in the proxy's own `--state`: the record's name, its last sequence and hash, and how often an operator closed
all windows because entries may be lost (`Book.closures`). It is written after each commit, so that it may be behind the record,
by one transaction after a crash and by what was committed within SYNC_SECONDS after a power failure, and never ahead of it. A
record that does not hold what its witness saw was rolled back, and is refused, unless all windows were closed since: then
whatever was lost is paid for.

With a key it is sealed: without the key nobody can write one that fits an older record.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpproxy.ledger.entries import Head, seal
from dpproxy.ledger.ledger import LedgerCorrupt, LedgerError

SYNC_SECONDS = 1.0
"""How long what was written may wait for the disk: a flush for each transaction would double what a charge costs."""

BYTES = 384
"""Fixed, and within one disk sector, so that a crash leaves the old text or the new one."""

FOLDER = "anchors"  # in the state folder


@dataclass(frozen=True)
class Seen:
    """A record of that name was seen up to this entry, after so many closures."""

    ledger: str
    sequence: int
    hash: bytes
    closures: int

    def before(self, other: Seen) -> bool:
        return (self.closures, self.sequence) < (other.closures, other.sequence)


class Witness:
    """A witness remembers the head of one record. Processes may share it."""

    def __init__(self, path: Path, chain: str, key: bytes | None = None, *, begins: bool = True) -> None:
        """Open the file later, when it is read. `begins`: a record whose witness is missing gets one; otherwise only a new
        record does."""
        self.path, self.begins = path, begins
        self._chain, self._key = chain, key
        self._unsynced = False
        self._file: int | None = None
        self._last: Seen | None = None
        self._written = b""

    def read(self) -> Seen | None:
        """Read what was seen; None when nothing was. Raises LedgerCorrupt when it cannot be read, or was sealed with another
        key."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerCorrupt(f"the ledger's anchor {self.path} cannot be read: {error.strerror}") from error
        return self._parsed(text) if text else None  # empty: another process has just begun it

    def _parsed(self, text: bytes) -> Seen:
        try:
            data = json.loads(text)
            seen = Seen(str(data["ledger"]), int(data["sequence"]), bytes.fromhex(data["hash"]), int(data["closures"]))
            stamp = bytes.fromhex(data["seal"]) if data["seal"] is not None else None
        except Exception as error:  # whatever damage has made of it
            raise LedgerCorrupt(f"the ledger's anchor {self.path} cannot be read") from error
        if self._key is not None and not hmac.compare_digest(stamp or b"", self._seal(seen)):
            raise LedgerCorrupt(f"the ledger's anchor {self.path} does not carry the seal of the configured key")
        return seen

    def _seal(self, seen: Seen) -> bytes:
        assert self._key is not None
        return seal(self._key, f"anchor\0{self._chain}\0{seen.ledger}\0{seen.closures}", seen.sequence, seen.hash)

    def note(self, seen: Seen, *, anew: bool = False) -> None:
        """Remember this, unless another process has seen more. `anew`: whatever was seen. Raises LedgerError."""
        try:
            with _locked(self._open()) as file:
                text = os.pread(file, BYTES, 0)
                known = None if anew else self._last if text == self._written else self._known(text)
                if known is None or known.ledger != seen.ledger or known.before(seen):
                    self._last, self._written = seen, self._text(seen)
                    os.pwrite(file, self._written, 0)
                    self._unsynced = True
        except OSError as error:
            raise LedgerError(f"the ledger's anchor {self.path} cannot be written: {error.strerror}") from error

    def _open(self) -> int:
        """The file that is there now: the volume may have been put in place anew. Raises OSError."""
        if self._file is not None and self._is_there(self._file):
            return self._file
        self.close()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        return self._file

    def _is_there(self, file: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(file))
        except FileNotFoundError:
            return False

    def _known(self, text: bytes) -> Seen | None:
        with contextlib.suppress(LedgerCorrupt):
            return self._parsed(text)
        return None

    def _text(self, seen: Seen) -> bytes:
        fields = {"ledger": seen.ledger, "sequence": seen.sequence, "hash": seen.hash.hex(), "closures": seen.closures}
        stamp = self._seal(seen).hex() if self._key is not None else None
        return (json.dumps(fields | {"seal": stamp}).ljust(BYTES - 1) + "\n").encode()

    def sync(self) -> None:
        """Put on disk what was noted, which is there when this returns. Raises LedgerError."""
        if not self._unsynced:
            return
        try:
            os.fsync(self._open())
        except OSError as error:
            raise LedgerError(f"the ledger's anchor {self.path} cannot be written: {error.strerror}") from error
        self._unsynced = False

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def check(seen: Seen | None, ledger: str, closures: int, found: Head | None, where: Witness) -> None:
    """Compare a record with what was seen. `found`: the record's entry of the sequence that was seen. Raises LedgerCorrupt for
    a record that was rolled back."""
    what = "If that is known, `dpproxy ledger repair` accepts it, and closes every current window"
    if seen is None:
        if not where.begins:
            raise LedgerCorrupt(f"the ledger's anchor {where.path} is missing: `dpproxy ledger anchor` begins one")
    elif ledger != seen.ledger:
        raise LedgerCorrupt(f"this is another ledger than the one that {where.path} is the anchor of. {what}")
    elif closures <= seen.closures and (found is None or found.hash != seen.hash):
        raise LedgerCorrupt(
            f"the ledger was rolled back: it lacks entry {seen.sequence}, which {where.path} has seen. If so, {what}"
        )


@contextlib.contextmanager
def _locked(file: int) -> Iterator[int]:
    """Of several processes one at a time, where the system has such locks."""
    if sys.platform == "win32":
        yield file
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield file
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def witness_of(folder: Path, chain: str, key: bytes | None) -> Witness:
    """Return a record's own witness, in a folder of such."""
    name = hashlib.sha256(chain.encode()).hexdigest()[:32]
    return Witness(folder / FOLDER / f"{name}.json", chain, key)
