"""Keys of several columns, joined into one: `unit: [tenant, user]` is one text that stands for both.

Knows: policies, catalogs, SQL of the three engines. Must not know: rows, plans. A table with such a key has one more column,
which no database has. The catalog gets it (`with_joined`), and whoever writes SQL spells it from its parts (`spelled`). For all
else it is a column like any other: a unit's, or a key's on the path to it.

Two rows have the same text exactly where all parts are equal. Each part is written as its length, a colon, and itself: so the
first part can be read off the text, then the next. It is NULL where a part is: such a row belongs to nobody. Parts are of types
whose equal values are written alike: whole numbers, texts, dates, days of moments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.model import KeyPart, Policy
from dpproxy.policy.names import MAX_NAME, quote_name

MARK = "\x1f"
"""Begins the source of a joined column, and each of its parts."""
DAY = "\x1e"
"""Begins a part that is the day of a moment."""
ALIKE = ("int2", "int4", "int8", "text", "varchar", "bpchar", "uuid", "date", "bool")
"""Types whose equal values are written alike, whatever the engine."""
MOMENTS = ("timestamp", "date")
_DIGEST = 12


def day_promise(policy: Policy) -> str | None:
    """Return what a unit of somebody's days does not promise; None for other units."""
    if not policy.by_day:
        return None
    return "each day is protected by itself: of what one person does on several days, more can be learned"


def joined_name(parts: Iterable[KeyPart]) -> str:
    """Return what a joined column is called: its parts in order, then the word key."""
    name = "_".join([f"{part.column}_day" if part.day else part.column for part in parts]) + "_key"
    if len(name.encode()) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return name.encode()[: MAX_NAME - _DIGEST - 1].decode("utf-8", "ignore") + "_" + digest


def misfit(table: CatalogTable, part: KeyPart) -> str | None:
    """Return why a column of a table cannot be part of a key; None where it can, or does not exist."""
    column = table.column(part.column)
    if column is None:
        return None
    if not column.bounded:
        return column.reason or "of a type without a counterpart"
    if part.day:
        return None if column.type in MOMENTS else f"of type {column.type}, which has no days"
    return None if column.type in ALIKE else f"of type {column.type}: equal values of it may be written differently"


def with_joined(policy: Policy, catalog: Catalog) -> Catalog:
    """Return the catalog with the joined columns of a policy's tables. One that cannot be made is left out."""
    made = {name: _with(table, policy.tables[name].joined) for name, table in catalog.tables.items() if _joins(policy, name)}
    return replace(catalog, tables={**catalog.tables, **made}) if made else catalog


def _joins(policy: Policy, table: object) -> bool:
    return any(name == table and known.joined for name, known in policy.tables.items())


def _with(table: CatalogTable, joined: Mapping[str, tuple[KeyPart, ...]]) -> CatalogTable:
    for name, parts in joined.items():
        columns = [table.column(part.column) for part in parts]
        if table.column(name) is not None or None in columns or any(misfit(table, part) for part in parts):
            continue
        known = [column for column in columns if column is not None]
        source = "".join(MARK + (DAY if p.day else "") + c.source for p, c in zip(parts, known, strict=True))
        made = CatalogColumn(name, source, "text", any(c.nullable for c in known), parts=parts)
        whole = {part.column for part in parts if not part.day}
        kept = any(key and set(key) <= whole for key in (table.primary_key, *table.unique))
        unique = (*table.unique, (name,)) if kept else table.unique
        table = replace(table, columns=(*table.columns, made), unique=unique)
    return table


def spelled(source: str, quote: str, alias: str = "") -> str:
    """Return a column as SQL: its name in the engine's quotes, or the text that a joined one is. `alias`: of its table."""
    place = f"{alias}." if alias else ""
    if not source.startswith(MARK):
        return place + quote_name(source, quote)
    type_ = "STRING" if quote == "`" else "TEXT"
    parts = [_text(part, place, quote, type_) for part in source[1:].split(MARK)]
    text = " || ':' || ".join([f"CAST(LENGTH({part}) AS {type_}) || ':' || {part}" for part in parts])
    return f"({text})" if quote == "`" else f'(({text}) COLLATE "C")'


def _text(part: str, place: str, quote: str, type_: str) -> str:
    if part.startswith(DAY):
        return f"CAST(CAST({place}{quote_name(part[1:], quote)} AS DATE) AS {type_})"
    return f"CAST({place}{quote_name(part, quote)} AS {type_})"


def stored(table: CatalogTable) -> CatalogTable:
    """Return the table as its backend has it: without joined columns, and with reports in place of what devices have."""
    made = {column.name for column in table.columns if column.parts}
    if not made and not any(column.reports for column in table.columns):
        return table
    columns = tuple(column.reports or column for column in table.columns if not column.parts)
    return replace(table, columns=columns, unique=tuple(key for key in table.unique if not made & set(key)))
