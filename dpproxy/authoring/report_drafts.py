"""Tables of reports in a draft: which columns devices may have randomised, and what is to be said of them.

Knows: catalogs, names and comments. Must not know: rows, terminals. That a column was randomised is nothing that names prove: a
true value taken for a report would be added up without noise. So a table is drafted so where the author names it (`--reports`),
and of others it is said that they look so. What nobody can tell from a schema, probabilities and candidates, is marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dpproxy.authoring.yaml_text import scalar, written_name
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.report_columns import CLAIM, NUMBER, NUMBERS, WHOLE
from dpproxy.review import hints
from dpproxy.table_terms import TableName

_SAID = re.compile(
    r"randomi[sz]ed|randomi[sz]ation|(?:^|[_\W])(?:coin|rappor|ldp|local[_ ]dp|reports?)(?:$|[_\W])", re.IGNORECASE
)
_STORED = re.compile(r"(.+)_(?:r|rr|report|randomi[sz]ed)\Z", re.IGNORECASE)
DAY = "day"
LATEST = "2026-01-01, 2027-12-31"
SHARE = "1.0987"
"""Epsilon of a coin, for each column that nobody has said more of."""


def looks_reported(table: CatalogTable) -> bool:
    """Tell whether names or comments say that devices randomised a table's columns."""
    texts = [table.name.name, table.comment or "", *(c.comment or "" for c in table.columns)]
    return any(map(_SAID.search, texts)) or any(_STORED.match(c.name) for c in table.columns)


def drafted(table: CatalogTable) -> Iterator[str]:
    """Yield the lines of a table of reports."""
    chosen = reported(table)
    yield f"  {written_name(table.name)}:  # TODO that devices randomised these columns is your word: nothing else protects them"
    yield f"    reports: {{ epsilon: {1.1 * len(chosen):g}, per_day: 1, keep: 90d }}  # TODO what a device tells, how long kept"
    yield "    columns:"
    for column in table.columns:
        if column.name not in (CLAIM, NUMBER):
            yield f"      {_column(column, chosen)}"


def reported(table: CatalogTable) -> tuple[CatalogColumn, ...]:
    """Return the columns that reports are in: those that names or comments call so, else all that may be."""
    usable = [c for c in table.columns if _claim(c) and c.name not in (DAY, CLAIM, NUMBER) and not hints.names_people(c.name)]
    called = [c for c in usable if _STORED.match(c.name) or (c.comment is not None and _SAID.search(c.comment))]
    return tuple(called or [c for c in usable if c.type == "bool"] or usable[:1])


def alone(catalog: Catalog, tables: frozenset[TableName], public: frozenset[TableName], dataset: str, backend: str) -> list[str]:
    """Return the lines of a policy without people, but for roles and users: no unit is protected, and no budget spent."""
    lines = [
        "# yaml-language-server: $schema=dpproxy.schema.json",
        "# A draft by `dpproxy policy init`, of names and types. What is yours to decide is marked.",
        "version: 1",
        f"dataset: {scalar(dataset)}",
        f"backend: {backend}",
        "privacy_unit: { name: device }  # no table has a unit: nothing is counted by person",
        "tables:",
    ]
    for name, table in catalog.tables.items():
        if name in tables:
            lines += drafted(table)
        elif name in public:
            lines.append(f"  {written_name(name)}: {{ public: true }}")
        else:
            lines.append(f"  # {written_name(name)}: left out")
    return lines


def _column(column: CatalogColumn, chosen: Sequence[CatalogColumn]) -> str:
    name = written_name(TableName("public", column.name))
    if column in chosen:
        stored = _STORED.match(column.name)
        shown = written_name(TableName("public", stored[1])) if stored else name
        source = f", from: {name}" if stored else ""
        return f"{shown}: {{ randomised: {{ {_claim(column)} }}{source} }}  # TODO how devices do it, of which values"
    if column.name == DAY and column.type == "date":
        return f"{name}: {{ plain: true, range: [{LATEST}] }}  # TODO the days that there may be"
    return f"{name}: hidden  # TODO plain: true, if everybody may know of each report what it says"


def _claim(column: CatalogColumn) -> str | None:
    """A mechanism that reports of a column's type may be by."""
    if column.type == "bool":
        return "by: rr, if_yes: 3/4, if_no: 1/4"
    if column.type in WHOLE:
        return f"by: levels, range: [0, 1], epsilon: {SHARE}"
    if column.type in NUMBERS:
        return f"by: laplace, range: [0, 1], epsilon: {SHARE}"
    return f"by: krr, values: [a, b], epsilon: {SHARE}" if column.type == "text" else None
