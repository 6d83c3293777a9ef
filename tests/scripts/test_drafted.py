"""A sketch's decisions reach the draft; what is no decision stays a TODO."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import duckdb
from drafted import drafted

from dpproxy.policy.load import load_file
from dpproxy.policy.model import ColumnRole, Policy
from dpproxy.table_terms import TableName

SKETCH = {
    "unit": "club.members.memid (one row = one person)",
    "private": {
        "members": "memid",
        "bookings": "memid -> members",
        "items": "booking_id -> bookings -> members (also other)",
        "addresses": "reverse: members.address_id -> addresses",
        "odd": "text/user",
    },
    "ids": {"members": ["memid", "surname"]},
    "public": ["facilities"],
    "bounds": {"items.price": [0, 30], "slots": "per kind: a [1,4], b [2,14]", "note": "none"},
    "public_keys": {"kind": ["a", "b"], "month": "calendar"},
    "max_rows_per_unit": {"bookings": "bound 100", "items": 7},
}
TABLES = """
CREATE TABLE members (memid INTEGER, surname VARCHAR, email VARCHAR, address_id INTEGER);
CREATE TABLE bookings (booking_id INTEGER, memid INTEGER, slots INTEGER, kind VARCHAR);
CREATE TABLE items (booking_id INTEGER, price DOUBLE);
CREATE TABLE addresses (address_id INTEGER, city VARCHAR);
CREATE TABLE facilities (facid INTEGER);
CREATE TABLE odd (x INTEGER);
"""


def made(folder: Path) -> Policy:
    with duckdb.connect(str(folder / "club.duckdb")) as connection:
        connection.execute(TABLES)
    (folder / "club.json").write_text(json.dumps(SKETCH))
    return load_file(drafted(folder / "club.json", folder / "club.duckdb", folder)).policy


def test_decisions(tmp_path: Path) -> None:
    tables = {t.name.name: t for t in made(tmp_path).tables.values()}
    assert set(tables) == {"members", "bookings", "items", "addresses", "facilities"}
    assert tables["facilities"].kind.shown
    columns = {c: column.role for c, column in tables["members"].columns.items()}
    assert columns["surname"] is ColumnRole.KEY
    assert columns["email"] is ColumnRole.PLAIN, "the sketch names all identifiers, and this is none of them"
    assert tables["bookings"].bounds.rows == 100
    assert tables["bookings"].columns["slots"].range == (Decimal(1), Decimal(14))
    assert tables["bookings"].columns["kind"].values == ("a", "b")
    assert tables["items"].columns["price"].range == (Decimal(0), Decimal(30))
    steps = {n: [s.target for s in t.unit.steps] for n, t in tables.items() if t.unit}
    assert steps["items"] == [TableName("public", "bookings")]
    assert steps["addresses"] == [TableName("public", "members")]
