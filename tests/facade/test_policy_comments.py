"""Comments say what the policy says, behind the backend's own."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from dpproxy.facade.policy_comments import SHOWN_VALUES, column_comment, table_comment
from dpproxy.local.claims import Binary
from dpproxy.policy.catalog import CatalogColumn, CatalogTable
from dpproxy.policy.model import Bounds, ColumnPolicy, ColumnRole, Randomised, Reports, TablePolicy, UnitPath
from dpproxy.policy.report_columns import reports_told
from dpproxy.table_terms import TableName

NAME = TableName("public", "visits")
TABLE = TablePolicy(NAME, UnitPath("person"), False, Bounds(3, 2), {})
SHAPE = CatalogTable(NAME, ("m", "v"), ())
PRIVATE = "Private: rows of persons, of which only aggregates are answered; "
DAYS = (dt.datetime(2020, 1, 1), dt.datetime(2020, 12, 31, 23, 59, 59, 999999))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "3 rows of a person count in a group, in 2 groups"),
        ({"bounds": Bounds(1, None)}, "1 row of a person count in a group"),
        ({"bounds": Bounds(10, None, whole=True)}, "10 rows of a person count in all groups together"),
        ({"one": True}, "one row of each person"),
    ],
)
def test_tables(change: dict[str, object], said: str) -> None:
    table = replace(TABLE, **change)  # type: ignore[arg-type]
    assert table_comment(table, SHAPE, "person") == PRIVATE + said
    assert table_comment(table, replace(SHAPE, comment="Who came."), "person") == f"Who came. {PRIVATE}{said}"


def test_reports_say_what_a_device_tells() -> None:
    reports = replace(TABLE, unit=None, reports=Reports(Fraction(4), keep_days=90))
    said = table_comment(reports, SHAPE, "device")
    assert said is not None
    assert said.startswith("Reports of devices, randomised before they were stored")
    assert said.endswith("epsilon 4 a report, 1 report a day, epsilon 360 in the 90 days kept")
    coin = Randomised(((1, Binary(Fraction(3, 4), Fraction(1, 4))),), "c")
    rules = {"c": ColumnPolicy("c", randomised=coin), "d": ColumnPolicy("d", plain=True, values=("x",))}
    told = [column_comment(replace(reports, columns=rules), CatalogColumn(c, c, "bool"), "device") for c in rules]
    assert told == ["Randomised on devices by rr, epsilon 1.09861", "Told without noise, One of x"]


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        (Reports(Fraction(1, 2), 3), "epsilon 0.5 a report, 3 reports a day, kept for ever"),
        (Reports(Fraction(2), 2, 1), "epsilon 2 a report, 2 reports a day, epsilon 4 in the day kept"),
        (Reports(Fraction(2), 1, 9, fresh=False), "epsilon 2 a report, 1 report a day, the same answer each time"),
    ],
)
def test_what_devices_tell(reports: Reports, said: str) -> None:
    assert reports_told(reports) == said


def test_of_public_tables_only_the_backends_comment() -> None:
    public = replace(TABLE, unit=None)
    assert table_comment(public, SHAPE, "person") is None
    assert table_comment(public, replace(SHAPE, comment="shops"), "person") == "shops"
    assert column_comment(public, CatalogColumn("c", "c", "int4", comment="x"), "person") == "x"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (None, "Says whose row it is: may be counted and joined on, never shown (person)"),
        (ColumnPolicy("c", ColumnRole.KEY), "A key: may be joined on and counted, never shown"),
        (ColumnPolicy("c"), None),
        (ColumnPolicy("c", values=("a", 2)), "One of a, 2"),
        (ColumnPolicy("c", values=(True, False)), "One of true, false"),
        (ColumnPolicy("c", range=(Decimal(0), Decimal(9)), resolution=Decimal("0.01")), "From 0 to 9, in steps of 0.01"),
        (ColumnPolicy("c", range=DAYS), "From 2020-01-01 to 2020-12-31"),
        (ColumnPolicy("c", lasts=(dt.timedelta(), dt.timedelta(days=30))), "From 0 days to 30 days"),
        (ColumnPolicy("c", length=80), "80 characters count"),
    ],
)
def test_columns(rule: ColumnPolicy | None, said: str | None) -> None:
    table = replace(TABLE, columns={} if rule is None else {"c": rule})
    assert column_comment(table, CatalogColumn("c", "c", "int4"), "person") == said


def test_a_long_list_of_values_is_cut() -> None:
    rule = ColumnPolicy("c", values=tuple(range(SHOWN_VALUES + 5)))
    said = column_comment(replace(TABLE, columns={"c": rule}), CatalogColumn("c", "c", "int4"), "person")
    assert said is not None
    assert said.endswith(f"{SHOWN_VALUES - 1} and 5 more in dpproxy.policy")
