"""Invented rows: of every private table, made once, of declarations and types alone."""

from __future__ import annotations

from dataclasses import replace

from dpproxy.answers.dataset import SIZE, InventedRows
from dpproxy.policy.catalog import Catalog, CatalogColumn
from dpproxy.policy.model import ColumnPolicy
from tests.worlds.scripted import PEOPLE, SHOPS, catalog, policy


def test_rows_of_private_tables_alone_made_once() -> None:
    invented = InventedRows()
    rows = invented.rows(policy(), catalog())
    assert PEOPLE in rows
    assert SHOPS not in rows
    assert {len(column) for column in rows[PEOPLE].values()} == {SIZE.units}
    assert invented.rows(policy(), catalog()) is rows
    assert InventedRows().rows(policy(), catalog()) == rows, "the same wherever they are made"


def test_values_are_declared_ones_and_of_odd_types_none() -> None:
    base, known = policy(), catalog()
    shape = known.tables[PEOPLE]
    odd = (CatalogColumn("place", "place", "inet", nullable=False), CatalogColumn("tags", "tags", "text[]", nullable=False))
    regions = ColumnPolicy("region", values=("x", "y"))
    columns = {**base.tables[PEOPLE].columns, "region": regions, "place": ColumnPolicy("place"), "tags": ColumnPolicy("tags")}
    given = replace(base, tables={**base.tables, PEOPLE: replace(base.tables[PEOPLE], columns=columns)})
    wider = Catalog({**known.tables, PEOPLE: replace(shape, columns=(*shape.columns, *odd))})
    rows = InventedRows().rows(given, wider)[PEOPLE]
    assert set(rows["region"]) == {"x", "y"}
    assert set(rows["place"]) == set(rows["tags"]) == {None}
