"""What the facade's server processes take of the machine, as the operating system tells it, and which of them waits for others.

Knows: `/proc`, the names of PostgreSQL's files, scheduling. Must not know: sessions, roles, limits. Without `/proc` (macOS)
nothing is seen, and only what each process is held to by itself remains.

Each byte below a server's folder is counted once: as a process's (sorts), as a temporary schema's (tables, indexes), or as
the server's own. No kind of file is left out because nobody thought of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_SPILLED: Final = re.compile(r"pgsql_tmp(\d+)\.")
_TEMP_TABLE: Final = re.compile(r"t(\d+)_")
LEAST: Final = 16 << 10
"""Bytes that a file counts for at least: ext4 sets one inode aside for so much of a disk. A million empty tables fill it too."""
LAST: Final = 19
"""The niceness that yields most."""


@dataclass(frozen=True)
class Usage:
    """What one server process takes: `memory` of its own in bytes, `seconds` of processor so far, `disk` in bytes of its
    temporary files."""

    memory: int = 0
    seconds: float = 0.0
    disk: int = 0


def visible() -> bool:
    """Return whether this system tells what processes take."""
    return sys.platform == "linux" and Path("/proc/self/statm").exists()


def taken(pid: int) -> Usage | None:
    """Return memory and processor time of a process. None when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return Usage((resident - shared) * _PAGE, (int(fields[11]) + int(fields[12])) / _TICK)


def spilled(data: Path) -> Counter[int]:
    """Return the bytes of sorts, hashes and cursors on disk, by the process that wrote them."""
    found: Counter[int] = Counter()
    with contextlib.suppress(OSError), os.scandir(data / "base" / "pgsql_tmp") as entries:
        for entry in entries:
            match = _SPILLED.match(entry.name)
            if match and not entry.is_dir(follow_symlinks=False):
                found[int(match[1])] += _size(entry)
    return found


@dataclass(frozen=True)
class Files:
    """What a server's files take in bytes, sorts excepted: those of temporary tables, by the number in the name of their
    schema (`pg_temp_3`); the log of changes (`pg_wal`); all others, the catalog among them."""

    temporary: Counter[int] = field(default_factory=Counter)
    changes: int = 0
    others: int = 0


def files(data: Path) -> Files:
    """Return what the files of a server take. Looks at each of them: some milliseconds for a thousand."""
    temporary, changes, others = Counter[int](), 0, 0
    for folder, entry in _below(data):
        size = _size(entry)
        table = _TEMP_TABLE.match(entry.name) if folder[:1] == ("base",) and folder[-1].isdigit() else None
        if table:
            temporary[int(table[1])] += size
        elif folder[:1] == ("pg_wal",):
            changes += size
        elif folder != ("base", "pgsql_tmp") or not _SPILLED.match(entry.name):
            others += size
    return Files(temporary, changes, others)


def _below(path: Path | str, folder: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], os.DirEntry[str]]]:
    """All files below a path, each with the folders on the way to it."""
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, (*folder, entry.name))
            else:
                yield folder, entry


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return max(LEAST, entry.stat(follow_symlinks=False).st_size)
    except OSError:  # it went meanwhile
        return 0


def free(folder: Path) -> int:
    """Return how many bytes an ordinary user may still write there."""
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


def machine_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of the machine's memory, or of the container's where that is less."""
    total = _PAGE * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # not there, or `max`
            total = min(total, int((cgroups / name).read_text()))
    return total


def last_processors(processors: Iterable[int]) -> set[int]:
    """Return the half of them on which processes run that wait for others, at least one. What the kernel does for a process (a
    page of memory, a file of a gigabyte that is removed) yields to nobody, so that others need a processor without such."""
    known = sorted(processors)
    return set(known[len(known) // 2 :])


class Queue:
    """Lets processes wait for the processor until nobody else wants it, on half of the processors. Only a privileged proxy can
    call a process back."""

    def __init__(self) -> None:
        self._last: set[int] = set()

    def put(self, last: Iterable[int], ended: Iterable[int] = ()) -> None:
        """Let these processes wait from now on, and no others."""
        wanted = set(last)
        self._last.difference_update(ended)
        for pid in wanted - self._last:
            if _schedule(pid, last=True):
                self._last.add(pid)
        for pid in self._last - wanted:
            if _schedule(pid, last=False):
                self._last.discard(pid)


def _schedule(pid: int, *, last: bool) -> bool:
    """Whether it could be done; a process that is gone needs nothing more."""
    try:
        if sys.platform == "linux" and (os.geteuid() == 0):
            os.sched_setscheduler(pid, os.SCHED_IDLE if last else os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, pid, LAST if last else 0)
        if sys.platform == "linux":
            _schedule_session(pid, LAST if last else 0)
            processors = os.sched_getaffinity(0)
            os.sched_setaffinity(pid, last_processors(processors) if last else processors)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return True


def _schedule_session(pid: int, nice: int) -> None:
    """Where Linux groups processes by session (autogroup), a process yields to its own group alone, and each server process of
    PostgreSQL is a session: then the group has to yield."""
    if os.getsid(pid) == pid:  # else others are in its group
        with contextlib.suppress(FileNotFoundError, PermissionError), open(f"/proc/{pid}/autogroup", "w") as file:
            file.write(str(nice))


def terminate(pid: int, data: Path) -> None:
    """End a session as PostgreSQL itself does, by its process, which must work in `data`."""
    with contextlib.suppress(OSError):
        if Path(f"/proc/{pid}/cwd").readlink() == data:
            os.kill(pid, signal.SIGTERM)
