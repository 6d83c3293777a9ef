"""A database file known by itself: replaced, written over, gone, locked; and what DuckDB then reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends.base import BackendError
from dpproxy.backends.datafile import DataFile, FileChanged
from dpproxy.backends.duckdb import DuckDB
from dpproxy.policy.model import DuckDBBackend

COUNT = "SELECT count(*) FROM people"


def make(path: Path, people: int, name: str = "people") -> Path:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE {name} AS SELECT i AS id FROM range({people}) AS t(i)")
    return path


def replaced(path: Path, people: int, time_of: Path | None = None) -> None:
    """By another file, with the time of a third."""
    new = make(path.with_name("new.duckdb"), people)
    if time_of is not None:
        found = time_of.stat()
        os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
    os.replace(new, path)


async def counted(backend: DuckDB) -> int:
    return (await backend.violations([COUNT]))[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make(tmp_path / "town.duckdb", 100)


async def test_a_file_that_was_replaced_is_another(path: Path) -> None:
    """DuckDB has the old one open, under the same path."""
    old = DuckDB(DuckDBBackend(str(path)))
    assert not old.outdated()
    replaced(path, 7)
    assert old.outdated()
    new = DuckDB(DuckDBBackend(str(path)))
    assert (await counted(old), await counted(new)) == (100, 7)
    assert old.state != new.state
    await old.close()
    assert await counted(new) == 7
    await new.close()


async def test_the_same_time_with_other_content(path: Path) -> None:
    kept = path.with_name("kept.duckdb")
    shutil.copy2(path, kept)
    old = DuckDB(DuckDBBackend(str(path)))
    replaced(path, 100, time_of=kept)
    assert path.stat().st_mtime_ns == kept.stat().st_mtime_ns
    assert old.outdated()
    new = DuckDB(DuckDBBackend(str(path)))
    assert new.state != old.state, "another, whatever is in it: the charge does not tell"
    for backend in (old, new):
        await backend.close()


def test_a_file_is_the_same_in_all_processes(path: Path) -> None:
    code = f"from dpproxy.backends.datafile import DataFile; print(DataFile({str(path)!r}).state)"
    told = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    file = DataFile(str(path))
    assert told == {file.state + "\n"}
    path.chmod(0o600)
    os.link(path, path.with_name("link"))
    file.check()
    assert file.still()
    assert told == {file.state + "\n"}, "permissions and names are no data"
    file.close()


@pytest.mark.parametrize("quiet", [False, True])
async def test_a_file_written_over_is_not_read_any_more(path: Path, quiet: bool) -> None:
    """`cp` over it; with the old time put back."""
    other, before = make(path.with_name("other.duckdb"), 7), path.stat()
    backend = DuckDB(DuckDBBackend(str(path)))
    assert await counted(backend) == 100
    path.write_bytes(other.read_bytes())
    if quiet:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(BackendError, match="written over"):
            await counted(backend)
    with pytest.raises(BackendError, match="written over"):
        await backend.public_states([])
    assert backend.outdated()
    anew = DuckDB(DuckDBBackend(str(path)))
    await backend.close()
    assert await counted(anew) == 7
    await anew.close()


def writable(path: Path) -> bool:
    """By another process."""
    code = f"import duckdb; duckdb.connect({str(path)!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


async def test_nobody_writes_what_is_open(path: Path) -> None:
    """The lock outlives whatever opens and closes the file in this process."""
    one, two = DuckDB(DuckDBBackend(str(path))), DuckDB(DuckDBBackend(str(path)))
    assert one.state == two.state
    assert not writable(path)
    await one.close()
    assert not writable(path)
    assert await counted(two) == 100
    await two.close()
    assert writable(path)


def test_what_is_being_written_is_not_opened(path: Path) -> None:
    code = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        writer.stdout.readline()
        with pytest.raises(BackendError, match="lock"):
            DuckDB(DuckDBBackend(str(path)))
        writer.stdin.close()


def test_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database")
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "text", "pipe", "."):
        with pytest.raises(BackendError):
            DuckDB(DuckDBBackend(str(tmp_path / name)))


async def test_a_file_that_is_gone(path: Path) -> None:
    backend = DuckDB(DuckDBBackend(str(path)))
    path.unlink()
    assert await counted(backend) == 100, "what is open is whole"
    assert backend.outdated()
    with pytest.raises(BackendError, match="No such file"):
        DuckDB(DuckDBBackend(str(path)))
    await backend.close()


async def test_every_block_counts(path: Path) -> None:
    """One page changed anywhere, with time and size as they were."""
    make(path, 300_000, "others")
    size, found = path.stat().st_size, path.stat()
    file = DataFile(str(path))
    for at in range(3 * 4096, size, 256 * 1024):
        with path.open("r+b") as stream:
            stream.seek(at)
            byte = stream.read(1)
            stream.seek(at)
            stream.write(bytes([byte[0] ^ 1]))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        with pytest.raises(FileChanged):
            file.check()
        with path.open("r+b") as stream:
            stream.seek(at)
            stream.write(byte)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        file.check()
    file.close()


@pytest.mark.parametrize("name", ["memory.duckdb", "temp.db", "it's a town.x.duckdb", "system"])
async def test_names_of_files(tmp_path: Path, name: str) -> None:
    path = make(tmp_path / name, 5)
    with duckdb.connect(str(path)) as connection:
        ((own,),) = connection.execute("SELECT current_database()").fetchall()
        connection.execute(f'CREATE VIEW seen AS SELECT * FROM "{own}".main.people')
    backend = DuckDB(DuckDBBackend(str(path)))
    assert await backend.violations(["SELECT count(*) FROM seen"]) == (5,)
    assert {str(n) for n in (await backend.introspect()).tables} == {"people", "seen"}
    await backend.close()
