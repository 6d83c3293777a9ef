"""Evidence that a table is about people: in its schema, and in how many of its values are ids of private tables.

Knows: catalogs, what names say (`review.hints`), generated SQL that counts. Must not know: terminals, how SQL is run. A table of
people that is called public gives away everything, so evidence never makes a table public: it only tells an author why to look.
Evidence is handed on: a view of a suspected table, and a table that refers to one, are suspected as well.
A shared number is weak evidence. Most ids are counted from 1, so the 50 numbers of a catalogue are among the ids of 10,000 people
by themselves. Of such ids a column is suspected when it covers a tenth of them, or is called after them. Texts are compared
without blanks and capitals, and with the usual encodings of an id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
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
    r"lender|voter|tutor|coach|instructor|lecturer|professor|mentor|consultant|counsell?or|therapist|surgeon|midwife|host|courier|"
    r"participant|attendee|applicant|candidate|claimant|contestant|referee|volunteer|apprentice|colleague|neighbou?r|relative|spouse|"
    r"sibling|mother|father|contact|crew|passenger|resident|tenant|pupil|absender|empf(?:ae|ä)nger|autor|auteur|abonn[ée]|destinataire|"
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
NAMELESS = ("id", "key", "code", "sk")
"""Names of keys that say nothing of a table."""
SHARE = 0.5
"""Part of a column's distinct values that are ids: from here on the column holds ids."""
COVERED = 0.1
"""Part of all ids that a column of numbers must have, where ids are counted without gaps."""
GAPS = 4
"""Ids are counted without gaps when their span is less than so many times their number."""


def evidence(catalog: Catalog, private: Set[TableName], unit: Column, table: CatalogTable) -> tuple[str, ...]:
    """Return what a schema says for a table being about people, the strongest first, each as a clause. Of tables that are not
    private."""
    own = tuple(dict.fromkeys((*_of_rows(catalog, private, unit, table), *_of_cells(table))))
    return own or tuple(_handed_on(catalog, private, unit, table))


def _of_rows(catalog: Catalog, private: Set[TableName], unit: Column, table: CatalogTable) -> Iterator[str]:
    """Signs that each row is somebody's. Those of rows that lead to it are, too."""
    yield from _by_reading(private, table)
    yield from _by_keys(catalog, private, table)
    for name, plain in bare(table).items():
        if named_after(catalog, private, unit, plain):
            yield f"`{name}` is called like a key of people's rows"
    if called_after_people(table.name.name):
        yield "it is called after people"
    for column in table.columns:
        if names_somebody(column.name):
            yield f"`{column.name}` is called like an id of people"
    own = catalog.tables.get(unit[0])
    keyed = own is not None and (unit[1],) in (own.primary_key, *own.unique)
    if keyed and table.name != unit[0] and table.column(unit[1]) is not None and not (table.primary_key or table.unique):
        yield f"`{unit[1]}` is called like the key of `{unit[0]}`, and is no key here"


def _of_cells(table: CatalogTable) -> Iterator[str]:
    """Signs that cells may find or describe a person: those of an address may be a shop's."""
    for column in table.columns:
        if names_somebody(column.name):
            continue
        if hints.personal(column.name) and not _REFERENCE.search(column.name):
            yield f"`{column.name}` is called like what finds a person"
        elif hints.free_text(column.name) and not _OF_THINGS.search(column.name):
            yield f"`{column.name}` is called like free text"


def names_somebody(column: str) -> bool:
    """Return whether a column is called like an id of people, or after what they do."""
    return hints.names_people(column) or ROLES.search(column) is not None


def _by_reading(private: Set[TableName], table: CatalogTable) -> Iterator[str]:
    """What a view reads. Many roles may read views of people alone, and not the tables of people."""
    for name in table.reads:
        if name in private or called_after_people(name.name):
            yield f"it is a view of `{name}`, whose rows are people's"


def _handed_on(catalog: Catalog, private: Set[TableName], unit: Column, table: CatalogTable) -> Iterator[str]:
    """References to tables, and views of them, that a sign speaks of themselves, or of those that they refer to in turn."""
    near, edge = {table.name}, [table]
    while edge:
        one = edge.pop()
        for name, how in _led_to(catalog, one):
            other = catalog.tables.get(name)
            if other is None or name in near or name in private:
                continue
            near.add(name)
            edge.append(other)
            sign = next(_of_rows(catalog, private, unit, other), None)
            if sign is not None:
                yield f"{how if one is table else f'it leads to `{name}`'}, which may be about people: {sign}"
                return


def _led_to(catalog: Catalog, table: CatalogTable) -> Iterator[tuple[TableName, str]]:
    """Tables that a table's rows lead to, and a clause that says so: by foreign keys, by views, by names of columns."""
    for name in table.reads:
        yield name, f"it is a view of `{name}`"
    for key in table.foreign_keys:
        yield key.target, f"`{key.columns[0]}` refers to `{key.target}`"
    names = bare(table)
    for other in catalog.tables.values() if not table.foreign_keys else ():
        called = bare(other).get(own_key(other) or "", "")
        if other.name == table.name or called in ("", *NAMELESS):
            continue
        for column, plain in names.items():
            if plain == called and column != own_key(table):
                yield other.name, f"`{column}` is called like the key of `{other.name}`"


def _by_keys(catalog: Catalog, private: Set[TableName], table: CatalogTable) -> Iterator[str]:
    for key in table.foreign_keys:
        if key.target in private:
            yield f"`{key.columns[0]}` refers to `{key.target}`, whose rows are people's"
    for name in private:
        for key in catalog.tables[name].foreign_keys if name in catalog.tables else ():
            if key.target == table.name and hints.names_people(key.columns[0]):
                yield f"`{name}.{key.columns[0]}` refers to it"


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
        if not _may_be_ids(column):
            continue
        named = named_after(catalog, private, unit, bare(table)[column.name]) or hints.names_people(column.name)
        for place in sorted(ids, key=str):
            target = catalog.tables.get(place[0])
            other = target.column(place[1]) if target is not None else None
            if other is not None and _may_be_ids(other):
                numbers = "number" in (family(column.type), family(other.type))
                queries = _queries(catalog, (table.name, column), (place[0], other), dialect)
                yield Overlap((table.name, column.name), place, queries, numbers, named)


def _may_be_ids(column: CatalogColumn) -> bool:
    return column.bounded and family(column.type) in IDS and column.type not in ("numeric", "float8", "float4")


TEXT: Mapping[Dialect, str] = {"postgres": "TEXT", "duckdb": "VARCHAR", "spark": "STRING"}
ENCODED: Mapping[Dialect, tuple[str, ...]] = {
    "postgres": (
        "MD5({0})",
        "ENCODE(SHA256(CONVERT_TO({0}, 'UTF8')), 'hex')",
        "ENCODE(CONVERT_TO({0}, 'UTF8'), 'base64')",
        "ENCODE(CONVERT_TO({0}, 'UTF8'), 'hex')",
    ),
    "duckdb": ("MD5({0})", "SHA256({0})", "BASE64(ENCODE({0}))", "HEX(ENCODE({0}))"),
    "spark": ("MD5({0})", "SHA2({0}, 256)", "BASE64(ENCODE({0}, 'UTF-8'))", "HEX({0})"),
}
"""How ids are hidden by people who think that hides them: digests without a secret, and encodings. `{0}`: the id as text."""


def as_text(source: str, dialect: Dialect) -> str:
    """Return SQL of a column's value as text, of whatever type."""
    return f"CAST({source} AS {TEXT[dialect]})"


def _queries(
    catalog: Catalog, one: tuple[TableName, CatalogColumn], other: tuple[TableName, CatalogColumn], dialect: Dialect
) -> tuple[str, ...]:
    quote = QUOTE[dialect]
    (column, source), (key, ids) = (
        (column_source(catalog, name, c.name, quote), table_source(catalog, name, quote)) for name, c in (one, other)
    )
    among = f"SELECT {key} FROM {ids}"
    value = column
    if family(one[1].type) == "text" or family(one[1].type) != family(other[1].type) or not same_kind(one[1], other[1]):
        value, plain = _plain(as_text(column, dialect)), as_text(key, dialect)
        texts = [plain, *(form.format(plain) for form in ENCODED[dialect] if family(one[1].type) == "text")]
        among = " UNION ALL ".join(f"SELECT {_plain(text)} FROM {ids}" for text in texts)
    numbers = family(other[1].type) == "number"
    span = f"SELECT CAST(COALESCE(MAX({key}) - MIN({key}), 0) AS BIGINT) FROM {ids}" if numbers else "SELECT 0"
    return (
        f"SELECT COUNT(DISTINCT {column}) FROM {source}",
        f"SELECT COUNT(DISTINCT {column}) FROM {source} WHERE {value} IN ({among})",
        f"SELECT COUNT(DISTINCT {key}) FROM {ids}",
        span,
    )


def _plain(text: str) -> str:
    """SQL of a text without what writers add to ids: blanks, capitals, the dashes of a UUID, line breaks of an encoding."""
    return f"LOWER(REPLACE(REPLACE(TRIM({text}), '-', ''), CHR(10), ''))"
