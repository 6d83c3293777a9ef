"""How tables lead to the privacy unit: by foreign keys, and where a schema has none, by names of columns.

Knows: catalogs. Must not know: policies, data. A path by a foreign key is what the schema says; one by names is a guess,
marked so that a person decides. The search goes out from the unit's table, one join at a time, and a table takes the shortest
way it finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.check import family
from dpproxy.policy.names import singular
from dpproxy.review import hints
from dpproxy.table_terms import TableName

SHORT = 4  # letters of a word that is cut short: fewer fit too many others


@dataclass(frozen=True)
class Link:
    """How a table's rows find their unit: by a column of their own, or by one that leads to another table's. `sure`: a
    foreign key says so."""

    column: str
    target: TableName | None = None
    target_column: str = ""
    sure: bool = False


def bare(table: CatalogTable) -> dict[str, str]:
    """Return each column's name without the prefix that all columns of the table share ("c_custkey" -> "custkey")."""
    names = [c.name for c in table.columns]
    prefix = re.match(r"[a-z]{1,4}_", names[0]) if len(names) > 1 else None
    shared = prefix is not None and all(name.startswith(prefix[0]) for name in names)
    return {name: name[len(prefix[0]) :] if prefix and shared else name for name in names}


def called_like(column: str, key: str) -> bool:
    """Return whether a column is called as a key is, in its last words, each of which may be cut short: "bill_addr_sk" as
    "address_sk"."""
    if key in ("id", "key", "code", "sk"):
        return False
    words, wanted = column.split("_"), key.split("_")
    last = words[-len(wanted) :]
    return len(last) == len(wanted) and all(
        w == k or (len(w) >= SHORT and k.startswith(w)) for w, k in zip(last, wanted, strict=True)
    )


def own_key(table: CatalogTable) -> str | None:
    """Return the column that names a table's rows: its primary or unique key, or one that is called like it."""
    for key in (table.primary_key, *table.unique):
        if len(key) == 1 and table.column(key[0]) is not None:  # others exist and may not be read
            return key[0]
    if table.primary_key:
        return None
    first = table.columns[0].name if table.columns else ""
    return named_key(table) or (first if first and hints.key_like(first) else None)


def named_key(table: CatalogTable) -> str | None:
    """Return the column that is called after its table: the number of a row, whatever else stands in it."""
    one, names = singular(table.name.name), bare(table)
    wanted = ("id", f"{one}_id", f"{one}id", f"{table.name.name}_id", f"{one}_sk", f"{one}key")
    return next((name for name in names if names[name] in wanted), None)


def links(catalog: Catalog, unit: tuple[TableName, str]) -> dict[TableName, Link]:
    """Return a link for each table that leads to the unit, the unit's own table first."""
    found = {unit[0]: Link(unit[1], sure=True)}
    edge, guessing = [unit[0]], False
    while edge:
        reached = [
            (name, link)
            for name, table in catalog.tables.items()
            if name not in found and (link := _link(catalog, table, edge, unit, guessing)) is not None
        ]
        found.update(reached)
        edge = [name for name, _ in reached]
        if not edge and not guessing:  # of tables whose foreign keys lead elsewhere names are all there is
            edge, guessing = list(found), True
    return found


def _link(
    catalog: Catalog, table: CatalogTable, edge: list[TableName], unit: tuple[TableName, str], guessing: bool
) -> Link | None:
    candidates = [*_by_keys(table, edge), *(_by_names(catalog, table, edge) if guessing or not table.foreign_keys else ())]
    if not candidates:
        return None
    best = candidates[0]
    return Link(best.column, sure=best.sure) if (best.target, best.target_column) == unit else best


def _by_keys(table: CatalogTable, edge: list[TableName]) -> Iterator[Link]:
    for key in table.foreign_keys:
        if len(key.columns) == 1 and key.target in edge:
            yield Link(key.columns[0], key.target, key.target_columns[0], True)


def _by_names(catalog: Catalog, table: CatalogTable, edge: list[TableName]) -> Iterator[Link]:
    """Where a column is called as another table's key. A schema with foreign keys says what it means: there a column without one
    must be called exactly so."""
    keyed = {column for key in table.foreign_keys for column in key.columns}
    weaker: list[Link] = []
    for name in edge:
        target = catalog.tables[name]
        key = own_key(target)
        if key is None:
            continue
        called, one = bare(target)[key], singular(name.name)
        wanted = {called, f"{one}_{called}", f"{one}{called}"} - {"id", "key", "code"}
        for column, plain in bare(table).items():
            if column in keyed:
                continue
            if family(table.column(column).type) != family(target.column(key).type):  # type: ignore[union-attr]
                continue
            if plain in wanted or plain == one:
                yield Link(column, name, key)
            elif not keyed and any(plain.endswith(f"_{word}") for word in wanted):
                weaker.append(Link(column, name, key))
    yield from weaker
