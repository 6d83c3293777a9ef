"""The command from a target folder to a policy that loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.policy.load import load_file
from dpproxy.policy.problems import PolicyError
from tests.worlds.authored_town import town_text

COLUMNS = {"id": "unit", "region": {"values": ["east", "west"]}}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    columns = {name: {"name": name, "meta": {"dpproxy": told}} for name, told in COLUMNS.items()}
    people = {
        "resource_type": "model",
        "name": "people",
        "schema": "main",
        "meta": {"dpproxy": {"unit": "id"}},
        "columns": columns,
    }
    (tmp_path / "target").mkdir()
    text = {
        "metadata": {"dbt_schema_version": "https://x/manifest/v12.json"},
        "nodes": {"model.p.people": people | {"group": "g"}},
    }
    (tmp_path / "target" / "manifest.json").write_text(json.dumps(text))
    head, rest = town_text().split("tables:\n", 1)
    people_of = "roles:" + rest.split("\nroles:", 1)[1].replace("tables: [people, shops]", "tables: ['group:g']")
    (tmp_path / "base.yaml").write_text("# who may ask\n" + head.lstrip() + people_of)
    return tmp_path


def dpproxy(*arguments: object) -> str:
    done = CliRunner().invoke(commands, ["policy", "from-dbt", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_a_policy_that_loads(project: Path) -> None:
    out = project / "town.yaml"
    assert dpproxy(project / "target", "--base", project / "base.yaml", "--out", out) == f"{out}: 1 tables\n"
    policy = load_file(out).policy
    assert [str(name) for name in policy.tables] == ["people"]
    assert {str(t) for t in policy.roles["intern"].tables or ()} == {"people"}
    assert "# model.p.people, group g" in out.read_text()
    assert dpproxy(project / "target" / "manifest.json", "--base", project / "base.yaml") == out.read_text()


def test_what_is_wrong_is_told_and_nothing_written(project: Path) -> None:
    base, out = project / "base.yaml", project / "town.yaml"
    base.write_text(base.read_text().replace("key: people.id", "key: people.nobody"))
    with pytest.raises(PolicyError, match="nobody"):
        dpproxy(project / "target", "--base", base, "--out", out)
    with pytest.raises(PolicyError, match=r"manifest\.json:1:1: cannot be read"):
        dpproxy(project, "--base", base, "--out", out)
    base.write_text(base.read_text().replace("group:g", "group:h"))
    with pytest.raises(PolicyError, match="group `h`"):
        dpproxy(project / "target", "--base", base)
    assert not out.exists()
