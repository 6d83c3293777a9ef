"""Randomised columns in the catalog: what analysts see of them, and what is stored.

Knows: policies, catalogs. Must not know: rows, SQL, decoding. A column that devices randomised has the type of its true
values, and the backend's name of the column that holds the reports (`CatalogColumn.reports`), which nobody sees by its own name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from dpproxy.local.claims import Binary, Claim, Duchi, Laplace, Levels
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.joined_keys import with_joined
from dpproxy.policy.model import ColumnPolicy, Policy, Randomised, ReleasedList, Reports, TablePolicy, Value

CLAIM, NUMBER = "claim", "n"
"""Stored columns that the proxy reads itself: the number of a report's claim, and how many reports a cell stands for."""
WHOLE = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
NUMBERS = (*WHOLE, "numeric", "float4", "float8")
TEXTS = ("text", "varchar", "bpchar")


def visible_catalog(policy: Policy, catalog: Catalog) -> Catalog:
    """Return the catalog with the columns that no backend has: keys of several columns, and randomised ones."""
    whole = with_joined(policy, catalog)
    made = {name: _with(table, policy.tables[name], whole) for name, table in whole.tables.items() if name in policy.tables}
    return replace(whole, tables={**whole.tables, **made})


def _with(table: CatalogTable, rules: TablePolicy, catalog: Catalog) -> CatalogTable:
    marked = {c.randomised.stored: c for c in rules.columns.values() if c.randomised is not None}
    return replace(table, columns=tuple(_seen(c, marked, catalog) for c in table.columns)) if marked else table


def _seen(column: CatalogColumn, marked: Mapping[str, ColumnPolicy], catalog: Catalog) -> CatalogColumn:
    rule = marked.get(column.name)
    if rule is None or rule.randomised is None or column.reports is not None:
        return column
    type_ = true_type(rule.randomised, catalog)
    return replace(column, name=rule.name, type=type_, bounded=True, reason="", collated=False, exact="", reports=column)


def true_type(randomised: Randomised, catalog: Catalog) -> str:
    """Return PostgreSQL's type of the values that devices have."""
    claim: Claim = randomised.claims[0][1]
    if isinstance(claim, Binary):
        return "bool"
    if isinstance(claim, Levels | Laplace | Duchi):
        return "float8"
    listed = randomised.values
    if isinstance(listed, ReleasedList):
        table = catalog.tables.get(listed.table)
        column = table.column(listed.column) if table is not None else None
        return column.type if column is not None else "text"
    return _of_values(listed)


def _of_values(values: tuple[Value, ...] | None) -> str:
    if not values:
        return "text"
    if all(isinstance(v, bool) for v in values):
        return "bool"
    if all(isinstance(v, int) for v in values):
        return "int8"
    if all(isinstance(v, int | Decimal) for v in values):
        return "numeric"
    if all(isinstance(v, dt.date) for v in values):
        return "timestamp" if any(isinstance(v, dt.datetime) for v in values) else "date"
    return "text"


def reports_told(reports: Reports) -> str:
    """Say what a device tells: `epsilon 4 a report, 1 report a day, epsilon 360 in the 90 days kept`."""
    a_day = f"{reports.per_day} report{'s' if reports.per_day != 1 else ''} a day"
    said = f"epsilon {number_text(reports.epsilon)} a report, {a_day}"
    if not reports.fresh:
        return f"{said}, the same answer each time"
    if reports.keep_days is None:
        return f"{said}, kept for ever"
    whole = reports.epsilon * reports.per_day * reports.keep_days
    kept = f"{reports.keep_days} days" if reports.keep_days != 1 else "day"
    return f"{said}, epsilon {number_text(whole)} in the {kept} kept"


def randomised_told(made: Randomised) -> str:
    """Say how a column was randomised: `by pgr, epsilon 4`, and each claim where there are several."""
    each = dict.fromkeys(f"by {claim.name}, epsilon {number_text(claim.epsilon)}" for _, claim in made.claims)
    return "randomised on devices " + "; ".join(each)


def number_text(amount: Fraction) -> str:
    """Write an epsilon with six digits at most."""
    return f"{float(amount):,.6g}"


def read_beside(rules: TablePolicy) -> Iterator[str]:
    """Yield the stored columns that the proxy reads of a table of reports, and the policy does not name."""
    versions = {number for c in rules.columns.values() if c.randomised is not None for number, _ in c.randomised.claims}
    if versions - {1}:
        yield CLAIM
    if rules.reports is not None and rules.reports.cells:
        yield NUMBER


def misstored(rule: Randomised, column: CatalogColumn, cells: bool) -> str | None:
    """Return why a stored column cannot hold the reports of a claim; None where it can."""
    held = column.reports or column
    for _, claim in rule.claims:
        space = claim.space
        match space.form:
            case "boolean":
                wrong = None if held.type == "bool" else "yes or no"
            case "integer":
                wrong = None if WHOLE.get(held.type, 0) >= space.size else f"whole numbers from 0 to {space.size - 1}"
            case "bits" if cells:
                wrong = None if WHOLE.get(held.type, 0) > space.size else f"whole numbers from 0 to {space.size}"
            case "number":
                wrong = None if held.type in NUMBERS else "numbers"
            case "value":
                wrong = (
                    None if held.type == column.type or {held.type, column.type} <= {*TEXTS} else f"values of type {column.type}"
                )
            case "bits":
                wrong = None if held.type in TEXTS else "bit vectors as texts"
        if wrong is not None:
            return f"is of type {held.type}, and reports by {claim.name} are {wrong}"
    return None
