"""Ranges and bounds proposed from the data, for epsilon that the owner allots: private percentiles, asked like any query.

Knows: catalogs, decisions, SQL as analysts write it. Must not know: mechanisms, ledgers; the questions go through a proxy of the
policy itself, are planned, charged and recorded there as anybody's. What comes back is rounded outwards to two digits, so that a
proposal looks like what it is. Search begins from ends that are the type's own, not the data's.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from dpproxy.authoring import hints
from dpproxy.authoring.draft import Column, Decisions
from dpproxy.authoring.paths import links
from dpproxy.policy.catalog import Catalog, CatalogTable, TableName
from dpproxy.policy.check import family
from dpproxy.policy.names import quote_name

LEAST, MOST = 0.05, 0.95
"""Percentiles proposed as ends. Those nearer the edge would take much more epsilon: a private percentile misses by some hundred
ranks where epsilon is small, and must not miss past the first row."""
MANY = 0.95  # of units have no more rows than the bound proposed
WIDE = ("-1000000", "1000000")
LONG = ("1900-01-01", "2100-01-01")
MOST_ROWS = 1000


@dataclass(frozen=True)
class Asked:
    """Is one question: what it is about, and its SQL, of two percentiles or one."""

    about: Column | TableName
    sql: str


def searching(catalog: Catalog, decisions: Decisions) -> Decisions:
    """Return decisions whose undecided numbers and dates have the ends that a search begins from."""
    ranges = {place: (LONG if kind == "date" else WIDE) for place, kind in _undecided(catalog, decisions)}
    return replace(decisions, ranges={**ranges, **decisions.ranges})


def questions(catalog: Catalog, decisions: Decisions) -> list[Asked]:
    """Return what is asked: the ends of each undecided number and date, the rows of a unit in each table of many."""
    asked = []
    for (table, column), kind in _undecided(catalog, decisions):
        day = "::date" if kind == "date" else ""
        ends = ", ".join(f"percentile_disc({p}) WITHIN GROUP (ORDER BY {quote_name(column)}){day}::text" for p in (LEAST, MOST))
        asked.append(Asked((table, column), f"SELECT {ends} FROM {_table(table)}"))
    found = {**links(catalog, decisions.unit), **decisions.links}
    for name, link in found.items():
        if name != decisions.unit[0] and link.target is None and name not in decisions.bounds and name not in decisions.public:
            each = f"SELECT {quote_name(link.column)}, least(count(*), {MOST_ROWS}) AS n FROM {_table(name)} GROUP BY 1"
            asked.append(Asked(name, f"SELECT percentile_disc({MANY}) WITHIN GROUP (ORDER BY n)::text FROM ({each}) AS each"))
    return asked


def measured(
    catalog: Catalog, decisions: Decisions, answers: Mapping[Column | TableName, Sequence[str]], epsilon: str
) -> Decisions:
    """Return decisions with what was answered. A question without an answer leaves its column undecided."""
    ranges, bounds = dict(decisions.ranges), dict(decisions.bounds)
    for about, texts in answers.items():
        if isinstance(about, TableName):
            rows = max(1, math.ceil(float(texts[0])))
            bounds[about] = (int(_out(Decimal(rows), up=True)), min(rows, 10))
        elif family(catalog.tables[about[0]].column(about[1]).type) == "date":  # type: ignore[union-attr]
            low, high = (dt.date.fromisoformat(text[:10]) for text in texts)
            ranges[about] = (f"{low.year}-01-01", f"{high.year}-12-31")
        else:
            low_, high_ = _out(Decimal(texts[0]), up=False), _out(Decimal(texts[1]), up=True)
            ranges[about] = (f"{low_:f}", f"{max(high_, low_ + 1):f}")
    return replace(decisions, ranges=ranges, bounds=bounds, origin=f"measured privately, of epsilon {epsilon} in all")


def _undecided(catalog: Catalog, decisions: Decisions) -> Iterator[tuple[Column, str]]:
    found = {**links(catalog, decisions.unit), **decisions.links}
    for name, link in found.items():
        table: CatalogTable | None = catalog.tables.get(name)
        for column in table.columns if table is not None and name not in decisions.public else ():
            place, kind = (name, column.name), family(column.type)
            taken = (
                place in decisions.ranges or place in decisions.values or place in decisions.keys or column.name == link.column
            )
            if kind in ("number", "date") and column.bounded and not taken and not hints.key_like(column.name):
                yield place, kind


def _out(value: Decimal, up: bool) -> Decimal:
    """Two digits, away from the middle."""
    if value == 0:
        return Decimal(0)
    step = Decimal(1).scaleb(value.adjusted() - 1)
    return (value / step).to_integral_value("ROUND_CEILING" if up else "ROUND_FLOOR") * step


def _table(name: TableName) -> str:
    return f"{quote_name(name.schema)}.{quote_name(name.name)}"
