"""The tutorial is true: its files are written, its commands run in their order, and what it shows is what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dpproxy.authoring import simulation
from dpproxy.authoring.trials import Trial
from dpproxy.cli import policy_app
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import launched

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policies" / "tutorial.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.S)


def block(kind: str, number: int = 0) -> str:
    return [text for found, text in BLOCKS if found == kind][number]


def commands() -> list[tuple[str, str]]:
    """Each command of the page, and what it must print among other things."""
    found = []
    for console in (text for kind, text in BLOCKS if kind == "console"):
        for part in console.split("$ ")[1:]:
            line, _, said = part.partition("\n")
            found.append((line.strip(), said.strip()))
    return found


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clinic.yaml").write_text(block("yaml").replace("VERIFIER", make_verifier("sesame")))
    (tmp_path / "clinic.test.yaml").write_text(block("yaml", 1))
    return tmp_path


def test_every_command_says_what_the_page_says(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "tried", lambda *_: (Trial(0.1, 0.0, 0.1),))  # has tests of its own
    for line, said in commands():
        words = line.split()
        if words[0] == "duckdb":
            with duckdb.connect(words[1]) as database:
                database.execute(block("sql"))
        elif words[0] == "sed":
            subprocess.run(["sh", "-c", line], check=True, cwd=clinic)
        elif words[:3] == ["dpproxy", "policy", "password"]:
            assert CliRunner().invoke(policy_app, ["password"], input="a\n").output.startswith("SCRAM-SHA-256$")
        elif words[:2] == ["dpproxy", "policy"]:
            done = CliRunner().invoke(policy_app, words[2:])
            assert said in done.output, (line, done.output)
            assert done.exit_code == (3 if words[2] == "diff" else 0), line
        else:
            assert words[:3] == ["dpproxy", "serve", "clinic.yaml"]
            with launched([clinic / "clinic.yaml"], clinic / "state", options=words[3:]) as proxy:
                assert proxy.port
                assert said.split(" on ")[0] in "\n".join(proxy.said)


def test_the_page_names_the_commands_in_their_order() -> None:
    assert [line.split()[2] for line, _ in commands() if line.startswith("dpproxy policy")] == [
        "password", "check", "test", "diff", "simulate",
    ]  # fmt: skip


def test_the_picture_of_noise_is_drawn_anew() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "scripts/noise_picture.py"], cwd=root, capture_output=True, text=True, env=os.environ, check=True
    )
    assert done.stdout == (root / "docs/policies/noise.svg").read_text()
