"""The audit log: each action one line, readable by its owner alone, never changed by the next."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
from pathlib import Path

from dpproxy.operations.audit import AuditLog, account


def test_lines_are_added_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    AuditLog(path).note("pause", "root (0)", role="analyst", reason="a lost laptop\nof Ada")
    first = path.read_text()
    AuditLog(path).note("cancel", "root (0)", "no such session", session=7)
    assert path.read_text().startswith(first)
    one, two = (json.loads(line) for line in path.read_text().splitlines())
    assert (one["action"], one["by"], one["outcome"], one["reason"]) == ("pause", "root (0)", "done", "a lost laptop\nof Ada")
    assert (two["outcome"], two["session"]) == ("no such session", 7)
    assert dt.datetime.fromisoformat(one["at"]).utcoffset() == dt.timedelta(0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_who_an_account_is() -> None:
    assert account(os.getuid()).endswith(f"({os.getuid()})")
    assert account(2**31 - 7) == str(2**31 - 7)
