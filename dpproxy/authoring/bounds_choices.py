"""`dpproxy policy bounds`: which bounds to write for a table, in words, by the author's own data.

Knows: policies, generated SQL that counts, plans. Must not know: how SQL is run. Each table is counted exactly: rows of a person,
groups of a person, rows of a person in a group. By these counts, each choice of bounds leaves out so many rows; by the plans of a
role's questions, answers have so much noise. The counts may tell of a single person. They are for the author alone, as those of
`policy check --data` are, and the page says so. Under `rows: n`, classes of people with more rows are scaled back up where they
stand out of the noise: the share left out is an upper bound.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.amounts import MICRO
from dpproxy.authoring.check_command import PRIVATE
from dpproxy.authoring.exact_counts import comparable, listed, percent
from dpproxy.authoring.progress import Progress, bar
from dpproxy.backends.base import Backend
from dpproxy.errors import OperatorError, Refusal
from dpproxy.ledger.ledger import decimal
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import family
from dpproxy.policy.data_claims import QUOTE, column_source, to_unit
from dpproxy.policy.load import load_file
from dpproxy.policy.model import Bounds, ColumnPolicy, ColumnRole, Policy, Role, TableKind, TablePolicy
from dpproxy.policy.names import plural, quote_name
from dpproxy.policy.problems import suggestion
from dpproxy.review.verdicts import Bench
from dpproxy.serve.data_checks import fitting_catalog, open_backend
from dpproxy.sql.template import Dialect

KEYS = 3
"""Keys by which a table is looked at, at most."""
HALF = 50
SHARES = (HALF, 90, 99, 100)
"""Of people, in per cent: no more of them have at most so many rows."""


@dataclass(frozen=True)
class Key:
    """A key that analysts may group by. `name`: in words; `asked`: as they write it; `sql`: as the engine has it; `where`: the
    condition on rows to be in a group; `declared`: whether its groups are known beforehand."""

    name: str
    asked: str
    sql: str
    where: str
    declared: bool


@dataclass(frozen=True)
class Spread:
    """Numbers that 50, 90, 99 and 100 % of people, or of pairs of a person and a group, do not exceed."""

    half: int
    most: int
    nearly: int
    greatest: int

    def words(self) -> str:
        return f"half at most {self.half:,}, 90 % {self.most:,}, 99 % {self.nearly:,}, all {self.greatest:,}"


@dataclass(frozen=True)
class KeyCounts:
    """Exact counts of a table by one key. `rows`: in a group; `groups`: of a person; `shared`: rows of a person in a group."""

    key: Key
    number: int
    total: int
    rows: Spread
    groups: Spread
    shared: Spread


@dataclass(frozen=True)
class TableCounts:
    """Exact counts of a table."""

    rows: int
    people: int
    spread: Spread
    keys: tuple[KeyCounts, ...]


@dataclass(frozen=True)
class Effect:
    """The effect of bounds on answers by one key. `kept`: rows that count; `noise`: half the 95 % interval of a count; `ranks`:
    those by which a median is off; `refusal`: why a count by this key is refused, where it is."""

    kept: int
    noise: float | None
    ranks: int | None
    refusal: str = ""


# SQL of one whole number each.


def keys(table: TablePolicy, catalog: Catalog, dialect: Dialect, undeclared: bool) -> Iterator[Key]:
    """Yield keys to look at, those with declared groups first. `undeclared`: whether groups may be found in the data."""
    found: list[tuple[int, Key]] = []
    for column in table.columns.values():
        shape = catalog.tables[table.name].column(column.name)
        if column.role is not ColumnRole.PLAIN or shape is None or not shape.bounded:
            continue
        source = column_source(catalog, table.name, column.name, QUOTE[dialect], "t0")
        name, there = quote_name(column.name), f"{source} IS NOT NULL"
        if column.values is not None:
            chosen = comparable(source, shape)
            where = f"{chosen} IN ({listed(column, shape, dialect)})" + (f" OR {source} IS NULL" if column.nulls else "")
            found.append((0, Key(f"`{column.name}`", name, source, f"({where})", True)))
        elif column.range is not None and shape.type in ("date", "timestamp"):
            month = f"date_trunc('month', {source})"
            found.append((1, Key(f"month of `{column.name}`", f"date_trunc('month', {name})", month, there, True)))
        elif undeclared and column.range is None and family(shape.type) == "text":
            found.append((2, Key(f"`{column.name}`", name, source, there, False)))
    yield from [key for _, key in sorted(found, key=lambda each: each[0])][:KEYS]


def _spread(numbers: str) -> tuple[str, ...]:
    """Queries of a `Spread`. `numbers`: a query of a column n."""
    ranked = f"SELECT n, ROW_NUMBER() OVER (ORDER BY n) AS place, COUNT(*) OVER () AS number FROM ({numbers}) AS e"
    most = "SELECT CAST(COALESCE(MAX(n), 0) AS BIGINT) FROM"
    return tuple(f"{most} ({ranked}) AS r WHERE (place - 1) * 100 < number * {share}" for share in SHARES)


@dataclass(frozen=True)
class _Counted:
    """SQL of one table: its rows with their person, and by a key."""

    source: str
    unit: str

    def people(self) -> str:
        return f"SELECT COUNT(*) AS n FROM {self.source} WHERE {self.unit} IS NOT NULL GROUP BY {self.unit}"

    def pairs(self, key: Key) -> str:
        """Rows of each person in each group."""
        rows = f"SELECT {self.unit} AS u, {key.sql} AS k FROM {self.source} WHERE {self.unit} IS NOT NULL AND {key.where}"
        return f"SELECT u, k, COUNT(*) AS n FROM ({rows}) AS p GROUP BY u, k"

    def table(self) -> tuple[str, ...]:
        each = self.people()
        total = f"SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM ({each}) AS e"
        return (total, f"SELECT COUNT(*) FROM ({each}) AS e", *_spread(each))

    def by(self, key: Key) -> tuple[str, ...]:
        pairs = self.pairs(key)
        groups = f"SELECT COUNT(*) AS n FROM ({pairs}) AS g GROUP BY u"
        rows = f"SELECT SUM(n) AS n FROM ({pairs}) AS g GROUP BY k"
        number = f"SELECT COUNT(*) FROM ({rows}) AS c"
        total = f"SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM ({pairs}) AS g"
        return (number, total, *_spread(rows), *_spread(groups), *_spread(f"SELECT n FROM ({pairs}) AS g"))

    def kept(self, key: Key, bounds: Bounds) -> str:
        """Rows that bounds leave, in the mean over which groups are kept."""
        pairs = self.pairs(key)
        if bounds.whole:
            each = f"SELECT LEAST(SUM(n), {bounds.rows}) AS n FROM ({pairs}) AS g GROUP BY u"
        else:
            part = "1" if bounds.groups is None else f"LEAST(1.0, {bounds.groups} * 1.0 / COUNT(*))"
            each = f"SELECT SUM(LEAST(n, {bounds.rows})) * {part} AS n FROM ({pairs}) AS g GROUP BY u"
        return f"SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM ({each}) AS e"


async def counted(catalog: Catalog, table: TablePolicy, role: Role, backend: Backend) -> TableCounts:
    """Count a table, by each of its keys. Raises BackendError."""
    sql = _Counted(*to_unit(table, catalog, QUOTE[backend.dialect]))
    rows, people, *spread = await backend.violations(sql.table())
    found = []
    for key in keys(table, catalog, backend.dialect, bool(role.budget.delta and role.query.delta)):
        number, total, *rest = await backend.violations(sql.by(key))
        found.append(KeyCounts(key, number, total, Spread(*rest[:4]), Spread(*rest[4:8]), Spread(*rest[8:])))
    return TableCounts(rows, people, Spread(*spread), tuple(found))


def choices(table: TablePolicy, counts: TableCounts) -> tuple[Bounds, ...]:
    """Return the bounds to compare: those written, `rows` that most people keep within, and `rows_per_group`."""
    spread = counts.spread
    found = [table.bounds, *(Bounds(n, None, True) for n in (spread.half, spread.most, spread.nearly) if n)]
    if counts.keys:
        shared = max(each.shared.most for each in counts.keys)
        declared = all(each.key.declared for each in counts.keys)
        groups = None if declared else max(each.groups.most for each in counts.keys)
        few = max(each.groups.most for each in counts.keys)
        found += [Bounds(n, g) for g in dict.fromkeys((few, groups)) for n in (1, shared) if n and g != 0]
    return tuple(dict.fromkeys(found))


async def effects(
    bench: Bench, table: TablePolicy, role: Role, counts: TableCounts, bounds: Bounds, backend: Backend
) -> tuple[Effect, ...]:
    """Return the effect of bounds by each key that was counted. Raises BackendError."""
    sql = _Counted(*to_unit(table, bench.catalog, QUOTE[backend.dialect]))
    kept = await backend.violations([sql.kept(each.key, bounds) for each in counts.keys]) if counts.keys else ()
    changed = replace(table, bounds=bounds)
    policy = replace(bench.policy, tables={**bench.policy.tables, table.name: changed})
    tried = Bench(policy, bench.catalog, bench.dialect)
    return tuple(_effect(tried, table, role, each.key, n) for each, n in zip(counts.keys, kept, strict=True))


def _effect(bench: Bench, table: TablePolicy, role: Role, key: Key, kept: int) -> Effect:
    source = ".".join(quote_name(part) for part in (table.name.schema, table.name.name))
    number = next((c.name for c in table.columns.values() if _ranged(c)), None)
    try:
        (count,) = _outputs(bench, role, f"SELECT {key.asked}, count(*) FROM {source} GROUP BY 1")
    except Refusal as refusal:
        return Effect(kept, None, None, refusal.message)
    ranks = None
    if number is not None:
        median = f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {quote_name(number)})"
        try:
            (chosen,) = _outputs(bench, role, f"SELECT {key.asked}, {median} FROM {source} GROUP BY 1")
            ranks = chosen.get("Within Ranks")
        except Refusal:
            ranks = None
    return Effect(kept, count.get("Within"), ranks)


def _ranged(column: ColumnPolicy) -> bool:
    return column.role is ColumnRole.PLAIN and column.range is not None and not hasattr(column.range[0], "year")


def _outputs(bench: Bench, role: Role, query: str) -> list[dict[str, int]]:
    """The aggregates of a plan, as EXPLAIN has them. Raises Refusal."""
    plan = bench.planned(role.name, query)
    assert plan is not None
    (account,) = json.loads("".join(plan.explain))
    return [output for each in account["Privacy Plan"]["Measurements"] for output in each["Outputs"]]


# Words.


def written_bounds(bounds: Bounds) -> str:
    """Return bounds as a policy has them."""
    if bounds.whole:
        return f"rows: {bounds.rows}"
    return f"rows_per_group: {bounds.rows}, groups: {'all' if bounds.groups is None else bounds.groups}"


def page(
    table: TablePolicy, unit: str, counts: TableCounts, found: Mapping[Bounds, Sequence[Effect]], epsilon: str
) -> Iterator[str]:
    """Yield the lines about one table. `found`: the effects of each choice, by key; `epsilon`: what a question costs."""
    people = plural(unit)
    head = (
        f"| bounds | rows left out | noise of a count, epsilon {epsilon} (of a group of median size) | its median lies between |"
    )
    yield f"{table.name}: {counts.rows:,} rows of {counts.people:,} {people}"
    yield f"  rows of a {unit}: {counts.spread.words()}"
    for i, each in enumerate(counts.keys):
        yield f"  by {each.key.name}: {each.number:,} group{'' if each.number == 1 else 's'}; rows in one: {each.rows.words()}"
        yield f"    groups of a {unit}: {each.groups.words()}"
        yield f"    rows of a {unit} in a group: {each.shared.words()}"
        yield f"    {head}"
        yield "    |---|---|---|---|"
        for bounds, effects_ in found.items():
            yield "    | " + " | ".join(_cells(table, bounds, each, effects_[i])) + " |"
    if counts.keys:
        yield f"  {_advice(table, counts, found)}"
        yield from _of_medians(counts, found)


def _groups(number: int) -> str:
    return f"{number:,} groups" if number != 1 else "1 group"


def _cells(table: TablePolicy, bounds: Bounds, each: KeyCounts, effect: Effect) -> tuple[str, ...]:
    name = f"`{written_bounds(bounds)}`" + (" (as written)" if bounds == table.bounds else "")
    lost = percent(each.total - effect.kept, each.total)
    lost = f"at most {lost}" if bounds.whole and effect.kept < each.total else lost
    if effect.noise is None:
        return name, lost, f"refused: {effect.refusal}" if effect.refusal else "not known", "-"
    part = effect.noise / max(each.rows.half, 1)
    off = f"{effect.noise:,.0f} ({percent(round(part * MICRO), MICRO)})" if part < 1 else f"{effect.noise:,.0f} (all of it)"
    return name, lost, off, _between(displaced(each, effect))


def _between(off: float) -> str:
    return "any value" if off >= HALF else f"percentiles {HALF - off:.0f} and {HALF + off:.0f}"


def displaced(each: KeyCounts, effect: Effect) -> float:
    """Return by how many percentiles the median of a group of median size may be off, at most 50."""
    if effect.ranks is None:
        return HALF
    return min(100 * effect.ranks / max(each.rows.half * effect.kept / max(each.total, 1), 1), HALF)


def error(each: KeyCounts, effect: Effect) -> float:
    """Return how far off a count of a group of median size may be, as a part of it."""
    if effect.noise is None:
        return 1.0
    return min((each.total - effect.kept) / max(each.total, 1) + effect.noise / max(each.rows.half, 1), 1.0)


def _advice(table: TablePolicy, counts: TableCounts, found: Mapping[Bounds, Sequence[Effect]]) -> str:
    errors = {b: sum(error(k, e) for k, e in zip(counts.keys, each, strict=True)) / len(each) for b, each in found.items()}
    best = min(errors, key=lambda b: errors[b])
    if errors[best] >= 1:
        return "No choice makes these counts useful: ask for fewer groups, or spend more epsilon a question."
    off = f"counts of these groups are off by about {percent(round(errors[best] * 10**6), 10**6)}"
    if best == table.bounds or errors[best] > 0.95 * errors[table.bounds]:
        return f"What is written serves well: {off if best == table.bounds else 'no other choice is much better'}."
    return f"Write `bounds: {{ {written_bounds(best)} }}`: {off}, noise and bounds together."


def _of_medians(counts: TableCounts, found: Mapping[Bounds, Sequence[Effect]]) -> Iterator[str]:
    """What serves percentiles best, where they can be had at all."""
    for i, each in enumerate(counts.keys):
        best = min(found, key=lambda b: displaced(each, found[b][i]))
        off = displaced(each, found[best][i])
        if off < HALF:
            yield f"  For medians by {each.key.name}, `{written_bounds(best)}` serves best: between {_between(off)}."


# The command.


def bounds(
    file: Annotated[Path, typer.Argument(help="the policy's file; its backend is counted exactly")],
    table: Annotated[list[str] | None, typer.Option(help="a table to look at; may be repeated; default: all")] = None,
    role: Annotated[str | None, typer.Option(help="whose questions; default: the first role")] = None,
) -> None:
    """Say what each choice of bounds keeps and how much noise it has, by exact counts of the data: for the author alone."""
    with bar("counting") as progress:
        lines = asyncio.run(_lines(file, table or [], role, progress))
    print(PRIVATE.strip())
    for line in lines:
        print(line)


async def _lines(file: Path, chosen: Sequence[str], role: str | None, progress: Progress) -> list[str]:
    loaded = load_file(file)
    policy, backend = loaded.policy, open_backend(loaded)
    tables = _tables(policy, chosen)
    if role is not None and role not in policy.roles:
        raise OperatorError(f"{file}: there is no role `{role}`; {suggestion(role, policy.roles)}")
    lines: list[str] = []
    try:
        catalog = await fitting_catalog(loaded, backend)
        bench = Bench(policy, catalog, backend.dialect)
        for done, table in enumerate(tables):
            progress(f"counting {table.name}", done, len(tables))
            whose = _asking(policy, table, role)
            counts = await counted(catalog, table, whose, backend)
            found = {b: await effects(bench, table, whose, counts, b, backend) for b in choices(table, counts)}
            lines += ["", *page(table, policy.unit_name, counts, found, decimal(whose.query.epsilon, MICRO))]
    finally:
        await backend.close()
    return lines or ["Each table has one row of each person: there are no bounds to choose."]


def _tables(policy: Policy, chosen: Sequence[str]) -> list[TablePolicy]:
    """The private tables with several rows of a person, or those of them that are named. Raises OperatorError."""
    several = {str(t.name): t for t in policy.tables.values() if t.kind is TableKind.PEOPLE and not t.one}
    for name in chosen:
        if name not in several:
            raise OperatorError(f"`{name}` has no bounds to choose; {suggestion(name, several)}")
    return [table for name, table in several.items() if not chosen or name in chosen]


def _asking(policy: Policy, table: TablePolicy, role: str | None) -> Role:
    """The role whose questions are planned: the one that is named, or the first that sees the table."""
    if role is not None:
        return policy.roles[role]
    seeing = (r for r in policy.roles.values() if r.tables is None or table.name in r.tables)
    return next(seeing, next(iter(policy.roles.values())))
