"""Values that are not declared: which are tried, and that every row is in a group, or said to be in none, on data that has them.

`test_key_domains` does the same with random keys, on both engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from dpproxy.answers.plan_cache import private_names
from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines import literal
from dpproxy.plan.model import LeftOut, Plan
from dpproxy.plan.pipeline import planning
from dpproxy.plan.properties import stray_values
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend
from dpproxy.sql.statements import split
from dpproxy.tree.expr import Call, Column, Lit, Ref, SeriesDomain, ValuesDomain
from tests.worlds import skewed

Groups = dict[tuple[object, ...], int]


class Flights:
    """The flights, planned and run without noise."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "town.duckdb"
        with duckdb.connect(str(self._path)) as connection:
            connection.execute(skewed.DATA)
        (folder / "town.yaml").write_text(skewed.FLIGHTS.replace(skewed.USERS, "users: {}\n"))
        self._policy = load_file(folder / "town.yaml").policy
        self._plan = planning(self._policy, asyncio.run(self._catalog()), "duckdb")

    async def _catalog(self):  # type: ignore[no-untyped-def]
        backend = DuckDB(DuckDBBackend(str(self._path)))
        found = await backend.introspect()
        await backend.close()
        return found

    def plan(self, sql: str) -> Plan:
        (asked,) = split(sql, private_names(self._policy))
        return self._plan(asked, self._policy.roles["analyst"], {}, ())

    def released(self, sql: str) -> Groups:
        (measurement,) = self.plan(sql).measurements
        return self._groups(measurement.queries[0].render([], lambda value, type_: literal("duckdb", type_, value)))

    def exact(self, sql: str) -> Groups:
        return self._groups(sql)

    def _groups(self, sql: str) -> Groups:
        with duckdb.connect(str(self._path), read_only=True) as connection:
            return {tuple(row[:-1]): row[-1] for row in connection.execute(sql).fetchall()}


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Flights:
    return Flights(tmp_path_factory.mktemp("flights"))


def asked(key: str, where: str = "TRUE") -> str:
    """Ask for keys, with semicolons between them."""
    keys = key.split("; ")
    numbers = ", ".join(str(i + 1) for i in range(len(keys)))
    return f"SELECT {', '.join(keys)}, count(*) FROM flights WHERE tailnum IS NOT NULL AND {where} GROUP BY {numbers}"


STATUS = "CASE WHEN dep_delay > 15 THEN 'late' WHEN dep_delay IS NULL THEN 'cancelled' ELSE 'ontime' END"
WHOLE = {
    "the statement that lost 8,255 flights": STATUS,
    "a value beyond the range": "CASE WHEN dep_delay > 1300 THEN 'absurd' WHEN dep_delay <= 1300 THEN 'some' END",
    "a test of NULL": "dep_delay IS NULL",
    "a test that is NULL": "dep_delay > 15",
    "two tests": "dep_delay > 15; dep_delay > 1300",
    "anything else": "CASE WHEN carrier IN ('AA', 'UA') THEN carrier ELSE 'other' END",
    "a test of a function": "CASE WHEN left(carrier, 1) = 'Z' THEN 'z' WHEN carrier = 'AA' THEN 'a' ELSE 'b' END",
    "of two columns": "CASE WHEN dep_delay IS NULL AND weekend THEN 'a' WHEN carrier = 'AA' THEN 'b' ELSE 'c' END",
    "a clamped number": "CASE WHEN dep_delay > 3 THEN '3+' WHEN dep_delay < 0 THEN 'early' ELSE cast(dep_delay AS text) END",
    "NULL named": "coalesce(weekend, FALSE)",
    "a CASE within": "CASE WHEN CASE WHEN dep_delay > 1300 THEN 1 END = 1 THEN 'absurd' ELSE 'rest' END",
    "a key that says all of another": "dep_delay IS NULL; coalesce(CASE WHEN dep_delay > 1300 THEN 'a' ELSE 'b' END, 'c')",
}


@pytest.mark.parametrize("key", WHOLE.values(), ids=WHOLE)
def test_every_group_is_there(key: str, flights: Flights) -> None:
    released, exact = flights.released(asked(key)), flights.exact(asked(key))
    assert {k: n for k, n in released.items() if n} == exact


def test_rows_that_are_in_no_group_are_named(flights: Flights) -> None:
    said: Callable[[str], set[LeftOut]] = lambda sql: set(flights.plan(sql).left_out)  # noqa: E731
    assert said(asked(STATUS)) == set()
    assert said(asked("carrier")) == {LeftOut("carrier", nulls=True, others="values")}
    assert said(asked("weekend")) == {LeftOut("weekend", nulls=True)}
    assert said(asked("date_trunc('month', departed)")) == {LeftOut("departed", nulls=True, others="range")}
    assert said(asked("coalesce(carrier, '-')")) == {LeftOut("carrier", nulls=False, others="values")}
    assert said(asked("dep_delay; carrier")) == {LeftOut("dep_delay", True, "range"), LeftOut("carrier", True, "values")}
    assert said(asked("carrier", "carrier IN ('AA', 'UA')")) == set(), "WHERE leaves no others"
    assert said(asked("dep_delay", "dep_delay > 0")) == {LeftOut("dep_delay", nulls=False, others="range")}
    assert said(asked("dep_delay", "dep_delay BETWEEN 0 AND 9")) == set()


def test_totals_are_added_up_where_every_row_is_in_a_group(flights: Flights) -> None:
    def apart(key: str, where: str = "TRUE") -> bool:
        before, _, numbers = asked(key, where).rpartition("GROUP BY ")
        return "each grouping set is measured by itself" in str(
            flights.plan(f"EXPLAIN {before}GROUP BY ROLLUP ({numbers})").explain
        )

    dearer_or_not_seen = {"two tests", "a clamped number"}
    assert {name for name, key in WHOLE.items() if apart(key)} == dearer_or_not_seen
    assert all(apart(key) for key in ("carrier", "weekend", "date_trunc('month', departed)", "coalesce(carrier, '-')"))
    assert apart("dep_delay", "dep_delay > 0")


def test_conditions_narrow_the_groups_as_before(flights: Flights) -> None:
    bins = "CASE WHEN dep_delay > 1300 THEN 'absurd' WHEN dep_delay > 60 THEN 'much' WHEN dep_delay IS NULL THEN 'none' ELSE 'few' END"
    assert flights.released(asked(bins, "dep_delay < 60")).keys() == {("few",)}
    assert flights.released(asked(bins, "dep_delay > 60")).keys() == {("absurd",), ("much",)}
    assert flights.released(asked("dep_delay > 5", "dep_delay > 9")).keys() == {(True,)}


def test_no_more_groups_are_there_than_a_plane_is_said_to_reach(flights: Flights) -> None:
    for key in WHOLE.values():
        (measurement,) = flights.plan(asked(key)).measurements
        assert len(flights.released(asked(key))) <= measurement.l0


def test_values_that_stand_for_all_others() -> None:
    number, text = Column(1, "n", "int4", undeclared=True), Column(2, "t", "text", undeclared=True)
    numbers = [Lit("int4", "30"), Lit("numeric", "40.5")]
    found = stray_values._between(number, SeriesDomain(0, 20, "int"), numbers)
    assert {"-1", "21", "29", "30", "31", "40", "41"} <= set(found)
    assert not {str(i) for i in range(21)} & set(found), "declared ones are no strays"
    assert "2147483648" not in stray_values._between(number, SeriesDomain(0, 2**31 - 1, "int"), [])
    others = stray_values._between(text, ValuesDomain(("a", "another value")), [Lit("text", "b"), Lit("text", "a")])
    assert "b" in others
    assert len(others) == 2
    assert others[0] not in ("a", "b", "another value")


def test_many_tests_are_tried_one_by_one() -> None:
    any_, known = frozenset({True, False, None}), frozenset({True, False})
    assert len(list(stray_values._results([any_] * 4))) == 81
    found = list(stray_values._results([any_] * 9))
    assert len(found) == 12
    assert {row.count("true") for row in found} == {0, 1, 9}
    assert list(stray_values._results([any_, known])) == [(a, b) for a in ("true", "false", None) for b in ("true", "false")]
    assert {row[0] for row in stray_values._results([known] * 9)} == {"true", "false"}
    assert set(stray_values._results([frozenset({None})] * 9)) == {(None,) * 9}


def test_columns_without_undeclared_values_are_not_tried() -> None:
    column = Column(1, "n", "int4")
    test = Call("bool", ">", (Ref("int4", column), Lit("int4", "3")))
    assert stray_values.trial([(0, test)], [(column, SeriesDomain(0, 9, "int"))], []) is None
    assert stray_values.values_beyond(column, SeriesDomain(0, 9, "int")) == (False, False)
