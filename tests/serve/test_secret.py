"""A secret that lasts: the same for all who begin together, whole or not at all, and for its owner alone."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpproxy.serve import runtime
from dpproxy.serve.runtime import SIZE, lasting_secret


def test_it_lasts_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    drawn = lasting_secret(path)
    assert len(drawn) == SIZE
    assert lasting_secret(path) == drawn
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert lasting_secret(tmp_path / "other") != drawn
    assert sorted(p.name for p in tmp_path.iterdir()) == ["key", "other"], "nothing else is left"


def test_all_who_begin_together_get_the_first_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lasting_secret, [tmp_path / "key"] * 32))) == 1


def test_whoever_comes_second_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has kept one between the look and the keeping."""
    path, real = tmp_path / "key", runtime._keep

    def late(where: Path, drawn: bytes, *, anew: bool) -> None:
        path.write_bytes(b"k" * SIZE)
        real(where, drawn, anew=anew)

    monkeypatch.setattr(runtime, "_keep", late)
    assert lasting_secret(path) == b"k" * SIZE


@pytest.mark.parametrize("cut", [b"k" * 5, b"k" * (SIZE + 1)])
def test_what_was_cut_short_is_made_anew(tmp_path: Path, cut: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(cut)
    drawn = lasting_secret(path)
    assert len(drawn) == SIZE
    assert path.read_bytes() == drawn
