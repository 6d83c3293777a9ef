"""Exactness without noise: with an enormous epsilon an answer must equal what the engine itself says to the same SQL.

Knows: the corpus file, both servers as a client, what EXPLAIN says of groups. Must not know: plans. Silently wrong is
worse than refused, so every statement the proxy answers is compared; only those it refuses, or that the engine itself
cannot run, are left out.

Rows are compared as multisets, numbers to `RELATIVE`, instants and dates as instants. Two things differ by design and
are no errors: declared groups are in the answer even when empty (rows of ours with a zero), and undeclared groups of
very few units are not (rows of theirs only), as EXPLAIN says in each case. Where the bounds of a
policy cut data, or such groups go on into LIMIT or another aggregate, a difference is listed: it is for a person to
judge.
"""

from __future__ import annotations

import argparse
import datetime as dt
import decimal
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from ruamel.yaml import YAML

from dpproxy.launch import Proxy

EPSILON = 10**9
"""The largest a session may ask for: noise of scale bound / 1e9 leaves every number of the corpus as it is."""
BUDGET = 10**12
"""The largest a policy may give: enough for a thousand statements a data set."""
RELATIVE = 5e-3
"""Sums of DOUBLE in DuckDB, ratios of fixed-point sums here, a grid unit of noise where bounds are enormous."""
ABSOLUTE = 1e-6

Row = tuple[Any, ...]


def generous(policy: Path, folder: Path) -> Path:
    """A copy of the policy in `folder` whose budgets never run out; the rest is as it was."""
    yaml = YAML()
    rules = yaml.load(policy.read_text())
    for limits in (rules["budget"], *(role["budget"] for role in rules["roles"].values())):
        limits["epsilon"] = BUDGET
    for role in rules["roles"].values():
        role["query"]["max_epsilon"] = EPSILON
    target = folder / policy.name
    with target.open("w") as file:
        yaml.dump(rules, file)
    return target


def compare(options: argparse.Namespace, data_sets: list[str], proxy: Proxy, engines: Mapping[str, str]) -> int:
    """Prints each difference and, last, `exact: N compared, M differ`. Returns 1 when there are any.

    `engines` has for each data set what its engine is asked directly by: a DuckDB file or a libpq connection string.
    """
    compared = differ = 0
    entries = [json.loads(line) for line in options.file.read_text().splitlines() if line.strip()]
    for name in data_sets:
        print(f"comparing {name}", file=sys.stderr, flush=True)
        own = [entry for entry in entries if entry["dataset"] == name and (options.engine or "duckdb") in entry["runs_on"]]
        with Pair(name, proxy, engines[name]) as pair:
            for entry in (entry for entry in own if entry["expect"] != "refuse"):
                found = pair.difference(entry["sql"])
                compared += found is not None
                if found:
                    differ += 1
                    print(f"{entry['id']}: {found} | {' '.join(entry['sql'].split())[:160]}", flush=True)
    print(f"exact: {compared} compared, {differ} differ")
    return 1 if differ else 0


class Pair:
    """The proxy and the engine itself over one data set."""

    def __init__(self, name: str, proxy: Proxy, engine: str) -> None:
        self._dsn = f"host={proxy.host} port={proxy.port} user=analyst password=analyst dbname={name}"
        self._engine = engine

    def __enter__(self) -> Pair:
        self._direct = direct(self._engine)
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
        except (duckdb.Error, psycopg.Error):
            return None
        plan = self._explain(sql)
        return difference(
            [tuple(map(plain, row)) for row in ours],
            [tuple(map(plain, row)) for row in theirs],
            empty_groups="Groups: all declared" in plan,
            lost_groups="Groups: those whose" in plan,
        )

    def _explain(self, sql: str) -> str:
        try:
            return "\n".join(row[0] for row in self._proxied.execute(f"EXPLAIN {sql}").fetchall())
        except psycopg.Error:
            return ""


def direct(engine: str) -> duckdb.DuckDBPyConnection | psycopg.Connection:
    """A connection that reads a DuckDB file, or a server that `engine` is a connection string of, in UTC."""
    if Path(engine).is_file():
        return duckdb.connect(engine, read_only=True)
    return psycopg.connect(engine, autocommit=True, options="-c timezone=UTC -c default_transaction_read_only=on")


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


def difference(ours: Sequence[Row], theirs: Sequence[Row], *, empty_groups: bool, lost_groups: bool) -> str:
    """What differs between two multisets of rows; empty when nothing does that should not."""
    left = sorted(theirs, key=order)
    extra = [mine for mine in sorted(ours, key=order) if not _taken(mine, left)]
    if empty_groups:
        extra = [row for row in extra if not _empty(row)]
    if not extra and lost_groups:
        return ""
    if extra and left:
        return f"{len(ours)} rows for {len(theirs)}, first {extra[0]} for {left[0]}"
    if extra or left:
        return f"{len(ours)} rows for {len(theirs)}, first {'extra' if extra else 'lost'} {(extra or left)[0]}"
    return ""


def _taken(row: Row, left: list[Row]) -> bool:
    """Whether an equal row is in `left`, which loses it. Nearly always it is the first."""
    for at, other in enumerate(left):
        if len(row) == len(other) and all(map(same, row, other)):
            del left[at]
            return True
    return False


def _empty(row: Row) -> bool:
    """What an empty declared group looks like: a number that is zero, and whatever was computed from it."""
    return any(isinstance(cell, float) and not cell for cell in row)


def order(row: Row) -> tuple[object, ...]:
    """Exact cells first, then numbers."""
    exact = tuple("" if isinstance(cell, float) else repr(cell) for cell in row)
    return exact, tuple(cell if isinstance(cell, float) and math.isfinite(cell) else 0.0 for cell in row)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or one == other or math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(one == other)
