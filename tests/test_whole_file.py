"""A file is written whole, for its owner alone, and nothing is left of one that is not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dpproxy.private_files import write_whole


def test_it_takes_the_place_or_leaves_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "name"
    write_whole(path, b"first", replace=False)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"first", 0o600)
    write_whole(path, b"second", replace=False)
    assert path.read_bytes() == b"first"
    write_whole(path, b"third", replace=True)
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_nothing_is_left_of_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "name"
    write_whole(path, b"before", replace=True)
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"after", replace=True)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
