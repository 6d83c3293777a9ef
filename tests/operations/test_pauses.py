"""Paused roles: a decision that outlives the process, seen by all processes, never half written."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dpproxy.operations.pauses import Pause, Pauses, PausesError

PAUSE = Pause("shop", "analyst", 1.0, "root (0)", "a lost laptop")


def test_a_pause_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "paused.json"
    assert Pauses(path).add(PAUSE)
    again = Pauses(path)
    assert again.of("shop", "analyst") == PAUSE
    assert (again.of("shop", "other"), again.of("city", "analyst")) == (None, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert again.remove("shop", "analyst")
    assert Pauses(path).all() == ()


def test_the_first_reason_stays(tmp_path: Path) -> None:
    pauses = Pauses(tmp_path / "paused.json")
    assert pauses.add(PAUSE)
    assert not pauses.add(Pause("shop", "analyst", 2.0, "eve (7)", "another"))
    assert pauses.all() == (PAUSE,)
    assert not pauses.remove("shop", "nobody")


def test_processes_do_not_write_over_each_other(tmp_path: Path) -> None:
    one, two = Pauses(tmp_path / "paused.json"), Pauses(tmp_path / "paused.json")
    one.add(PAUSE)
    two.add(Pause("shop", "other", 3.0, "root (0)", "r"))
    one.read()
    assert {pause.role for pause in one.all()} == {pause.role for pause in two.all()} == {"analyst", "other"}


def test_what_cannot_be_written_down_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = Pauses(tmp_path / "paused.json")
    pauses.add(PAUSE)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        for change in (
            lambda: pauses.add(Pause("shop", "other", 3.0, "root (0)", "r")),
            lambda: pauses.remove("shop", "analyst"),
        ):
            with pytest.raises(OSError, match="No space"):
                change()
    assert pauses.all() == Pauses(tmp_path / "paused.json").all() == (PAUSE,)
    assert {path.name for path in tmp_path.iterdir()} == {"paused.json", "paused.lock"}


def test_without_a_state_it_is_kept_in_memory() -> None:
    pauses = Pauses()
    pauses.add(PAUSE)
    pauses.read()
    assert pauses.of("shop", "analyst") == PAUSE


@pytest.mark.parametrize("text", ["[{}]", "nonsense", '{"a": 1}'])
def test_a_damaged_file_is_no_resumption(tmp_path: Path, text: str) -> None:
    (tmp_path / "paused.json").write_text(text)
    with pytest.raises(PausesError, match="is damaged"):
        Pauses(tmp_path / "paused.json")


def test_what_who_asks_is_told() -> None:
    refusal = PAUSE.refusal()
    assert refusal.message == "role `analyst` is paused by the operator"
    assert "laptop" not in f"{refusal.detail} {refusal.hint}", "the reason is the operator's"
