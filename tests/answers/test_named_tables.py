"""Tables and columns that generated SQL names: all of them, whatever quotes the engine has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpproxy.answers.public_tables import named_tables
from dpproxy.privacy.measurement import Measurement
from dpproxy.sql.statements import split
from dpproxy.sql.template import Dialect, Param, Template
from dpproxy.table_terms import TableName
from tests.worlds.scripted import PEOPLE, SHOPS, catalog, policy, scripted_plan


def measurement(*parts: str | Param, dialect: Dialect = "duckdb") -> Measurement:
    (statement,) = split("SELECT region, count(*) AS n FROM people", frozenset({"people"}))
    made = scripted_plan(statement, policy().roles["analyst"], {"dpproxy.epsilon": "1"}, ()).measurements[0]
    return replace(made, queries=(Template(dialect, parts),))


def named(*measurements: Measurement) -> dict[TableName, list[str]]:
    return {t.name: [c.name for c in t.columns] for t in named_tables(policy(), catalog(), measurements)}


@pytest.mark.parametrize(("dialect", "q"), [("duckdb", '"'), ("postgres", '"'), ("spark", "`")])
def test_names_in_an_engines_quotes(dialect: Dialect, q: str) -> None:
    people, shops = (f"{q}main{q}.{q}{name}{q}" for name in ("people", "shops"))
    assert named(measurement(f"SELECT count({q}region{q}) FROM {people}", dialect=dialect)) == {PEOPLE: ["region"]}
    both = measurement(
        f"SELECT 1 FROM {people} WHERE {q}id{q} = ", Param(0, "int8"), f" UNION SELECT 2 FROM {shops}", dialect=dialect
    )
    assert named(both) == {PEOPLE: ["id"], SHOPS: ["id"]}
    assert named(measurement("SELECT 'main.people'", dialect=dialect)) == {}


def test_all_measurements_of_a_statement() -> None:
    first = measurement('SELECT 1 FROM "main"."people" WHERE "id" = 1')
    second = measurement('SELECT "region" FROM "main"."people"')
    assert named(first, second) == {PEOPLE: ["id", "region"]}
