"""What is asked in an audit: statements of every shape that a policy's tables allow, or those of a file.

Knows: policies, catalogs, SQL as text. Must not know: what becomes of a statement: what is refused is told, and costs nothing. A
shape is there for each part of the planner that bounds something: aggregates, declared and undeclared keys, NULL keys, join
paths, outer joins, preparation of one unit's rows, HAVING, top lists, percentiles, distinct values, grouping sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpproxy.audit.bench import Statement
from dpproxy.authoring.cases import read_log
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Policy, Role, TableKind, TablePolicy
from dpproxy.policy.names import quote_name
from dpproxy.sql.statements import split

_NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8")
_TIMES = ("date", "timestamp", "timestamptz")
_TEXTS = ("text", "varchar", "bpchar")


def read_statements(path: Path, role: str) -> tuple[Statement, ...]:
    """Return the statements of a file: a log, as `dpproxy policy simulate` reads, where its name ends in .jsonl; else SQL,
    asked by `role`. Raises PolicyError, OSError, Refusal."""
    if path.suffix == ".jsonl":
        return tuple(Statement(a.question.role, a.question.query, a.name, a.question.settings) for a in read_log(path))
    return tuple(Statement(role, s.text) for s in split(path.read_text(encoding="utf-8"), frozenset()))


def generated(policy: Policy, catalog: Catalog) -> tuple[Statement, ...]:
    """Return statements of every shape, asked by the role that may read the most tables; of other roles, whose limits differ, one
    of each kind of groups."""
    roles = sorted(policy.roles.values(), key=lambda r: (-len(_tables(policy, r)), r.name))
    found: list[Statement] = []
    for number, role in enumerate(roles):
        mine = [_Columns.of(table, catalog) for table in _tables(policy, role)]
        shapes = [*_all(mine), *_joins(policy, mine)]
        if number:
            shapes = [one for one in shapes if one[0] in ("count", "declared key", "undeclared key", "percentile")][:6]
        found += (Statement(role.name, sql, shape) for shape, sql in shapes)
    return tuple(dict.fromkeys(found))


def _tables(policy: Policy, role: Role) -> list[TablePolicy]:
    return [t for t in policy.of_kind(TableKind.PEOPLE) if role.tables is None or t.name in role.tables]


@dataclass(frozen=True)
class _Columns:
    """The columns of a table by what they are for, quoted. `open`: keys that nobody declared; `whose`: the unit's column."""

    table: str
    rules: TablePolicy
    numbers: tuple[str, ...]
    declared: tuple[str, ...]
    open: tuple[str, ...]
    times: tuple[str, ...]
    keys: tuple[str, ...]
    whose: str | None

    @classmethod
    def of(cls, rules: TablePolicy, catalog: Catalog) -> _Columns:
        types = {c.name: c.type for c in catalog.tables[rules.name].columns}
        plain = [c for c in rules.columns.values() if c.role is ColumnRole.PLAIN and c.name in types]

        def named(columns: Sequence[ColumnPolicy]) -> tuple[str, ...]:
            return tuple(quote_name(c.name) for c in columns)

        return cls(
            quote_name(rules.name.name)
            if rules.name.schema == "public"
            else f"{rules.name.schema}.{quote_name(rules.name.name)}",
            rules,
            named([c for c in plain if types[c.name] in _NUMBERS and c.range is not None]),
            named([c for c in plain if c.values is not None and types[c.name] not in _TIMES]),
            named([c for c in plain if c.values is None and (types[c.name] in _TEXTS or c.range is None)]),
            named([c for c in plain if types[c.name] in _TIMES and c.range is not None]),
            named([c for c in rules.columns.values() if c.role is ColumnRole.KEY]),
            next((quote_name(c.name) for c in rules.columns.values() if c.role is ColumnRole.UNIT), None),
        )

    def groups(self) -> tuple[str, ...]:
        return (*self.declared[:1], *self.open[:1])


Shapes = Iterator[tuple[str, str]]


def _all(tables: Sequence[_Columns]) -> Shapes:
    for t in tables:
        yield "count", f"SELECT count(*) FROM {t.table}"
        yield from _distinct(t)
        yield from _grouped(t)
        for x in t.numbers[:2]:
            yield from _aggregates(t, x)
        yield from _prepared(t)


def _distinct(t: _Columns) -> Shapes:
    for column in (*filter(None, (t.whose,)), *t.keys[:1], *t.open[:1], *t.declared[:1], *t.numbers[:1]):
        yield "distinct values", f"SELECT count(DISTINCT {column}) FROM {t.table}"
    for key in t.declared[:1]:
        for column in (*t.keys[:1], *t.open[:1], *t.numbers[:1]):
            yield "distinct values in groups", f"SELECT {key}, count(DISTINCT {column}) FROM {t.table} GROUP BY 1"
    for column in t.groups():
        yield "distinct rows", f"SELECT count(*) FROM (SELECT DISTINCT {column} FROM {t.table}) AS d"


def _grouped(t: _Columns) -> Shapes:
    for key in t.declared[:3]:
        yield "declared key", f"SELECT {key}, count(*) FROM {t.table} GROUP BY 1"
    for key in t.declared[:1]:
        yield "having", f"SELECT {key}, count(*) FROM {t.table} GROUP BY 1 HAVING count(*) > 10"
        yield "null key", f"SELECT {key} IS NULL, count(*) FROM {t.table} GROUP BY 1"
        yield "filter", f"SELECT count(*) FILTER (WHERE {key} IS NOT NULL), count(*) FILTER (WHERE {key} IS NULL) FROM {t.table}"
    for key in (*t.open[:2], *t.times[:1]):
        yield "undeclared key", f"SELECT {key}, count(*) FROM {t.table} GROUP BY 1"
        yield "top list", f"SELECT {key}, count(*) FROM {t.table} GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
    for key in t.open[:1]:
        yield "null key", f"SELECT coalesce(CAST({key} AS text), '-'), count(*) FROM {t.table} GROUP BY 1"
    for time in t.times[:1]:
        yield "time key", f"SELECT date_trunc('month', {time}), count(*) FROM {t.table} GROUP BY 1"
    pairs = [*zip(t.declared[:1], t.declared[1:2], strict=False), *zip(t.declared[:1], t.open[:1], strict=False)]
    for one, two in pairs:
        yield "two keys", f"SELECT {one}, {two}, count(*) FROM {t.table} GROUP BY 1, 2"
        yield "grouping sets", f"SELECT {one}, {two}, count(*) FROM {t.table} GROUP BY ROLLUP ({one}, {two})"


def _aggregates(t: _Columns, x: str) -> Shapes:
    for shape, call in {
        "sum": f"sum({x})",
        "average": f"avg({x})",
        "spread": f"stddev({x}), var_pop({x})",
        "extremes": f"min({x}), max({x})",
        "percentile": f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {x})",
        "percentiles": f"percentile_disc(ARRAY[0.1, 0.5, 0.75, 0.9]) WITHIN GROUP (ORDER BY {x})",
        "mode": f"mode() WITHIN GROUP (ORDER BY {x})",
        "clamped sum": f"sum(least(greatest({x}, 0), 5))",
        "conditional sum": f"sum(CASE WHEN {x} > 3 THEN {x} ELSE -1 END)",
    }.items():
        yield shape, f"SELECT {call} FROM {t.table}"
        for key in t.groups() if shape in ("sum", "average", "percentile", "extremes") else ():
            yield f"{shape} in groups", f"SELECT {key}, {call} FROM {t.table} GROUP BY 1"


def _prepared(t: _Columns) -> Shapes:
    """What is made of one unit's rows before it is aggregated."""
    if t.whose is None or t.rules.one:
        return
    yield "rows of each unit", f"SELECT avg(n) FROM (SELECT {t.whose}, count(*) AS n FROM {t.table} GROUP BY 1) AS e"
    yield (
        "histogram of rows",
        f"SELECT n, count(*) FROM (SELECT {t.whose}, count(*) AS n FROM {t.table} GROUP BY 1) AS e GROUP BY 1",
    )
    for x in t.numbers[:1]:
        order = f"row_number() OVER (PARTITION BY {t.whose} ORDER BY {x}) AS place"
        yield "window", f"SELECT count(*) FROM (SELECT {order} FROM {t.table}) AS e WHERE place <= 2"
        total = f"SELECT {t.whose}, sum({x}) AS total FROM {t.table} GROUP BY 1"
        yield "sum of each unit", f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM ({total}) AS e"
        yield "staged", f"SELECT count(*) FROM {t.table} WHERE {x} > (SELECT avg({x}) FROM {t.table})"


def _joins(policy: Policy, tables: Sequence[_Columns]) -> Shapes:
    by_name = {t.rules.name: t for t in tables}
    for t in tables:
        assert t.rules.unit is not None
        if t.rules.unit.steps and (target := by_name.get(t.rules.unit.steps[0].target)) is not None:
            step = t.rules.unit.steps[0]
            yield from _joined(t, target, f"a.{quote_name(step.column)} = b.{quote_name(step.target_column)}")
        yield from _with_public(policy, t)
    owning = [t for t in tables if t.whose is not None]
    for i, one in enumerate(owning):
        for two in owning[i + 1 :]:
            yield from _joined(two, one, f"a.{two.whose} = b.{one.whose}")
            yield (
                "exists",
                (
                    f"SELECT count(*) FROM {one.table} AS b WHERE EXISTS"
                    f" (SELECT 1 FROM {two.table} AS a WHERE a.{two.whose} = b.{one.whose})"
                ),
            )
            yield (
                "union",
                f"SELECT count(*) FROM (SELECT {one.whose} FROM {one.table} UNION ALL SELECT {two.whose} FROM {two.table}) AS u",
            )


def _joined(t: _Columns, other: _Columns, on: str) -> Shapes:
    """`a` has several rows for one of `b`."""
    yield "join", f"SELECT count(*) FROM {t.table} AS a JOIN {other.table} AS b ON {on}"
    for kind in ("LEFT", "RIGHT", "FULL"):
        for key in other.groups()[:1]:
            named = f"coalesce(CAST(b.{key} AS text), '-')"
            extra = f" AND a.{t.numbers[0]} > 5" if t.numbers else ""
            joined = f"FROM {t.table} AS a {kind} JOIN {other.table} AS b ON {on}{extra if kind != 'FULL' else ''}"
            yield f"{kind.lower()} join", f"SELECT {named}, count(*) {joined} GROUP BY 1"
    for key in other.groups():
        for x in t.numbers[:1]:
            yield (
                "join in groups",
                f"SELECT b.{key}, sum(a.{x}), count(*) FROM {t.table} AS a JOIN {other.table} AS b ON {on} GROUP BY 1",
            )
    for one, two in zip(other.groups()[:1], t.groups()[-1:], strict=False):
        yield (
            "keys of both sides",
            (f"SELECT b.{one}, a.{two}, count(*) FROM {t.table} AS a JOIN {other.table} AS b ON {on} GROUP BY 1, 2"),
        )


def _with_public(policy: Policy, t: _Columns) -> Shapes:
    """With a public table, by a column of the same name that is its key."""
    for public in policy.of_kind(TableKind.PUBLIC):
        shared = [c for c in t.rules.columns if c in public.columns and t.rules.columns[c].role is ColumnRole.PLAIN]
        for name in shared[:1]:
            yield (
                "join with public rows",
                (f"SELECT count(*) FROM {t.table} JOIN {quote_name(public.name.name)} USING ({quote_name(name)})"),
            )
