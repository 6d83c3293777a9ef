"""What the policy says of a table and its columns, as comments in the facade's catalog, behind the backend's own.

Knows: policies, shapes of tables. Must not know: SQL, rows. psql's `\\d+`, BI tools and assistants that write SQL read comments,
and few of them read `dpproxy.policy`, which says the same.
"""

from __future__ import annotations

import datetime as dt
from typing import assert_never

from dpproxy.policy.catalog import CatalogColumn, CatalogTable
from dpproxy.policy.model import Bounds, ColumnPolicy, ColumnRole, TableKind, TablePolicy, Value
from dpproxy.policy.names import plural
from dpproxy.policy.report_columns import randomised_told, reports_told
from dpproxy.policy.scalars import length_text

SHOWN_VALUES = 20
"""Declared values that a comment lists: a line or two in most tools."""


def table_comment(table: TablePolicy, shape: CatalogTable, unit: str) -> str | None:
    """Return the comment of a table; None for none."""
    return _joined(shape.comment, _whose(table, unit))


def _whose(table: TablePolicy, unit: str) -> str | None:
    match table.kind:
        case TableKind.PUBLIC:
            return None
        case TableKind.PEOPLE:
            return f"Private: rows of {plural(unit)}, of which only aggregates are answered; {_counted(table, unit)}"
        case TableKind.REPORTS:
            assert table.reports is not None
            said = f"Reports of {plural(unit)}, randomised before they were stored: counts are estimates, and no row is shown"
            return f"{said}; {reports_told(table.reports)}"
        case _:
            assert_never(table.kind)


def column_comment(table: TablePolicy, column: CatalogColumn, unit: str) -> str | None:
    """Return the comment of a column; None for none."""
    return _joined(column.comment, None if table.kind.shown else _said(table.columns.get(column.name), unit))


def _joined(*parts: str | None) -> str | None:
    return ". ".join(part.rstrip(" .;") for part in parts if part) or None


def _counted(table: TablePolicy, unit: str) -> str:
    if table.one:
        return f"one row of each {unit}"
    return _bounded(table.bounds, unit)


def _bounded(bounds: Bounds, unit: str) -> str:
    rows = f"{bounds.rows} row{'s' if bounds.rows != 1 else ''} of a {unit} count"
    if bounds.whole:
        return f"{rows} in all groups together"
    return f"{rows} in a group" + (
        "" if bounds.groups is None else f", in {bounds.groups} group{'s' if bounds.groups != 1 else ''}"
    )


def _said(rule: ColumnPolicy | None, unit: str) -> str | None:
    if rule is None or rule.role is ColumnRole.UNIT:
        return f"Says whose row it is: may be counted and joined on, never shown ({unit})"
    if rule.role is ColumnRole.KEY:
        return "A key: may be joined on and counted, never shown"
    said = [_capital(randomised_told(rule.randomised))] if rule.randomised is not None else []
    said += ["Told without noise"] if rule.plain else []
    said += [_values(rule)] if rule.values is not None else []
    if rule.range is not None and rule.values is None:
        said.append(f"From {_text(rule.range[0])} to {_text(rule.range[1])}")
    if rule.lasts is not None:
        said.append(f"From {length_text(rule.lasts[0])} to {length_text(rule.lasts[1])}")
    said += [f"in steps of {rule.resolution}"] if rule.resolution is not None else []
    said += [f"{rule.length} characters count"] if rule.length is not None else []
    return ", ".join(said) or None


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _values(rule: ColumnPolicy) -> str:
    values = [_text(value) for value in rule.values or ()]
    more = len(values) - SHOWN_VALUES
    return f"One of {', '.join(values[:SHOWN_VALUES])}" + (f" and {more} more in dpproxy.policy" if more > 0 else "")


def _text(value: Value) -> str:
    """Return a value as people write it: of a range of days, which reaches to the last day's end, the days."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime) and value.time() in (dt.time.min, dt.time.max):
        return value.date().isoformat()
    return str(value)
