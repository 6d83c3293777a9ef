"""Public tables that change: what plans rest on is looked at again before each charge, and read whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from dpproxy.answers import public_tables
from dpproxy.answers.dataset import Dataset
from dpproxy.answers.public_tables import HINT, TRIES
from dpproxy.backends.base import Backend, BackendError
from dpproxy.errors import Refusal
from dpproxy.ledger.ledger import Ledger
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.privacy.measurement import Measurement
from dpproxy.sql.statements import split
from dpproxy.sql.template import Template
from dpproxy.table_terms import TableName
from tests.worlds.scripted import SHOPS, ScriptedEngine, catalog, policy, scripted_dataset, scripted_plan


class Changing(ScriptedEngine):
    """A backend whose public tables have these states, one after the other; the last one stays."""

    def __init__(self, *states: str | BackendError, stale: bool = False) -> None:
        super().__init__()
        self.states, self.stale = list(states), stale
        self.looked: list[list[TableName]] = []

    async def public_states(self, tables: Sequence[CatalogTable]) -> Mapping[TableName, str]:
        self.looked.append([t.name for t in tables])
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, BackendError):
            raise state
        return {t.name: state for t in tables}

    async def with_public_ranges(self, catalog: Catalog, public: frozenset[TableName]) -> Catalog:
        return replace(catalog, withheld=dict.fromkeys(public, frozenset({self.states[0]})))  # type: ignore[arg-type]

    def outdated(self) -> bool:
        return self.stale


def dataset(engine: Changing, asked: list[str]) -> Dataset:
    made = scripted_dataset(engine, cast(Ledger, None), policy())
    return replace(made, publics={SHOPS: "old"}, outdated=lambda: asked.append("anew"))


def measurement(sql: str) -> Measurement:
    (statement,) = split("SELECT region, count(*) AS n FROM people", frozenset({"people"}))
    made = scripted_plan(statement, policy().roles["analyst"], {"dpproxy.epsilon": "1"}, ()).measurements[0]
    return replace(made, queries=(Template("duckdb", (sql,)),))


JOINED = 'SELECT count(*) FROM "main"."people" JOIN "main"."shops" ON true'


async def test_it_is_read_while_nothing_changes() -> None:
    engine = Changing("1", "2", "3", "3")  # changed in the first try, not in the second
    known, states = await public_tables.read(policy(), catalog(), cast(Backend, engine))
    assert (known.withheld, states) == ({SHOPS: frozenset({"3"})}, {SHOPS: "3"})
    assert engine.looked == [[SHOPS]] * 4, "private tables have no state"


async def test_what_never_stands_still_is_not_opened() -> None:
    engine = Changing(*map(str, range(2 * TRIES)))
    with pytest.raises(BackendError, match="change while they are read"):
        await public_tables.read(policy(), catalog(), cast(Backend, engine))


async def test_nothing_is_charged_where_a_table_is_another() -> None:
    asked: list[str] = []
    with pytest.raises(Refusal, match="public table shops has changed and is being read again") as refused:
        await public_tables.check(dataset(Changing("new"), asked), [measurement(JOINED)])
    assert (refused.value.sqlstate, refused.value.hint, asked) == ("40001", HINT, ["anew"])


async def test_nothing_is_said_where_they_are_the_same_or_not_used() -> None:
    asked: list[str] = []
    await public_tables.check(dataset(Changing("old"), asked), [measurement(JOINED)])
    await public_tables.check(dataset(Changing("new"), asked), [measurement('SELECT count(*) FROM "main"."people"')])
    assert asked == []


async def test_an_engine_that_is_away_is_for_whoever_measures() -> None:
    asked: list[str] = []
    await public_tables.check(dataset(Changing(BackendError("away")), asked), [measurement(JOINED)])
    assert asked == []
    with pytest.raises(Refusal, match="the data are not those that were opened"):
        await public_tables.check(dataset(Changing(BackendError("another file"), stale=True), asked), [measurement(JOINED)])
    assert asked == ["anew"]


def test_tables_are_found_by_their_quoted_names() -> None:
    odd = TableName("public", "odd")
    rules, known = policy(), catalog()
    tables = {**rules.tables, odd: replace(rules.tables[SHOPS], name=odd)}
    shapes = {**known.tables, odd: CatalogTable(odd, ("main", 'a"b'), ())}
    made = replace(dataset(Changing("old"), []), policy=replace(rules, tables=tables), catalog=replace(known, tables=shapes))
    for sql, expected in ((JOINED, [SHOPS]), ('FROM "main"."a""b"', [odd]), ('FROM "main"."shops2"', []), ("FROM shops", [])):
        assert [t.name for t in public_tables.used(made, [measurement(sql)])] == expected, sql
