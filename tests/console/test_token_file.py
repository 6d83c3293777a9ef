"""The token is its owner's alone; another one takes its place whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.console.tokens import FILE, FOLDER, SHARED, AccessError, digest, digests, give, renew, revoke, token_of


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


def test_operators_have_tokens_of_their_own(tmp_path: Path) -> None:
    shared = token_of(tmp_path)
    assert digests(tmp_path) == {SHARED: digest(shared)}
    eves, bobs = give(tmp_path, "eve"), give(tmp_path, "bob@example.org")
    assert digests(tmp_path) == {"eve": digest(eves), "bob@example.org": digest(bobs)}
    again = give(tmp_path, "eve")
    assert digests(tmp_path)["eve"] == digest(again) != digest(eves)
    kept = "".join(path.read_text() for path in (tmp_path / FOLDER).iterdir())
    assert again not in kept
    for name in ("eve", "bob@example.org"):
        assert (tmp_path / FOLDER / name).stat().st_mode & 0o777 == 0o600
        revoke(tmp_path, name)
    assert digests(tmp_path) == {}, "nor does the shared one let anybody in"
    for asked in (token_of, renew):
        with pytest.raises(AccessError, match="tokens of their own"):
            asked(tmp_path)


def test_what_is_no_operators_name_is_said(tmp_path: Path) -> None:
    for name in ("", "..", "../x", ".eve", "e ve", "x" * 64, "eve\n"):
        with pytest.raises(AccessError, match="name"):
            give(tmp_path, name)
    with pytest.raises(AccessError, match="has no token"):
        revoke(tmp_path, "eve")
    give(tmp_path, "eve")
    (tmp_path / FOLDER / "eve").chmod(0o644)
    with pytest.raises(AccessError, match="chmod 600"):
        digests(tmp_path)
