"""A prepared copy is made: queries over a data file, each written as a table of another file, within bounds of memory and disk.
Tables are made in the order they are given in, as many as the disk has room for.

Knows: DuckDB, the files of copies. Must not know: plans, what a query means, who waits for the copy. The data are opened as they
are for measuring (`backends.duckdb`), read-only, and are held against the state that was asked for before and after: what was
made while they changed is no copy. Nothing takes the copy's name before all of it is on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import duckdb

from dpproxy.acceleration.copy_files import CopyError, CopyFolder, Manifest, Preparation, digest, free, key_of
from dpproxy.backends.datafile import DataFile, FileChanged
from dpproxy.backends.duckdb import attached, backend_error
from dpproxy.backends.duckdb_stages import largest, sizes
from dpproxy.policy.model import DuckDBBackend
from dpproxy.policy.names import quote_name

MEMORY: Final = "25%"
"""Of the machine's memory, unless the policy says what measuring may take: more than that is spilled to the disk."""
LOOK: Final = 0.1
"""Seconds between two looks at how far it is and how much disk it takes."""
LEAST_FREE: Final = 256 << 20
"""Bytes of a disk that making a copy leaves free, whatever it is allowed: others need it, the ledger above all."""
PROGRESS: Final = ("SET enable_progress_bar = true", "SET enable_progress_bar_print = false")
"""What makes DuckDB say how far a statement is."""

A_ROW: Final = 0.35e-6
"""Seconds of a processor in which a row of the data is added to a person's group, and what all add is written and added up: with
nine counts and sums (docs/benchmarks.md). Rows with fewer numbers take less."""

Told = Callable[[str, float], None]
"""Is told which table is being made, and which part of all the work is done, from 0 to 1."""


@dataclass(frozen=True)
class Job:
    """What is to be made: of the data of `backend` in the state `state`, in `folder`, within `disk` bytes. `said`: what the
    policy says of these. `name`: by which a copy is attached."""

    backend: DuckDBBackend
    state: str
    preparations: tuple[Preparation, ...]
    folder: CopyFolder
    disk: int
    name: str
    said: int | None = None

    @cached_property
    def key(self) -> str:
        """The name of the copy. It takes milliseconds for each hundred tables, so it is computed once, aside of the loop."""
        return key_of(self.state, duckdb.__version__, self.preparations, self.said)

    def there(self) -> bool:
        return self.folder.has(self.key)

    def make(self, told: Told) -> Manifest:
        return make(self, told)

    def tidy(self) -> None:
        self.folder.remove(but=self.key)


def make(job: Job, told: Told) -> Manifest:
    """Make a copy and return its manifest. For who has the folder's lock. Raises CopyError, and leaves nothing half made."""
    began = time.monotonic()
    folder, key = job.folder, job.key
    try:
        folder.remove(but=key)  # what an earlier attempt left: also of this key
        data = DataFile(job.backend.path)
        try:
            if data.state != job.state:
                raise FileChanged("the data are others by now")
            tables = _written(job, data, told)
            data.check()
        finally:
            data.close()
        size, content = on_disk(folder.unfinished(key))
        manifest = Manifest(key, size, content, tables, time.time(), time.monotonic() - began)
        folder.finish(manifest)
        return manifest
    except FileChanged as error:
        raise CopyError(f"{job.backend.path}: {error}") from None
    except duckdb.Error as error:
        raise CopyError(str(backend_error(error))) from None
    except OSError as error:
        raise CopyError(f"the copy cannot be written: {error.strerror or error}") from None
    finally:
        folder.remove(but=key)


def expected(job: Job) -> float:
    """Return about how many seconds of a processor it takes to make a copy: what is made of tables that are made before is in the
    price of these. Raises CopyError."""
    try:
        root, _ = attached(job.backend)
        try:
            tables = sizes(root)
        finally:
            root.close()
    except duckdb.Error as error:
        raise CopyError(str(backend_error(error))) from None
    return A_ROW * sum(largest(tables, preparation.query) for preparation in job.preparations)


def _written(job: Job, data: DataFile, told: Told) -> tuple[str, ...]:
    """Write the tables that there is room for; return their names. Raises duckdb.Error, FileChanged, CopyError."""
    path = job.folder.unfinished(job.key)
    text = str(path).replace("'", "''")
    config = DuckDBBackend(job.backend.path, job.backend.memory_limit or MEMORY, job.backend.threads)
    more = (f"ATTACH '{text}' AS {quote_name(job.name)} (TYPE duckdb)", *PROGRESS)
    root, _ = attached(config, job.folder.spill(job.key), more)
    try:
        data.opened()
        os.chmod(path, 0o600)
        watch = _Watch(job, root, told)
        made: list[str] = []
        for preparation in job.preparations:
            table = f"{quote_name(job.name)}.main.{quote_name(preparation.name)}"
            if not watch.over(f"CREATE TABLE {table} AS {preparation.query}", len(made)):
                _give_back(root, table, job.name)
                break
            made.append(preparation.name)
        if not made or job.folder.taken(job.key) > job.disk:
            raise CopyError(watch.why)
        return tuple(made)
    finally:
        root.close()


def _give_back(root: duckdb.DuckDBPyConnection, table: str, name: str) -> None:
    """Give back the disk that a table has taken for which there was no room. A checkpoint shortens the file only where there is
    something to be written."""
    for statement in (f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} AS SELECT 1 AS x", f"DROP TABLE {table}"):
        root.execute(statement)
    root.execute(f"CHECKPOINT {quote_name(name)}")


class _Watch:
    """Looks at the work while it is done, from a thread of its own, and interrupts it where there is no room for it; `why`
    not."""

    def __init__(self, job: Job, root: duckdb.DuckDBPyConnection, told: Told) -> None:
        self._job, self._root, self._told = job, root, told
        self.why = f"it takes more disk than it may: {job.disk:,} bytes (`accelerate: {{ mode: on, disk: ... }}`)"

    def over(self, statement: str, done: int) -> bool:
        """Run a statement, and write what it made to the disk; return whether there was room for it. Raises duckdb.Error."""
        ended = threading.Event()

        def looking() -> None:
            while not ended.wait(LOOK):
                self._look(done)

        self._look(done)
        thread = threading.Thread(target=looking, name="copy", daemon=True)
        thread.start()
        try:
            self._root.execute(statement)
            self._root.execute(f"CHECKPOINT {quote_name(self._job.name)}")
        except duckdb.InterruptException:
            return False
        finally:
            ended.set()
            thread.join()
        return self._room()

    def _look(self, done: int) -> None:
        """Interrupts again and again: between two statements an interrupt is lost."""
        part = max(0.0, min(1.0, self._root.query_progress() / 100))
        whole = self._job.preparations
        self._told(whole[done].name, (done + part) / len(whole))
        if not self._room():
            self._root.interrupt()

    def _room(self) -> bool:
        if free(self._job.folder.path) < LEAST_FREE:
            self.why = f"{self._job.folder.path} has less than {LEAST_FREE:,} bytes free"
            return False
        return self._job.folder.taken(self._job.key) <= self._job.disk


def on_disk(path: Path) -> tuple[int, str]:
    """Return the size of a file, and a digest of it, once it is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size, digest(descriptor)
    finally:
        os.close(descriptor)


# The process that makes a prepared copy, and how it is run: apart from the proxy, in whose memory and time it has no part.
#
# Knows: two pipes, a lock. Must not know: SQL, how a copy is made (`copy_making`). The process reads its job from standard
# input, and ends with whoever gave it: when that pipe ends, it does so at once, whatever it is doing. On standard output it
# says how far it is, and at last that the copy is made, or why it is not: a line of JSON each. It has the folder's lock from
# its parent, and so makes the copy as the only one, also when the parent is gone before it.
#
# In the background it is the last in the line for processors, behind all measurements.


NICE: Final = 10
"""Of a process in the background: measurements go before."""
AGAIN: Final = 0.5
"""Seconds after which a lock that another process has is tried again."""
_LENGTH: Final = struct.Struct("!I")


class Work(Protocol):
    """A copy that is to be made: a value that can be pickled."""

    @property
    def folder(self) -> CopyFolder: ...

    def there(self) -> bool:
        """Return whether it was made."""
        ...

    def make(self, told: Told) -> object:
        """Make it. For who has the folder's lock. Raises CopyError, and leaves nothing half made."""
        ...

    def tidy(self) -> None:
        """Remove what was left half made, and copies that it takes the place of. For who has the lock. Raises OSError."""
        ...


async def made(job: Work, told: Told, background: bool) -> None:
    """Make the copy of a job unless it is there when the folder's lock is had. Raises CopyError. Cancelling it ends the
    process."""
    job.folder.ready()
    while True:
        with job.folder.locked() as lock:
            if lock is not None:
                if not job.there():
                    await _run(job, lock, told, background)
                return
        await asyncio.sleep(AGAIN)


async def _run(job: Work, lock: int, told: Told, background: bool) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dpproxy.acceleration.copy_making"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=(lock,),
        start_new_session=True,  # Ctrl-C is the parent's, which ends it
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        content = pickle.dumps((job, background))
        process.stdin.write(_LENGTH.pack(len(content)) + content)
        outcome = "the process that made it ended"
        async for line in process.stdout:
            match json.loads(line):
                case {"table": str(table), "part": float(part)}:
                    told(table, part)
                case {"made": True}:
                    outcome = ""
                case {"problem": str(problem)}:
                    outcome = problem
        if outcome:
            raise CopyError(outcome)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        with contextlib.suppress(OSError):
            job.tidy()


# --- in the process


def main() -> None:
    job, background = _given(sys.stdin.buffer)
    os.umask(0o077)
    if background:
        os.nice(NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        job.make(lambda table, part: _say(table=table, part=float(part)))
        _say(made=True)
    except CopyError as error:
        _say(problem=str(error))
    os._exit(0)  # what DuckDB says of itself at the end of a process is nobody's business


def _given(source: BinaryIO) -> tuple[Work, bool]:
    """What the parent sent, over a pipe that nobody else has."""
    (size,) = _LENGTH.unpack(source.read(_LENGTH.size))
    job, background = pickle.loads(source.read(size))
    return job, bool(background)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def _say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    from dpproxy.acceleration import copy_making  # pickled values are of this module's own name

    copy_making.main()
