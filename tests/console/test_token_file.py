"""The token is its owner's alone; another one takes its place whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.console.access import AccessError
from dpproxy.console.token_file import FILE, renew, token_of


def test_a_token_is_drawn_once(tmp_path: Path) -> None:
    token = token_of(tmp_path)
    assert len(token) >= 43
    assert token_of(tmp_path) == token
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    other = renew(tmp_path)
    assert other != token
    assert token_of(tmp_path) == other
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_token_of_everybody_is_none(tmp_path: Path) -> None:
    token_of(tmp_path)
    (tmp_path / FILE).chmod(0o640)
    with pytest.raises(AccessError, match="chmod 600"):
        token_of(tmp_path)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="cannot be written"):
        token_of(tmp_path / "nowhere")
