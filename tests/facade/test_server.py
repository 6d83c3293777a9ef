"""One PostgreSQL process, played by a script: ready when it says so, told about when it dies, gone when it is to go."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpproxy.facade import server
from dpproxy.facade.account import Account, Binaries, FacadeError, Place
from dpproxy.facade.server import Bounds, EmbeddedServer, kill_strays, settings
from tests.worlds.waiting import SAFETY, until

READY = r"printf '1\n2\n3\n4\n5\n6\n7\nready   \n' > data/postmaster.pid; exec sleep 1000"
SELF = Account(os.getuid(), os.getgid(), False)


def place(folder: Path, postgres: str = READY, major: int = 17) -> Place:
    """Programs that are shell scripts; they run in `folder`."""
    programs = folder / "bin"
    programs.mkdir()
    for name, script in (("postgres", postgres), ("initdb", 'mkdir data; echo "$@" > data/arguments')):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return Place(folder, Binaries(programs, major), False)


async def started(where: Place, ended: asyncio.Event) -> EmbeddedServer:
    made = EmbeddedServer(where, SELF, 10, ended.set)
    await made.create()
    await made.start()
    return made


async def test_it_is_ready_when_it_says_so_and_nobody_is_told_of_an_end_that_was_asked_for(tmp_path: Path) -> None:
    ended = asyncio.Event()
    running = await started(place(tmp_path), ended)
    assert running.pid is not None
    assert (tmp_path / "data" / "pg_hba.conf").read_text() == "local all all trust\n"
    await running.stop()
    await running.stop()
    assert (running.pid, ended.is_set()) == (None, False)


async def test_who_supervises_hears_of_its_death(tmp_path: Path) -> None:
    ended = asyncio.Event()
    running = await started(place(tmp_path), ended)
    running._signal(server.signal.SIGKILL)
    async with asyncio.timeout(SAFETY):
        await ended.wait()
    await running.restart()
    assert running.pid is not None, "on the same files"
    await running.stop()


async def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(FacadeError, match="postgres does not start: no space left"):
        await started(place(tmp_path, "echo no space left; exit 1"), asyncio.Event())


async def test_one_that_is_never_ready_is_not_waited_for_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "START_TIMEOUT", 0.02)
    made = EmbeddedServer(place(tmp_path, "exec sleep 1000"), SELF, 10, lambda: None)
    await made.create()
    with pytest.raises(FacadeError, match="postgres was not ready within 0 s"):
        await made.start()
    await made.stop()


async def test_one_that_does_not_go_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STOP_TIMEOUT", 0.01)
    running = await started(place(tmp_path, "trap '' INT\n" + READY), asyncio.Event())
    process = running._process
    assert process is not None
    await running.stop()
    await until(lambda: process.poll() is not None)
    assert process.returncode == -9


async def test_files_are_a_copy_of_a_pattern(tmp_path: Path) -> None:
    pattern = tmp_path / "pattern"
    (pattern / "base").mkdir(parents=True)
    (pattern / "base" / "1").write_text("rows")
    where = place(tmp_path)
    where.data.mkdir()
    (where.data / "old").write_text("of an earlier run")
    await EmbeddedServer(where, SELF, 10, lambda: None).create(pattern)
    assert (where.data / "base" / "1").read_text() == "rows"
    assert not (where.data / "old").exists()


@pytest.mark.parametrize(
    ("major", "expected"), [(16, "--locale=C "), (17, "--locale-provider=builtin"), (18, "--no-data-checksums")]
)
def test_files_of_each_version(tmp_path: Path, major: int, expected: str) -> None:
    where = place(tmp_path, major=major)
    server.initdb(where, SELF)
    assert expected in (where.data / "arguments").read_text()
    assert ("--no-data-checksums" in (where.data / "arguments").read_text()) == (major >= 18)


def test_a_failing_initdb_says_why(tmp_path: Path) -> None:
    where = place(tmp_path)
    (tmp_path / "bin" / "initdb").write_text("#!/bin/sh\necho no locale >&2; exit 1\n")
    with pytest.raises(FacadeError, match="initdb failed: no locale"):
        server.initdb(where, SELF)


def test_settings_hold_the_bounds() -> None:
    chosen = settings(Path('/odd "name"'), 25, 17, Bounds(memory=1, disk=10 << 20))
    assert (chosen["temp_file_limit"], chosen["max_connections"]) == ("10240kB", "25")
    assert chosen["unix_socket_directories"] == '"/odd ""name"""'
    assert (chosen["listen_addresses"], chosen["log_statement"], chosen["track_activities"]) == ("", "none", "off")
    assert "io_method" not in chosen
    assert settings(Path("/x"), 25, 18, Bounds())["io_method"] == "sync"


def test_what_postgresql_conf_wants_quoted() -> None:
    assert server._quoted("a'b\\c\nd") == "'a''b\\\\c\\nd'"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells working directories")
def test_strays_are_killed_and_nobody_else(tmp_path: Path) -> None:
    inside, outside = tmp_path / "data" / "base", tmp_path / "database"
    processes = []
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        processes.append(subprocess.Popen(["sleep", "1000"], cwd=folder))
    assert kill_strays(tmp_path / "data") == 1
    assert processes[0].wait(SAFETY) == -9
    assert kill_strays(tmp_path / "data") == 0
    assert processes[1].poll() is None
    processes[1].kill()
    processes[1].wait(SAFETY)
