"""Damaged ledgers: whatever has become of the files, operators are told a sentence, and nothing that was spent is free again."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dpproxy.cli import app
from dpproxy.ledger.entries import encode
from dpproxy.ledger.ledger import Charge, LedgerCorrupt, LedgerError, charge
from dpproxy.records.place import SqliteReader, repair_file
from dpproxy.records.record import current, export, recent, show, verify, verify_export
from dpproxy.records.sqlite import SqliteLedger
from tests.ledger.conftest import NOON, make_request

CHARGES = 3
COLUMNS = {"entries": ("sequence", "id", "body", "hash"), "head": ("sequence", "hash", "seal")}
VALUES = {
    "nothing": None, "a blob": b"\xff\xfe", "a number": 7, "another number": -(2**63), "a fraction": 1.5, "no text": "",
    "a text": "x", "a long text": "x" * 1_000_000, "a long blob": b"\0" * 1_000_000, "JSON": "[]", "deep JSON": "[" * 100_000,
    "a number of JSON": "1e999",
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger of three charges, closed."""
    folder = tmp_path_factory.mktemp("ledger")
    ledger = SqliteLedger(folder / "ledger.sqlite")
    for _ in range(CHARGES):
        charge(ledger, make_request())
    ledger.close()
    return folder


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "state")
    return tmp_path / "state" / "ledger.sqlite"


def told(path: Path) -> int | None:
    """How many entries a record has that is right, by `verify`; None where it says that it is not. Whoever else reads it is told a
    LedgerError, or what is there. Raises what nobody should see."""
    reader = SqliteReader(path)

    def opened() -> None:
        SqliteLedger(path).close()

    readers: tuple[Callable[[], object], ...] = (
        lambda: [encode(entry, number) for number, entry in show(reader)],
        lambda: current(reader),
        lambda: recent(reader, "shop", 10),
        lambda: export(reader, io.StringIO()),
        opened,
    )
    for read in readers:
        with contextlib.suppress(LedgerError):
            read()
    try:
        return verify(reader).entries
    except LedgerError:
        return None


def loose(path: Path, change: str, *values: object) -> None:
    """Change what a ledger's tables keep from being changed: their types, NOT NULL, what is unique."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table, columns in COLUMNS.items():
            db.execute(f"CREATE TABLE loose_{table} ({', '.join(columns)})")
            db.execute(f"INSERT INTO loose_{table} SELECT {', '.join(columns)} FROM {table}")
            db.execute(f"DROP TABLE {table}")
            db.execute(f"ALTER TABLE loose_{table} RENAME TO {table}")
        db.execute(change, values)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def repaired(path: Path) -> int:
    """How many charges a repaired record has."""
    assert repair_file(path, at=NOON, reason="damage") is not None
    assert verify(SqliteReader(path)).entries
    return sum(isinstance(entry, Charge) for _, entry in show(SqliteReader(path)))


def test_what_is_whole_is_right(path: Path) -> None:
    assert told(path) == CHARGES + 1
    loose(path, "UPDATE head SET sequence = sequence")
    assert told(path) == CHARGES + 1, "by what it holds, not by how its tables are made"


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("table", "column"), [(t, c) for t, columns in COLUMNS.items() for c in columns])
def test_a_column_that_holds_anything(path: Path, table: str, column: str, value: str) -> None:
    row = "WHERE sequence = 3" if table == "entries" else ""
    same = (column, VALUES[value]) == ("seal", None)
    loose(path, f"UPDATE {table} SET {column} = ? {row}", VALUES[value])
    assert told(path) == (CHARGES + 1 if same else None)
    if column == "seal" and isinstance(VALUES[value], bytes):
        with pytest.raises(LedgerError, match="configure the key"):
            repair_file(path, at=NOON, reason="damage")
    elif not same:
        assert repaired(path) >= CHARGES - (column == "body")


@pytest.mark.parametrize("change", [
    "UPDATE entries SET id = NULL WHERE sequence = 2", "UPDATE entries SET id = 'x' WHERE sequence = 1",
    "UPDATE entries SET id = (SELECT id FROM entries WHERE sequence = 3) WHERE sequence = 2",
    "UPDATE entries SET sequence = 7 WHERE sequence = 4", "UPDATE entries SET id = id || char(0)",
])  # fmt: skip
def test_what_entries_are_found_by_says_what_they_say(path: Path, change: str) -> None:
    """A charge that is not found by its id would be charged again, or taken for another."""
    loose(path, change)
    assert told(path) is None
    assert repaired(path) == CHARGES


def damage(text: bytes, chance: random.Random) -> bytes:
    """A few bytes of a file are others, missing or too many."""
    data = bytearray(text)
    for _ in range(chance.choice((1, 1, 3, 30))):
        place = chance.randrange(len(data) or 1)
        match chance.randrange(5):
            case 0 | 1:
                data[place : place + 1] = bytes(byte ^ 1 << chance.randrange(8) for byte in data[place : place + 1])
            case 2:
                data[place : place + 8] = bytes(chance.choices(range(256), k=8))
            case 3:
                data[place : place + chance.choice((1, 64, 4096))] = b""
            case _:
                data[place:place] = b"\xff" * chance.choice((1, 16))
    return bytes(data) or b"x"


@pytest.mark.parametrize("of", ["ledger.sqlite", "ledger.sqlite.anchor"])
def test_bytes_that_are_others(path: Path, of: str, whole: Path) -> None:
    """Either nobody can see it, or everybody is told."""
    seen = {"right": 0, "told": 0}
    for seed in range(150):
        shutil.copytree(whole, path.parent, dirs_exist_ok=True)
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        file = path.with_name(of)
        file.write_bytes(damage(file.read_bytes(), random.Random(seed)))
        found = told(path)
        assert found in (None, CHARGES + 1), seed
        seen["told" if found is None else "right"] += 1
        with contextlib.suppress(LedgerError):
            repair_file(path, at=NOON, reason="damage")
    assert seen["told" if of == "ledger.sqlite" else "right"] > 50, seen


@pytest.mark.parametrize("line", [
    "[]", "5", "null", '"x"', "{}", '{"entry": 5, "hash": "00"}', '{"entry": "{}", "hash": 5}', '{"head": 5, "signature": null}', "[" * 100_000,
    '{"head": {"sequence": 1e999, "hash": "", "chain": ""}, "signature": null}', '{"entry": "[]", "hash": "zz"}', "\ud800",
])  # fmt: skip
def test_an_export_that_was_written_over(path: Path, line: str) -> None:
    out = io.StringIO()
    export(SqliteReader(path), out)
    lines = out.getvalue().splitlines()
    assert verify_export(lines).entries == CHARGES + 1
    for place in range(len(lines)):
        with pytest.raises(LedgerCorrupt):
            verify_export([*lines[:place], line, *lines[place + 1 :]])


def test_an_operator_is_told_a_sentence(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    loose(path, "UPDATE entries SET body = CAST(x'ff' AS TEXT) WHERE sequence = 3")
    for command in ("verify", "show", "export"):
        monkeypatch.setattr("sys.argv", ["dpproxy", "ledger", command, "--state", str(path.parent)])
        with pytest.raises(SystemExit) as ended:
            app()
        assert ended.value.code == "dpproxy: an entry of the ledger has no text, or no hash", (
            "which Python prints, and ends with 1"
        )
    assert "Traceback" not in capsys.readouterr().err
