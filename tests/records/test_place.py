"""Where a ledger is kept: addresses, secrets, and the tools on a file."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest

from dpproxy.ledger.ledger import LedgerError, charge
from dpproxy.records.place import (
    FILE,
    LEAST_KEY,
    PostgresPlace,
    SqlitePlace,
    begin_anchor,
    ledger_key,
    place_of,
    read_secret,
    repair,
)
from dpproxy.records.record import verify
from tests.ledger.conftest import make_request


@pytest.mark.parametrize("address", ["postgresql://host/db", "postgres:///db?host=/run"])
def test_a_uri_is_a_server(tmp_path: Path, address: str) -> None:
    assert isinstance(place_of(address, tmp_path), PostgresPlace)
    with pytest.raises(LedgerError, match="--anchor"):
        place_of(address, tmp_path, tmp_path / "anchor")


def test_anything_else_is_a_file(tmp_path: Path) -> None:
    assert place_of("somewhere/x", tmp_path) == SqlitePlace(Path("somewhere/x"), None)
    assert place_of(None, tmp_path, tmp_path / "a") == SqlitePlace(tmp_path / FILE, tmp_path / "a")


def test_secrets(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"  " + b"x" * LEAST_KEY + b"\n")
    assert read_secret(file) == b"x" * LEAST_KEY
    assert read_secret(None) is None
    file.write_bytes(b"x" * (LEAST_KEY - 1) + b" \n")
    with pytest.raises(LedgerError, match="fewer than"):
        read_secret(file)
    with pytest.raises(LedgerError, match="cannot be read"):
        read_secret(tmp_path / "none")


def test_the_key_of_the_record_is_no_other_key() -> None:
    assert ledger_key(None) is None
    assert ledger_key(b"secret") == hmac.new(b"secret", b"dpproxy ledger", "sha256").digest()


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_a_file_opened_read_and_copied(tmp_path: Path, key: bytes | None) -> None:
    place = place_of(None, tmp_path)
    ledger = place.open(key)
    charge(ledger, make_request())
    ledger.close()
    assert verify(place.reader(None), key=key).entries >= 2
    place.backup(tmp_path / "copy")
    assert verify(SqlitePlace(tmp_path / "copy", None).reader(None), key=key) == verify(place.reader(None), key=key)
    assert repair(place, None, "nothing", key) is None
    if key:
        with pytest.raises(LedgerError, match="sealed"):
            verify(place.reader(None), key=None)


def test_an_anchor_is_begun_once(tmp_path: Path) -> None:
    bare, place = place_of(None, tmp_path), place_of(None, tmp_path, tmp_path / "outside")
    bare.open(None).close()
    with pytest.raises(LedgerError, match="say where"):
        begin_anchor(bare, None, None)
    begin_anchor(place, None, None)
    with pytest.raises(LedgerError, match="exists already"):
        begin_anchor(place, None, None)
    ledger = place.open(None)
    charge(ledger, make_request())
    ledger.close()
