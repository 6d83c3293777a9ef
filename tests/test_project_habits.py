"""What surrounds the code on a forge works: hooks before a commit, forms of issues, owners of folders.

Knows: .pre-commit-config.yaml, .github. Must not know: what the forge makes of them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

ROOT: Final = Path(__file__).resolve().parents[1]
FORMS: Final = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
HOOKS: Final[dict[str, Any]] = {
    hook["id"]: hook
    for repository in YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
}


def hooked(name: str, file: Path) -> int:
    """The exit code of a hook for one file, as pre-commit calls it, in the environment of the tests."""
    command = [*shlex.split(HOOKS[name]["entry"]), str(file)]
    env = {**os.environ, "DPPROXY_VENV": sys.prefix}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("ruff-check", "VALUE = 1\n", "import os\n"),
        ("ruff-format", "VALUE = 1\n", "VALUE  =  1\n"),
        ("mypy", "VALUE: int = 1\n", "VALUE: int = ''\n"),
    ],
)
def test_a_hook_sees_what_is_wrong(name: str, good: str, bad: str, tmp_path: Path) -> None:
    file = tmp_path / "changed.py"
    file.write_text(good)
    assert hooked(name, file) == 0
    file.write_text(bad)
    assert hooked(name, file) == 1


def test_hooks_have_no_versions_of_their_own() -> None:
    """constraints.txt has them, and the environment of the scripts is made by it."""
    assert HOOKS.keys() == {"ruff-check", "ruff-format", "mypy"}
    assert all("scripts/venv.sh" in hook["entry"] and "additional_dependencies" not in hook for hook in HOOKS.values())


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_what_is_needed(form: Path) -> None:
    """And warn of private values before anything is written; pages that a form names exist."""
    asked = YAML(typ="safe").load(form.read_text())
    assert asked["name"]
    assert asked["description"]
    fields = {part["id"]: part for part in asked["body"] if part["type"] != "markdown"}
    assert {"statement", "policy", "version"} <= fields.keys()
    assert [name for name, part in fields.items() if not part["attributes"]["label"]] == []
    assert asked["body"][0]["type"] == "markdown"
    text = asked["body"][0]["attributes"]["value"]
    assert "no private values" in text
    pages = re.findall(r"[\w/.-]+\.md", text)
    assert pages
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_leaks_are_reported_in_private() -> None:
    config = YAML(typ="safe").load((ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text())
    assert len(FORMS) == 2
    assert config["blank_issues_enabled"] is False
    assert [link["url"] for link in config["contact_links"]] == ["../security/policy"]


def test_every_owned_folder_exists() -> None:
    """A rule for a folder that was renamed asks nobody."""
    rules = [line.split() for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines() if line[:1] not in ("#", "")]
    assert [place for place, *_ in rules if place != "*" and not (ROOT / place.lstrip("/")).exists()] == []
    assert all(owner.startswith("@") for _, *owners in rules for owner in owners)
