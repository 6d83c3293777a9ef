"""Which copy is found under which name, whole or not at all, and who may make one."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import duckdb
import pytest

from dpproxy.acceleration.copy_files import (
    CopyError,
    CopyFolder,
    Manifest,
    Preparation,
    allowed_bytes,
    digest,
    key_of,
)

ROLLUP = Preparation("rollup", "SELECT 1 AS x")


def folder(tmp_path: Path) -> CopyFolder:
    made = CopyFolder(tmp_path / "copies", "town", "data", tmp_path)
    made.ready()
    return made


def filled(place: CopyFolder, key: str, content: bytes = b"rows of people") -> Manifest:
    """A copy as making leaves it."""
    path = place.unfinished(key)
    path.write_bytes(content)
    with path.open("rb") as file:
        manifest = Manifest(key, len(content), digest(file.fileno()), ("rollup",), 1.0, 2.0)
    place.finish(manifest)
    return manifest


def test_a_key_is_of_all_that_a_copy_follows_from() -> None:
    keys = [
        key_of("file 1", "2.0.0", [ROLLUP]),
        key_of("file 2", "2.0.0", [ROLLUP]),
        key_of("file 1", "2.0.1", [ROLLUP]),
        key_of("file 1", "2.0.0", [Preparation("rollup", "SELECT 2 AS x")]),
        key_of("file 1", "2.0.0", [Preparation("other", "SELECT 1 AS x")]),
        key_of("file 1", "2.0.0", []),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of("file 1", "2.0.0", [ROLLUP]) == keys[0]


def test_what_is_finished_is_found_whole(tmp_path: Path) -> None:
    place = folder(tmp_path)
    assert not place.has("k")
    assert place.whole("k") is None
    manifest = filled(place, "k")
    found = place.whole("k")
    assert found is not None
    assert (found.manifest, found.path.read_bytes()) == (manifest, b"rows of people")
    assert place.has("k")
    place.condemn("k")
    assert place.whole("k") is None


def test_half_of_a_copy_is_none(tmp_path: Path) -> None:
    """Killed at any moment before the manifest is there."""
    place = folder(tmp_path)
    place.unfinished("k").write_bytes(b"rows of")
    assert place.whole("k") is None
    os.rename(place.unfinished("k"), place.database("k"))
    assert place.whole("k") is None
    assert not place.has("k")


DAMAGE = {
    "changed": lambda place: place.database("k").write_bytes(b"rows of peoplf"),
    "longer": lambda place: place.database("k").write_bytes(b"rows of people "),
    "shorter": lambda place: place.database("k").write_bytes(b""),
    "a folder": lambda place: (place.database("k").unlink(), place.database("k").mkdir()),
    "no manifest": lambda place: (place.path / "k.json").write_text("[]"),
    "no JSON": lambda place: (place.path / "k.json").write_text("{"),
    "fields": lambda place: (place.path / "k.json").write_text('{"tables": [], "zzz": 1}'),
    "another key": lambda place: os.rename(filled_as_other(place), place.path / "k.json"),
    "another format": lambda place: _edit(place.path / "k.json", format=0),
}


def filled_as_other(place: CopyFolder) -> Path:
    filled(place, "other")
    return place.path / "other.json"


def _edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_copy_is_told_and_not_used(tmp_path: Path, damage: str) -> None:
    place = folder(tmp_path)
    filled(place, "k")
    DAMAGE[damage](place)
    with pytest.raises(CopyError):
        place.whole("k")


def test_others_and_what_is_half_made_are_removed(tmp_path: Path) -> None:
    place = folder(tmp_path)
    filled(place, "old")
    filled(place, "k")
    assert place.leftover("k")
    place.unfinished("k").write_bytes(b"half")
    place.spill("k").mkdir()
    (place.spill("k") / "sorted.tmp").write_bytes(b"people")
    with place.locked() as lock:
        assert lock is not None
        assert place.remove("k") == 1
    assert {path.name for path in place.path.iterdir()} == {"k.duckdb", "k.json", "lock"}
    assert not place.leftover("k")
    assert place.remove() == 1
    assert {path.name for path in place.path.iterdir()} == {"lock"}


def test_who_measures_in_an_old_copy_may_go_on_to_spill(tmp_path: Path) -> None:
    """The statement is charged for: that another copy takes the place of this one must not make it fail."""
    place = folder(tmp_path)
    filled(place, "old")
    filled(place, "k")
    spilled = place.path / "old.duckdb.tmp"
    with duckdb.connect(config={"temp_directory": str(spilled), "memory_limit": "16MB", "threads": 1}) as measuring:
        sort = "CREATE TEMP TABLE kept{} AS SELECT i, hash(i) AS h FROM range(1_000_000) AS t(i) ORDER BY h"
        measuring.execute(sort.format(1))
        assert spilled.is_dir()
        assert place.remove("k", spilled=False) == 1
        assert place.remove("k", spilled=False) == 0
        measuring.execute(sort.format(2))
        assert measuring.execute("SELECT count(*) FROM kept1 JOIN kept2 USING (i, h)").fetchall() == [(1_000_000,)]
    assert {path.name for path in place.path.iterdir()} <= {"k.duckdb", "k.json", spilled.name}


def test_what_an_old_copy_has_spilled_goes_at_the_next_removal(tmp_path: Path) -> None:
    """Of who never came to an end."""
    place = folder(tmp_path)
    filled(place, "old")
    filled(place, "k")
    spilled = place.path / "old.duckdb.tmp"
    spilled.mkdir()
    (spilled / "duckdb_temp_storage-0.tmp").write_bytes(b"people")
    assert place.remove("k") == 1
    assert spilled.is_dir()
    assert place.leftover("k")
    assert place.remove("k") == 0
    assert {path.name for path in place.path.iterdir()} == {"k.duckdb", "k.json"}
    assert not place.leftover("k")


def test_one_alone_has_the_lock(tmp_path: Path) -> None:
    place = folder(tmp_path)
    with place.locked() as mine:
        assert mine is not None
        with place.locked() as other:
            assert other is None
        kept = os.dup(mine)  # as a child has it
    with place.locked() as other:
        assert other is None
    os.close(kept)
    with place.locked() as again:
        assert again is not None


def test_the_owner_alone_can_read(tmp_path: Path) -> None:
    place = folder(tmp_path)
    filled(place, "k")
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((place.path / "k.json").stat().st_mode) == 0o600
    place.path.chmod(0o750)
    for refused in (place.ready, lambda: place.whole("k")):
        with pytest.raises(CopyError, match="chmod 700"):
            refused()


def test_a_folder_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    place = CopyFolder(tmp_path / "copies", "town", "data", tmp_path)
    (tmp_path / "copies").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CopyError):
        place.ready()
    (tmp_path / "file").touch()
    with pytest.raises(CopyError, match="no folder"):
        CopyFolder(tmp_path / "file", "town", "data", tmp_path).ready()


def test_proxies_and_datasets_do_not_share_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "copies"
    paths = {CopyFolder(place, d, data, tmp_path / s).path for d in "ab" for data in "xy" for s in ("one", "two")}
    assert len(paths) == 8


@pytest.mark.parametrize(
    ("said", "data", "free", "allowed"),
    [
        (5, 10**9, 10**12, 5),
        (None, 10**9, 10**12, 6 * 10**9),
        (None, 10**9, 10**9, 5 * 10**8),
        (None, 10, 10**12, 64 << 20),
    ],
)
def test_how_much_disk_a_copy_may_take(said: int | None, data: int, free: int, allowed: int) -> None:
    assert allowed_bytes(said, data, free) == allowed


def test_what_is_taken_while_it_is_made(tmp_path: Path) -> None:
    place = folder(tmp_path)
    assert place.taken("k") == 0
    place.unfinished("k").write_bytes(bytes(100))
    place.spill("k").mkdir()
    (place.spill("k") / "a").write_bytes(bytes(20))
    Path(f"{place.unfinished('k')}.wal").write_bytes(bytes(3))
    assert place.taken("k") == 123
