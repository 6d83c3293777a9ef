"""`dpproxy.help` speaks of the role that asks: its prices, one of its own tables. That its examples run is tested in `tests/test_admin.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.virtual_rows import help_rows
from dpproxy.ledger.ledger import Ledger
from dpproxy.table_terms import TableName
from tests.worlds.scripted import PEOPLE, SHOPS, ScriptedEngine, policy, scripted_dataset


@pytest.fixture
def dataset() -> Dataset:
    return scripted_dataset(ScriptedEngine(), cast(Ledger, None), policy())


def told(dataset: Dataset, tables: frozenset[TableName] | None = None) -> str:
    rules = dataset.policy
    return str(list(help_rows(dataset, Asker(rules.users["ada"], replace(rules.roles["analyst"], tables=tables)))))


def test_prices_units_and_names_are_the_roles(dataset: Dataset) -> None:
    said = told(dataset)
    assert "costs epsilon 0.1, and at most 1." in said
    assert "count persons instead of rows" in said
    assert 'FROM "public"."people"' in said


def test_a_table_that_the_role_does_not_see_is_not_named(dataset: Dataset) -> None:
    assert str(PEOPLE.name) not in told(dataset, frozenset({SHOPS}))
    assert "FROM dpproxy.tables" in told(dataset, frozenset({SHOPS}))


def test_names_are_quoted(dataset: Dataset) -> None:
    strange = replace(dataset.policy.tables[PEOPLE], name=TableName("public", 'a "b" c'))
    other = replace(dataset, policy=replace(dataset.policy, tables={strange.name: strange}))
    assert 'FROM "public"."a ""b"" c"' in told(other)
