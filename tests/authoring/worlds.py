"""A shop to hold policies against, and policies that differ from a good one in one place."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
from ruamel.yaml import YAML

from dpproxy.authoring.check_command import line
from dpproxy.authoring.checking import Depth, findings
from dpproxy.policy.people import make_verifier

HERE = Path(__file__).parent
BASE = (HERE / "base.yaml").read_text()
VERIFIER = make_verifier("x", salt=b"0123456789abcdef")

HEAD = """# Mistakes in policies, and what `dpproxy policy check` says

Each line is a case of `tests/authoring/broken.yaml`: the good policy `tests/authoring/base.yaml` with one part replaced, held against a
small shop. `tests/authoring/test_checking.py` runs all of them, and `python tests/authoring/worlds.py` writes this page. Errors stop the
start; warnings and notes do not.

"""
TABLES = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, region VARCHAR, born SMALLINT, vip BOOLEAN, signup DATE, email VARCHAR);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, buyer INTEGER NOT NULL, ts TIMESTAMP, amount DECIMAL(8, 2), items INTEGER,
  category VARCHAR);
CREATE TABLE order_items (item INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, product_id INTEGER, quantity INTEGER, note VARCHAR,
  extras INTEGER[], spare INTEGER);
CREATE TABLE products (product_id INTEGER, name VARCHAR);
CREATE TABLE contacts (customer_id INTEGER, email VARCHAR);
CREATE TABLE pulses (day DATE, likes BOOLEAN, mood_r BIGINT, device_id VARCHAR);
CREATE SCHEMA clinic;
CREATE TABLE clinic.visits (visit INTEGER);
INSERT INTO customers SELECT i, ['north', 'south'][1 + i % 2], 1950 + i, true, DATE '2021-01-01', 'x' FROM range(20) AS t(i);
INSERT INTO orders SELECT i, i % 20, TIMESTAMP '2024-06-01', 5, 1, 'toys' FROM range(60) AS t(i);
INSERT INTO order_items SELECT i, i % 60, 1, 2, 'x', NULL, i % 60 FROM range(90) AS t(i);
"""


def make(folder: Path) -> Path:
    """Make the shop's database, and files that are none."""
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(TABLES)
        connection.execute(f"COPY clinic.visits TO '{folder / 'visits.parquet'}'")
        connection.execute(f"COPY orders TO '{folder / 'visits.csv'}'")
    with sqlite3.connect(folder / "shop.sqlite") as other:
        other.execute("CREATE TABLE a (b)")
    return folder


def changed(old: str, new: str) -> str:
    """The good policy with one part replaced."""
    assert BASE.count(old) == 1, f"{old!r} must be in base.yaml exactly once"
    return BASE.replace(old, new).replace("VERIFIER", VERIFIER)


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = YAML(typ="safe").load((HERE / "broken.yaml").read_text())
    return found


def said(folder: Path, old: str, new: str) -> list[str]:
    """What `dpproxy policy check` says of the good policy with one part replaced, in a folder made by `make`."""
    path = folder / "p.yaml"
    path.write_text(changed(old, new))
    found = asyncio.run(findings([path], Depth.SHAPES))
    return [line(problem).removeprefix(f"{path}:").replace(str(folder), "FOLDER") for problem in found]


def page() -> str:
    """The page of mistakes, docs/policies/mistakes.md."""
    rows = ["| mistake | line:column | what is said | what to write | code |", "|---|---|---|---|---|"]
    for case in cases():
        for text in case["says"]:
            line_, column, rest = text.split(":", 2)
            what, _, fix = rest.removesuffix("]").strip().rpartition("; fix: ")
            fix, _, code = fix.rpartition(" [")
            cells = [case["name"], f"{line_}:{column}", what, fix, f"`{code}`"]
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
