"""What the operating system tells of the facade's processes, held against processes that take a known amount."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpproxy.facade import usage

pytestmark = pytest.mark.skipif(not usage.visible(), reason="this system does not tell what processes take")

TAKES = """
import sys, time
taken = bytearray(100 << 20)
began = time.process_time()
while time.process_time() < began + 0.5:
    pass
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def greedy() -> Iterator[subprocess.Popen[str]]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", TAKES], **pipes, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_memory_and_processor_time(greedy: subprocess.Popen[str]) -> None:
    found = usage.taken(greedy.pid)
    assert found is not None
    assert 100 << 20 <= found.memory < 140 << 20
    assert found.seconds >= 0.5


def test_a_process_that_is_gone_takes_nothing(greedy: subprocess.Popen[str]) -> None:
    greedy.kill()
    greedy.wait()
    assert usage.taken(greedy.pid) is None


def test_the_last_in_the_queue(greedy: subprocess.Popen[str]) -> None:
    queue, pid = usage.Queue(), greedy.pid
    queue.put([pid])
    assert os.getpriority(os.PRIO_PROCESS, pid) == usage.LAST
    assert os.sched_getaffinity(pid) == usage.last_processors(os.sched_getaffinity(0))
    queue.put([pid])
    group = Path(f"/proc/{pid}/autogroup")
    grouped = group.exists() and os.access(group, os.W_OK)
    assert not grouped or group.read_text().split()[-1] == str(usage.LAST), "its session yields to other sessions as well"
    queue.put([])
    if os.geteuid() == 0:
        assert os.getpriority(os.PRIO_PROCESS, pid) == 0
        assert os.sched_getscheduler(pid) == os.SCHED_BATCH
        assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)
        assert not grouped or group.read_text().split()[-1] == "0"
    greedy.kill()
    greedy.wait()
    queue.put([pid])


def test_half_of_the_processors() -> None:
    assert [usage.last_processors(p) for p in ({0}, {0, 1}, {1, 3, 5})] == [{0}, {1}, {3, 5}]


def test_files_are_told_apart_by_their_names(tmp_path: Path) -> None:
    for name, size in {
        "base/pgsql_tmp/pgsql_tmp17.0": 10,
        "base/pgsql_tmp/pgsql_tmp17.1": 20,
        "base/pgsql_tmp/pgsql_tmp18.0": 5,
        "base/pgsql_tmp/other": 5,
        "base/5/t3_16400": 7,
        "base/6/t3_16400.1": 8,
        "base/6/t12_16400_fsm": 9,
        "base/6/16400": 100,
        "base/6/table": 100,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    assert usage.spilled(tmp_path) == {17: 30, 18: 5}
    assert usage.temporary_tables(tmp_path) == {3: 15, 12: 9}


def test_nothing_there_is_nothing_taken(tmp_path: Path) -> None:
    assert not usage.spilled(tmp_path)
    assert not usage.temporary_tables(tmp_path)


def test_a_container_has_less_than_the_machine(tmp_path: Path) -> None:
    machine = usage.machine_memory(tmp_path)
    assert machine >= 256 << 20
    (tmp_path / "memory.max").write_text("max\n")
    assert usage.machine_memory(tmp_path) == machine
    (tmp_path / "memory.max").write_text("1048576\n")
    assert usage.machine_memory(tmp_path) == 1048576
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("524288\n")
    assert usage.machine_memory(tmp_path) == 524288


def test_only_a_server_process_is_ended(greedy: subprocess.Popen[str], tmp_path: Path) -> None:
    """The number of a process may have become somebody else's."""
    usage.terminate(greedy.pid, tmp_path)
    assert greedy.poll() is None
    usage.terminate(greedy.pid, Path.cwd())
    greedy.wait()
