"""Evidence that a table is about people: in its schema, and in how many of its values are ids of private tables.

Knows: catalogs, what names say (`review.doubts`), generated SQL that counts. Must not know: terminals, how SQL is run. A table of
people that is called public gives away everything, so evidence never makes a table public: it only tells an author why to look.
A shared number is weak evidence. Most ids are counted from 1, so the 50 numbers of a catalogue are among the ids of 10,000 people
by themselves. Of such ids a column is suspected when it covers a tenth of them, or is called after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from dpproxy.authoring.unit_links import bare, called_like, own_key
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.check import family
from dpproxy.policy.data_claims import QUOTE, column_source, table_source
from dpproxy.policy.names import singular
from dpproxy.review import hints
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName, same_kind

Column = tuple[TableName, str]
ROLES = re.compile(
    r"(?:^|_)(?:author|owner|sender|receiver|recipient|payer|payee|caller|callee|holder|writer|winner|loser|reviewer|commenter|"
    r"follower|followed|liker|liked|blocker|blocked|creator|buyer|seller|driver|teacher|trainer|doctor|physician|nurse|manager|"
    r"agent|clerk|guest|parent|child|donor|rider|reader|player|worker|operator|beneficiary|insured|debtor|creditor|borrower|"
    r"lender|voter|contact|crew|passenger|resident|tenant|pupil|absender|empf(?:ae|ä)nger|autor|auteur|abonn[ée]|destinataire|"
    r"exp[ée]diteur|suiveur|remitente|destinatario)(?:_?(?:id|key|no|nr))?s?$",
    re.IGNORECASE,
)
"""Names of what people do, as columns and tables have them."""
_SUFFIX = re.compile(r"_?(?:id|key|no|nr|num|number)$", re.IGNORECASE)
IDS = ("number", "text", "uuid")
"""Families of types that ids are of."""
WORD = 3
"""Letters that a key's name must have beside its ending, to be taken for the same word elsewhere: card in card_no."""
_REFERENCE = re.compile(r"_(?:id|key|sk)$", re.IGNORECASE)
"""Ends the names of numbers of rows elsewhere: that of an address may be a shop's."""
_OF_THINGS = re.compile(r"(?:^|_)(?:descriptions?|comments?|remarks?)$", re.IGNORECASE)
"""Free text that things have as often as people: of a product, of a region."""
SHARE = 0.5
"""Part of a column's distinct values that are ids: from here on the column holds ids."""
COVERED = 0.1
"""Part of all ids that a column of numbers must have, where ids are counted without gaps."""
GAPS = 4
"""Ids are counted without gaps when their span is less than so many times their number."""


def evidence(catalog: Catalog, private: Set[TableName], unit: Column, table: CatalogTable) -> tuple[str, ...]:
    """Return what a schema says for a table being about people, the strongest first, each as a clause."""
    return tuple(dict.fromkeys((*_by_keys(catalog, private, table), *_by_names(catalog, private, unit, table))))


def _by_keys(catalog: Catalog, private: Set[TableName], table: CatalogTable) -> Iterator[str]:
    for key in table.foreign_keys:
        if key.target in private:
            yield f"`{key.columns[0]}` refers to `{key.target}`, whose rows are people's"
    for name in private:
        for key in catalog.tables[name].foreign_keys if name in catalog.tables else ():
            if key.target == table.name and hints.names_people(key.columns[0]):
                yield f"`{name}.{key.columns[0]}` refers to it"


def _by_names(catalog: Catalog, private: Set[TableName], unit: Column, table: CatalogTable) -> Iterator[str]:
    for name, plain in bare(table).items():
        if named_after(catalog, private, unit, plain):
            yield f"`{name}` is called like a key of people's rows"
    if called_after_people(table.name.name):
        yield "it is called after people"
    for column in table.columns:
        if hints.names_people(column.name) or ROLES.search(column.name):
            yield f"`{column.name}` is called like an id of people"
        elif hints.personal(column.name) and not _REFERENCE.search(column.name):
            yield f"`{column.name}` is called like what finds a person"
        elif hints.free_text(column.name) and not _OF_THINGS.search(column.name):
            yield f"`{column.name}` is called like free text"


def called_after_people(name: str) -> bool:
    """Return whether a table is called after people, or after what people do."""
    return hints.of_people(name) or ROLES.search(name) is not None


def named_after(catalog: Catalog, private: Set[TableName], unit: Column, column: str) -> bool:
    """Return whether a column (its name without the table's prefix) is called like the unit's key or a private table's own."""
    for name in private:
        target = catalog.tables.get(name)
        if target is None:
            continue
        key, one = unit[1] if name == unit[0] else own_key(target), singular(name.name)
        called = bare(target).get(key or "", "")
        stem = _SUFFIX.sub("", called)
        if column == one or (stem != called and len(stem) >= WORD and column in (stem, f"{stem}s")):
            return True
        if called and (column in (f"{one}_{called}", f"{one}{called}") or called_like(column, called)):
            return True
    return False


@dataclass(frozen=True)
class Overlap:
    """Comparison of a column with the ids of a private table, by counts."""

    column: Column
    ids: Column
    queries: tuple[str, ...]
    numbers: bool
    named: bool

    def holds_ids(self, counts: tuple[int, ...]) -> bool:
        """Return whether the column holds ids. `counts`: of `queries`."""
        values, shared, ids, span = counts
        if shared < 2 or shared < SHARE * values:
            return False
        return not self.numbers or self.named or span >= GAPS * ids or shared >= COVERED * ids


def overlaps(
    catalog: Catalog, private: Set[TableName], unit: Column, ids: Set[Column], table: CatalogTable, dialect: Dialect
) -> Iterator[Overlap]:
    """Yield a comparison for each column of a table and each id of a private table that may hold the same.

    Each has four SELECTs of one whole number: distinct values, those among the ids, ids, and the span of ids that are numbers.
    """
    for column in table.columns:
        if not column.bounded or family(column.type) not in IDS or column.type in ("numeric", "float8", "float4"):
            continue
        named = named_after(catalog, private, unit, bare(table)[column.name]) or hints.names_people(column.name)
        for place in sorted(ids, key=str):
            target = catalog.tables.get(place[0])
            other = target.column(place[1]) if target is not None else None
            if other is not None and family(other.type) == family(column.type) and same_kind(column, other):
                numbers = family(column.type) == "number"
                queries = _queries(catalog, (table.name, column), (place[0], other), dialect, numbers)
                yield Overlap((table.name, column.name), place, queries, numbers, named)


def _queries(
    catalog: Catalog,
    one: tuple[TableName, CatalogColumn],
    other: tuple[TableName, CatalogColumn],
    dialect: Dialect,
    numbers: bool,
) -> tuple[str, ...]:
    quote = QUOTE[dialect]
    (column, source), (key, ids) = (
        (column_source(catalog, name, c.name, quote), table_source(catalog, name, quote)) for name, c in (one, other)
    )
    shared = f"SELECT COUNT(DISTINCT {column}) FROM {source} WHERE {column} IN (SELECT {key} FROM {ids})"
    span = f"SELECT CAST(COALESCE(MAX({key}) - MIN({key}), 0) AS BIGINT) FROM {ids}" if numbers else "SELECT 0"
    return (
        f"SELECT COUNT(DISTINCT {column}) FROM {source}",
        shared,
        f"SELECT COUNT(DISTINCT {key}) FROM {ids}",
        span,
    )
