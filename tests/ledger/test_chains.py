"""Checkpoints: a start adds up what came after the last one, hashes all of it, and knows exactly what a long one knows."""

from __future__ import annotations

import datetime as dt
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger import book as books
from dpproxy.ledger.book import Book
from dpproxy.ledger.entries import NO_HASH, Checkpoint, ClockWrong, Head, Named, Opened, decode, encode, link
from dpproxy.ledger.journal import MAX_JUMP, Journal
from dpproxy.ledger.ledger import Grant, LedgerCorrupt, LedgerError, Limits, charge
from dpproxy.ledger.states import State, decoded, encoded
from dpproxy.ledger.transaction import Transaction
from dpproxy.privacy.accountant import Limit
from dpproxy.records import place, record
from dpproxy.records.place import SqliteReader
from dpproxy.records.postgres import PostgresReader
from dpproxy.records.sqlite import SqliteLedger, SqliteStore

from .conftest import NOON, MakeRequest

OpenLedger = Callable[..., Journal]

MONTHLY = Limit(1000 * MICRO, 10**12, "month")
ENOUGH = Limits(MONTHLY, MONTHLY)
ACCOUNTS = [("role", "r0"), ("role", "r1"), ("user", "ada"), ("dataset", "shop"), ("role", "new")]


def checkpoints(patch: pytest.MonkeyPatch, every: int) -> None:
    """Let writers and readers have a checkpoint after so many entries."""
    for module in ("transaction", "chains"):
        patch.setattr(f"dpproxy.ledger.{module}.CHECKPOINT_EVERY", every)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints(monkeypatch, 10)


def fill(ledger: Journal, request_of: MakeRequest, count: int = 34) -> None:
    for i in range(count):
        at = NOON + dt.timedelta(days=i)
        charge(ledger, request_of(1000 + i, role=f"r{i % 2}", delta=i, at=at, limits=ENOUGH))
        if i % 9 == 0:
            ledger.grant(Grant("shop", "role", "r1", 7, 0, "why", at))


def standings(ledger: Journal) -> list[object]:
    at = NOON + dt.timedelta(days=40)
    limits = (MONTHLY, Limit(10**9, 10**12, "year"), Limit(10**9))
    return [ledger.standing("shop", s, n, limit, at) for s, n in ACCOUNTS for limit in limits]  # type: ignore[arg-type]


def test_a_start_from_a_checkpoint_knows_the_same(
    open_ledger: OpenLedger, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger()
    fill(ledger, request_of)
    before = standings(ledger)
    ledger.close()
    applied: list[int] = []
    follow = books.Book._follow

    def counted(self: books.Book, sequence: int, entry: Any) -> None:
        applied.append(sequence)
        follow(self, sequence, entry)

    monkeypatch.setattr(books.Book, "_follow", counted)
    ledger = open_ledger()
    assert standings(ledger) == before
    assert ledger.identity("shop")
    assert min(applied) == 41, "42 entries: what is before the checkpoint at 40 is not added up again"
    fill(ledger, request_of, 1)
    ledger.close()


def test_a_start_without_its_checkpoint_takes_longer(
    open_ledger: OpenLedger, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger()
    fill(ledger, request_of)
    before = standings(ledger)
    ledger.close()
    checkpoints(monkeypatch, 13)
    ledger = open_ledger()
    assert standings(ledger) == before
    ledger.close()


DAMAGE = {
    "a charge before the checkpoint": "UPDATE entries SET body = replace(body, '\"epsilon\":1003', '\"epsilon\":1') WHERE sequence = 6",
    "a lost charge before it": "DELETE FROM entries WHERE sequence = 5",
    "a checkpoint": "UPDATE entries SET body = replace(body, '1003', '1') WHERE sequence = 40",
    "a hash before it": "UPDATE entries SET hash = zeroblob(32) WHERE sequence = 7",
    "the end": "DELETE FROM entries WHERE sequence >= 41",
    "what checkpoints are found by": "UPDATE entries SET id = NULL WHERE id LIKE 'checkpoint %'",
    "what a charge is found by": "UPDATE entries SET id = 'another' WHERE sequence = 6",
    "the end, with the head": "UPDATE head SET sequence = 40, hash = (SELECT hash FROM entries WHERE sequence = 40)",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_tampering_is_detected_all_the_same(damage: str, tmp_path: Path, request_of: MakeRequest) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path)
    fill(ledger, request_of)
    ledger.close()
    with sqlite3.connect(path) as db:
        assert db.execute(DAMAGE[damage]).rowcount
    db.close()
    with pytest.raises(LedgerCorrupt):
        SqliteLedger(path)
    assert place.repair_file(path, at=NOON + dt.timedelta(days=50), reason="tampered") is not None
    SqliteLedger(path).close()


def forged(path: Path, sequence: int, change: Callable[[str], str]) -> None:
    """As by somebody who knows the format but has no key: the entry changed, and every hash after it."""
    db = sqlite3.connect(path)
    digest = NO_HASH
    for n, body in db.execute("SELECT sequence, body FROM entries ORDER BY sequence").fetchall():
        body = change(body) if n == sequence else body
        digest = link(digest, body)
        db.execute("UPDATE entries SET body = ?, hash = ? WHERE sequence = ?", (body, digest, n))
    db.execute("UPDATE head SET hash = ?", (digest,))
    db.commit()
    db.close()
    anchor = path.with_name(path.name + ".anchor")
    data = json.loads(anchor.read_text())
    anchor.write_text(json.dumps(data | {"hash": digest.hex()}).ljust(127) + "\n")


def test_an_export_has_its_checkpoints(tmp_path: Path, request_of: MakeRequest) -> None:
    path, out = tmp_path / "ledger.sqlite", io.StringIO()
    ledger = SqliteLedger(path)
    fill(ledger, request_of)
    ledger.close()
    done = record.export(SqliteReader(path), out)
    assert record.verify_export(out.getvalue().splitlines()) == done
    assert out.getvalue().count("checkpoint") == 4
    assert [s for s, _ in record.show(SqliteReader(path))][:10] == [2, 3, 4, 5, 6, 7, 8, 9, 11, 12]


@pytest.mark.parametrize("every", [10, 13])
def test_where_accounts_stand_without_opening_the_ledger(
    open_ledger: OpenLedger, request_of: MakeRequest, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    ledger = open_ledger()
    fill(ledger, request_of)
    before = standings(ledger)
    ledger.close()
    monkeypatch.setattr("dpproxy.records.record.CHECKPOINT_EVERY", every)
    book, at = record.current(reader_of(ledger, request)), NOON + dt.timedelta(days=40)
    limits = (MONTHLY, Limit(10**9, 10**12, "year"), Limit(10**9))
    assert [book.standing(("shop", s, n), limit, at) for s, n in ACCOUNTS for limit in limits] == before  # type: ignore[arg-type]


def reader_of(ledger: Journal, request: pytest.FixtureRequest) -> record.Reader:
    if isinstance(ledger, SqliteLedger):
        return SqliteReader(ledger.path)
    return PostgresReader(request.getfixturevalue("postgres").dsn, "shop")


def test_verify_adds_up_what_a_checkpoint_says(tmp_path: Path, request_of: MakeRequest) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path)
    fill(ledger, request_of)
    ledger.close()
    record.verify(SqliteReader(path))
    forged(path, 40, lambda body: body.replace('"epsilon":', '"epsilon":1', 1))
    with pytest.raises(LedgerCorrupt, match="checkpoint"):
        record.verify(SqliteReader(path))


def test_a_forger_without_the_key_is_detected_at_start(tmp_path: Path, request_of: MakeRequest) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path, key=b"k" * 32)
    fill(ledger, request_of)
    ledger.close()
    forged(path, 40, lambda body: body.replace('"epsilon":', '"epsilon":1', 1))
    with pytest.raises(LedgerCorrupt, match="seal"):
        SqliteLedger(path, key=b"k" * 32)


def test_a_state_is_read_as_it_was_written(tmp_path: Path, request_of: MakeRequest) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    fill(ledger, request_of, 5)
    ledger.close()
    book = ledger._chains.books[""]
    state = State(book.ledger, book.schema, book.clock, book._exhausted, book._accounts)
    assert decoded(json.loads(json.dumps(encoded(state)))) == state
    for broken in ({}, {"losses": [], "accounts": [["d", "role", "r", 0, 1, None, []]]}, None, {"losses": [{}]}):
        with pytest.raises(LedgerCorrupt):
            decoded(broken)


def as_schema_1(path: Path) -> None:
    """A record as it was before checkpoints."""
    forged(path, 1, lambda body: body.replace('"schema":3', '"schema":1'))


def test_an_older_record_is_carried_on(tmp_path: Path, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.sqlite"
    with monkeypatch.context() as rarely:
        checkpoints(rarely, 1000)
        ledger = SqliteLedger(path)
        fill(ledger, request_of, 8)
        before = standings(ledger)
        ledger.close()
    as_schema_1(path)
    ledger = SqliteLedger(path)
    assert standings(ledger) == before
    fill(ledger, request_of, 9)
    ledger.close()
    SqliteLedger(path).close()
    kinds = [json.loads(body)["kind"] for body, _ in SqliteReader(path).recent(100)]
    assert kinds.count("migrated") == 1
    assert kinds.count("checkpoint") == 1
    record.verify(SqliteReader(path))


def test_a_record_with_checkpoints_that_say_less_is_carried_on(tmp_path: Path, request_of: MakeRequest) -> None:
    """Whoever reads it, from its first entry or from a checkpoint of either schema, knows the same."""
    path, tx = tmp_path / "ledger.sqlite", Transaction(Book(MAX_JUMP), NO_HASH)
    tx.append(Opened("x", schema=2))
    for i in range(17):
        tx.charge(request_of(1000 + i, at=NOON + i * dt.timedelta(hours=20), limits=ENOUGH))
    store = SqliteStore(path)
    store.begin("", 0)
    store.append("", tx.rows, Head(tx.rows[-1].sequence, tx.rows[-1].hash))
    store.commit()
    store.close()
    ledger = SqliteLedger(path)
    fill(ledger, request_of, 15)
    before = standings(ledger)
    ledger.close()
    bodies = [json.loads(body) for body, _ in SqliteReader(path).recent(100)]
    assert ["closures" in b["state"] for b in bodies if b["kind"] == "checkpoint"] == [False, False, True, True]
    record.verify(SqliteReader(path))
    ledger = SqliteLedger(path)
    assert standings(ledger) == before
    ledger.close()


def test_a_later_version_is_refused(tmp_path: Path, request_of: MakeRequest) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path)
    charge(ledger, request_of())
    ledger.close()
    forged(path, 1, lambda body: body.replace('"schema":3', '"schema":4'))
    with pytest.raises(LedgerError, match="another version"):
        SqliteLedger(path)
    forged(path, 1, lambda body: body.replace('"schema":4', '"schema":3'))
    SqliteLedger(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(LedgerError, match="later version"):
        SqliteLedger(path)


def test_entries_of_every_kind_are_read_as_written() -> None:
    checkpoint = Checkpoint(encoded(State("x", 2, NOON, None, {})))
    words = ClockWrong(NOON, "why"), Named(NOON, "shop", "store", "digest", "why")
    for sequence, entry in ((1, Opened("x")), (20, checkpoint), *enumerate(words, 21)):
        assert decode(encode(entry, sequence)) == (sequence, entry)


def test_recent_charges_are_of_one_dataset(
    open_ledger: OpenLedger, request_of: MakeRequest, request: pytest.FixtureRequest
) -> None:
    ledger = open_ledger()
    fill(ledger, request_of, 12)
    charge(ledger, request_of(5, dataset="clinic", at=NOON + dt.timedelta(days=40)))
    ledger.close()
    reader = reader_of(ledger, request)
    assert [c.loss.epsilon for c in record.recent(reader, "shop", 5)][-1] == 1011
    assert len(record.recent(reader, "shop", 100)) == 12
