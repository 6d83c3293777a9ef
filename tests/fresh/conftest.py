"""Machines that have never seen dpproxy: copies of the repository in odd places, each with an environment of its own.

Packages are fetched once, by pip, into one folder; every environment is installed from there without a look at an index. The
first trial lets `scripts/demo` make its environment itself, as a new user does; the others are given one without the tools of
development.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 1800  # seconds: the trials are of what works, not of how fast
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "*_cache", "__pycache__", "*.duckdb", "*.egg-info", "build")
RUNNER = ("pytest", "pytest-asyncio", "hypothesis")
"""What the facade's tests need."""


@dataclass(frozen=True)
class Machine:
    """`interpreter`: what environments are made from. `user`: who runs what is run there; None: who runs the tests."""

    wheels: Path
    pip: Path
    interpreter: str = sys.executable
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def run(self, command: Sequence[str | Path], where: Path, **env: str) -> str:
        """What it printed; its failure is the test's."""
        entry = pwd.getpwnam(self.user) if self.user else None
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PYTHON": self.interpreter}
        unset = ("DPPROXY_VENV", "DPPROXY_SHARED", "PYTHONPATH", "VIRTUAL_ENV")
        done = subprocess.run(
            [str(part) for part in command],
            cwd=where,
            env={k: v for k, v in os.environ.items() if k not in unset} | offline | self.env | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            check=False,
            timeout=PATIENCE,
            **({"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []} if entry else {}),
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-6000:]}"
        return done.stdout

    def environment(self, place: Path, *packages: str) -> Path:
        """Its folder. Made by who runs the tests, as an administrator would."""
        subprocess.run([self.interpreter, "-m", "venv", "--without-pip", place], check=True, timeout=PATIENCE)
        install = ["install", "--no-index", "--find-links", self.wheels, "--no-compile", "--quiet", *packages]
        subprocess.run([self.pip, "--python", place / "bin" / "python", *install], check=True, timeout=PATIENCE)
        return place

    def clone(self, place: Path) -> Path:
        shutil.copytree(ROOT, place, ignore=NOT_COPIED)
        return place


def reachable(interpreter: str, user: str) -> bool:
    """Whether this user can run it, and it is new enough."""
    entry = pwd.getpwnam(user)
    code = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
    try:
        done = subprocess.run(
            [interpreter, "-c", code], check=False, user=entry.pw_uid, group=entry.pw_gid, extra_groups=[], cwd="/"
        )
    except OSError:
        return False
    return done.returncode == 0


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="wheels-", dir="/tmp") as made:
        base = Path(made)
        base.chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", base / "pip"], check=True, timeout=PATIENCE)
        pip, wheels = base / "pip" / "bin" / "pip", base / "wheels"
        source = shutil.copytree(ROOT, base / "source", ignore=NOT_COPIED)
        wanted = [f"{source}[dev]", "setuptools>=77", "wheel", "pip", "pipx", "build", *RUNNER]
        fetch = [pip, "wheel", "--quiet", "--wheel-dir", wheels, "-c", ROOT / "constraints.txt", *wanted]
        subprocess.run(fetch, check=True, timeout=PATIENCE)
        for wheel in wheels.glob("dpproxy-*"):
            wheel.unlink()  # who wants it makes it
        yield Machine(wheels, pip)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Open to all; its size is too much to be kept, as pytest keeps its own."""
    with tempfile.TemporaryDirectory(prefix="fresh-", dir="/tmp", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)
