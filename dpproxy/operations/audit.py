"""The audit log: what operators did, one line of JSON each, in the state folder.

Knows: one file that only grows. Must not know: what an action means. A line is on disk before the action is replied to; several
processes append to the same file, each line in one write. What concerns budgets stands in the ledger as well, which nobody can
change unseen; this file is as trustworthy as the folder it is in.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import pwd
from pathlib import Path

import structlog

LOG = structlog.get_logger()
FILE = "audit.jsonl"  # in the state folder
PROXY = "proxy"  # who starts and stops, in the file
TAIL = 1 << 20  # bytes of its end in which the last start is looked for


class AuditLog:
    """Appends to one file. `path`: None where nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def note(self, action: str, by: str, outcome: str = "done", **details: str | int | bool) -> None:
        """Write one line. Raises OSError."""
        if self._path is None:
            return
        at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, "action": action, "by": by, "outcome": outcome, **details}) + "\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, line.encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def started(self, process: int, version: str) -> None:
        """Note that a process of the proxy serves; the log says so where the last run did not end properly."""
        if self._last(process) == "start":
            LOG.warning("the run before was not stopped")
        self._note_own("start", process, version=version)

    def stopped(self, process: int) -> None:
        self._note_own("stop", process)

    def _note_own(self, action: str, process: int, **details: str) -> None:
        """A full disk keeps nobody from starting or stopping."""
        try:
            self.note(action, PROXY, process=process, **details)
        except OSError as error:
            LOG.error("the audit log cannot be written", error=str(error.strerror))

    def _last(self, process: int) -> str:
        """Whether a process was started or stopped last, by the end of the file; empty where it does not tell."""
        if self._path is None or not self._path.exists():
            return ""
        with self._path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().splitlines()
        for line in reversed(lines):
            with contextlib.suppress(ValueError):  # the first one may be half
                said = json.loads(line)
                if said.get("by") == PROXY and said.get("process") == process:
                    return str(said["action"])
        return ""


def account(uid: int) -> str:
    """Return who an account of this machine is: its name and number."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)
