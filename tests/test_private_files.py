"""What a proxy keeps is its owner's alone, whatever the umask; a folder that others can write is refused, with the remedy."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from dpproxy.admin import admin_app
from dpproxy.cli import commands
from dpproxy.collect.ledger import Witness
from dpproxy.collector.journal import Batch, State, Writer
from dpproxy.ledger.entries import Head
from dpproxy.private_files import SharedFolder, private_file, private_folder, private_opener, settle, write_whole
from dpproxy.records.sqlite import Anchor
from dpproxy.serve.launch import LaunchError, launched
from tests.worlds.certificates import dsn
from tests.worlds.one_table import written


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_what_is_made_is_private(tmp_path: Path) -> None:
    private_folder(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o755, 0o700)
    private_file(tmp_path / "file")
    with open(tmp_path / "other", "w", opener=private_opener) as other:
        other.write("x")
    assert [mode(tmp_path / name) for name in ("file", "other")] == [0o600, 0o600]
    (tmp_path / "file").write_text("kept")
    private_file(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(("bits", "shared"), [(0o700, False), (0o755, False), (0o770, True), (0o702, True), (0o1777, True)])
def test_a_folder_that_others_can_write(tmp_path: Path, bits: int, shared: bool) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(bits)
    if shared:
        with pytest.raises(SharedFolder, match="chmod 700"):
            private_folder(tmp_path / "state")
    else:
        private_folder(tmp_path / "state")


def test_all_that_a_proxy_keeps(tmp_path: Path) -> None:
    """Started under a umask of 0, asked and steered, so that each file is made; and a ledger that is begun, copied, repaired."""
    state = written(tmp_path) / "state"
    program = ["sh", "-c", 'umask 0; exec "$0" "$@"', sys.executable, "-m", "dpproxy"]
    with launched([tmp_path / "shop.yaml"], state, program=program) as proxy:
        with psycopg.connect(dsn(proxy.port), autocommit=True) as connection:
            connection.execute("SELECT count(*) FROM people")
        run("admin", "pause", "analyst", "--reason", "a test", "--state", str(state))
        seen = modes(state)
    assert {"ledger.sqlite", "ledger.sqlite-wal", "answers.sqlite", "facade.path", "admin.sock"} <= seen.keys() | {"admin.sock"}
    assert {name: oct(found) for name, found in (seen | modes(state)).items() if found & 0o077} == {}


@pytest.mark.usefixtures("open_umask")
def test_a_ledger_that_is_copied_and_repaired(tmp_path: Path) -> None:
    state = written(tmp_path) / "state"
    private_folder(state)
    grant = ("budget", "grant", str(tmp_path / "shop.yaml"), "--all", "--epsilon", "1", "--reason", "r", "--state", str(state))
    run(*grant)
    run("ledger", "backup", str(state / "copy.sqlite"), "--state", str(state))
    run(*grant)
    os.replace(state / "copy.sqlite", state / "ledger.sqlite")
    for suffix in ("-wal", "-shm"):
        (state / f"ledger.sqlite{suffix}").unlink(missing_ok=True)
    run("ledger", "repair", "--reason", "r", "--state", str(state))
    assert {name: oct(found) for name, found in modes(state).items() if found & 0o077} == {}


def test_a_proxy_does_not_start_in_a_folder_of_others(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    wrong = pytest.raises(LaunchError, match=r"others can write in the folder .*state.*chmod 700")
    with wrong, launched([tmp_path / "shop.yaml"], tmp_path / "state"):
        pass


def run(*words: str) -> None:
    done = CliRunner().invoke(admin_app if words[0] == "admin" else commands, words[1:] if words[0] == "admin" else words)
    assert done.exit_code == 0, done.output


def modes(folder: Path) -> dict[str, int]:
    return {path.name: mode(path) for path in folder.rglob("*") if not path.is_symlink()}


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is put on the disk, by the beginning of its name, and which names files get, in order."""
    found: list[str] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def synced(descriptor: int) -> None:
        found.append(f"disk {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        fsync(descriptor)

    def named(change: Callable[..., None], old: object, new: object) -> None:
        found.append(f"name {Path(str(new)).name}")
        change(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", partial(named, rename))
    monkeypatch.setattr(os, "replace", partial(named, replace))
    return found


def segment(folder: Path) -> None:
    async def write() -> None:
        writer = Writer(State(folder), lambda: 0.0)
        await writer.append(Batch("0" * 32, "emoji", 1, [["north", "x", 1]]))
        await writer.close()

    asyncio.run(write())


HEAD = Head(1, bytes(32))
DURABLE: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a small file": (lambda folder: write_whole(folder / "file", b"x", replace=True), ["disk .file", "name file"]),
    "the names of a folder": (settle, ["disk folder"]),
    "the sums of a device": (lambda folder: Witness(folder / "sums").write(0, 1, 2), ["disk .sums", "name sums", "disk folder"]),
    "an anchor of a ledger": (lambda folder: Anchor(folder / "anchor").write(HEAD, durable=True), ["disk anchor"]),
    "an anchor that may be behind": (lambda folder: Anchor(folder / "anchor").write(HEAD), []),
    "a segment of reports": (
        segment,
        ["disk .name", "disk folder", "disk 000000000001.open", "name 000000000001.sealed", "disk folder"],
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the names of files that are open")
@pytest.mark.parametrize("name", DURABLE)
def test_what_is_to_stay_is_on_the_disk(name: str, tmp_path: Path, events: list[str]) -> None:
    """Its content before its name, its name before anybody is told."""
    (tmp_path / "folder").mkdir()
    write, expected = DURABLE[name]
    write(tmp_path / "folder")
    found = [event[: len(e)] for event, e in zip(events, expected, strict=False)]
    assert (found, len(events)) == (expected, len(expected)), events
