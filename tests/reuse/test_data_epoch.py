"""Epochs: which policy gives which, when one ends, how long answers of it are reused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pytest

from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.load import load_file
from dpproxy.policy.model import Policy
from dpproxy.policy.problems import PolicyError
from dpproxy.reuse.data_epoch import epoch_of, epoch_query, max_age, shape_of
from dpproxy.table_terms import TableName

POLICY = """
version: 1
dataset: town
backend: {backend}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 10, delta: 0, every: never }}
tables:
  people: {{ unit: id, columns: {{ id: unit, region: {{ values: [east, west] }} }} }}
roles: {{ analyst: {{ budget: {{ epsilon: 1, delta: 0, every: year }}, query: {{ epsilon: 0.5, max_epsilon: 1 }} }} }}
users: {{}}
{reuse}
"""
PolicyOf = Callable[..., Policy]

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
DUCKDB, POSTGRES = "{ duckdb: town.duckdb }", '{ postgres: "postgresql://reader@db/town" }'


@dataclass
class Told:
    """A backend that is asked for a version."""

    version: int = 7
    asked: list[str] = field(default_factory=list)

    async def number(self, query: str) -> int:
        self.asked.append(query)
        return self.version


@pytest.fixture
def policy_of(tmp_path: Path) -> PolicyOf:
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id int, region text)")

    def load(reuse: str, backend: str = DUCKDB) -> Policy:
        (tmp_path / "town.yaml").write_text(POLICY.format(backend=backend, reuse=reuse))
        return load_file(tmp_path / "town.yaml").policy

    return load


@pytest.mark.parametrize(
    ("reuse", "seconds", "epoch"),
    [
        ("", None, None),
        ("reuse_answers: off", 0, None),
        ("reuse_answers: { for: 1d }", 86400, None),
        ("reuse_answers: { for: 90s }", 90, None),
        ("reuse_answers: { epoch: never changes }", None, "never changes"),
        ("reuse_answers: { for: 2h, epoch: reload at 03:00 }", 7200, "reload at 03:00"),
        ("reuse_answers: { epoch: SELECT max(n) FROM loads }", None, "SELECT max(n) FROM loads"),
    ],
)
def test_what_a_policy_says(policy_of: PolicyOf, reuse: str, seconds: int | None, epoch: str | None) -> None:
    policy = policy_of(reuse)
    assert (policy.reuse_seconds, policy.epoch) == (seconds, epoch)


@pytest.mark.parametrize(
    "reuse",
    [
        "reuse_answers: { for: soon }",
        "reuse_answers: { for: -1d }",
        "reuse_answers: { epoch: reload at 25:00 }",
        "reuse_answers: { epoch: reload daily }",
        "reuse_answers: { till: 1d }",
        "reuse_answers: often",
    ],
)
def test_what_no_policy_may_say(policy_of: PolicyOf, reuse: str) -> None:
    with pytest.raises(PolicyError):
        policy_of(reuse)


async def test_a_reload_ends_an_epoch_at_its_time(policy_of: PolicyOf) -> None:
    epoch = epoch_of(policy_of("reuse_answers: { epoch: reload at 03:00 }"), Told(), "")  # type: ignore[arg-type]
    night = NOON.replace(hour=3, minute=0)
    before, after = await epoch.current(night - dt.timedelta(seconds=1)), await epoch.current(night)
    assert before != after
    assert await epoch.current(night + dt.timedelta(hours=23, minutes=59)) == after
    elsewhere = night.astimezone(dt.timezone(dt.timedelta(hours=9)))
    assert await epoch.current(elsewhere) == after, "UTC, whatever the clock's zone"


async def test_a_query_tells_it(policy_of: PolicyOf) -> None:
    policy, backend = policy_of("reuse_answers: { epoch: SELECT max(n) FROM loads }"), Told()
    assert epoch_query(policy) == "SELECT max(n) FROM loads"
    epoch = epoch_of(policy, backend, "")  # type: ignore[arg-type]
    first = await epoch.current(NOON)
    assert await epoch.current(NOON) == first
    backend.version = 8
    assert await epoch.current(NOON) != first
    assert backend.asked == ["SELECT max(n) FROM loads"] * 3


async def test_names_of_different_kinds_are_different(policy_of: PolicyOf) -> None:
    texts = ["never changes", "reload at 03:00", "SELECT max(n) FROM loads", "2024", ""]
    reuses = [f"reuse_answers: {{ epoch: '{t}' }}" if t else "" for t in texts]
    found = [await epoch_of(policy_of(r), Told(), "opened").current(NOON) for r in reuses]  # type: ignore[arg-type]
    assert len(set(found)) == len(texts)


async def test_a_clock_set_back_brings_no_epoch_again(policy_of: PolicyOf) -> None:
    epoch = epoch_of(policy_of("reuse_answers: { epoch: reload at 03:00 }"), Told(), "file 1")  # type: ignore[arg-type]
    today = await epoch.current(NOON)
    assert await epoch.current(NOON - dt.timedelta(days=3)) == today
    assert await epoch.current(NOON + dt.timedelta(days=1)) != today


async def test_what_is_open_and_its_shape_are_part_of_it(policy_of: PolicyOf) -> None:
    """A file replaced at noon is other data though the next reload is at night. A policy's own name says which are the same."""

    async def name(reuse: str, opened: str, shape: str) -> str:
        return await epoch_of(policy_of(reuse), Told(), opened, shape).current(NOON)  # type: ignore[arg-type]

    reload, named, query = (
        f"reuse_answers: {{ epoch: {e} }}" for e in ("reload at 03:00", "never changes", "SELECT max(n) FROM loads")
    )
    for reuse in ("", reload):
        assert await name(reuse, "file 1", "a") != await name(reuse, "file 2", "a")
    for reuse in (named, query):
        assert await name(reuse, "file 1", "a") == await name(reuse, "file 2", "a")
    for reuse in ("", reload, named, query):
        assert await name(reuse, "file 1", "a") != await name(reuse, "file 1", "b")


def test_the_shape_of_tables(policy_of: PolicyOf) -> None:
    policy, name = policy_of(""), TableName("public", "people")
    columns = (CatalogColumn("id", "id", "int4"), CatalogColumn("region", "region", "text"))

    def shape(*columns: CatalogColumn, **more: object) -> str:
        table = CatalogTable(name, ("main", "people"), columns)
        return shape_of(policy, Catalog({name: replace(table, **more)}))  # type: ignore[arg-type]

    known = shape(*columns)
    assert shape(*columns[::-1]) == known
    assert shape(*columns, rows=7) == known, "how many there are is not its shape"
    others = [shape(columns[0]), shape(columns[0], replace(columns[1], type="int4")), shape(*columns, primary_key=("id",))]
    assert len({known, shape(replace(columns[0], nullable=False), columns[1]), *others}) == 5


def test_how_long_answers_are_reused(policy_of: PolicyOf) -> None:
    assert max_age(policy_of(""), "file 1") is None, "a file that is open does not change"
    assert max_age(policy_of("", POSTGRES), "") == dt.timedelta(days=1), "a server's data may, unnoticed"
    assert max_age(policy_of("", POSTGRES), "file 1") is None, "nor does an extract of one"
    assert max_age(policy_of("reuse_answers: { epoch: never changes }", POSTGRES), "") is None
    assert max_age(policy_of("reuse_answers: { for: 2h }", POSTGRES), "") == dt.timedelta(hours=2)
