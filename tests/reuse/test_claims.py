"""Claims: one process makes what several ask for; the dead claim nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path

import pytest

from dpproxy.reuse.file_tables import Claims
from dpproxy.reuse.lookup import InFlight

HOLDER = """
import sys
from pathlib import Path
from dpproxy.reuse.file_tables import Claims
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


class Noted:
    """Claims that are there at the second time of asking, and who holds them."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.asked = 0

    async def claim(self, names: Collection[str]) -> bool:
        self.asked += 1
        if self.asked == 1:
            return False
        self.held += names
        return True

    def drop(self, names: Collection[str]) -> None:
        for name in names:
            self.held.remove(name)


@pytest.mark.parametrize("ending", [None, ValueError, asyncio.CancelledError])
async def test_a_claim_is_dropped_however_its_holder_ends(ending: type[BaseException] | None) -> None:
    """One that never is keeps everybody else waiting, for ever."""
    claims, pauses = Noted(), list[float]()
    flight = InFlight(claims)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    with pytest.raises(ending) if ending is not None else nullcontext():
        async with flight.held(["a", "b"], sleep):
            assert (claims.held, len(pauses)) == (["a", "b"], 1)
            waiting = flight.busy(["b", "c"])
            assert len(waiting) == 1
            if ending is not None:
                raise ending
    assert claims.held == []
    assert flight.busy(["a", "b"]) == []
    assert waiting[0].done()
