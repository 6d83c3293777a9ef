"""How far off answers of one statement with several measurements are, beside the same measurements asked one by one.

Knows: the shop of `bench_favourites`, PostgreSQL's protocol. One statement of epsilon 1 asks for counts or sums by category of
two, three and four choices of orders: each is a measurement of its own, and all of them share one charge. Beside it, each
is asked alone at its part of that charge, epsilon 1/2 to 1/4 (with the whole delta, in its favour). Errors are relative,
of every cell, median and 95th percentile; the ratio is that of the medians.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psycopg
from bench_favourites import CATEGORIES, MOST, PASSWORD, POLICY, ROWS, Float64, Orders, made, shop, stored, text

from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import launched

PARTS = (
    ("count(*)", "amount < 20"),
    ("sum(amount)", "amount BETWEEN 20 AND 60"),
    ("count(*)", "amount > 60"),
    ("sum(amount)", "amount > 30"),
)
"""Aggregates and the orders that they are of."""


def truths(orders: Orders) -> list[Float64]:
    """Return what each part is in each category."""
    chosen = (orders.amount < 20, (orders.amount >= 20) & (orders.amount <= 60), orders.amount > 60, orders.amount > 30)
    found = []
    for (aggregate, _), rows in zip(PARTS, chosen, strict=True):
        weights = orders.amount[rows] if aggregate.startswith("sum") else None
        found.append(np.bincount(orders.category[rows], weights, minlength=CATEGORIES).astype(np.float64))
    return found


def part(number: int) -> str:
    aggregate, condition = PARTS[number]
    return f"SELECT category, {aggregate} AS v{number} FROM orders WHERE {condition} GROUP BY category"


def joined(count: int) -> str:
    """Return one statement of the first `count` parts."""
    named = ", ".join(f"p{n} AS ({part(n)})" for n in range(count))
    sources = "p0 " + " ".join(f"JOIN p{n} USING (category)" for n in range(1, count))
    return f"WITH {named} SELECT {', '.join(f'v{n}' for n in range(count))} FROM {sources} ORDER BY category"


def together(answers: int, folder: Path | None = None) -> None:
    """Print the table."""
    folder, orders = folder or shop(), made()
    stored(orders, folder / "favourites.duckdb")
    policy = folder / "together.yaml"
    written = POLICY.format(rows=ROWS, last=CATEGORIES - 1, most=MOST, verifier=make_verifier(PASSWORD))
    policy.write_text(written)
    true = truths(orders)
    with tempfile.TemporaryDirectory() as state, launched([policy], Path(state)) as proxy:
        place = {"host": proxy.host, "port": proxy.port, "user": "bench", "password": PASSWORD, "dbname": "favourites"}
        with psycopg.connect(**place, autocommit=True) as connection:  # type: ignore[arg-type]
            connection.execute("SET dpproxy.notices = off")
            connection.execute("SET dpproxy.reuse = off")
            print(f"accuracy: measurements in one statement, relative error in %, median / p95, {answers} answers")
            print("measurements\tone statement of epsilon 1\teach alone at its part\tratio of medians")
            for count in range(2, len(PARTS) + 1):
                connection.execute("SET dpproxy.epsilon = 1")
                one = _errors(connection, [joined(count)], true[:count], answers)
                connection.execute(f"SET dpproxy.epsilon = {1 / count:.6f}".encode())
                alone = [f"SELECT v{n} FROM ({part(n)}) AS p ORDER BY category" for n in range(count)]
                each = _errors(connection, alone, true[:count], answers)
                print(f"{count}\t{text(one)}\t{text(each)}\t{np.median(each) / np.median(one):.2f}", flush=True)


def _errors(
    connection: psycopg.Connection[Sequence[object]], statements: Sequence[str], true: Sequence[Float64], answers: int
) -> Float64:
    print(f"accuracy: together, {len(true)} measurements in {len(statements)} statements", file=sys.stderr, flush=True)
    found, whole = [], np.array(true)
    for _ in range(answers):
        columns: list[list[float]] = []
        for sql in statements:
            rows = connection.execute(sql.encode()).fetchall()
            columns += [list(column) for column in zip(*([float(str(v)) for v in row] for row in rows), strict=True)]
        found.append(np.abs(np.array(columns) - whole) / whole)
    return np.array(found)
