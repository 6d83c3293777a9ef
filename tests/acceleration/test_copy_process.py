"""The process that makes a copy: one for all who want it, gone with whoever started it, and what is left when it is killed."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.acceleration import copy_making
from dpproxy.acceleration.copy_files import CopyError, Preparation
from tests.acceleration.test_copy_making import VISITS, job, left

ENDLESS = Preparation("endless", "SELECT max(hash(i, j)) AS x FROM range(1000000) a(i), range(1000000) b(j)")


def nothing(table: str, part: float) -> None:
    pass


def children() -> list[int]:
    """Processes that make a copy for this one."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and "copy_making" in Path(f"/proc/{process}/cmdline").read_text():
                found.append(int(process))
        except OSError:
            continue
    return found


async def test_it_is_made_once_for_all_who_want_it(tmp_path: Path) -> None:
    wanted, told = job(tmp_path), []
    await asyncio.gather(*(copy_making.made(wanted, lambda table, part: told.append(table), False) for _ in range(3)))
    found = wanted.folder.whole(wanted.key)
    assert found is not None
    assert left(wanted) == {f"{wanted.key}.duckdb", f"{wanted.key}.json"}
    made = found.path.stat()
    await copy_making.made(wanted, nothing, False)
    assert found.path.stat().st_ino == made.st_ino
    assert set(told) <= {"visits", "people"}


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_killed_in_the_middle_it_leaves_nothing_that_is_used(tmp_path: Path) -> None:
    wanted = job(tmp_path, VISITS, ENDLESS)
    begun = asyncio.Event()

    def told(table: str, part: float) -> None:
        if table == "endless":
            begun.set()

    making = asyncio.ensure_future(copy_making.made(wanted, told, True))
    await asyncio.wait_for(begun.wait(), 300)
    (process,) = children()
    assert os.getpriority(os.PRIO_PROCESS, process) >= copy_making.NICE
    assert wanted.folder.unfinished(wanted.key).exists()
    with wanted.folder.locked() as lock:
        assert lock is None
    held = [os.path.realpath(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd")]
    assert str(wanted.folder.path.resolve() / "lock") in held, "nobody else makes one while this process lives"
    os.kill(process, signal.SIGKILL)
    with pytest.raises(CopyError, match="the process that made it ended"):
        await making
    assert wanted.folder.whole(wanted.key) is None
    assert left(wanted) == set()
    with pytest.raises(CopyError, match="CatalogException"):
        await copy_making.made(replace(wanted, preparations=(Preparation("x", "SELECT * FROM nosuch"),)), nothing, False)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_it_ends_with_whoever_wants_it_no_more(tmp_path: Path) -> None:
    wanted, begun = job(tmp_path, ENDLESS), asyncio.Event()
    making = asyncio.ensure_future(copy_making.made(wanted, lambda *_: begun.set(), True))
    await asyncio.wait_for(begun.wait(), 300)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert children() == []
    assert left(wanted) == set()


@pytest.mark.long
def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """What it leaves half made is removed by the next, which gets the lock."""
    wanted = job(tmp_path, ENDLESS)
    program = (
        "import asyncio, pickle, sys\n"
        "from dpproxy.acceleration import copy_making\n"
        "job = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "def told(*_):\n"
        "    print('begun', flush=True)\n"
        "asyncio.run(copy_making.made(job, told, False))\n"
    )
    command = [sys.executable, "-c", program, pickle.dumps(wanted).hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "begun\n"
        parent.kill()
    again = replace(wanted, preparations=(VISITS,))
    asyncio.run(copy_making.made(again, nothing, False))  # waits for the lock
    assert left(again) == {f"{again.key}.duckdb", f"{again.key}.json"}
