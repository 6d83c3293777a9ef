"""Batches on the disk before they are acknowledged, in segments that are loaded whole.

Knows: files, flushes. Must not know: HTTP, claims, databases. A line is a batch: its random name, the table, the claim's
number, the reports. Of who sent it, and when, there is nothing; a segment knows its UTC day alone.

Batches that come at the same time are one group: written together, one flush for all (group commit), and acknowledged after
it. A group begins with its length and a checksum, and is written only when the group before it is on the disk. So what a crash
leaves torn is the last group, which nobody was told of: it is cut off. Damage with a whole group behind it is none of a crash,
and named.

A segment ends at 64 MiB, after an hour, and with its day. Then it is sealed: nothing is written to it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import fcntl
import json
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dpproxy.errors import OperatorError
from dpproxy.private_files import private_folder, settle, write_whole

SEGMENT_BYTES: Final = 64 << 20
SEGMENT_SECONDS: Final = 3600.0
GROUP_BYTES: Final = 4 << 20
"""Of one group at most: what waits behind it is the next one."""
WAITING_BYTES: Final = 64 << 20
"""Of batches that wait for the disk: more are turned away."""

OPEN, SEALED = ".open", ".sealed"
_NAME: Final = re.compile(r"(\d{12})\.(open|sealed)")
_HEAD: Final = re.compile(rb"#(\d{1,10}) (\d{1,10})\n")


class JournalDamaged(OperatorError):
    """A segment that somebody changed, or a disk did."""


class JournalBusy(OperatorError):
    """Another collector writes to this state."""


class JournalFull(Exception):
    """The disk takes no more: the batch is not acknowledged."""


@dataclass(frozen=True)
class Batch:
    """A batch of one table and claim, as it is on the disk. A report is a row: plain values, then randomised ones."""

    name: str
    table: str
    claim: int
    reports: Sequence[Sequence[Any]]

    def line(self) -> bytes:
        row = [self.name, self.table, self.claim, self.reports]
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True)
class Segment:
    """A sealed segment. `day`: the UTC day of its batches, ISO."""

    number: int
    day: str
    path: Path

    def batches(self) -> Iterator[Batch]:
        """Its batches in the order in which they came. Raises JournalDamaged."""
        content = self.path.read_bytes()
        for start, end in groups(content, self.path.name, _first_line(content)):
            for line in content[start:end].splitlines():
                yield Batch(*json.loads(line))


class State:
    """The folder of a collector: its name, which its store knows it by, and its segments."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError, SharedFolder."""
        private_folder(folder)
        self.folder = folder
        write_whole(folder / "name", secrets.token_hex(8).encode(), replace=False)
        self.name = (folder / "name").read_text()

    @contextlib.contextmanager
    def lock(self, what: str) -> Iterator[None]:
        """Be the only process that does one thing until the block ends. Raises JournalBusy."""
        descriptor = os.open(self.folder / f"{what}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise JournalBusy(f"another collector is {what} in {self.folder}") from None
            yield
        finally:
            os.close(descriptor)

    def sealed(self) -> list[Segment]:
        """The segments that wait to be loaded, the oldest first. Raises JournalDamaged."""
        found = []
        for path in sorted(self.folder.glob(f"*{SEALED}")):
            with path.open("rb") as file:
                day = _day(file.readline(), path.name)
            found.append(Segment(int(path.stem), day, path))
        return found

    def last_number(self) -> int:
        """The greatest number that a segment had, also of those that are gone."""
        with contextlib.suppress(FileNotFoundError):
            noted = int((self.folder / "last").read_text())
            return max([noted, *self._numbers()])
        return max(self._numbers(), default=0)

    def note_last(self, number: int) -> None:
        """Keep a number from being given again, though its segment goes. Raises OSError."""
        write_whole(self.folder / "last", str(number).encode(), replace=True)

    def seal_all(self) -> None:
        """Seal what a collector that ended has left open, its torn end cut off. Raises JournalDamaged, OSError."""
        for path in sorted(self.folder.glob(f"*{OPEN}")):
            seal(path)

    def _numbers(self) -> list[int]:
        matches = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return [int(match[1]) for match in matches if match]


def groups(content: bytes, name: str, start: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each whole group; a torn one at the end is left out. Raises JournalDamaged."""
    while start < len(content):
        end = _group_end(content, start)
        if end is None:
            if any(_group_end(content, later.start()) for later in _HEAD.finditer(content, start + 1)):
                raise JournalDamaged(f"{name} is damaged at byte {start}, and whole behind it: move it away, or mend the disk")
            return
        yield content.index(b"\n", start) + 1, end
        start = end


def _group_end(content: bytes, start: int) -> int | None:
    head = _HEAD.match(content, start)
    if head is None:
        return None
    end = head.end() + int(head[1])
    return end if end <= len(content) and zlib.crc32(content[head.end() : end]) == int(head[2]) else None


def _first_line(content: bytes) -> int:
    return content.find(b"\n") + 1 or len(content)


def _day(line: bytes, name: str) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(line)["day"])
    raise JournalDamaged(f"{name} does not begin as a segment does")


def seal(path: Path) -> Path | None:
    """Cut a torn end off an open segment and seal it; one without a batch is deleted. Raises JournalDamaged, OSError."""
    content = path.read_bytes()
    first = _first_line(content)
    whole = max((end for _, end in groups(content, path.name, first)), default=first)
    if whole <= first:
        path.unlink()
        return None
    with path.open("rb+") as file:
        file.truncate(whole)
        os.fsync(file.fileno())
    target = path.with_suffix(SEALED)
    path.rename(target)
    settle(path.parent)
    return target


class Writer:
    """The one writer of a state. `append` is called on the event loop; the disk is waited for in a thread."""

    def __init__(
        self,
        state: State,
        clock: Callable[[], float],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_seconds: float = SEGMENT_SECONDS,
    ) -> None:
        """`clock`: seconds since 1970 (UTC). Seals what was left open. Raises JournalDamaged, OSError."""
        self._state, self._clock = state, clock
        self._bytes, self._seconds = segment_bytes, segment_seconds
        state.seal_all()
        self._number = state.last_number()
        self._file: _OpenSegment | None = None
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._size = 0
        self._thread = ThreadPoolExecutor(1, "journal")
        self._task: asyncio.Task[None] | None = None

    async def append(self, batch: Batch) -> None:
        """Return when a batch is on the disk. Raises JournalFull."""
        line = batch.line()
        if self._size + len(line) > WAITING_BYTES:
            raise JournalFull("too many batches wait for the disk")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((line, done))
        self._size += len(line)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group = self._next_group()
            error = await loop.run_in_executor(self._thread, self._write, b"".join(line for line, _ in group))
            for _, done in group:
                if not done.cancelled():
                    done.set_exception(JournalFull(error)) if error else done.set_result(None)

    def _next_group(self) -> list[tuple[bytes, asyncio.Future[None]]]:
        size = number = 0
        for line, _ in self._waiting:
            if number and size + len(line) > GROUP_BYTES:
                break
            size, number = size + len(line), number + 1
        group, self._waiting = self._waiting[:number], self._waiting[number:]
        self._size -= size
        return group

    def _write(self, lines: bytes) -> str | None:
        """Write a group and flush it. Return why it is not on the disk."""
        try:
            self._segment().write(lines)
        except OSError as error:
            self._abandon()
            return str(error)
        return None

    def _segment(self) -> _OpenSegment:
        now = self._clock()
        if self._file is not None and self._file.is_over(now, self._bytes, self._seconds):
            self.seal()
        if self._file is None:
            self._number += 1
            self._file = _OpenSegment(self._state.folder / f"{self._number:012}{OPEN}", now)
        return self._file

    def _abandon(self) -> None:
        """After a flush that failed nobody knows what the disk has: what was acknowledged before is sealed, and no group
        follows."""
        if self._file is not None:
            self._file.give_up()
            with contextlib.suppress(OSError, JournalDamaged):
                seal(self._file.path)
            self._file = None

    def seal(self) -> None:
        """Seal the open segment. In the journal's thread, or when it is idle. Raises OSError."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
            seal(file.path)

    async def seal_old(self) -> None:
        """Seal the open segment when its time is over, though no batch comes."""

        def check() -> None:
            if self._file is not None and self._file.is_over(self._clock(), self._bytes, self._seconds):
                with contextlib.suppress(OSError):
                    self.seal()

        await asyncio.get_running_loop().run_in_executor(self._thread, check)

    async def close(self) -> None:
        """Write what waits, and seal. Raises OSError."""
        while self._task is not None and not self._task.done():
            await self._task
        await asyncio.get_running_loop().run_in_executor(self._thread, self.seal)
        self._thread.shutdown()


class _OpenSegment:
    """The segment that is written to."""

    def __init__(self, path: Path, now: float) -> None:
        self.path, self._opened, self._day = path, now, utc_day(now)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._size = 0
        try:
            self._append(json.dumps({"day": self._day}).encode() + b"\n")
            settle(path.parent)
        except OSError:
            self.give_up()
            path.unlink(missing_ok=True)
            raise

    def write(self, lines: bytes) -> None:
        self._append(b"#%d %d\n" % (len(lines), zlib.crc32(lines)) + lines)

    def _append(self, content: bytes) -> None:
        view, start = memoryview(content), self._size
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
            os.fdatasync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, start)
            raise
        self._size = start + len(content)

    def is_over(self, now: float, most: int, seconds: float) -> bool:
        """Whether the next group belongs to another segment: by size, time, or day; also when the clock was set back."""
        return self._size >= most or not 0 <= now - self._opened < seconds or utc_day(now) != self._day

    def give_up(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def utc_day(now: float) -> str:
    """The UTC day of a moment, ISO."""
    return dt.datetime.fromtimestamp(now, dt.UTC).date().isoformat()
