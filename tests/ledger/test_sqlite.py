"""The SQLite ledger's own promises: one process, tampering, crashes, full disks; and the operator's tools."""

from __future__ import annotations

import datetime as dt
import io
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.ledger import BudgetExhausted, Grant, LedgerCorrupt, LedgerError, Limits, charge
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss
from dpproxy.records import place, record
from dpproxy.records.place import SqliteReader
from dpproxy.records.sqlite import SqliteLedger, connect

from .conftest import LATER, NOON, WRITER, MakeRequest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def written(path: Path, request_of: MakeRequest) -> Path:
    """A closed ledger of ten charges."""
    ledger = SqliteLedger(path)
    for i in range(10):
        charge(ledger, request_of(MICRO, role=f"r{i % 2}", at=NOON + dt.timedelta(minutes=i)))
    ledger.close()
    return path


def sql(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def test_a_second_proxy_is_refused(path: Path, request_of: MakeRequest) -> None:
    ledger = SqliteLedger(path)
    with pytest.raises(LedgerError, match="another dpproxy"):
        SqliteLedger(path)
    ledger.close()
    SqliteLedger(path).close()


def test_a_second_proxy_is_refused_by_whatever_name_it_comes(path: Path, tmp_path: Path) -> None:
    """One lock, one anchor, one log of changes: beside the file, not beside a link to it."""
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    ledger = SqliteLedger(path)
    link.symlink_to(path)
    for name in (link, path.parent / ".." / path.parent.name / path.name):
        with pytest.raises(LedgerError, match="another dpproxy is using this ledger"):
            SqliteLedger(name)
    ledger.close()
    SqliteLedger(link).close()
    assert list(link.parent.iterdir()) == [link]


def test_a_ledger_of_two_names_in_folders_is_nobodys(path: Path, tmp_path: Path) -> None:
    """No lock stands beside both."""
    SqliteLedger(path).close()
    os.link(path, tmp_path / "hard.sqlite")
    for name in (path, tmp_path / "hard.sqlite"):
        with pytest.raises(LedgerError, match=r"has another name \(a hard link\)"):
            SqliteLedger(name)
    (tmp_path / "hard.sqlite").unlink()
    SqliteLedger(path).close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET body = replace(body, '\"epsilon\":1000000', '\"epsilon\":1') WHERE sequence = 5",
        "DELETE FROM entries WHERE sequence = 5",
        "DELETE FROM entries WHERE sequence = 11",
        "UPDATE head SET sequence = 10, hash = (SELECT hash FROM entries WHERE sequence = 10)",
        "UPDATE entries SET hash = zeroblob(32) WHERE sequence = 11",
        "UPDATE head SET hash = zeroblob(32)",
        "DELETE FROM head",
        "INSERT INTO entries SELECT 12, 'x', body, hash FROM entries WHERE sequence = 11",
        "UPDATE entries SET body = 'rubbish' WHERE sequence = 1",
    ],
)
def test_tampering_is_detected_and_repair_charges_more(written: Path, damage: str, request_of: MakeRequest) -> None:
    sql(written, damage)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger(written)
    _repaired_charges_more(written, request_of, at_least=8)


def _repaired_charges_more(path: Path, request_of: MakeRequest, at_least: int) -> None:
    """Every window is closed until granted, lifetimes keep what could be read, the tools find a whole record."""
    if place.repair_file(path, at=LATER, reason="disk failure") is None:
        return
    ledger, limits = SqliteLedger(path), Limits(Limit(100 * MICRO, 0, "month"), Limit(100 * MICRO, 0, "year"))
    for role in ("r0", "new"):
        with pytest.raises(BudgetExhausted, match="role"):
            charge(ledger, request_of(1, role=role, limits=limits, at=LATER))
    standing = ledger.standing("shop", "dataset", "shop", limits.dataset, LATER)
    assert (standing.left_epsilon, standing.spent_epsilon) == (0, 100 * MICRO)
    assert standing.charges >= at_least
    for scope, name in (("role", "r0"), ("dataset", "shop")):
        ledger.grant(Grant("shop", scope, name, MICRO, 0, "checked by hand", LATER))  # type: ignore[arg-type]
    charge(ledger, request_of(MICRO, role="r0", limits=limits, at=LATER))
    with pytest.raises(BudgetExhausted):
        charge(ledger, request_of(1, role="r0", limits=limits, at=LATER))
    june = LATER + dt.timedelta(days=30)
    standing = ledger.standing("shop", "role", "r0", limits.role, june)
    assert standing.left_epsilon == 100 * MICRO
    ledger.close()
    assert record.verify(SqliteReader(path)).entries > at_least
    assert place.repair_file(path, at=LATER, reason="again") is None
    assert list(path.parent.glob("*.damaged-*"))


def test_a_lost_log_is_detected(path: Path, request_of: MakeRequest) -> None:
    """The main file alone, as a careless copy leaves it: consistent in itself, but older than its anchor."""
    ledger = SqliteLedger(path)
    for _ in range(3):
        charge(ledger, request_of())
    names = ("", "-wal", ".anchor")
    kept = {n: path.with_name(path.name + n).read_bytes() for n in names}
    ledger.close()
    path.write_bytes(kept[""])
    path.with_name(path.name + ".anchor").write_bytes(kept[".anchor"])
    with pytest.raises(LedgerCorrupt, match="anchor"):
        SqliteLedger(path)
    _repaired_charges_more(path, request_of, at_least=0)


def test_a_missing_or_broken_anchor_is_detected(written: Path, request_of: MakeRequest) -> None:
    anchor = written.with_name(written.name + ".anchor")
    anchor.write_text("{")
    with pytest.raises(LedgerCorrupt, match="anchor"):
        SqliteLedger(written)
    anchor.unlink()
    with pytest.raises(LedgerCorrupt, match="anchor"):
        SqliteLedger(written)
    _repaired_charges_more(written, request_of, at_least=10)


def test_a_vanished_ledger_is_not_begun_anew(written: Path, request_of: MakeRequest) -> None:
    written.unlink()
    with pytest.raises(LedgerCorrupt):
        SqliteLedger(written)
    _repaired_charges_more(written, request_of, at_least=0)


def test_a_truncated_file_is_detected(written: Path, request_of: MakeRequest) -> None:
    os.truncate(written, 6000)
    with pytest.raises(LedgerError):
        SqliteLedger(written)
    _repaired_charges_more(written, request_of, at_least=0)


def test_rubbish_is_no_ledger(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(LedgerError):
        SqliteLedger(path)


def test_repair_leaves_a_sealed_ledger_without_its_key_alone(path: Path, request_of: MakeRequest) -> None:
    ledger = SqliteLedger(path, key=b"k")
    charge(ledger, request_of())
    ledger.close()
    before = record.verify(SqliteReader(path), key=b"k")
    with pytest.raises(LedgerError, match="key"):
        place.repair_file(path, at=LATER, reason="no key")
    assert record.verify(SqliteReader(path), key=b"k") == before


def test_another_version_is_refused(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpproxy.ledger.entries.ORDERS", (2.0,))
    with pytest.raises(LedgerError, match="version"):
        SqliteLedger(written)


def test_export_verifies_and_tells_changes(written: Path) -> None:
    out = io.StringIO()
    done = record.export(SqliteReader(written), out)
    lines = out.getvalue().splitlines()
    assert record.verify_export(lines) == done == record.verify(SqliteReader(written))
    assert (done.entries, len(lines)) == (11, 12)
    for bad in (lines[:-1], lines[1:], lines[:5] + lines[6:], [*lines, lines[3]], ["{}", *lines]):
        with pytest.raises(LedgerCorrupt):
            record.verify_export(bad)
    changed = [line.replace("1000000", "1") if i == 4 else line for i, line in enumerate(lines)]
    with pytest.raises(LedgerCorrupt, match="entry 5"):
        record.verify_export(changed)


def test_a_signed_export(path: Path, request_of: MakeRequest) -> None:
    ledger = SqliteLedger(path, key=b"k")
    charge(ledger, request_of())
    out = io.StringIO()
    record.export(SqliteReader(path), out, key=b"k")  # while the ledger is open
    ledger.close()
    record.verify_export(out.getvalue().splitlines(), key=b"k")
    with pytest.raises(LedgerCorrupt, match="signed"):
        record.verify_export(out.getvalue().splitlines(), key=b"other")


def test_show_filters(written: Path) -> None:
    assert len(list(record.show(SqliteReader(written)))) == 10
    assert [s for s, _ in record.show(SqliteReader(written), role="r1")] == [3, 5, 7, 9, 11]
    assert len(list(record.show(SqliteReader(written), since=NOON + dt.timedelta(minutes=8)))) == 2
    assert not list(record.show(SqliteReader(written), dataset="other"))


def test_a_backup_while_running_is_whole_but_needs_repair(path: Path, request_of: MakeRequest, tmp_path: Path) -> None:
    ledger = SqliteLedger(path)
    charge(ledger, request_of())
    copy = tmp_path / "copy.sqlite"
    place.backup(path, copy)
    charge(ledger, request_of())
    assert record.verify(SqliteReader(copy)).entries == 2
    with pytest.raises(LedgerCorrupt, match="older copy"):
        SqliteLedger(copy)
    with pytest.raises(LedgerError, match="exists"):
        place.backup(path, copy)
    ledger.close()


def test_a_full_disk_charges_nobody_until_there_is_room(
    path: Path, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_full(path: Path) -> sqlite3.Connection:
        db = connect(path)
        db.execute("PRAGMA max_page_count = 20")
        return db

    with monkeypatch.context() as full:
        full.setattr("dpproxy.records.sqlite.connect", connect_full)
        ledger = SqliteLedger(path)
        done = 0
        while ledger.submit(request_of()).exception() is None:
            done += 1
        with pytest.raises(LedgerError, match="full"):
            charge(ledger, request_of())
    charge(ledger, request_of())
    assert ledger.standing("shop", "role", "analyst", Limit(10**9), NOON).charges == done + 1
    ledger.close()
    assert record.verify(SqliteReader(path)).entries == done + 2


def test_a_read_only_ledger_is_refused_at_start(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect_read_only(path: Path) -> sqlite3.Connection:
        db = connect(path)
        db.execute("PRAGMA query_only = ON")
        return db

    monkeypatch.setattr("dpproxy.records.sqlite.connect", connect_read_only)
    with pytest.raises(LedgerError, match="readonly"):
        SqliteLedger(written)


def test_a_file_size_limit_charges_nobody(path: Path) -> None:
    """RLIMIT_FSIZE makes writes fail in the middle of a commit: acknowledged charges stay, no others are claimed."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
        f"sys.argv = ['w', {str(path)!r}, '100000', '1']; "
        "sys.path.insert(0, sys.argv[0]); import runpy; "
        f"runpy.run_path({str(WRITER)!r}, run_name='__main__')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    acknowledged = set(result.stdout.split()) - {"ready"}
    assert "cannot be written" in result.stderr
    assert len(acknowledged) > 20
    _holds(path, acknowledged)


def _holds(path: Path, acknowledged: set[str]) -> int:
    """Opens what a crash left; every acknowledged charge is there. Returns how many charges there are."""
    SqliteLedger(path).close()
    charged = {entry.id for _, entry in record.show(SqliteReader(path))}  # type: ignore[union-attr]
    assert acknowledged <= charged
    return len(charged)


def kill_while_charging(path: Path, acknowledged: set[str], threads: int, seconds: float) -> None:
    """Start the writer, kill it after `seconds` of charging, and add what it acknowledged."""
    process = subprocess.Popen([sys.executable, str(WRITER), str(path), "1000000", str(threads)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().decode()
    process.wait()
    process.stdout.close()
    acknowledged |= {line for line in rest.split("\n")[:-1] if line}


def _kill_loop(path: Path, kills: int) -> tuple[int, int]:
    acknowledged: set[str] = set()
    random_source = random.Random(7)
    charged = 0
    for _ in range(kills):
        kill_while_charging(path, acknowledged, random_source.choice([1, 8]), random_source.uniform(0.005, 0.06))
        charged = _holds(path, acknowledged)
    return len(acknowledged), charged


def test_kill_loses_no_charge(path: Path) -> None:
    acknowledged, charged = _kill_loop(path, 4)
    assert acknowledged > 0
    assert charged - acknowledged <= 4 * 8  # at most those under way at each kill


@pytest.mark.long
def test_two_hundred_kills(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    acknowledged, charged = _kill_loop(path, 200)
    with capsys.disabled():
        print(f"\n200 kills: {acknowledged} acknowledged, {charged} charged, 0 lost")


def test_the_same_loss_on_disk_and_in_memory(path: Path, request_of: MakeRequest) -> None:
    """A restart sums up what the running ledger had summed up, over windows that have passed as well."""
    ledger, limit = SqliteLedger(path), Limit(10**12, 10**15, "quarter")
    rng = random.Random(3)
    at = NOON
    for _ in range(200):
        at += dt.timedelta(hours=rng.randrange(60))
        query = request_of(
            rng.randrange(1, MICRO), at=at, role=rng.choice("ab"), delta=rng.randrange(9), limits=Limits(limit, limit)
        )
        charge(ledger, query)
    names = [("role", "a"), ("role", "b"), ("user", "ada"), ("dataset", "shop")]
    before = [ledger.standing("shop", scope, name, limit, at) for scope, name in names]  # type: ignore[arg-type]
    ledger.close()
    ledger = SqliteLedger(path)
    assert [ledger.standing("shop", scope, name, limit, at) for scope, name in names] == before  # type: ignore[arg-type]
    assert before[0].lifetime_epsilon > before[0].spent_epsilon > 0
    assert Loss(0) == Loss.from_json(Loss(0).to_json())
    ledger.close()
