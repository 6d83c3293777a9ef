"""A policy held against its data: what does not fit, what is promised and not kept, what is hardly meant."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpproxy.policy.load import load_file
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import PolicyError
from dpproxy.serve.data_checks import checked_catalog, doubts, fitting_catalog, open_backend

GREEDY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 10, delta: 0, every: year }
tables:
  people: { unit: id, columns: { id: unit } }
roles:
  analyst: { budget: { epsilon: 10, delta: 0, every: month }, query: { epsilon: 0.5, max_epsilon: 1 } }
  intern: { budget: { epsilon: 9, delta: 0, every: year }, query: { epsilon: 0.5, max_epsilon: 1 } }
users:
  ada: { role: analyst, password: "VERIFIER" }
"""


def world(folder: Path, rows: str = "SELECT 1") -> Path:
    (folder / "town.yaml").write_text(GREEDY.replace("VERIFIER", make_verifier("x")))
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute(f"CREATE TABLE people (id INT); INSERT INTO people {rows}")
    return folder / "town.yaml"


async def told(path: Path) -> tuple[object, ...]:
    """What is said of a policy: doubts, or whatever does not fit."""
    loaded = load_file(path)
    backend = open_backend(loaded)
    try:
        return await doubts(loaded, await checked_catalog(loaded, backend), backend)
    except PolicyError as error:
        return error.problems
    finally:
        await backend.close()


async def test_what_fits_is_not_yet_true(tmp_path: Path) -> None:
    """Two rows of a person break a promise; a draft, which promises nothing yet, is only held against names and types."""
    path = world(tmp_path, "SELECT 1 FROM range(2)")
    (problem,) = await told(path)
    assert "a person has more than one row here, up to 2;" in str(problem)
    loaded = load_file(path)
    backend = open_backend(loaded)
    try:
        assert list(map(str, (await fitting_catalog(loaded, backend)).tables)) == ["people"]
    finally:
        await backend.close()


async def test_data_that_cannot_be_read_are_a_problem_of_the_policy(tmp_path: Path) -> None:
    path = world(tmp_path)
    path.write_text(
        path.read_text()
        .replace("people.id", "people.ident")
        .replace("id: unit", "ident: unit")
        .replace("unit: id", "unit: ident")
    )
    (problem,) = await told(path)
    assert "ident" in str(problem)
    path.write_text(path.read_text().replace("duckdb: town.duckdb", "duckdb: tow.duckdb"))
    with pytest.raises(PolicyError, match=r"did you mean `town.duckdb`\?"):
        await told(path)


async def test_a_role_that_may_spend_what_is_for_all_is_doubtful(tmp_path: Path) -> None:
    path = world(tmp_path)
    (doubt,) = await told(path)
    assert "town.yaml:10:3: role `analyst` alone may spend the whole budget" in str(doubt)
    path.write_text(path.read_text().replace("epsilon: 10, delta: 0, every: m", "epsilon: 9, delta: 0, every: m"))
    assert await told(path) == ()
