"""The audit log: what operators did, one line of JSON each, in the state folder.

Knows: one file that only grows. Must not know: what an action means. A line is on disk before the action is replied to; several
processes append to the same file, each line in one write. What concerns budgets stands in the ledger as well, which nobody can
change unseen; this file is as trustworthy as the folder it is in.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import pwd
from pathlib import Path

FILE = "audit.jsonl"  # in the state folder


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


def account(uid: int) -> str:
    """Return who an account of this machine is: its name and number."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)
