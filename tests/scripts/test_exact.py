"""The comparison behind `scripts/accept --exact`: what it overlooks on purpose, and that it overlooks nothing else."""

from __future__ import annotations

import datetime as dt
import decimal
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

POLICY = """
version: 1
dataset: shop
backend: {{ duckdb: {data} }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 10, delta: 1e-5 }}
tables:
  people:
    unit: id
    columns: {{ id: unit, age: {{ range: [0, 50] }}, town: {{ values: [a] }} }}
  visits:
    unit: person
    bounds: {{ rows_per_group: 1, groups: 1 }}
    columns:
      person: unit
      visit: key
      price: {{ range: [0, 10], resolution: 0.01 }}
      day: {{ range: [2024-01-01, 2024-01-31] }}
  notes:
    unit: {{ via: visits.visit }}
    bounds: {{ rows_per_group: 1, groups: 1 }}
    columns: {{ visit: key, words: {{ range: [0, 10] }} }}
  bills:
    unit: person
    bounds: {{ rows_per_group: 1, groups: 1 }}
    columns: {{ person: unit, visit: {{ references: visits.visit }} }}
roles:
  analyst: {{ budget: {{ epsilon: 10, delta: 1e-6 }}, query: {{ epsilon: 0.1, max_epsilon: 1 }} }}
users: {{}}
"""

DATA = """
CREATE TABLE people (id INTEGER, age INTEGER, town VARCHAR);
CREATE TABLE visits (person INTEGER, visit INTEGER, price DOUBLE, day DATE);
CREATE TABLE notes (visit INTEGER, words INTEGER);
CREATE TABLE bills (person INTEGER, visit INTEGER);
INSERT INTO people VALUES (1, 70, 'b'), (2, NULL, NULL), (NULL, 1, 'a');
INSERT INTO visits VALUES (1, 10, 0.1, DATE '2023-05-05'), (1, 11, 0.2, DATE '2024-01-02'), (NULL, 12, 5, NULL), (2, 11, 1, NULL);
INSERT INTO notes VALUES (10, 1), (11, 2), (12, 3), (99, 4), (NULL, 5);
INSERT INTO bills VALUES (1, 10), (2, 10), (2, 77);
"""


def loaded(name: str) -> ModuleType:
    sys.path.insert(0, str(SCRIPTS))  # they import each other
    try:
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="module")
def exact() -> ModuleType:
    return loaded("exact")


@pytest.fixture(scope="module")
def generous() -> ModuleType:
    return loaded("generous")


@pytest.fixture
def shop(tmp_path: Path) -> tuple[Path, Path]:
    """A policy and its data."""
    data = tmp_path / "shop.duckdb"
    with duckdb.connect(str(data)) as database:
        database.execute(DATA)
    policy = tmp_path / "shop.yaml"
    policy.write_text(POLICY.format(data=data))
    return policy, data


def said(exact: ModuleType, ours: list[Any], theirs: list[Any], unknown: bool = False) -> bool:
    """Whether a difference was found."""
    return bool(exact.difference(ours, theirs, unknown=unknown))


def test_order_and_last_digits_do_not_matter(exact: ModuleType) -> None:
    ours, theirs = [("a", 1.0), ("b", 2.0), (None, 3.0)], [(None, 3.0), ("b", 2.0000001), ("a", 1.0)]
    assert not said(exact, ours, theirs)
    assert not said(exact, [(1.0001, "x"), (1.0, "y")], [(1.0001, "y"), (1.0, "x")])
    assert not said(exact, [("3", 1.0)], [("3.0", 1.0)])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([("a", 1.0)], [("a", 1.1)]),
        ([("a", 1.0)], [("b", 1.0)]),
        ([("a", None)], [("a", 0.0)]),
        ([("a", 0.0)], [("a", None)]),
        ([("a",), ("a",)], [("a",)]),
        ([("a",)], [("a",), ("a",)]),
        ([("a", 1.0)], [("a",)]),
        ([(float("nan"),)], [(1.0,)]),
        ([("a", 0.0)], []),
        ([], [("a", 1.0)]),
        ([("3",)], [("4",)]),
        ([("a",)], [("A",)]),
    ],
)
def test_differences_are_found(exact: ModuleType, ours: list[Any], theirs: list[Any]) -> None:
    assert said(exact, ours, theirs)


def test_a_value_chosen_from_nothing_is_overlooked(exact: ModuleType) -> None:
    assert not said(exact, [("a", 5.0)], [("a", None)], unknown=True)
    assert said(exact, [("a", None)], [("a", 5.0)], unknown=True)
    assert exact.chosen("SELECT max(x) FROM t")
    assert exact.chosen("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM t")
    assert not exact.chosen("SELECT sum(maximum) FROM t")


def test_sums_and_percentiles_have_a_second_reading(exact: ModuleType) -> None:
    (text,) = exact.readings("SELECT sum(x), avg(sum(x)) OVER (), sum(x) FILTER (WHERE y) FROM t", "duckdb")
    assert text == "SELECT COALESCE(SUM(x), 0), AVG(COALESCE(SUM(x), 0)) OVER (), COALESCE(SUM(x) FILTER(WHERE y), 0) FROM t"
    (text,) = exact.readings("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM t", "duckdb")
    assert duckdb.connect().execute(f"WITH t AS (SELECT unnest([1, 2]) AS x) {text}").fetchall() == [(1,)]
    assert exact.readings("SELECT sum(x) OVER (), count(*) FROM t", "duckdb") == []


ROWS = "FROM (VALUES ('a', 3), ('b', 2), ('c', 2), ('d', 1)) AS t(x, n)"


@pytest.mark.parametrize(
    ("ours", "good"),
    [
        ([("a", 3.0), ("b", 2.0)], True),
        ([("a", 3.0), ("c", 2.0)], True),
        ([("a", 3.0), ("d", 1.0)], False),
        ([("b", 2.0), ("c", 2.0)], False),
        ([("a", 3.0)], False),
        ([("a", 3.0), ("x", 2.0)], False),
        ([("a", 3.0), ("a", 3.0)], False),
    ],
)
@pytest.mark.parametrize("by", ["n DESC", "2 DESC", "-n"])
def test_a_limit_may_choose_among_equals_alone(exact: ModuleType, ours: list[Any], good: bool, by: str) -> None:
    text, limit, width = exact.unlimited(f"SELECT x, n {ROWS} ORDER BY {by} LIMIT 2", "duckdb")
    everything = [tuple(map(exact.plain, row)) for row in duckdb.connect().execute(text).fetchall()]
    assert exact.as_good(ours, everything, limit, width) is good


def test_two_drivers_values_meet(exact: ModuleType) -> None:
    day = dt.date(2024, 1, 2)
    assert exact.plain(day) == exact.plain(dt.datetime(2024, 1, 2)) == exact.plain(dt.datetime(2024, 1, 2, tzinfo=dt.UTC))
    assert exact.plain(decimal.Decimal("1.50")) == exact.plain(1.5)
    assert exact.plain(True) is True
    assert exact.plain("x  ") == "x"
    assert exact.unnested([(1, [2, 3]), (4, 5)]) == [(1, 2), (1, 3), (4, 5)]


def test_a_generous_policy_says_what_is_true_of_the_data(generous: ModuleType, shop: tuple[Path, Path], tmp_path: Path) -> None:
    from dpproxy.policy.load import load_file

    folder = tmp_path / "wide"
    folder.mkdir()
    rules = load_file(generous.generous(*shop, folder)).policy
    tables = {str(name): table for name, table in rules.tables.items()}
    age, town = tables["people"].columns["age"], tables["people"].columns["town"]
    assert age.range is not None
    assert (int(str(age.range[0])), int(str(age.range[1]))) == (0, 70)
    assert (age.nulls, town.nulls, set(town.values or ())) == (True, True, {"a", "b"})
    day = tables["visits"].columns["day"].range
    assert day is not None
    assert [str(d)[:10] for d in day] == ["2023-05-05", "2024-01-31"]
    assert tables["visits"].bounds.rows == 2 * generous.JOINED
    assert all(role.min_units == 1 for role in rules.roles.values())


def test_the_data_are_seen_without_rows_of_nobody(generous: ModuleType, shop: tuple[Path, Path]) -> None:
    database = generous.seen(*shop)
    assert database.execute("SELECT count(*) FROM people").fetchone() == (2,)
    assert database.execute("SELECT count(*), typeof(max(price)) FROM visits").fetchone() == (3, "DECIMAL(18,2)")
    # note 11 belongs to both whose visit it is; those of no visit, and of nobody's, to no one
    assert database.execute("SELECT visit, count(*) FROM notes GROUP BY 1 ORDER BY 1").fetchall() == [(10, 1), (11, 2)]
    assert database.execute("SELECT 7 / 2, count(visit) FROM bills").fetchone() == (3, 3)
    apart = generous.seen(*shop, apart=True)
    assert apart.execute("SELECT person, visit FROM bills ORDER BY ALL").fetchall() == [(1, 10), (2, None), (2, None)]
