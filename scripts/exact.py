"""Exactness: with loaded dice an answer must equal what the engine says to the same SQL.

Knows: the corpus file, both servers as a client. Must not know: plans. Silently wrong is worse than refused, so every
statement the proxy answers is compared; only those it refuses, or that the engine itself cannot run, are left out.

The proxy is the product with three things replaced (`loaded_dice`), its policy is as wide as the data (`generous`), and
the engine sees the data without the rows of nobody, which the product promises not to count.

Rows are compared as multisets, numbers to `RELATIVE`, instants and dates as instants, texts that spell numbers as numbers
(`3` of NUMERIC is `3.0` of DOUBLE). What may differ, and nothing else:

- A sum of nothing is 0: noise cannot tell no rows from rows that add up to 0. An answer must equal the statement as it
  is, or the statement with every sum of nothing read as 0.
- A percentile is a value that occurs: PERCENTILE_CONT is read as PERCENTILE_DISC.
- The least, greatest or middle value of nothing is some value, where SQL has NULL.
- ORDER BY ... LIMIT may choose differently among rows that it orders alike, and so may ROW_NUMBER and NTILE: an
  answer that differs is asked for again with RANK in their place, in both.
- A key that the policy says to refer to a row of the same person, and that in the data refers to somebody else's, joins
  nothing: an answer must equal the engine's over the data as they are, or over the data with such keys set to NULL.
- A correlation of constants is NaN in DuckDB, NULL in PostgreSQL.
- A statement that takes longer than `PATIENCE` is named, and not compared.
- `SELECT generate_series(1, 3)` is one list in DuckDB, three rows in PostgreSQL.
"""

from __future__ import annotations

import argparse
import datetime as dt
import decimal
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import sqlglot
from generous import EPSILON, Apart, forget_nobody, seen
from sqlglot import exp

from dpproxy.serve.launch import Proxy

PATIENCE = 60  # seconds: with every group released, what a query makes of them may be a product of large tables
RELATIVE = 1e-3
"""Fixed point here, DOUBLE there: a value is rounded to a grid of a millionth of its range where no resolution is declared."""
ABSOLUTE = 1e-6

Row = tuple[Any, ...]
Direct = duckdb.DuckDBPyConnection | psycopg.Connection | Apart


def compare(
    options: argparse.Namespace, data_sets: list[str], proxy: Proxy, engines: Mapping[str, str], policies: Mapping[str, Path]
) -> int:
    """Print each difference and, last, `exact: N compared, M differ`. Returns 1 when there are any.

    `engines` has for each data set what its engine is asked directly by: a DuckDB file or a libpq connection string.
    """
    compared = differ = 0
    dialect = "postgres" if options.engine == "postgres" else "duckdb"
    entries = [json.loads(line) for line in options.file.read_text().splitlines() if line.strip()]
    for name in data_sets:
        print(f"comparing {name}", file=sys.stderr, flush=True)
        own = [entry for entry in entries if entry["dataset"] == name and dialect in entry["runs_on"]]
        with Pair(name, proxy, engines[name], policies[name]) as pair:
            for entry in (entry for entry in own if entry["expect"] != "refuse"):
                found = pair.difference(entry["sql"])
                compared += found is not None
                if found is None and (options.verbose or "timeout" in pair.reason):
                    print(f"{entry['id']}: not compared: {pair.reason}", file=sys.stderr, flush=True)
                if found:
                    differ += 1
                    print(f"{entry['id']}: {found} | {' '.join(entry['sql'].split())[:160]}", flush=True)
    print(f"exact: {compared} compared, {differ} differ")
    return 1 if differ else 0


class Pair:
    """Holds the proxy and the engine itself over one data set."""

    def __init__(self, name: str, proxy: Proxy, engine: str, policy: Path) -> None:
        self._dsn = f"host={proxy.host} port={proxy.port} user=analyst password=analyst dbname={name}"
        self._engine, self._policy = engine, policy
        self._dialect = "duckdb" if Path(engine).is_file() else "postgres"

    def __enter__(self) -> Pair:
        self._direct = direct(self._engine, self._policy)
        self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._direct:
            connection.close()
        self._proxied.close()

    def _connect(self) -> None:
        self._proxied = psycopg.connect(self._dsn, autocommit=True)
        self._proxied.execute(f"SET dpproxy.epsilon = {EPSILON}")
        self._proxied.execute(f"SET statement_timeout = '{PATIENCE}s'")

    def difference(self, sql: str) -> str | None:
        """Compare one statement. None: it is not comparable. Empty: equal to one of the readings. Else the text says what differs
        from the first."""
        if self._proxied.closed:
            self._connect()
        try:
            ours = [tuple(map(plain, row)) for row in self._proxied.execute(sql).fetchall()]
        except psycopg.Error as error:
            return self._silent("refused", error)
        texts = (sql, *readings(sql, self._dialect))
        said = [self._said(connection, text) for connection in self._direct for text in texts]
        if said[0] is None:
            return None
        found = [difference(ours, theirs, unknown=chosen(sql)) for theirs in said if theirs is not None]
        if "" in found or any(self._tied(text, ours) for text in texts):
            return ""
        ranked = re.sub(r"(?i)\b(row_number\s*\(|ntile\s*\([^)]*)", "rank(", sql)
        return found[0] if ranked == sql else self.difference(ranked)

    def _silent(self, what: str, error: Exception) -> None:
        self.reason = f"{what}: {str(error).splitlines()[0]}"

    def _said(self, connection: Direct, sql: str) -> list[Row] | None:
        try:
            return [tuple(map(plain, row)) for row in unnested(connection.execute(sql).fetchall())]
        except (duckdb.Error, psycopg.Error) as error:
            return self._silent("the engine cannot", error)

    def _tied(self, sql: str, ours: Sequence[Row]) -> bool:
        """Whether ours are as good a choice among rows that ORDER BY ... LIMIT cannot tell apart."""
        everything = unlimited(sql, self._dialect)
        if everything is None:
            return False
        text, limit, width = everything
        said = [self._said(connection, text) for connection in self._direct]
        return any(rows is not None and as_good(ours, rows, limit, width) for rows in said)


def direct(engine: str, policy: Path) -> list[Direct]:
    """Connect to a DuckDB file, or to a server that `engine` is a connection string of, in UTC; without rows of nobody. In the
    second connection, if there is one, keys that refer to a row of somebody else refer to nothing."""
    if Path(engine).is_file():
        return [seen(policy, Path(engine)), seen(policy, Path(engine), apart=True)]
    forget_nobody(policy, engine)
    options = "-c timezone=UTC"
    return [psycopg.connect(engine, autocommit=True, options=options), Apart(policy, engine, options)]


def unnested(rows: Sequence[Row]) -> list[Row]:
    """Return rows as PostgreSQL has them where DuckDB has a list: `SELECT generate_series(1, 3)` gives one row there and three
    here."""
    found: list[Row] = []
    for row in rows:
        lists = [cell for cell in row if isinstance(cell, list)]
        times = max(map(len, lists)) if lists else 1
        found += [tuple(c[i] if isinstance(c, list) else c for c in row) for i in range(times)]
    return found


def plain(value: Any) -> Any:
    """Return one of None, bool, float, str: what two drivers make of one value, brought together."""
    if isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ")
    if isinstance(value, dt.date):
        return f"{value.isoformat()} 00:00:00"
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    return value if value is None or isinstance(value, bool) else str(value).rstrip()


def readings(sql: str, dialect: str) -> list[str]:
    """Return the statement with every sum of nothing read as 0 and every percentile as a value that occurs, if it has any."""
    tree = sqlglot.parse_one(sql, read=dialect)
    whole = (node.parent if isinstance(node.parent, exp.Filter) else node for node in tree.find_all(exp.Sum))
    sums = [node for node in whole if not isinstance(node.parent, exp.Window)]
    middles = list(tree.find_all(exp.PercentileCont, exp.Median))
    for node in sums:
        node.replace(exp.Coalesce(this=node.copy(), expressions=[exp.Literal.number(0)]))
    for node in middles:
        if isinstance(node, exp.Median):
            node.replace(exp.Anonymous(this="quantile_disc", expressions=[node.this, exp.Literal.number("0.5")]))
        else:
            node.replace(exp.PercentileDisc(this=node.this, expression=node.expression))
    return [tree.sql(dialect=dialect)] if sums or middles else []


def chosen(sql: str) -> bool:
    """Return whether a value may be one that was chosen from nothing."""
    return re.search(r"(?i)\b(min|max|median|mode|percentile_\w+|quantile\w*)\s*\(", sql) is not None


def unlimited(sql: str, dialect: str) -> tuple[str, int, int] | None:
    """Return a statement that ends with LIMIT without it, with what it is ordered by as further columns; the limit; the
    statement's own width."""
    tree = sqlglot.parse_one(sql, read=dialect)
    limit = tree.args.get("limit")
    if (
        not isinstance(tree, exp.Select)
        or limit is None
        or tree.args.get("offset")
        or not isinstance(limit.expression, exp.Literal)
    ):
        return None
    if any(node.is_star for node in tree.expressions):
        return None
    width = len(tree.expressions)
    order = tree.args.get("order")
    for term in order.expressions if order is not None else ():
        inner = term.this
        aliased = [n for n in tree.expressions if isinstance(inner, exp.Column) and not inner.table and n.alias == inner.name]
        if isinstance(inner, exp.Literal):
            aliased = [tree.expressions[int(inner.this) - 1]]
        found = aliased[0].unalias() if aliased else inner
        tree.append("expressions", exp.alias_(found.copy(), f"by{len(tree.expressions)}"))
    tree.set("limit", None)
    return tree.sql(dialect=dialect), int(limit.expression.this), width


def as_good(ours: Sequence[Row], everything: Sequence[Row], limit: int, width: int) -> bool:
    """Return whether each of our rows is among all rows, and our rows have the same ORDER BY values as the first `limit` of
    them."""
    left, keys = list(everything), []
    if len(ours) != min(limit, len(left)):
        return False
    wanted = [row[width:] for row in left[:limit]]
    for mine in ours:
        fitting = [row for row in left if all(map(same, mine, row[:width]))]
        if not fitting:
            return False
        best = next((row for row in fitting if any(all(map(same, row[width:], w)) for w in wanted)), fitting[0])
        left.remove(best)
        keys.append(best[width:])
    return not difference(keys, wanted)


def difference(ours: Sequence[Row], theirs: Sequence[Row], *, unknown: bool = False) -> str:
    """Return what differs between two multisets of rows; empty when nothing does."""
    left = sorted(theirs, key=order)
    extra = [mine for mine in sorted(ours, key=order) if not _taken(mine, left, unknown)]
    if not extra and not left:
        return ""
    first = f"{extra[0] if extra else 'nothing'} for {left[0] if left else 'nothing'}"
    return f"{len(ours)} rows for {len(theirs)}, {len(extra)} of them differ: {first}"


def _taken(row: Row, left: list[Row], unknown: bool) -> bool:
    """Whether an equal row is in `left`, which loses it. Nearly always it is the first."""
    for at, other in enumerate(left):
        if len(row) == len(other) and all(same(a, b) or (unknown and b is None) for a, b in zip(row, other, strict=True)):
            del left[at]
            return True
    return False


def order(row: Row) -> tuple[object, ...]:
    """Return a sort key: exact cells first, then numbers."""
    exact = tuple("" if isinstance(cell, float) else repr(cell) for cell in row)
    return exact, tuple(cell if isinstance(cell, float) and math.isfinite(cell) else 0.0 for cell in row)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or one == other or math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    if one is None and isinstance(other, float) and math.isnan(other):
        return True
    if isinstance(one, str) and isinstance(other, str) and one != other:
        return _number(one) is not None and _number(one) == _number(other)
    return bool(one == other)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
