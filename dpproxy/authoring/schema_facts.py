"""What a schema says of values: enumerated types and CHECK constraints, as domains and ranges.

Knows: SQL of the two engines' catalogs, sqlglot's trees of conditions. Must not know: rows. A condition is understood when it is
one of a few shapes (`x IN (...)`, `x BETWEEN a AND b`, `x >= a AND x <= b`); anything else says nothing. What a schema says is
public by the owner's own decision, unlike what the data show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

import sqlglot
from sqlglot import exp

from dpproxy.sql.template import Dialect

DUCKDB = (
    "SELECT schema_name, table_name, column_name, data_type, '' FROM duckdb_columns() "
    "WHERE database_name = current_database() AND NOT internal AND (data_type LIKE 'ENUM(%' OR data_type LIKE 'DECIMAL(%')",
    "SELECT schema_name, table_name, constraint_column_names[1], '', expression FROM duckdb_constraints() "
    "WHERE database_name = current_database() AND constraint_type = 'CHECK'",
)
POSTGRES = (
    "SELECT n.nspname, c.relname, a.attname, "
    "'ENUM(' || string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) || ')', '' "
    "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_enum e ON e.enumtypid = a.atttypid WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 GROUP BY 1, 2, 3",
    "SELECT n.nspname, c.relname, '', '', pg_get_expr(k.conbin, k.conrelid) FROM pg_constraint k "
    "JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE k.contype = 'c'",
    "SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), '' FROM pg_attribute a "
    "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND a.atttypid = 'numeric'::regtype AND a.atttypmod > 0 "
    "AND n.nspname NOT IN ('pg_catalog', 'information_schema')",
    "SELECT n.nspname, c.relname, a.attname, '', pg_get_expr(k.conbin, 0) FROM pg_attribute a "
    "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_constraint k ON k.contypid = a.atttypid "
    "WHERE k.contype = 'c' AND c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')",
)
"""Queries of (schema, table, column, type, condition): types that have values, and what rows must satisfy."""

MANY_DIGITS = 7  # before the point: a type that holds more was not chosen for its ends
OF_DOMAIN = "VALUE"  # what the condition of a domain calls the column that is of it
Place = tuple[str, str, str]
"""Schema, table, column, as the engine spells them."""
_LITERAL = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True)
class Facts:
    """What is known of a column: its values, its ends, its grid. `largest`: the largest number of its type."""

    values: tuple[str | int, ...] = ()
    low: Decimal | None = None
    high: Decimal | None = None
    resolution: Decimal | None = None
    largest: Decimal | None = None


@dataclass
class _Known:
    found: dict[Place, Facts] = field(default_factory=dict)

    def add(self, place: Place, new: Facts) -> None:
        old = self.found.get(place, Facts())
        self.found[place] = Facts(
            new.values or old.values,
            new.low if new.low is not None else old.low,
            new.high if new.high is not None else old.high,
            new.resolution or old.resolution,
            new.largest or old.largest,
        )


def read_facts(rows: Iterable[tuple[str, str, str, str, str]], dialect: Dialect) -> Mapping[Place, Facts]:
    """Return the facts in the rows of an engine's queries (`DUCKDB`, `POSTGRES`)."""
    known = _Known()
    for schema, table, column, type_, condition in rows:
        if type_.startswith("ENUM("):
            known.add((schema, table, column), Facts(tuple(v.replace("''", "'") for v in _LITERAL.findall(type_))))
        elif type_:
            known.add((schema, table, column), _of_type(type_))
        for name, facts in _of_condition(condition, dialect) if condition else ():
            known.add((schema, table, column if name == OF_DOMAIN else name), facts)
    return known.found


def _of_type(type_: str) -> Facts:
    """Grid and ends of a decimal type; none for one that is wider than any amount."""
    found = re.search(r"\((\d+),\s*(\d+)\)", type_)
    if found is None:
        return Facts()
    digits, scale = int(found[1]), int(found[2])
    grid = Decimal(1).scaleb(-scale)
    largest = Decimal(1).scaleb(digits - scale) - grid if digits - scale <= MANY_DIGITS else None
    return Facts(resolution=grid if scale else None, largest=largest)


def _of_condition(condition: str, dialect: Dialect) -> Iterator[tuple[str, Facts]]:
    try:
        tree = sqlglot.parse_one(condition, dialect="duckdb" if dialect == "duckdb" else "postgres")
    except sqlglot.ParseError:
        return
    parts = tree.unnest().flatten() if isinstance(tree.unnest(), exp.And) else [tree]
    for part in parts:
        yield from _of_part(part.unnest())


def _of_part(part: exp.Expr) -> Iterator[tuple[str, Facts]]:
    match part:
        case exp.In():
            yield from _listed(part.this, part.expressions)
        case exp.EQ(this=left, expression=exp.Any(this=right)):  # PostgreSQL's own spelling of IN
            array = right.unnest().find(exp.Array)
            yield from _listed(left, array.expressions if array else [])
        case exp.Between():
            low, high, name = _number(part.args["low"]), _number(part.args["high"]), _column(part.this)
            if name and low is not None and high is not None:
                yield name, Facts(low=low, high=high)
        case exp.GTE() | exp.LTE() | exp.GT() | exp.LT():
            name, end = _column(part.this), _number(part.expression)
            if name and end is not None:
                yield name, Facts(low=end) if isinstance(part, exp.GTE | exp.GT) else Facts(high=end)


def _listed(column: exp.Expr, items: Iterable[exp.Expr]) -> Iterator[tuple[str, Facts]]:
    name = _column(column)
    literals = [item if isinstance(item, exp.Literal) else item.find(exp.Literal) for item in items]
    known = [lit for lit in literals if lit is not None and (lit.is_string or lit.is_int)]
    values = tuple(lit.this if lit.is_string else int(lit.this) for lit in known)
    if name and values and len(values) == len(literals):
        yield name, Facts(values)


def _column(tree: exp.Expr) -> str | None:
    inner = tree.unnest()
    while isinstance(inner, exp.Cast):
        inner = inner.this.unnest()
    return inner.name if isinstance(inner, exp.Column) else None


def _number(tree: exp.Expr) -> Decimal | None:
    inner = tree.unnest()
    while isinstance(inner, exp.Cast):
        inner = inner.this.unnest()
    try:
        return Decimal(inner.sql())
    except InvalidOperation:
        return None
