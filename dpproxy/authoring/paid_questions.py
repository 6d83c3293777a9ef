"""What is asked of the data for a draft, of epsilon that the owner allots: how many people there are, values of columns of
few, rows and groups of a person, ends of numbers and dates.

Knows: catalogs, decisions, SQL as analysts write it. Must not know: mechanisms, ledgers; the questions go through a proxy of
the draft itself, are planned, charged and recorded there as anybody's (`authoring.paid_session`). Values of whole numbers are
asked for before their ends, as a histogram takes much less epsilon than percentiles do. A person is counted once wherever that is
possible: of a table of many rows a person's smallest and largest value are asked for. Search begins from ends that are the type's
own, not the data's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from dpproxy.authoring.draft import Column, Decisions, Open, led, one_row, open_columns
from dpproxy.authoring.paths import Link
from dpproxy.authoring.schema_facts import Facts, Place
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import family
from dpproxy.policy.names import quote_name
from dpproxy.review import hints
from dpproxy.sql.types import INTEGERS
from dpproxy.table_terms import TableName

LEAST, MOST = Decimal("0.05"), Decimal("0.95")
"""Percentiles proposed as ends. Those nearer the edge would take much more epsilon: a private percentile misses by some hundred
ranks where epsilon is small, and must not miss past the first row."""
WIDE = ("-1000000", "1000000")
MOST_ROWS = 1000
PEOPLE_WEIGHT = Decimal("0.25")  # one count: of much less error than percentiles need
ENDS_WEIGHT = Decimal(3)  # two percentiles are off by five times as many people as a count, at the same epsilon
KEYS = 8  # columns of a table whose values are counted for a person

Subject = Column | TableName
Aim = Literal["people", "ends", "values", "rows", "groups"]


@dataclass(frozen=True)
class Asked:
    """Is one question: what for, about what, and its SQL. `weight`: its part of the epsilon, beside the others'."""

    aim: Aim
    about: Subject
    sql: str
    weight: Decimal = Decimal(1)


def searching(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> Decisions:
    """Return decisions whose undecided numbers have the ends that a search begins from."""
    found = open_columns(catalog, decisions, facts)
    ranges = {c.place: WIDE for c in found if family(c.type) == "number" and not c.has_ends}
    return replace(decisions, ranges={**ranges, **decisions.ranges})


def questions(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> list[Asked]:
    """Return what is asked first: people, values, rows and groups."""
    found, unit = led(catalog, decisions), decisions.unit
    private = [name for name in found if name in catalog.tables]
    asked = [Asked("people", name, _people(found, name), PEOPLE_WEIGHT) for name in private]
    columns = [c for c in _open(catalog, decisions, facts) if family(c.type) == "text" or c.type in INTEGERS]
    asked += [Asked("values", column.place, _values(column.place, found)) for column in columns]
    for name in private:
        if name not in decisions.bounds and not one_row(catalog.tables[name], found[name], unit):
            asked.append(Asked("rows", name, _most(found, name, "count(*)")))
            counts = [f"count(DISTINCT t0.{quote_name(c.place[1])})" for c in columns if c.place[0] == name][:KEYS]
            if counts:
                largest = f"greatest({', '.join(counts)})" if len(counts) > 1 else counts[0]
                asked.append(Asked("groups", name, _most(found, name, largest)))
    return asked


def ends(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> list[Asked]:
    """Return what is asked then: the ends of numbers and dates that are still undecided."""
    found = led(catalog, decisions)
    columns = [c for c in _open(catalog, decisions, facts) if family(c.type) in ("number", "date")]
    single = {c.place[0]: one_row(catalog.tables[c.place[0]], found[c.place[0]], decisions.unit) for c in columns}
    return [Asked("ends", c.place, _ends(c, found, single[c.place[0]]), ENDS_WEIGHT) for c in columns]


def _open(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> list[Open]:
    """Columns that are undecided and worth a question: what is called like a key may find a person."""
    return [c for c in open_columns(catalog, decisions, facts) if not hints.key_like(c.place[1])]


def _ends(column: Open, found: Mapping[TableName, Link], alone: bool) -> str:
    name, key = column.place[0], f"t0.{quote_name(column.place[1])}"
    source, person = _source(found, name)
    cast = "::date::text" if family(column.type) == "date" else "::text"
    low, high, rows = key, key, source
    if not alone:
        low, high = "low", "high"
        rows = f"(SELECT {person} AS person, min({key}) AS low, max({key}) AS high FROM {source} GROUP BY 1) AS each"
    both = ", ".join(f"percentile_disc({p}) WITHIN GROUP (ORDER BY {end}){cast}" for p, end in ((LEAST, low), (MOST, high)))
    return f"SELECT {both} FROM {rows}"


def _people(found: Mapping[TableName, Link], name: TableName) -> str:
    source, person = _source(found, name)
    return f"SELECT count(DISTINCT {person}) FROM {source}"


def _values(place: Column, found: Mapping[TableName, Link]) -> str:
    source, person = _source(found, place[0])
    return f"SELECT t0.{quote_name(place[1])}, count(DISTINCT {person}) FROM {source} GROUP BY 1 ORDER BY 1"


def _most(found: Mapping[TableName, Link], name: TableName, counted: str) -> str:
    source, person = _source(found, name)
    each = f"SELECT {person} AS person, least({counted}, {MOST_ROWS}) AS n FROM {source} GROUP BY 1"
    return f"SELECT percentile_disc({MOST}) WITHIN GROUP (ORDER BY n)::text FROM ({each}) AS each"


def _source(found: Mapping[TableName, Link], name: TableName) -> tuple[str, str]:
    """The table, as t0, joined with those on its path to the unit, and the column that names the unit there."""
    text, link = f"{_table(name)} AS t0", found[name]
    number = 0
    while link.target is not None:
        here, there = f"t{number}.{quote_name(link.column)}", f"t{number + 1}.{quote_name(link.target_column)}"
        text += f" JOIN {_table(link.target)} AS t{number + 1} ON {here} = {there}"
        link, number = found[link.target], number + 1
    return text, f"t{number}.{quote_name(link.column)}"


def _table(name: TableName) -> str:
    return f"{quote_name(name.schema)}.{quote_name(name.name)}"
