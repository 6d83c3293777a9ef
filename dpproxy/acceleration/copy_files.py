"""The files of prepared copies: where they are, what names one, when it is whole, who may make it.

Knows: files, their rights, locks, digests. Must not know: SQL, engines, what a copy is for.

A copy is a database file `<key>.duckdb` and its manifest `<key>.json`. The key is a digest of all that the copy follows from:
the state of the data, the queries that its tables are made by, the engine's version, this file's `FORMAT`. So a copy of other
data, or for another policy, has another name, and is not found. The manifest is written last, once the database is on the disk
under its name, and holds a digest of every byte of it: a copy without its manifest is half made, one that differs from it is
damaged, and neither is ever opened. Both hold rows of people: the folder is its owner's alone (0700), as the files are (0600).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from dpproxy.errors import OperatorError
from dpproxy.private_files import settle, write_whole

FORMAT: Final = 1
"""Of what is in a copy, and how it is kept. Another number: copies of before are made anew."""
FOLDER: Final = "copies"
"""In the state folder."""
DATABASE, MANIFEST, MAKING, LOCK = ".duckdb", ".json", ".making", "lock"
SPILLED: Final = f"{DATABASE}.tmp"
"""The folder beside a database where whoever measures in it spills; who comes to an end takes it away."""
GROWTH: Final = 6
"""Times what the data take: the most disk that a copy may take, unless the policy says otherwise. What a person adds to a group
is a row of ten numbers, and there may be as many of these as rows: measured, all tables took 2.5 to 3.6 times what the data
did; the rest is for sorting."""
LEAST: Final = 64 << 20
"""Bytes that it may take in any case: files of small tables are mostly blocks that are not full."""


class CopyError(OperatorError):
    """There is no copy; the text says why, for the operator."""


@dataclass(frozen=True)
class Preparation:
    """A table of a copy: its name, and the query over the data that makes it."""

    name: str
    query: str


@dataclass(frozen=True)
class Manifest:
    """What is in a copy. `digest` of the database's bytes; `tables`: those of the preparations that the disk had room for;
    `made`: seconds since 1970; `seconds` that making it took. `epoch`: the state of the data that an extract is of; `overtaken`:
    another than they were in when it was asked for."""

    key: str
    size: int
    digest: str
    tables: tuple[str, ...]
    made: float
    seconds: float
    format: int = FORMAT
    epoch: str = ""
    overtaken: bool = False


@dataclass(frozen=True)
class Copy:
    """A copy that was found whole."""

    path: Path
    manifest: Manifest


def free(path: Path) -> int:
    """Return the bytes that are free on the disk of a folder, which need not be there yet. Raises OSError."""
    found = os.statvfs(next(p for p in (path, *path.absolute().parents) if p.exists()))
    return found.f_bavail * found.f_frsize


def key_of(state: str, engine: str, preparations: Sequence[Preparation], disk: int | None = None) -> str:
    """Return the name of the copy of data in a state. `engine`: its version, which decides how a file is laid out; `disk`: what
    the policy says of it, which decides how many of the tables are made."""
    parts = [FORMAT, engine, state, disk, [asdict(each) for each in preparations]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def allowed_bytes(said: int | None, data: int, free: int) -> int:
    """Return how much disk a copy may take: what the policy says, else a part of what the data take and of what is free."""
    return said if said is not None else min(max(LEAST, GROWTH * data), free // 2)


class CopyFolder:
    """Where the copies of one dataset are."""

    def __init__(self, place: Path, dataset: str, data: str, state: Path) -> None:
        """`place`: the folder of all copies; `data` names what they are made of (`answers.data_identity`). Those of two proxies,
        which have two `state` folders, are apart, as each removes what it does not know."""
        parts = json.dumps([dataset, data, os.path.realpath(state)])
        self.path = place / hashlib.sha256(parts.encode()).hexdigest()[:16]

    def database(self, key: str) -> Path:
        return self.path / f"{key}{DATABASE}"

    def unfinished(self, key: str) -> Path:
        """Return where a copy is made, before it is one; spilled data lie in the same folder."""
        return self.path / f"{key}{MAKING}"

    def spill(self, key: str) -> Path:
        return self.path / f"{key}{MAKING}.spill"

    def ready(self) -> None:
        """Make the folder, for its owner alone. Raises CopyError."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            self._check_private()
        except OSError as error:
            raise CopyError(f"no folder for copies at {self.path}: {error.strerror}") from None

    def _check_private(self) -> None:
        """What others can write here is no copy of ours; what they can read are rows of people. Raises CopyError, OSError."""
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise CopyError(f"{self.path} is not a folder that its owner alone can read (chmod 700)")

    @contextlib.contextmanager
    def locked(self) -> Iterator[int | None]:
        """Be the only one who makes or removes copies here, also among processes: the lock's descriptor, which may be handed to a
        child; None where another has it. Raises CopyError."""
        try:
            lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CopyError(f"{self.path} cannot be written: {error.strerror}") from None
        try:
            yield lock if _taken(lock) else None
        finally:
            os.close(lock)  # whoever else has the descriptor still has the lock

    def has(self, key: str) -> bool:
        """Return whether a copy of a key was made, and not condemned since. Whether it is damaged only `whole` can tell."""
        return (self.path / f"{key}{MANIFEST}").exists()

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin so of which copies were made, and not condemned since."""
        names = [name.removesuffix(MANIFEST) for name in self._found() if name.endswith(MANIFEST)]
        return [name for name in names if name.startswith(prefix)]

    def condemn(self, key: str) -> None:
        """Let a damaged copy be none. Raises OSError."""
        (self.path / f"{key}{MANIFEST}").unlink(missing_ok=True)

    def manifest(self, key: str) -> Manifest | None:
        """Return what a copy says of itself; None where that cannot be read."""
        try:
            self._check_private()
            return _manifest((self.path / f"{key}{MANIFEST}").read_bytes())
        except (CopyError, OSError, ValueError, TypeError):
            return None

    def whole(self, key: str) -> Copy | None:
        """Return the copy of a key; None where there is none. Reads all of it. Raises CopyError for one that is damaged."""
        try:
            self._check_private()
            manifest = _manifest((self.path / f"{key}{MANIFEST}").read_bytes())
            with self.database(key).open("rb") as file:
                same = os.fstat(file.fileno()).st_size == manifest.size and digest(file.fileno()) == manifest.digest
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise CopyError(f"the copy cannot be read: {error}") from None
        if not same or (manifest.key, manifest.format) != (key, FORMAT):
            raise CopyError("the copy is damaged: it is not what was written")
        return Copy(self.database(key), manifest)

    def finish(self, manifest: Manifest) -> None:
        """Make a copy of what was made under its unfinished name. Raises OSError."""
        key = manifest.key
        os.rename(self.unfinished(key), self.database(key))
        settle(self.path)
        write_whole(self.path / f"{key}{MANIFEST}", json.dumps(asdict(manifest)).encode(), replace=True)
        settle(self.path)

    def remove(self, but: str | None = None, *, spilled: bool = True) -> int:
        """Remove all copies but one, and whatever was left half made; return how many copies. For who has the lock. Who has one
        open goes on with it, and spills beside it: that folder stays while its copy is there, and where it is not `spilled`
        that is to be removed. Raises OSError."""
        removed, there = 0, self._found()
        old = (name for name in there if name.endswith(SPILLED))
        spilling = {name for name in old if not spilled or name.removesuffix(".tmp") in there}
        for found in sorted(there - _kept(but) - spilling, reverse=True):  # of a copy the manifest first
            path = self.path / found
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                removed += found.endswith(MANIFEST)
        return removed

    def leftover(self, but: str | None = None) -> bool:
        """Return whether there is anything to be removed."""
        return bool(self._found() - _kept(but))

    def _found(self) -> set[str]:
        try:
            return set(os.listdir(self.path))
        except FileNotFoundError:
            return set()

    def taken(self, key: str) -> int:
        """Return the bytes that making a copy takes at this moment."""
        size = _size(self.unfinished(key)) + _size(Path(f"{self.unfinished(key)}.wal"))
        return size + sum(_size(path) for path in self.spill(key).rglob("*"))


def _kept(key: str | None) -> set[str]:
    """The files of a copy, with what is spilled by whoever measures in it, and the lock."""
    return {LOCK} if key is None else {LOCK, f"{key}{DATABASE}", f"{key}{MANIFEST}", f"{key}{SPILLED}"}


def digest(descriptor: int) -> str:
    """Return a digest of all of a file."""
    with open(descriptor, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:64]


def _manifest(content: bytes) -> Manifest:
    """Raises ValueError, TypeError."""
    fields = json.loads(content)
    return Manifest(**{**fields, "tables": tuple(fields["tables"])}) if isinstance(fields, dict) and "tables" in fields else _no()


def _no() -> Manifest:
    raise ValueError("this is no manifest")


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise CopyError(f"copies cannot be locked: {error.strerror}") from None
    return True


def _size(path: Path) -> int:
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
