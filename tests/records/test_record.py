"""An operator's view of a record, over entries in memory: verified, shown, exported, repaired."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from dpproxy.ledger.entries import NO_HASH, Entry, Exhausted, Head, Opened, Row, decode, row_of, seal
from dpproxy.ledger.ledger import Charge, LedgerCorrupt
from dpproxy.ledger.transaction import Stored
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss
from dpproxy.records.record import current, export, readable, recent, rechained, sealed, show, verify, verify_export
from tests.ledger.conftest import NOON

KEY = b"k" * 32


def charge(number: int, role: str = "a", dataset: str = "shop") -> Charge:
    at = NOON + dt.timedelta(hours=number)
    return Charge(f"id {number}", number, dataset, role, "ada", Loss(number), Loss(number), "hash", at)


ENTRIES: list[Entry] = [Opened("ledger"), charge(2), charge(3, "b"), charge(4, dataset="other"), charge(5)]


def rows_of(entries: list[Entry]) -> list[Row]:
    rows, digest = list[Row](), NO_HASH
    for number, entry in enumerate(entries, 1):
        rows.append(row_of(entry, number, digest))
        digest = rows[-1].hash
    return rows


@dataclass
class Memory:
    """A reader of a list."""

    rows: list[Row] = field(default_factory=lambda: rows_of(ENTRIES))
    head: Head | None = None
    key: bytes | None = None
    chain: str = "shop"

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[tuple[Head, Iterator[Stored]]]:
        last = self.rows[-1]
        mark = seal(self.key, self.chain, last.sequence, last.hash) if self.key else None
        yield self.head or Head(last.sequence, last.hash, mark), iter([(row.body, row.hash) for row in self.rows])

    def recent(self, most: int) -> list[Stored]:
        return [(row.body, row.hash) for row in self.rows[-most:]]


def test_a_whole_record_is_verified() -> None:
    found = verify(Memory())
    assert (found.entries, found.hash) == (5, Memory().rows[-1].hash.hex())
    assert found.last == charge(5).at
    assert verify(Memory(key=KEY), key=KEY) == found


@pytest.mark.parametrize("at", range(5))
def test_any_changed_entry_is_noticed(at: int) -> None:
    rows = rows_of(ENTRIES)
    rows[at] = replace(rows[at], body=rows[at].body.replace('"a"', '"z"').replace("shop", "shap").replace("ledger", "lodger"))
    rows[at] = replace(rows[at], body=rows[at].body + " ")
    with pytest.raises(LedgerCorrupt):
        verify(Memory(rows))


@pytest.mark.parametrize("missing", range(5))
def test_any_missing_entry_is_noticed(missing: int) -> None:
    rows = rows_of(ENTRIES)
    head = Head(5, rows[-1].hash)
    with pytest.raises(LedgerCorrupt):
        verify(Memory(rows[:missing] + rows[missing + 1 :], head))


def test_what_is_shown() -> None:
    assert [n for n, _ in show(Memory())] == [2, 3, 4, 5]
    assert [n for n, _ in show(Memory(), role="a")] == [2, 4, 5]
    assert [n for n, _ in show(Memory(), dataset="shop")] == [2, 3, 5]
    assert [n for n, _ in show(Memory(), since=charge(4).at)] == [4, 5]
    assert [c.sequence for c in recent(Memory(), "shop", 3)] == [3, 5]


def test_where_accounts_stand() -> None:
    standing = current(Memory()).standing(("shop", "role", "a"), Limit(100), charge(5).at)
    assert (standing.charges, standing.lifetime_epsilon) == (2, 2 + 5)


def exported(key: bytes | None = KEY) -> list[str]:
    out = io.StringIO()
    export(Memory(key=key), out, key=key)
    return out.getvalue().splitlines()


def test_an_export_verifies_alone() -> None:
    assert verify_export(exported(), key=KEY) == verify(Memory())
    assert verify_export(exported(None)) == verify(Memory())
    assert [decode(json.loads(line)["entry"])[1] for line in exported()[:-1]] == ENTRIES


@pytest.mark.parametrize("spoil", ["line", "missing", "added", "head", "signature", "garbage"])
def test_a_changed_export_does_not(spoil: str) -> None:
    lines = exported()
    end = json.loads(lines[-1])
    spoiled = {
        "line": [lines[0], lines[1].replace("analyst", "x").replace("ada", "eve"), *lines[2:]],
        "missing": [*lines[:2], *lines[3:]],
        "added": [*lines, lines[1]],
        "head": lines[:-1],
        "signature": [*lines[:-1], json.dumps(end | {"signature": "00" * 32})],
        "garbage": [*lines[:2], "{", *lines[2:]],
    }[spoil]
    with pytest.raises(LedgerCorrupt):
        verify_export(spoiled, key=KEY)


def test_a_repaired_record_keeps_its_charges_and_closes_its_windows() -> None:
    rows = rows_of(ENTRIES)
    broken = [(row.body, row.hash) for row in rows[:2]] + [("{", b""), *((row.body, b"") for row in rows[2:])]
    made = rechained([*readable(broken), charge(2)], NOON, "lost")  # what is there twice is kept once
    entries = [decode(row.body)[1] for row in made]
    assert [getattr(entry, "id", None) for entry in entries] == [None, "id 2", "id 3", "id 4", "id 5", None]
    assert isinstance(entries[-1], Exhausted)
    assert entries[-1].at == charge(5).at  # no time runs backwards
    memory = Memory(made, sealed(made, "shop", KEY))
    assert verify(memory, key=KEY).entries == 6
    assert current(memory).standing(("shop", "role", "a"), Limit(100), charge(5).at).left_epsilon == 0
