"""The virtual schema: as wide as it is declared, of the asker's own role alone, in PostgreSQL's text forms."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dpproxy import bookkeeping
from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.dataset import AnswerEntry, Asker, Dataset
from dpproxy.answers.standings import left, standings
from dpproxy.answers.virtual_rows import virtual_columns
from dpproxy.ledger.ledger import amounts
from dpproxy.plan.report import explain
from dpproxy.policy.model import Bounds, Budget, ColumnPolicy, ColumnRole, TablePolicy, UnitPath, User
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.review import doubts
from dpproxy.sql.virtual_tables import VIRTUAL_TABLES
from tests.worlds.scripted import PEOPLE, ScriptedEngine, policy, scripted_dataset

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[Dataset]:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    yield scripted_dataset(ScriptedEngine(), ledger, policy())
    ledger.close()


def rows(table: str, dataset: Dataset, user: User | None = None) -> list[tuple[str | None, ...]]:
    asker = Asker(user or dataset.policy.users["ada"], dataset.policy.roles["analyst"])
    return list(zip(*virtual_columns(table, dataset, asker), strict=True))


@pytest.mark.parametrize("table", VIRTUAL_TABLES)
def test_each_is_as_wide_as_it_is_declared(table: str, dataset: Dataset) -> None:
    asker = Asker(dataset.policy.users["ada"], dataset.policy.roles["analyst"])
    assert len(virtual_columns(table, dataset, asker)) == len(VIRTUAL_TABLES[table].columns)


def test_no_other_table(dataset: Dataset) -> None:
    with pytest.raises(KeyError):
        rows("people", dataset)


def test_the_askers_own_budgets(dataset: Dataset) -> None:
    ada = User("ada", "analyst", "", Budget(5 * MICRO // 2, ATTO // 1000, "month"))
    role, own = rows("budget", dataset, ada)
    assert role == ("analyst", "role", "0", "1000", "1000", "0", "0.000001", "0.00000025", "never", None, "0", "0")
    assert own[:9] == ("analyst", "user", "0", "2.5", "2.5", "0", "0.001", "0.00025", "month")
    assert own[9] is not None
    assert dt.datetime.fromisoformat(own[9]).day == 1, "the first of the next month"
    held = dataset.applied_budgets(Asker(ada, dataset.policy.roles["analyst"]))
    standing = standings(dataset.ledger, dataset.policy.dataset, held)[0]
    assert "epsilon 1000 and delta 0.00000025 left" in left(standing), "a notice says the same"
    assert bookkeeping._standing(standing)[6:9] == ("0", "0.000001", "0.00000025"), "and the command line"


def test_what_remains_is_of_the_tightest_budget(dataset: Dataset) -> None:
    assert rows("estimate_remaining_dp_aggregates", dataset) == [("10000", "1000", "NEVER", "0")]
    ada = User("ada", "analyst", "", Budget(5 * MICRO // 2, ATTO // 1000, "month"))
    assert rows("estimate_remaining_dp_aggregates", dataset, ada) == [("25", "2.5", "MONTHLY", "0")]


def test_answers_of_the_role_the_newest_first(dataset: Dataset) -> None:
    for i, role in enumerate(("analyst", "clerk", "analyst")):
        dataset.note(AnswerEntry(role, NOON, i * MICRO, i * ATTO // 10, None if i else 3, not i, f"hash {i}", "told"))
    assert rows("answers", dataset) == [
        (NOON.isoformat(), "2", "0.2", None, "f", "hash 2", "told", None),
        (NOON.isoformat(), "0", "0", "3", "t", "hash 0", "told", None),
    ]


def test_tables_that_the_role_may_read(dataset: Dataset) -> None:
    rules = dataset.policy
    many = TablePolicy(PEOPLE, UnitPath("id"), False, Bounds(3, None), rules.tables[PEOPLE].columns)
    assert rows("tables", dataset) == [
        ("people", "private", None, "1", "1", "at most one row per person"),
        ("shops", "public", None, None, None, None),
    ]
    narrow = replace(rules.roles["analyst"], tables=frozenset({PEOPLE}))
    other = replace(dataset, policy=replace(rules, tables={**rules.tables, PEOPLE: many}, roles={"analyst": narrow}))
    assert rows("tables", other) == [("people", "private", None, "3", None, None)]
    over_all = replace(other, policy=replace(other.policy, tables={PEOPLE: replace(many, bounds=Bounds(3, None, whole=True))}))
    assert rows("tables", over_all) == [("people", "private", "3", None, None, None)], "rows of all groups together"
    assert {row[0] for row in rows("policy", other)} == {"people"}


def test_columns_with_their_rules(dataset: Dataset) -> None:
    rules = dataset.policy
    columns = {
        "id": ColumnPolicy("id", ColumnRole.UNIT),
        "region": ColumnPolicy("region", values=("e", "n"), length=7),
    }
    people = replace(rules.tables[PEOPLE], columns=columns)
    made = replace(dataset, policy=replace(rules, tables={**rules.tables, PEOPLE: people}))
    assert rows("policy", made) == [
        ("people", "id", "unit", "int4", None, None, None, None),
        ("people", "region", "plain", "text", None, None, "e, n", "length 7"),
        ("shops", "id", "public", "int4", None, None, None, None),
    ]
    ranged = replace(columns["region"], values=None, length=None, range=(Decimal(0), Decimal("9.5")), resolution=Decimal("0.5"))
    hidden = replace(columns["id"], role=ColumnRole.HIDDEN)
    people = replace(people, columns={"id": hidden, "region": ranged})
    made = replace(dataset, policy=replace(rules, tables={PEOPLE: people}))
    assert rows("policy", made) == [("people", "region", "plain", "text", "0", "9.5", None, "resolution 0.5")]


@pytest.mark.parametrize("delta", [10**12, 123_456_789_012, ATTO // 1000, 2 * 10**13 + 1])
def test_notices_tables_explain_and_command_lines_spell_a_delta_alike(delta: int, dataset: Dataset) -> None:
    dataset.note(AnswerEntry("analyst", NOON, MICRO, delta, 1, False, "hash", "told"))
    text = rows("answers", dataset)[0][2]
    assert text is not None
    assert Decimal(text) == Decimal(delta) / ATTO
    assert amounts(MICRO, delta) == f"epsilon 1 and delta {text}"
    assert doubts.delta(delta) == text
    charge = {"Epsilon": 1.0, "Delta": float(Fraction(delta, ATTO))}
    assert explain._price(charge) == f"epsilon=1, delta={text}"
