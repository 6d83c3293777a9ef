"""Views that cannot be read and epochs of private tables, with the file they stand in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dpproxy.authoring.sql_texts import wrong_texts
from dpproxy.policy.load import load_file
from dpproxy.policy.problems import Problem
from dpproxy.serve.data_checks import fitting_catalog, open_backend


def found(path: Path) -> list[Problem]:
    async def read() -> list[Problem]:
        loaded = load_file(path)
        backend = open_backend(loaded)
        try:
            return await wrong_texts(loaded, await fitting_catalog(loaded, backend), backend)
        finally:
            await backend.close()

    return asyncio.run(read())


@pytest.fixture
def policy(town: Path, tmp_path: Path) -> Path:
    (tmp_path / "town.duckdb").write_bytes(town.with_name("town.duckdb").read_bytes())
    (tmp_path / "town.yaml").write_text(town.read_text())
    return tmp_path / "town.yaml"


def test_a_good_policy(policy: Path) -> None:
    assert found(policy) == []


def test_a_view_of_an_included_file_and_with_quotes_in_its_name(policy: Path) -> None:
    policy.write_text("include: [more.yaml]\n" + policy.read_text().replace(" interns", ""))
    policy.with_name("more.yaml").write_text(
        '# views\nviews:\n  \'"od""d"\': SELECT id FROM people\n  wrong: SELECT x FROM people\n'
    )
    (problem,) = found(policy)
    assert (Path(problem.file).name, problem.line, problem.column) == ("more.yaml", 4, 3)
    assert "view `wrong` cannot be read" in problem.what


def test_an_epoch_of_private_tables(policy: Path) -> None:
    policy.write_text(policy.read_text() + "reuse_answers: { epoch: SELECT max(id) FROM people }\n")
    (problem,) = found(policy)
    assert problem.code == "epoch"
    policy.write_text(policy.read_text().replace("max(id) FROM people", "max(shop_id) FROM shops"))
    assert found(policy) == []
