"""What systemd is told, where it asks to be told."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dpproxy.serve.runtime import VARIABLE, notify


@pytest.mark.parametrize("abstract", [False, True])
def test_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    name = f"@{tmp_path}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        monkeypatch.setenv(VARIABLE, name)
        notify("READY=1")
        assert manager.recv(100) == b"READY=1"


@pytest.mark.parametrize("where", ["", "nonsense", "/nowhere/notify"])
def test_where_nobody_listens_nothing_happens(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setenv(VARIABLE, where)
    notify("STOPPING=1")
    monkeypatch.delenv(VARIABLE)
    notify("STOPPING=1")
