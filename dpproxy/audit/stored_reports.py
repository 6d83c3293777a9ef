"""`dpproxy audit --claims`: the reports that a policy's store holds, read, tested and told.

Knows: policies, DuckDB and PostgreSQL, the terminal. Must not know: how a claim is tested (`audit.claims`). It reads reports,
which devices randomised before they sent them, and no table of people. Nothing is charged. Lists of values come from public
tables, as the collector reads them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpproxy.audit.claims import ALARM, Check, Stored, checks, refuted, seen_from
from dpproxy.collect.questions import DAY, RandomisedColumn
from dpproxy.collector.sources import read_lists
from dpproxy.collector.stores import schema_of, table_sql
from dpproxy.collector.tables import text_of
from dpproxy.errors import OperatorError
from dpproxy.local import claims as local
from dpproxy.policy.model import DuckDBBackend, Policy, PostgresBackend, Randomised, ReleasedList, TableKind, TablePolicy
from dpproxy.policy.names import quote_name
from dpproxy.policy.report_columns import CLAIM, NUMBER
from dpproxy.postgres_connections import FAILURES, connect
from dpproxy.sql.types import decimal
from dpproxy.table_terms import TableName

Row = tuple[Any, ...]
"""A day or None, the number of a claim, a report, how many there are; of numbers how many lie below and above in place of it."""

FEW_CELLS = 2**16
"""Cells up to which reports are compared between days."""

SKETCHES = local.Hashed | local.CountMean | local.Hadamard | local.Sequence


@dataclass(frozen=True)
class Audited:
    """One column by one claim: its reports, its tests, and those of them that honest reports hardly ever fail. `seen_from`: the
    least epsilon that would have been refuted."""

    name: str
    claim: local.Claim
    reports: int
    found: tuple[Check, ...]
    refuted: tuple[Check, ...]
    seen_from: float | None = None


def audit_claims(policy: Policy, seed: int, today: dt.date) -> tuple[Audited, ...]:
    """Return what the store's reports say of each claim. Raises OperatorError where there is none, or it cannot be read."""
    tables = policy.of_kind(TableKind.REPORTS)
    if not tables:
        raise OperatorError(f"the policy of {policy.dataset} has no table of `reports`")
    lists = read_lists(policy)
    asked = [(table, name, made) for table in tables for name, c in table.columns.items() if (made := c.randomised)]
    days = [(table, _days_query(policy, table)) for table in tables if DAY in table.columns]
    rows = _rows(policy, [_query(policy, table, made) for table, _, made in asked] + [query for _, query in days])
    stored: dict[str, tuple[Stored, int]] = {}
    for (table, name, made), mine in zip(asked, rows, strict=False):
        listed = lists[made.values] if isinstance(made.values, ReleasedList) else [text_of(v) for v in made.values or ()]
        stored |= dict(_versions(table, name, made, listed, mine))
    dice = np.random.default_rng(seed)
    found = {name: tuple(checks(one, dice)) for name, (one, _) in stored.items()}
    for (table, _), mine in zip(days, rows[len(asked) :], strict=True):
        found |= {f"{table.name}.{DAY}": tuple(_kept(table, mine, today))}
    bad = refuted(found)
    tests = sum(map(len, found.values()))
    told = [Audited(name, one.claim, n, found[name], bad[name], seen_from(one, tests)) for name, (one, n) in stored.items()]
    return (*told, *(Audited(n, told[0].claim, 0, found[n], bad[n]) for n in found.keys() - stored.keys() if found[n]))


# --- what is read


def _source(policy: Policy, name: TableName) -> str:
    if isinstance(policy.backend, DuckDBBackend):
        return f"{quote_name(schema_of(name))}.{quote_name(name.name)}"
    return table_sql(name)


def _by_day(table: TablePolicy, made: Randomised) -> bool:
    small = all(not isinstance(c, SKETCHES) and c.space.size <= FEW_CELLS for _, c in made.claims)
    return small and DAY in table.columns and table.columns[DAY].plain


def _query(policy: Policy, table: TablePolicy, made: Randomised) -> str:
    assert table.reports is not None
    day = quote_name(DAY) if _by_day(table, made) else "NULL"
    version = quote_name(CLAIM) if {number for number, _ in made.claims} != {1} else "1"
    stored, source = quote_name(made.stored), _source(policy, table.name)
    times = f"CAST(sum({quote_name(NUMBER)}) AS bigint)" if table.reports.cells else "count(*)"
    claim = made.claims[-1][1]
    if isinstance(claim, local.Laplace | local.Duchi):
        low, high = decimal(claim.low), decimal(claim.high)
        if isinstance(claim, local.Duchi):
            low = high = f"({low} + {high}) / 2.0"
        weight = quote_name(NUMBER) if table.reports.cells else "1"
        sides = ", ".join(f"coalesce(CAST(sum(CASE WHEN {c} THEN {weight} END) AS bigint), 0)" for c in (
            f"{stored} < {low}", f"{stored} > {high}", f"{stored} IS NULL",
        ))  # fmt: skip
        return f"SELECT NULL, {version}, {sides}, {times} FROM {source} GROUP BY 2"
    value = f"CAST({stored} AS {'text' if claim.space.form == 'value' else 'bigint'})"
    if claim.space.form == "boolean":
        value = f"CASE {stored} WHEN true THEN 1 WHEN false THEN 0 END"
    return f"SELECT {day}, {version}, {value}, {times} FROM {source} GROUP BY 1, 2, 3"


def _days_query(policy: Policy, table: TablePolicy) -> str:
    return f"SELECT min({quote_name(DAY)}), max({quote_name(DAY)}) FROM {_source(policy, table.name)}"


def _rows(policy: Policy, queries: Sequence[str]) -> list[list[Row]]:
    match policy.backend:
        case DuckDBBackend(path=path):
            try:
                with duckdb.connect(Path(path), read_only=True) as connection:
                    return [connection.execute(query).fetchall() for query in queries]
            except duckdb.Error as error:
                raise OperatorError(f"reports cannot be read: {error}") from error
        case PostgresBackend() as backend:
            return asyncio.run(_of_postgres(backend, queries))
        case _:
            raise OperatorError("claims are audited over reports in PostgreSQL or DuckDB")


async def _of_postgres(backend: PostgresBackend, queries: Sequence[str]) -> list[list[Row]]:
    password: dict[str, Any] = {} if backend.password is None else {"password": backend.password}
    try:
        connection = await connect(backend.dsn, timeout=20, **password)
        try:
            return [[tuple(row) for row in await connection.fetch(query)] for query in queries]
        finally:
            await connection.close(timeout=5)
    except FAILURES as error:
        raise OperatorError(f"reports cannot be read: PostgreSQL: {error}") from error


# --- from rows to tests


def _versions(
    table: TablePolicy, name: str, made: Randomised, listed: Sequence[str], rows: Sequence[Row]
) -> Iterator[tuple[str, tuple[Stored, int]]]:
    """The reports of each claim; those of a number that no claim has are outside the last one."""
    assert table.reports is not None
    known = {number for number, _ in made.claims}
    for number, claim in made.claims:
        mine = [row for row in rows if row[1] == number]
        if number == max(known):
            strangers = sum(int(row[-1]) for row in rows if row[1] not in known)
        else:
            strangers = 0
        label = f"{table.name}.{name}" + (f", claim {number}" if len(known) > 1 else "")
        column = RandomisedColumn(name, claim, tuple(listed[: claim.candidates]) if claim.candidates else None)
        yield label, _stored(column, mine, strangers, table.reports.fresh)


def _stored(column: RandomisedColumn, rows: Sequence[Row], strangers: int, fresh: bool) -> tuple[Stored, int]:
    claim, n = column.claim, sum(int(row[-1]) for row in rows)
    if isinstance(claim, local.Laplace | local.Duchi):
        below, above, nothing = (sum(int(row[i]) for row in rows) for i in (2, 3, 4))
        none = np.zeros(0, np.int64)
        return Stored(claim, none, strangers + nothing, (), (n - nothing, below, above), fresh), n
    length = claim.space.length
    places, times = np.zeros(len(rows), np.int64), np.array([int(row[3]) for row in rows], np.int64)
    for i, (_, _, report, _) in enumerate(rows):
        place = column.numbers.get(report, -1) if claim.space.form == "value" else report
        places[i] = place if isinstance(place, int) and 0 <= place < length else -1
    outside = strangers + int(times[places < 0].sum())
    dates = [row[0] for row in rows]
    days = tuple(_counted(claim, places, times, [d == day for d in dates], length) for day in sorted(set(dates) - {None}))
    cells = _counted(claim, places, times, [True] * len(rows), length)
    reports = int(cells[claim.space.size :].sum()) if claim.space.form == "bits" else n
    return Stored(claim, cells, outside, days, (0, 0, 0), fresh), reports


def _counted(claim: local.Claim, places: Any, times: Any, chosen: Sequence[bool], length: int) -> Any:
    """How often each report stands; of `Sequence` its three parts, one behind the other."""
    mine = np.array(chosen, dtype=np.bool_) & (places >= 0)
    if not isinstance(claim, local.Sequence):
        found = np.zeros(length, np.int64)
        np.add.at(found, places[mine], times[mine])
        return found
    words, fragments = claim.word.space.size, claim.fragment.space.size
    rest, word = np.divmod(places[mine], words)
    position, fragment = np.divmod(rest, fragments)
    parts = ((position, claim.positions), (fragment, fragments), (word, words))
    return np.concatenate([np.bincount(p, times[mine], size).astype(np.int64) for p, size in parts])


def _kept(table: TablePolicy, rows: Sequence[Row], today: dt.date) -> Iterator[Check]:
    """Days that are older than is claimed, or have not come yet; a day's grace is for time zones."""
    assert table.reports is not None
    first, last = (d.date() if isinstance(d, dt.datetime) else d for d in rows[0])
    if first is None:
        return
    keep = table.reports.keep_days
    if keep is not None and first < today - dt.timedelta(days=keep + 1):
        yield Check("days kept", 0.0, f"reports of {first}, where {keep} days are kept")
    if last > today + dt.timedelta(days=1):
        yield Check("days to come", 0.0, f"reports of {last}, a day that has not come")


# --- what is told


def show(found: Sequence[Audited], console: Console) -> None:
    """Print a line for each claim, and each refuted test."""
    table = Table(title="Claims about devices, held against the stored reports", title_justify="left")
    for name in ("column", "claim", "reports", "nearest test", "chance", "seen from", ""):
        table.add_column(name, justify="right" if name in ("reports", "chance", "seen from") else "left")
    for one in found:
        near = min(one.found, key=lambda c: c.chance, default=None)
        said = Text("REFUTED", style="bold red") if one.refuted else Text("not refuted")
        chance = "" if near is None else f"{near.chance:.2g}"
        by = f"{one.claim.name}, epsilon {float(one.claim.epsilon):.6g}" if one.reports else ""
        seen, reports = f"{one.seen_from:.2f}" if one.seen_from else "", f"{one.reports:,}" if one.reports else ""
        table.add_row(one.name, by, reports, near.what if near else "none", chance, seen, said)
    console.print(table)
    for one in found:
        for check in one.refuted:
            console.print(Text(f"{one.name}: {check.what}: {check.told} (chance {check.chance:.1g})", style="red"))
    console.print(verdict(found))


def verdict(found: Sequence[Audited]) -> str:
    """Return the audit of claims in a sentence or two."""
    bad = sum(bool(one.refuted) for one in found)
    if bad:
        return f"FAILED: {bad} of {len(found)} claims are refuted. Where all are true, one audit in {1 / ALARM:.0f} refutes one."
    return "Nothing was refuted, and nothing is proved: where all values are equally frequent, any epsilon looks alike."


def as_json(found: Sequence[Audited]) -> str:
    """Write the audit of claims as one JSON object."""

    def written(check: Check) -> Mapping[str, Any]:
        return {"test": check.what, "chance": check.chance, "told": check.told}

    columns = [
        {
            "column": one.name,
            "by": one.claim.name,
            "epsilon": float(one.claim.epsilon),
            "reports": one.reports,
            "seen_from": one.seen_from,
            "tests": [written(c) for c in one.found],
            "refuted": [written(c) for c in one.refuted],
        }
        for one in found
    ]
    return json.dumps({"form": 1, "false_alarm": ALARM, "columns": columns}, indent=1, ensure_ascii=False) + "\n"


def write(found: Sequence[Audited], directory: Path) -> None:
    """Write claims.json and claims.txt."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "claims.json").write_text(as_json(found), encoding="utf-8")
    with (directory / "claims.txt").open("w", encoding="utf-8") as file:
        show(found, Console(file=file, width=120))
    print(f"written: {directory}/claims.json, claims.txt", file=sys.stderr)
