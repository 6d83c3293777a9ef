"""The scripts' environment is made once, and brought up to date without being emptied under who runs in it.

Knows: `scripts/venv.sh`, with a program in place of Python that notes what it is asked. Must not know: packages.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

VENV = Path(__file__).resolve().parents[2] / "scripts" / "venv.sh"
PYTHON = """#!/usr/bin/env bash
echo "$*" >> {root}/asked
case "$*" in
--version) cat {root}/version ;;
"-m venv --clear "*) rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && echo "#!$4/bin/python" > "$4/bin/pip" ;;
esac
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout in which nothing was made."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(VENV, tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("first")
    (tmp_path / "version").write_text("Python 3.12.1")
    (tmp_path / "python").write_text(PYTHON.format(root=tmp_path))
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def asked(root: Path) -> list[str]:
    """What a script that begins asks Python for, beside its version: `venv`, `pip`."""
    (root / "asked").write_text("")
    command = ["bash", "-c", f"source {root}/scripts/venv.sh && echo $python"]
    env = {"PYTHON": str(root / "python"), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{root}/.venv/bin/python"
    return [line.split()[1] for line in (root / "asked").read_text().splitlines() if line.startswith("-m ")]


def test_an_environment_is_made_once(root: Path) -> None:
    assert asked(root) == ["venv", "pip"]
    assert asked(root) == []


def test_what_is_there_is_brought_up_to_date_and_not_emptied(root: Path) -> None:
    asked(root)
    (root / ".venv" / "in use").touch()
    (root / "constraints.txt").write_text("second")
    assert asked(root) == ["pip"]
    assert (root / ".venv" / "in use").exists()
    assert asked(root) == []


def test_another_interpreter_makes_it_anew(root: Path) -> None:
    asked(root)
    (root / "version").write_text("Python 3.13.0")
    (root / ".venv" / "bin" / "python").write_text("#!/usr/bin/env bash\necho Python 3.12.1\n")
    assert asked(root) == ["venv", "pip"]


def test_one_that_was_moved_is_made_anew(root: Path) -> None:
    asked(root)
    (root / ".venv" / "bin" / "pip").write_text("#!/elsewhere/.venv/bin/python")
    (root / "constraints.txt").write_text("second")
    assert asked(root) == ["venv", "pip"]
