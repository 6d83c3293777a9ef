"""Making a copy: what is in it, what stops it, and that nothing half made is left."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpproxy.acceleration.copy_files import CopyError, CopyFolder, Preparation
from dpproxy.acceleration.copy_making import A_ROW, Job, expected, make
from dpproxy.backends.datafile import DataFile
from dpproxy.policy.model import DuckDBBackend

COPY = "copied"
VISITS = Preparation("visits", 'SELECT person AS u, shop AS k0, count(*) AS n FROM "main"."visits" GROUP BY u, k0 ORDER BY u, k0')
PEOPLE = Preparation("people", "SELECT id AS u, CAST(sex AS ENUM('F', 'M')) AS k0 FROM \"main\".\"people\" ORDER BY u")


def data(path: Path, rows: int = 1000) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"CREATE OR REPLACE TABLE people AS SELECT i AS id, ['F', 'M'][1 + i % 2] AS sex FROM range({rows}) t(i)"
        )
        connection.execute(f"CREATE OR REPLACE TABLE visits AS SELECT i % 100 AS person, i % 3 AS shop FROM range({rows}) t(i)")


def job(tmp_path: Path, *preparations: Preparation, disk: int = 1 << 30) -> Job:
    path = tmp_path / "data.duckdb"
    if not path.exists():
        data(path)
    file = DataFile(str(path))
    state = file.state
    file.close()
    folder = CopyFolder(tmp_path / "copies", "town", "data", tmp_path)
    folder.ready()
    return Job(DuckDBBackend(str(path), "500MB", 1), state, preparations or (VISITS, PEOPLE), folder, disk, COPY)


def left(made: Job) -> set[str]:
    return {path.name for path in made.folder.path.iterdir()} - {"lock"}


def test_a_copy_holds_what_the_queries_say(tmp_path: Path) -> None:
    wanted = job(tmp_path)
    told: list[tuple[str, float]] = []
    manifest = make(wanted, lambda table, part: told.append((table, part)))
    found = wanted.folder.whole(wanted.key)
    assert found is not None
    assert found.manifest == manifest
    assert manifest.tables == ("visits", "people")
    assert left(wanted) == {f"{wanted.key}.duckdb", f"{wanted.key}.json"}
    assert stat.S_IMODE(found.path.stat().st_mode) == 0o600
    assert told
    assert told[-1] == ("people", told[-1][1])
    assert all(0 <= part <= 1 for _, part in told)
    with duckdb.connect(str(found.path), read_only=True) as connection:
        assert connection.execute("SELECT count(*), sum(n) FROM visits").fetchall() == [(300, 1000)]
        assert connection.execute("SELECT u, k0 FROM people LIMIT 2").fetchall() == [(0, "F"), (1, "M")]


def test_what_it_will_take_grows_with_the_rows_that_are_read(tmp_path: Path) -> None:
    """Of each table, as often as it is read; what is read of tables that are made before is in their price."""
    once, twice = job(tmp_path, VISITS), job(tmp_path, VISITS, PEOPLE, Preparation("more", f'SELECT u FROM "{COPY}"."main"."s1"'))
    assert expected(once) == pytest.approx(1000 * A_ROW)
    assert expected(twice) == pytest.approx(2000 * A_ROW)
    (tmp_path / "data.duckdb").write_bytes(b"rubbish")
    with pytest.raises(CopyError):
        expected(once)


def test_a_damaged_copy_is_replaced_and_older_ones_go(tmp_path: Path) -> None:
    wanted = job(tmp_path)
    make(wanted, lambda *_: None)
    wanted.folder.database(wanted.key).write_bytes(b"rubbish")
    with pytest.raises(CopyError, match="damaged"):
        wanted.folder.whole(wanted.key)
    make(wanted, lambda *_: None)
    assert wanted.folder.whole(wanted.key) is not None
    other = replace(wanted, preparations=(VISITS,))
    make(other, lambda *_: None)
    assert wanted.folder.whole(wanted.key) is None
    assert left(wanted) == {f"{other.key}.duckdb", f"{other.key}.json"}


def test_data_that_are_others_by_now(tmp_path: Path) -> None:
    wanted = job(tmp_path)
    new = tmp_path / "new.duckdb"
    data(new, 1001)
    os.replace(new, tmp_path / "data.duckdb")
    with pytest.raises(CopyError, match="others by now"):
        make(wanted, lambda *_: None)
    assert left(wanted) == set()


def test_data_that_were_written_over(tmp_path: Path) -> None:
    """Same name, same inode, same time."""
    wanted, path = job(tmp_path), tmp_path / "data.duckdb"
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"12345678")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(CopyError, match="others by now"):
        make(wanted, lambda *_: None)


def test_as_many_tables_are_made_as_there_is_room_for(tmp_path: Path) -> None:
    """What the first that does not fit had taken is given back."""
    much = Preparation("much", "SELECT random() AS x, hash(i) AS y FROM range(3000000) t(i)")
    wanted = job(tmp_path, VISITS, much, PEOPLE, disk=3_000_000)
    manifest = make(wanted, lambda *_: None)
    assert manifest.tables == ("visits",)
    assert manifest.size < 3_000_000
    assert wanted.folder.whole(wanted.key) is not None


def test_a_little_too_much_is_found_at_the_end(tmp_path: Path) -> None:
    wanted = job(tmp_path, disk=1000)
    with pytest.raises(CopyError, match="more disk"):
        make(wanted, lambda *_: None)
    assert left(wanted) == set()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT * FROM nosuch", "CatalogException"),
        ("SELECT CAST('victim' AS INTEGER) AS x", "ConversionException"),
        ("SELECT * FROM read_csv('/etc/passwd')", "PermissionException"),
    ],
)
def test_what_fails_leaves_nothing_and_quotes_no_data(tmp_path: Path, query: str, says: str) -> None:
    wanted = job(tmp_path, VISITS, Preparation("wrong", query))
    with pytest.raises(CopyError, match=says) as caught:
        make(wanted, lambda *_: None)
    assert "victim" not in str(caught.value)
    assert left(wanted) == set()


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpproxy.acceleration.copy_making.LEAST_FREE", 1 << 60)
    much = Preparation("much", "SELECT hash(i) AS y FROM range(3000000) t(i)")
    wanted = job(tmp_path, much)
    with pytest.raises(CopyError, match="bytes free"):
        make(wanted, lambda *_: None)
    assert left(wanted) == set()


def test_a_disk_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    wanted = job(tmp_path)
    monkeypatch.setattr("dpproxy.acceleration.copy_files.write_whole", full)
    with pytest.raises(CopyError, match="No space left"):
        make(wanted, lambda *_: None)
    assert wanted.folder.whole(wanted.key) is None
