"""A chain carried on by hand, without a store: checkpoints when due, a charge of one id once, rows checked as they are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.book import Book
from dpproxy.ledger.entries import CHECKPOINT_EVERY, NO_HASH, Head, Opened, decode
from dpproxy.ledger.journal import MAX_JUMP
from dpproxy.ledger.ledger import BudgetExhausted, LedgerCorrupt, LedgerError, Limits
from dpproxy.ledger.transaction import Transaction, replay
from dpproxy.privacy.accountant import Limit

from .conftest import NOON, MakeRequest


@pytest.fixture
def tx() -> Transaction:
    made = Transaction(Book(MAX_JUMP), NO_HASH)
    made.append(Opened("x"))
    return made


def test_a_checkpoint_follows_when_it_is_due(tx: Transaction, request_of: MakeRequest) -> None:
    for _ in range(CHECKPOINT_EVERY):
        tx.charge(request_of())
    kinds = [type(decode(row.body)[1]).__name__ for row in tx.rows]
    assert kinds.index("Checkpoint") == CHECKPOINT_EVERY - 1
    assert kinds.count("Checkpoint") == 1
    assert [row.sequence for row in tx.rows] == list(range(1, len(kinds) + 1))


def test_an_id_is_charged_once(tx: Transaction, request_of: MakeRequest) -> None:
    request = request_of()
    done, rows = tx.charge(request), len(tx.rows)
    assert tx.charge(request) is done
    assert len(tx.rows) == rows
    with pytest.raises(LedgerError, match="another statement"):
        tx.charge(replace(request, statement="another"))


def test_what_is_refused_leaves_no_row(tx: Transaction, request_of: MakeRequest) -> None:
    rows, digest = list(tx.rows), tx.digest
    with pytest.raises(BudgetExhausted):
        tx.charge(request_of(2 * MICRO, limits=Limits(Limit(MICRO), Limit(MICRO))))
    assert (tx.rows, tx.digest) == (rows, digest)


def test_rows_are_taken_up_as_they_were_written(tx: Transaction, request_of: MakeRequest) -> None:
    for i in range(5):
        tx.charge(request_of(role=f"r{i}"))
    stored, book = [(row.body, row.hash) for row in tx.rows], Book(MAX_JUMP)
    assert replay(book, Head().hash, stored) == tx.digest
    limit = Limit(10 * MICRO)
    for role in ("r0", "r4", "nobody"):
        account = ("shop", "role", role)
        assert book.standing(account, limit, NOON) == tx.book.standing(account, limit, NOON)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [0, 3])
def test_a_changed_or_missing_row_is_noticed(place: int, tx: Transaction, request_of: MakeRequest) -> None:
    for _ in range(4):
        tx.charge(request_of())
    stored = [(row.body, row.hash) for row in tx.rows]
    missing = stored[:place] + stored[place + 1 :]
    changed = [*stored[:place], (stored[place][0] + " ", stored[place][1]), *stored[place + 1 :]]
    for broken in (missing, changed):
        with pytest.raises(LedgerCorrupt, match=f"entry {place + 1} "):
            replay(Book(MAX_JUMP), Head().hash, broken)
