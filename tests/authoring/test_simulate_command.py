"""The command from questions to report; trials are replaced, which have tests of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.authoring import simulation
from dpproxy.authoring.trials import Trial
from dpproxy.cli import commands
from dpproxy.policy.problems import PolicyError

LOG = """{"role": "analyst", "query": "SELECT count(*) FROM visits", "per_day": 20, "set": {"dpproxy.epsilon": 1}}

{"role": "intern", "query": "SELECT count(*) FROM visits", "name": "not theirs"}
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []

    def tried(texts: list[str], database: Path, questions: list[object], *rest: object) -> tuple[Trial, ...]:
        assert database.exists()
        assert "visits:" in "".join(texts)
        found.extend(questions)
        return tuple(Trial(0.1, 0.2, 0.3) for _ in questions)

    monkeypatch.setattr(simulation, "tried", tried)
    return found


def simulated(*arguments: object) -> str:
    done = CliRunner().invoke(commands, ["policy", "simulate", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_from_a_log_to_a_report(town: Path, tmp_path: Path, asked: list[object]) -> None:
    log, report, svg = tmp_path / "log.jsonl", tmp_path / "r.md", tmp_path / "p.svg"
    log.write_text(LOG)
    said = simulated(town, "--log", log, "--units", 20, "--report", report, "--svg", svg)
    assert len(asked) == 1
    assert report.read_text() in said
    assert "1 of 2 questions are answered." in said
    assert "| analyst | SELECT count(*) FROM visits | 1 | 30 % | 10 % | 20 % | 0 |" in said
    assert "| intern | not theirs | refused: relation" in said
    assert "| role analyst | 0.714 | 5 | month | until day 6;" in said, "one epsilon a day: five of the first seven days"
    assert "| times 2 | until day 3 |" in said, "at two epsilon a day the third does not fit into five"
    assert "| day | until day 11 |" in said, "five a day for analysts; ten a year for all"
    assert "| month | until day 6 |" in said
    assert svg.read_text().startswith("<svg")


def test_a_policy_of_several_files(town: Path, tmp_path: Path, asked: list[object]) -> None:
    """Each file's text goes into the trials, in the order in which they are included."""
    shutil.copy(town.with_name("town.duckdb"), tmp_path)
    main, roles = town.read_text().split("roles:\n")
    (tmp_path / "town.yaml").write_text(main + "include: [roles.yaml]\n")
    (tmp_path / "roles.yaml").write_text("roles:\n" + roles)
    (tmp_path / "log").write_text(LOG)
    assert "1 of 2 questions are answered." in simulated(tmp_path / "town.yaml", "--log", tmp_path / "log", "--units", 20)
    assert len(asked) == 1


def test_no_questions(town: Path) -> None:
    with pytest.raises(PolicyError, match="there are no tests to take questions from"):
        simulated(town)
