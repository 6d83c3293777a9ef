"""The commands as authors type them: what they print, what they write, how they end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.policy.problems import PolicyError

TESTS = """
tests:
  - { role: analyst, query: SELECT count(*) FROM people, accept: { epsilon: 0.5 } }
  - { role: intern, query: SELECT count(*) FROM visits, refuse: does not exist }
"""


@pytest.fixture
def folder(town: Path, tmp_path: Path) -> Path:
    shutil.copytree(town.parent, tmp_path / "town")
    (tmp_path / "town" / "town.test.yaml").write_text(TESTS)
    return tmp_path / "town"


def dpproxy(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(commands, ["policy", *map(str, arguments)])
    if isinstance(done.exception, PolicyError):
        raise done.exception
    return done.exit_code, done.output


def test_tests_that_hold(folder: Path) -> None:
    assert dpproxy("test", folder / "town.yaml") == dpproxy("test", folder / "town.test.yaml")
    code, said = dpproxy("test", folder / "town.yaml", "--junit", folder / "out.xml")
    assert (code, said.splitlines()[-1]) == (0, "2 of 2 hold")
    assert 'tests="2" failures="0"' in (folder / "out.xml").read_text()


def test_tests_that_fail_and_are_updated(folder: Path) -> None:
    (folder / "town.test.yaml").write_text(TESTS.replace("0.5", "0.1"))
    code, said = dpproxy("test", folder / "town.yaml")
    assert code == 1
    assert "costs epsilon 0.5, more than 0.1" in said
    assert dpproxy("test", folder / "town.yaml", "--update")[0] == 0
    assert dpproxy("test", folder / "town.yaml")[0] == 0


def test_tests_where_no_data_are(folder: Path) -> None:
    (folder / "town.duckdb").rename(folder / "shape.duckdb")
    with pytest.raises(PolicyError, match="cannot be opened"):
        dpproxy("test", folder / "town.yaml")
    assert dpproxy("test", folder / "town.yaml", "--shape", folder / "shape.duckdb")[0] == 0


def test_no_tests_beside_a_policy(folder: Path) -> None:
    (folder / "town.test.yaml").unlink()
    with pytest.raises(PolicyError, match=r"town\.test\.yaml:1:1: cannot be read"):
        dpproxy("test", folder / "town.yaml")


def test_exposure_that_grows_ends_with_3(folder: Path) -> None:
    old, new = folder / "town.yaml", folder / "new.yaml"
    new.write_text(old.read_text().replace("email: hidden", "email: {}"))
    code, said = dpproxy("diff", old, new, "--tests", folder / "town.test.yaml")
    assert code == 3
    assert "tables.people.email: is shown in aggregates, was hidden" in said
    code, said = dpproxy("diff", new, old, "--markdown")
    assert code == 0
    assert "| `tables.people.email` | is hidden, was shown in aggregates |" in said
    assert dpproxy("diff", old, old) == (0, "the policies say the same\n")


def test_a_logs_questions_are_compared(folder: Path) -> None:
    old, new = folder / "town.yaml", folder / "new.yaml"
    new.write_text(old.read_text().replace("email: hidden", "email: {}"))
    (folder / "log").write_text('{"role": "analyst", "query": "SELECT count(email) FROM people", "name": "mails"}')
    code, said = dpproxy("diff", old, new, "--log", folder / "log")
    assert code == 3
    assert "  analyst: mails: answered for epsilon 0.5, was refused (" in said
