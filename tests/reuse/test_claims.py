"""Claims: one process makes what several ask for; the dead claim nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpproxy.reuse.claims import Claims

HOLDER = """
import sys
from pathlib import Path
from dpproxy.reuse.claims import Claims
claims = Claims(Path(sys.argv[1]))
print(claims.take(sys.argv[2:]), flush=True)
sys.stdin.readline()
claims.drop(sys.argv[2:])
print("dropped", flush=True)
sys.stdin.readline()
"""


def holder(path: Path, *names: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(path), *names]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "claims"


def test_within_a_process(path: Path) -> None:
    claims = Claims(path)
    assert claims.take(["a", "b"])
    assert not claims.take(["b", "c"])
    assert claims.take(["c", "c"]), "nothing was kept of what could not be taken whole"
    claims.drop(["a", "b"])
    assert claims.take(["b"])
    claims.close()


@pytest.mark.skipif(sys.platform == "win32", reason="one process there")
def test_between_processes(path: Path) -> None:
    claims, other = Claims(path), holder(path, "a", "b")
    assert not claims.take(["x", "b"])
    assert claims.take(["x"])
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write("\n")
    other.stdin.flush()
    assert other.stdout.readline() == "dropped\n"
    assert claims.take(["a", "b"])
    other.kill()
    other.communicate()
    claims.close()


@pytest.mark.skipif(sys.platform == "win32", reason="one process there")
def test_the_dead_claim_nothing(path: Path) -> None:
    claims, other = Claims(path), holder(path, "a")
    assert not claims.take(["a"])
    other.kill()
    other.communicate()
    assert claims.take(["a"])
    claims.close()
