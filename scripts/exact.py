"""Exactness without noise: with epsilon 1e6 an answer must equal what DuckDB says to the same SQL.

Knows: the corpus file, both servers as a client. Must not know: plans. Silently wrong is worse than refused, so that
every statement the proxy answers is compared, and only statements refused by the proxy, or that DuckDB itself cannot
run, are left out. Rows are compared as multisets, numbers to `RELATIVE` (what noise of so large an epsilon may do,
and the last digits of floating point), instants and dates as instants.
"""

from __future__ import annotations

import argparse
import datetime as dt
import decimal
import json
import math
import sys
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from dpproxy.launch import Proxy

RELATIVE = 1e-3
"""Noise of scale bound / 1e6 on sums of at least thousands of bounds, and ratios of two such."""
ABSOLUTE = 1e-3
EPSILON = 1_000_000

Row = tuple[Any, ...]


def compare(options: argparse.Namespace, data_sets: list[str], proxy: Proxy, corpus: Path) -> int:
    """Prints each difference and, last, `exact: N compared, M differ`. Returns 1 when there are any."""
    compared = differ = 0
    entries = [json.loads(line) for line in options.file.read_text().splitlines() if line.strip()]
    for name in data_sets:
        print(f"comparing {name}", file=sys.stderr, flush=True)
        own = [entry for entry in entries if entry["dataset"] == name and "duckdb" in entry["runs_on"]]
        with Pair(name, proxy, corpus) as pair:
            for entry in (entry for entry in own if entry["expect"] != "refuse"):
                found = pair.difference(entry["sql"])
                compared += found is not None
                if found:
                    differ += 1
                    print(f"{entry['id']}: {found} | {' '.join(entry['sql'].split())[:160]}", flush=True)
    print(f"exact: {compared} compared, {differ} differ")
    return 1 if differ else 0


class Pair:
    """The proxy and DuckDB over one data set."""

    def __init__(self, name: str, proxy: Proxy, corpus: Path) -> None:
        self._dsn = f"host={proxy.host} port={proxy.port} user=analyst password=analyst dbname={name}"
        self._path = str(corpus / f"{name}.duckdb")

    def __enter__(self) -> Pair:
        self._direct = duckdb.connect(self._path, read_only=True)
        self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._direct.close()
        self._proxied.close()

    def _connect(self) -> None:
        self._proxied = psycopg.connect(self._dsn, autocommit=True)
        self._proxied.execute(f"SET dpproxy.epsilon = {EPSILON}")

    def difference(self, sql: str) -> str | None:
        """None: not comparable. Empty: equal. Else what differs."""
        if self._proxied.closed:
            self._connect()
        try:
            ours = self._proxied.execute(sql).fetchall()
        except psycopg.Error:
            return None
        try:
            theirs = self._direct.execute(sql).fetchall()
        except duckdb.Error:
            return None
        return difference([tuple(map(plain, row)) for row in ours], [tuple(map(plain, row)) for row in theirs])


def plain(value: Any) -> Any:
    """One of None, bool, float, str: what two drivers make of one value, brought together."""
    if isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ")
    if isinstance(value, dt.date):
        return f"{value.isoformat()} 00:00:00"
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    return value if value is None or isinstance(value, bool) else str(value).rstrip()


def difference(ours: list[Row], theirs: list[Row]) -> str:
    """What differs between two multisets of rows; empty when nothing does."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows for {len(theirs)}"
    left = sorted(theirs, key=order)
    for mine in sorted(ours, key=order):
        if len(mine) != len(left[0]):
            return f"{len(mine)} columns for {len(left[0])}"
        # nearly always the first: only rows whose exact cells are equal can change places, by noise in their numbers
        found = next((at for at, other in enumerate(left) if all(map(same, mine, other))), None)
        if found is None:
            return f"{mine} for {left[0]}"
        del left[found]
    return ""


def order(row: Row) -> tuple[object, ...]:
    """Exact cells first, then numbers."""
    exact = tuple("" if isinstance(cell, float) else repr(cell) for cell in row)
    return exact, tuple(cell if isinstance(cell, float) and math.isfinite(cell) else 0.0 for cell in row)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or one == other or math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(one == other)
