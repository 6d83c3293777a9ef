"""Each part of a policy, changed alone: what is said of it, and whom the change serves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from dpproxy.authoring.exposure import Direction, changes, grows
from dpproxy.policy import model
from dpproxy.policy.load import load_text
from dpproxy.policy.model import Policy
from tests.worlds.authored_town import town_text

TEXT = town_text()


def loaded(text: str) -> Policy:
    return load_text(text, "town.yaml", Path("/town"))


EDITS = [
    ("dataset: town", "dataset: city", Direction.MORE, "dataset"),
    ("duckdb: town.duckdb", "duckdb: other.duckdb", Direction.OTHER, "backend"),
    ("name: person", "name: household", Direction.MORE, "privacy_unit"),
    ("epsilon: 10,", "epsilon: 20,", Direction.MORE, "budget.epsilon"),
    ("epsilon: 10,", "epsilon: 9,", Direction.LESS, "budget.epsilon"),
    ("delta: 1e-6", "delta: 1e-5", Direction.MORE, "budget.delta"),
    ("delta: 1e-6, every: year }", "delta: 1e-6, every: year, warn: [50] }", Direction.OTHER, "budget.warn"),
    ("email: hidden", "email: {}", Direction.MORE, "tables.people.email"),
    ("job: {} ", "job: hidden ", Direction.LESS, "tables.people.job"),
    ("job: {} ", "job: { values: [baker] } ", Direction.LESS, "tables.people.job"),
    ("region: { values: [east, west] }", "region: {}", Direction.MORE, "tables.people.region"),
    ("[east, west]", "[east, west, north]", Direction.MORE, "tables.people.region"),
    ("[east, west]", "[east]", Direction.LESS, "tables.people.region"),
    ("[east, west] }", "[east, west], nulls: true }", Direction.NOISE, "tables.people.region"),
    ("range: [0, 1000]", "range: [0, 2000]", Direction.NOISE, "tables.people.income"),
    ("[0, 100], resolution: 1", "[0, 100], resolution: 0.1", Direction.NOISE, "tables.visits.cost"),
    ("{ range: [0, 100], resolution: 1 }", "{ range: [0 days, 2 days] }", Direction.NOISE, "tables.visits.cost"),
    ("rows: 5", "rows: 10", Direction.NOISE, "tables.visits.bounds"),
    (
        "    bounds: { rows: 5 }\n",
        "    bounds: { rows: 5 }\n    rows_at_most: 40\n",
        Direction.OTHER,
        "tables.visits.rows_at_most",
    ),
    ("unit: id\n", "unit: id\n    keys: [id]\n", Direction.OTHER, "tables.people.keys"),
    ("unit: id\n", "unit: id\n    unprotected: [email]\n", Direction.OTHER, "tables.people.unprotected"),
    ("unit: id\n", "unit: id\n    unique: false\n    bounds: { rows: 2 }\n", Direction.NOISE, "tables.people.unique"),
    ("shops: { public: true }", "shops: { public: true }\n  roads: { public: true }", Direction.MORE, "tables.roads"),
    ("shops: { public: true }", 'shops: { public: { reviewed: "today by Ada" } }', Direction.OTHER, "tables.shops.public"),
    ("easterners: SELECT id,", "easterners: SELECT region,", Direction.MORE, "views.easterners"),
    ("easterners:", "westerners:", Direction.MORE, "views.westerners"),
    (
        "epsilon: 5, delta: 1e-7, every: month",
        "epsilon: 5, delta: 1e-7, every: week",
        Direction.MORE,
        "roles.analyst.budget.epsilon",
    ),
    ("epsilon: 0.5, max", "epsilon: 1, max", Direction.MORE, "roles.analyst.query.epsilon"),
    ("max_epsilon: 1 }", "max_epsilon: 0.5 }", Direction.LESS, "roles.analyst.query.max_epsilon"),
    ("max_epsilon: 1 }", "max_epsilon: 1, delta: 1e-8 }", Direction.MORE, "roles.analyst.query.delta"),
    ("max_epsilon: 1 }", "max_epsilon: 1, measure_bounds: 0.1 }", Direction.NOISE, "roles.analyst.query.measure_bounds"),
    ("max_epsilon: 1 }", "max_epsilon: 1, parameter_bytes: 5000 }", Direction.OTHER, "roles.analyst.query.parameter_bytes"),
    ("tables: [people, shops], min", "min", Direction.MORE, "roles.intern.tables"),
    ("tables: [people, shops]", "tables: [people]", Direction.LESS, "roles.intern.tables"),
    ("min_units: 20", "min_units: 2", Direction.MORE, "roles.intern.min_units"),
    ("min_units: 20", "min_units: 20, previews: synthetic", Direction.OTHER, "roles.intern.previews"),
    ("min_units: 20", "min_units: 20, temp_tables: true", Direction.OTHER, "roles.intern.temp_tables"),
    ("role: analyst, password", "role: intern, password", Direction.MORE, "users.ada.role"),
    ("  ada:", "  bob:", Direction.MORE, "users.bob"),
    (
        "  ada: { role: analyst,",
        "  ada: { role: analyst, budget: { epsilon: 1, every: month },",
        Direction.LESS,
        "users.ada.budget",
    ),
    ("\nroles:", "\nmechanism: gaussian\nroles:", Direction.NOISE, "mechanism"),
    ("\nroles:", "\nreuse_answers: off\nroles:", Direction.OTHER, "reuse_answers"),
    ("\nroles:", "\naccelerate: on\nroles:", Direction.OTHER, "accelerate"),
    ("\nroles:", "\ntiming: { quantum: 50ms }\nroles:", Direction.LESS, "timing.quantum"),
]


@pytest.mark.parametrize(("old", "new", "direction", "where"), EDITS, ids=[f"{e[0][:24]} -> {e[1][:24]}" for e in EDITS])
def test_one_edit(old: str, new: str, direction: Direction, where: str) -> None:
    assert TEXT.count(old) >= 1
    found = changes(loaded(TEXT), loaded(TEXT.replace(old, new, 1)))
    assert (direction, where) in {(c.direction, c.where) for c in found}, found
    assert grows(found) == any(c.direction is Direction.MORE for c in found)


def test_the_ranges_of_intervals_are_told_and_compared() -> None:
    text = TEXT.replace("{ range: [0, 100], resolution: 1 }", "{ range: [0 days, 2 days] }")
    (change,) = changes(loaded(text), loaded(text.replace("2 days", "3 days")))
    assert "[0 days, 3 days], was [0 days, 2 days]" in change.what
    assert "1.5 times" in change.what


def test_the_same_policy_has_no_changes() -> None:
    assert changes(loaded(TEXT), loaded(TEXT)) == ()


def test_backwards_the_other_way() -> None:
    """What exposes more in one direction exposes less in the other, but for what counts as more both ways."""
    both_ways = ("dataset", "privacy_unit", "users.ada.role", "views.easterners")
    for old, new, direction, where in EDITS:
        if direction not in (Direction.MORE, Direction.LESS) or where in both_ways:
            continue
        found = changes(loaded(TEXT.replace(old, new, 1)), loaded(TEXT))
        back = Direction.LESS if direction is Direction.MORE else Direction.MORE
        assert (back, where) in {(c.direction, c.where) for c in found}, (where, found)


def test_what_exposes_more_comes_first() -> None:
    found = changes(loaded(TEXT), loaded(TEXT.replace("rows: 5", "rows: 9").replace("email: hidden", "email: {}")))
    assert [c.direction for c in found] == [Direction.MORE, Direction.NOISE]
    assert "1.8 times" in found[1].what


COMPARED = {
    model.Policy: "dataset backend unit_name unit_table unit_column budget tables roles users mechanism views reuse_seconds epoch "
    "timing_quantum_ms accelerate digest",
    model.TablePolicy: "name unit one bounds columns keys reviewed joined unprotected rows_at_most reports",
    model.ColumnPolicy: "name role values range resolution nulls length references lasts plain randomised",
    model.Reports: "epsilon per_day keep_days at_least fresh cells",
    model.Randomised: "claims stored values",
    model.Bounds: "rows groups whole",
    model.Role: "name budget query tables min_units temp_tables previews",
    model.QueryLimits: "epsilon max_epsilon delta measure_bounds parameter_bytes",
    model.Budget: "epsilon delta every warn",
    model.User: "name role password budget",
}


@pytest.mark.parametrize("part", COMPARED, ids=lambda part: part.__name__)
def test_no_part_is_forgotten(part: type) -> None:
    """Who adds a field to the model adds an edit above, and its name here."""
    assert {f.name for f in dataclasses.fields(part)} == set(COMPARED[part].split())


PHONES = """
version: 1
dataset: phones
backend: { duckdb: phones.duckdb }
privacy_unit: { name: device }
tables:
  t:
    reports: { epsilon: 4, keep: 30d }
    columns: { day: { plain: true }, x: { randomised: { by: rr, epsilon: 2 } } }
roles: { analyst: {} }
users: {}
"""


@pytest.mark.parametrize(
    ("old", "new", "direction", "where"),
    [
        ("epsilon: 4", "epsilon: 5", Direction.MORE, "tables.t.reports.epsilon"),
        ("keep: 30d", "keep: 10d", Direction.LESS, "tables.t.reports.keep"),
        (", keep: 30d", "", Direction.MORE, "tables.t.reports.keep"),
        ("keep: 30d", "keep: 30d, per_day: 2", Direction.MORE, "tables.t.reports.per_day"),
        ("keep: 30d", "keep: 30d, at_least: 100", Direction.MORE, "tables.t.reports.at_least"),
        ("keep: 30d", "keep: 30d, answers: memoised", Direction.LESS, "tables.t.reports.answers"),
        ("keep: 30d", "keep: 30d, rows: cells", Direction.OTHER, "tables.t.reports.rows"),
        ("by: rr, epsilon: 2", "by: rr, epsilon: 3", Direction.MORE, "tables.t.x"),
        ("by: rr, epsilon: 2", "by: rr, epsilon: 1", Direction.NOISE, "tables.t.x"),
        ("day: { plain: true }", "day: hidden", Direction.LESS, "tables.t.day"),
    ],
)
def test_one_edit_of_reports(old: str, new: str, direction: Direction, where: str) -> None:
    assert PHONES.count(old) == 1
    found = changes(loaded(PHONES), loaded(PHONES.replace(old, new)))
    assert (direction, where) in {(c.direction, c.where) for c in found}, found


def test_a_table_that_becomes_of_another_kind() -> None:
    more = PHONES.replace(
        "tables:\n", "tables:\n  other: { reports: { epsilon: 1 }, columns: { y: { randomised: { by: rr } } } }\n"
    )
    shown = PHONES.replace("tables:\n", "tables:\n  other: { public: true }\n")
    (opened,), (closed,) = changes(loaded(more), loaded(shown)), changes(loaded(shown), loaded(more))
    assert (opened.direction, opened.what) == (Direction.MORE, "is public now: all its rows are shown")
    assert (closed.direction, closed.what[:18]) == (Direction.LESS, "holds reports now:")
