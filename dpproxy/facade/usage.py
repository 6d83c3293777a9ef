"""What the facade's server processes take of the machine, as the operating system tells it, and which of them waits for others.

Knows: `/proc`, the names of PostgreSQL's temporary files, scheduling. Must not know: sessions, roles, limits. Without
`/proc` (macOS) nothing is seen, and only what each process is held to by itself remains.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_SPILLED: Final = re.compile(r"pgsql_tmp(\d+)\.")
_TEMP_TABLE: Final = re.compile(r"t(\d+)_")
LAST: Final = 19
"""The niceness that yields most."""


@dataclass(frozen=True)
class Usage:
    """Says what one server process takes: `memory` of its own in bytes, `seconds` of processor so far, `disk` in bytes of its
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
    _add_sizes(data / "base" / "pgsql_tmp", _SPILLED, found)
    return found


def temporary_tables(data: Path) -> Counter[int]:
    """Return the bytes of temporary tables, by the number in the name of their schema (`pg_temp_3`)."""
    found: Counter[int] = Counter()
    with contextlib.suppress(OSError):
        for database in os.scandir(data / "base"):
            if database.name.isdigit():
                _add_sizes(Path(database.path), _TEMP_TABLE, found)
    return found


def _add_sizes(folder: Path, name: re.Pattern[str], found: Counter[int]) -> None:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = name.match(entry.name)
            if match:
                with contextlib.suppress(OSError):  # it went meanwhile
                    found[int(match[1])] += entry.stat(follow_symlinks=False).st_size


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
