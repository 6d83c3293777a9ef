"""What is said of choices of bounds, counted by the engine and by hand."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dpproxy.authoring.bounds_choices import Effect, Key, KeyCounts, Spread, counted, displaced, effects, error
from dpproxy.authoring.workbench import open_workbench
from dpproxy.backends.duckdb import DuckDB
from dpproxy.cli import commands
from dpproxy.policy.model import Bounds, DuckDBBackend
from dpproxy.table_terms import TableName

from .worlds import BASE, VERIFIER

ORDERS = TableName("public", "orders")
EMPTY = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, region VARCHAR, born SMALLINT, vip BOOLEAN, signup DATE, email VARCHAR);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, buyer INTEGER, ts TIMESTAMP, amount DECIMAL(8, 2), items INTEGER,
  category VARCHAR);
CREATE TABLE order_items (item INTEGER PRIMARY KEY, order_id INTEGER, product_id INTEGER, quantity INTEGER, note VARCHAR,
  extras INTEGER[], spare INTEGER);
CREATE TABLE products (product_id INTEGER, name VARCHAR);
INSERT INTO customers SELECT i, 'north', 1960, true, DATE '2021-01-01', 'x' FROM range(200) AS t(i);
"""


def shop(folder: Path, orders: list[tuple[int | None, int]]) -> Path:
    """A policy over orders, each of a buyer and of so many items."""
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(EMPTY)
        for number, (buyer, items) in enumerate(orders):
            row = [number, buyer, items]
            connection.execute("INSERT INTO orders VALUES ($1, $2, TIMESTAMP '2024-06-01', 5, $3, 'toys')", row)
    path = folder / "p.yaml"
    path.write_text(BASE.replace("VERIFIER", VERIFIER))
    return path


def shares(numbers: list[int]) -> Spread:
    """The least numbers that 50, 90, 99 and 100 % of a list do not exceed."""
    high = sorted(numbers)
    return Spread(*(next(n for i, n in enumerate(high, 1) if 100 * i >= share * len(high)) for share in (50, 90, 99, 100)))


@pytest.mark.parametrize("seed", range(3))
def test_counts_and_what_is_kept(seed: int, tmp_path: Path) -> None:
    """Groups are the declared numbers of items, 1 to 3; orders of four are in none, those without a buyer are nobody's."""
    draw = random.Random(seed)
    orders = [
        (None if draw.random() < 0.05 else int(30 * draw.random() ** 3), draw.choice([1, 1, 1, 2, 3, 4])) for _ in range(300)
    ]
    path = shop(tmp_path, orders)
    work = asyncio.run(open_workbench(path))
    table, role = work.loaded.policy.tables[ORDERS], work.loaded.policy.roles["analyst"]
    backend = DuckDB(DuckDBBackend(str(tmp_path / "shop.duckdb")), 1)
    counts = asyncio.run(counted(work.bench.catalog, table, role, backend))

    people = Counter(buyer for buyer, _ in orders if buyer is not None)
    pairs = Counter((buyer, items) for buyer, items in orders if buyer is not None and items < 4)
    reached = Counter(buyer for buyer, _ in pairs)
    assert (counts.rows, counts.people, counts.spread) == (people.total(), len(people), shares(list(people.values())))
    by_items = counts.keys[0]
    assert by_items.key.name == "`items`"
    assert (by_items.number, by_items.total) == (3, pairs.total())
    assert by_items.rows == shares(
        list(Counter({i: sum(n for (_, j), n in pairs.items() if i == j) for i in (1, 2, 3)}).values())
    )
    assert by_items.groups == shares(list(reached.values()))
    assert by_items.shared == shares(list(pairs.values()))

    for bounds in (Bounds(4, None, True), Bounds(2, None), Bounds(2, 1)):
        (effect, *_) = asyncio.run(effects(work.bench, table, role, counts, bounds, backend))
        each = {b: [n for (c, _), n in pairs.items() if c == b] for b in reached}
        if bounds.whole:
            kept = sum(min(sum(rows), bounds.rows) for rows in each.values())
        else:
            part = {b: min(1.0, (bounds.groups or len(rows)) / len(rows)) for b, rows in each.items()}
            kept = round(sum(sum(min(n, bounds.rows) for n in rows) * part[b] for b, rows in each.items()))
        assert abs(effect.kept - kept) <= 1
        assert effect.noise is not None
        assert effect.noise > 0
    asyncio.run(backend.close())


COUNTS = KeyCounts(Key("k", "k", "k", "true", True), 4, 1000, Spread(100, 200, 200, 200), Spread(1, 2, 2, 2), Spread(1, 2, 3, 9))


@pytest.mark.parametrize(
    ("effect", "off", "ranks"),
    [
        (Effect(1000, 10.0, 20), 0.1, 20.0),
        (Effect(500, 10.0, 20), 0.6, 40.0),
        (Effect(1000, 500.0, 90), 1.0, 50),
        (Effect(1000, None, None, "no"), 1.0, 50),
    ],
)
def test_how_far_off(effect: Effect, off: float, ranks: float) -> None:
    """Of a group of median size, 100 rows: what is cut and what is noise, and by how many percentiles a median is off."""
    assert error(COUNTS, effect) == pytest.approx(off)
    assert displaced(COUNTS, effect) == pytest.approx(ranks)


def said(path: Path, *options: str) -> str:
    return CliRunner().invoke(commands, ["policy", "bounds", str(path), *options]).output


def test_the_command(tmp_path: Path) -> None:
    """150 customers of two orders each: `rows: 2` cuts nothing and has far less noise than what is written."""
    path = shop(tmp_path, [(i % 150, 1 + i % 2) for i in range(300)])
    text = said(path, "--table", "orders")
    assert text.splitlines()[0] == "[exact: for the author alone, not for analysts]"
    assert "orders: 300 rows of 150 customers" in text
    assert "rows of a customer: half at most 2, 90 % 2, 99 % 2, all 2" in text
    assert "(as written) | 0 % |" in text
    assert "| `rows: 2` | 0 % | 89 (59 %) | any value |" in text
    assert "Write `bounds: { rows: 2 }`: counts of these groups are off by about" in text


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [("--table", "customers", "`customers` has no bounds to choose"), ("--role", "analist", "did you mean `analyst`?")],
)
def test_what_there_is_not(option: str, value: str, what: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(commands, ["policy", "bounds", str(shop(tmp_path, [])), option, value])
    assert what in f"{done.exception}{done.output}"
