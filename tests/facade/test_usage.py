"""What the operating system tells of the facade's processes, held against processes that take a known amount."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
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


def filled(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size))


KB = 1 << 10


def test_files_are_told_apart_by_their_names(tmp_path: Path) -> None:
    filled(
        tmp_path,
        {
            "base/pgsql_tmp/pgsql_tmp17.0": 100 * KB,
            "base/pgsql_tmp/pgsql_tmp17.1": 200 * KB,
            "base/pgsql_tmp/pgsql_tmp18.0": 50 * KB,
            "base/pgsql_tmp/other": 20 * KB,
            "base/5/t3_16400": 70 * KB,
            "base/6/t3_16400.1": 80 * KB,
            "base/6/t12_16400_fsm": 90 * KB,
            "base/6/16400": 1000 * KB,
            "base/6/table": 1000 * KB,
            "pg_wal/000000010000000000000001": 300 * KB,
            "pg_wal/archive_status/t3_1": 20 * KB,
            "t3_16400": 20 * KB,
            "pg_xact/0000": 30 * KB,
        },
    )
    assert usage.spilled(tmp_path) == {17: 300 * KB, 18: 50 * KB}
    assert usage.files(tmp_path) == usage.Files(Counter({3: 150 * KB, 12: 90 * KB}), 320 * KB, 2070 * KB)


def test_a_file_without_bytes_takes_some_of_the_disk(tmp_path: Path) -> None:
    filled(tmp_path, {"base/5/t3_16400": 0, "base/5/t3_16401": 1, "base/5/16402": 0})
    assert usage.files(tmp_path) == usage.Files(Counter({3: 2 * usage.LEAST}), 0, usage.LEAST)


def test_each_byte_is_counted_once(tmp_path: Path) -> None:
    """Whatever PostgreSQL calls its files, of today and to come."""
    random.seed(7)
    folders = (
        "",
        "base",
        "base/5",
        "base/pgsql_tmp",
        "base/pgsql_tmp/pgsql_tmp17.0.fileset",
        "global",
        "pg_wal",
        "pg_xact",
        "x/y/z",
    )
    names = ("16400", "t3_1", "t12_1_fsm", "pgsql_tmp17.0", "pgsql_tmp18.3", "pgsql_tmp", "postmaster.pid", "t3", "0000")
    sizes = {f"{folder}/{name}".strip("/"): random.randrange(16, 90) * KB for folder in folders for name in names}
    sizes = {name: size for name, size in sizes.items() if name != "base/pgsql_tmp"}  # a folder here
    filled(tmp_path, sizes)
    found = usage.files(tmp_path)
    assert found.temporary.total() + found.changes + found.others + usage.spilled(tmp_path).total() == sum(sizes.values())


def test_nothing_there_is_nothing_taken(tmp_path: Path) -> None:
    assert not usage.spilled(tmp_path)
    assert usage.files(tmp_path / "none") == usage.Files()


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
