"""The audit log: each action one line, readable by its owner alone, never changed by the next."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
from pathlib import Path

from structlog.testing import capture_logs

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


def test_a_run_that_was_not_stopped_is_told_at_the_next_start(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")

    def told() -> list[str]:
        with capture_logs() as lines:
            log.started(0, "0.1")
            log.started(2, "0.1")
        log.note("pause", "root (0)", role="analyst")
        return [line["event"] for line in lines]

    assert told() == [], "the first run of all"
    log.stopped(0)
    assert told() == ["the run before was not stopped"], "of one process, not of the other"
    (tmp_path / "audit.jsonl").write_text("half a line\n" + (tmp_path / "audit.jsonl").read_text() + "{half")
    assert len(told()) == 2


def test_a_full_disk_keeps_nobody_from_starting(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "nowhere" / "audit.jsonl")
    with capture_logs() as lines:
        log.started(0, "0.1")
        log.stopped(0)
    assert [line["event"] for line in lines] == ["the audit log cannot be written"] * 2
    AuditLog(None).started(0, "0.1")
