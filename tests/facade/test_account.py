"""PostgreSQL starts wherever its programs and its data may lie, and whoever starts it; where it cannot, every reason is said."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from dpproxy.facade import account as accounts
from dpproxy.facade.account import (
    DISTRIBUTION,
    Account,
    Binaries,
    FacadeError,
    choose_account,
    choose_place,
    find_binaries,
    wheel_files,
)

ROOT = Path(__file__).resolve().parents[2]
ODD = "o'd, ü\t漢 "
QUOTED = [ODD, '"quoted"', "$(false)"]
ALL_BUT_QUOTES = [f"two\nlines back\\slash {ODD}", "/".join(["long" * 15] * 6)]
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")

START = """
import asyncio, sys
from pathlib import Path
from dpproxy.facade.facade import Facade
async def main():
    for state in sys.argv[1:]:
        facade = Facade()
        await facade.start(Path(state))
        place = facade._place
        cluster = facade._cluster("template1", lambda _: asyncio.sleep(0))
        await cluster.start()
        async with cluster.connected() as connection:
            assert await connection.fetchval("SELECT 1") == 1
        await cluster.stop()
        print(place.home, place.binaries.folder, sep="\\0", end="\\0")
        await facade.stop()
asyncio.run(main())
"""


def start(state: Path, **env: str) -> tuple[Path, Path]:
    """A facade in a process of its own: where its files and its programs were."""
    (found,) = starts([state], **env)
    return found


def starts(states: list[Path], **env: str) -> list[tuple[Path, Path]]:
    """One after the other, in one process."""
    done = subprocess.run(
        [sys.executable, "-c", START, *map(str, states)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    paths = [Path(path) for path in done.stdout.split("\0")[:-1]]
    return list(zip(paths[::2], paths[1::2], strict=True))


def installed_in(folder: Path) -> str:
    """The wheel as its record has it, in another folder: for $PYTHONPATH."""
    for file in importlib.metadata.files(DISTRIBUTION) or ():
        if "include" not in file.parts and ".." not in file.parts:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(str(file.locate()), folder / file)
            except OSError:
                shutil.copy(str(file.locate()), folder / file)
    return str(folder)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("name", ALL_BUT_QUOTES)  # quotes: the next test
def test_it_starts_with_everything_in_one_folder(name: str, tmp_path: Path) -> None:
    """pytest's folders are closed to others, as `/root` is: the programs have to be copied, with all that they load."""
    base = tmp_path / name
    base.mkdir(parents=True)
    home, programs = start(base / "state", PYTHONPATH=installed_in(base / "site"))
    if os.geteuid() == 0:
        assert base not in programs.parents
        assert not home.exists(), "a temporary folder goes at the end"


def test_it_starts_with_data_in_an_open_folder(public: Path) -> None:
    states = [public / name for name in QUOTED]
    for state in states:
        state.mkdir(parents=True)
    for state, (home, _) in zip(states, starts(states), strict=True):
        assert (home == state / "facade") is accounts.UNFIT.isdisjoint(state.name)
        assert (state / "facade.path").read_bytes() == os.fsencode(home)


def test_temporary_files_are_where_they_are_wanted(public: Path) -> None:
    """A state folder too long for a socket; $TMPDIR is taken when it is open."""
    state, wanted = public / ("x" * 100), public / "wanted"
    wanted.mkdir()
    wanted.chmod(0o777)
    assert start(state, TMPDIR=str(wanted))[0].parent == wanted
    assert list(wanted.iterdir()) == []


@ROOT_ONLY
def test_a_closed_folder_for_temporary_files_is_passed_over(tmp_path: Path) -> None:
    assert tmp_path not in start(tmp_path / "state", TMPDIR=str(tmp_path))[0].parents


def test_what_an_earlier_version_left_is_not_used(public: Path) -> None:
    """A copy of the programs would outlive an upgrade, and whoever else runs as the account could have changed it."""
    site = installed_in(public / "site")
    (public / "site").chmod(0o700)
    (public / "state").mkdir()
    for _ in range(2):
        home, programs = start(public / "state", PYTHONPATH=site)
        if os.geteuid() == 0:
            assert home == public / "state" / "facade"
            assert home / "programs" in programs.parents
            (programs / "initdb").write_text("#!/bin/sh\nexit 1\n")


def test_the_record_names_what_the_programs_need() -> None:
    found, files = find_binaries(), wheel_files(find_binaries())
    installation = next(place.parent.parent for place in files if place.match("bin/postgres"))
    assert files[installation / "bin" / "initdb"].samefile(found.folder / "initdb")
    assert installation / "share" / "postgres.bki" in files or any(p.name == "postgres.bki" for p in files)
    others = [p for p in files if installation not in p.parents]
    assert not any(p.match("bin/postgres") for p in others), "the wheel's other versions are not wanted"
    assert not any(installation / "include" in p.parents for p in files)
    if sys.platform == "linux":
        assert any(".libs" in str(p) for p in others), "libraries beside the installation"


def test_programs_of_no_wheel_have_no_record(tmp_path: Path) -> None:
    (tmp_path / "postgres").touch()
    assert wheel_files(Binaries(tmp_path, 18)) == {}


def test_every_reason_is_said(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed PostgreSQL that does not run: nothing can be copied."""
    for name in ("postgres", "initdb"):
        (public / name).write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
        (public / name).chmod(0o755)
    monkeypatch.setattr(accounts, "TEMPORARY", ("/nowhere",))
    monkeypatch.setattr(tempfile, "tempdir", str(public))
    me = Account(os.geteuid(), os.getegid(), switch=False)
    with pytest.raises(FacadeError) as caught:
        choose_place(public / "state", me, Binaries(public, 18))
    for part in ("no such library", str(public / "state"), f"{public}:", "/nowhere"):
        assert part in str(caught.value)
    assert not list(public.glob("dpproxy-*")), "nothing is left where it was tried"


@ROOT_ONLY
@pytest.mark.parametrize(
    ("folder", "file", "may"),
    [(0o755, 0o644, True), (0o700, 0o644, False), (0o755, 0o600, False), (0o755, 0o744, False), (0o751, 0o755, True)],
)
def test_what_the_account_may_read(folder: int, file: int, may: bool, public: Path) -> None:
    target = public / "bin" / "program"
    target.parent.mkdir()
    target.touch()
    target.chmod(file)
    target.parent.chmod(folder)
    assert choose_account().may_read([target]) is may


@ROOT_ONLY
def test_root_that_may_not_become_somebody_else_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose rights were taken away."""

    def forbidden(path: object, uid: int, gid: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", forbidden)
    with pytest.raises(FacadeError, match=r"no place for PostgreSQL's files.*Operation not permitted"):
        choose_place(tmp_path, choose_account(), find_binaries())


def test_places_in_the_wheel_are_relative() -> None:
    assert not any(place.is_absolute() or ".." in place.parts for place in wheel_files(find_binaries()))
    assert all(isinstance(place, PurePosixPath) for place in wheel_files(find_binaries()))
