"""A SQLite ledger's files in an operator's hands: read and copied while it is open, repaired when they are damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.ledger import LedgerError, charge
from dpproxy.privacy.accountant import Limit
from dpproxy.records.place import SqliteReader, backup, repair_file
from dpproxy.records.record import current, show, verify
from dpproxy.records.sqlite import SqliteLedger
from tests.ledger.conftest import NOON, make_request


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a ledger with three charges, closed."""
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    for _ in range(3):
        charge(ledger, make_request())
    ledger.close()
    return tmp_path / "ledger.sqlite"


def test_reading_beside_a_writer(path: Path) -> None:
    ledger = SqliteLedger(path)
    with SqliteReader(path).snapshot() as (head, rows):
        charge(ledger, make_request())
        assert sum(1 for _ in rows) == head.sequence  # as it was when reading began
    assert verify(SqliteReader(path)).entries == head.sequence + 1
    assert len(SqliteReader(path).recent(2)) == 2
    ledger.close()


def test_no_file_no_record(tmp_path: Path) -> None:
    reader = SqliteReader(tmp_path / "none")
    with pytest.raises(LedgerError, match="there is no ledger"), reader.snapshot():
        pass
    assert reader.recent(5) == []
    with pytest.raises(LedgerError, match="there is no ledger"):
        repair_file(tmp_path / "none", at=NOON, reason="")


def test_a_copy_is_the_record(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    backup(path, copy)
    assert verify(SqliteReader(copy)) == verify(SqliteReader(path))
    assert copy.stat().st_mode & 0o777 == 0o600
    with pytest.raises(LedgerError, match="exists already"):
        backup(path, copy)
    with pytest.raises(LedgerError):
        SqliteLedger(copy)  # charges made after it would be lost with it


def test_what_is_whole_is_left_alone(path: Path) -> None:
    before = verify(SqliteReader(path))
    assert repair_file(path, at=NOON, reason="none") is None
    assert verify(SqliteReader(path)) == before
    assert not list(path.parent.glob("*.damaged-*"))


def test_repair_charges_more_and_keeps_the_damaged_files(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE entries SET body = replace(body, 'ada', 'eve') WHERE sequence = 3")
        db.commit()
    found = repair_file(path, at=NOON, reason="disk")
    assert found is not None
    reader = SqliteReader(path)
    assert sum(1 for _, entry in show(reader) if type(entry).__name__ == "Charge") == 3
    assert current(reader).standing(("shop", "role", "analyst"), Limit(100 * MICRO), NOON).left_epsilon == 0
    assert list(path.parent.glob(f"{path.name}.damaged-*"))
    assert repair_file(path, at=NOON, reason="again") is None


def test_a_missing_entry_is_damage_and_a_ledger_in_use_is_not_repaired(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM entries WHERE sequence = 2")
        db.commit()
    assert repair_file(path, at=NOON, reason="lost") is not None
    ledger = SqliteLedger(path)
    with pytest.raises(LedgerError):
        repair_file(path, at=NOON, reason="lost")
    ledger.close()
