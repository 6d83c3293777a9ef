"""Asking by sockets: paths of any length, processes that were killed, replies that do not come."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpproxy.operations.requests import (
    Drain,
    OperationError,
    Report,
    address,
    answers,
    ask,
    ask_any,
    serves,
    socket_name,
    sockets,
)


@contextmanager
def process(path: Path, reply: bytes) -> Iterator[list[bytes]]:
    """Somebody who replies so to one request."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        with address(path) as short:
            listener.bind(short)
        listener.listen()

        def answer() -> None:
            while True:
                try:
                    door, _ = listener.accept()
                except OSError:
                    return
                with door, door.makefile("rb") as lines:
                    if line := lines.readline():
                        heard.append(line)
                        door.sendall(reply)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield heard
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("name", ["state", "a" * 120])
def test_asked_and_answered_however_long_the_path(tmp_path: Path, name: str) -> None:
    (state := tmp_path / name).mkdir()
    path = state / socket_name(0)
    with process(path, json.dumps({"ok": [1]}).encode() + b"\n") as heard:
        assert (answers(path), serves(state)) == (True, True)
        assert ask(path, Report()) == [1]
        assert ask_any(state, Drain()) == [1]
    assert [json.loads(line)["request"] for line in heard] == ["Report", "Drain"]
    assert (answers(path), serves(state)) == (False, False)


def test_who_was_killed_is_passed_over(tmp_path: Path) -> None:
    with process(tmp_path / socket_name(1), b""):
        pass
    with process(tmp_path / socket_name(2), b'{"ok": true}\n'):
        assert [path.name for path in sockets(tmp_path)] == ["admin-1.sock", "admin-2.sock"]
        assert ask_any(tmp_path, Report()) is True


@pytest.mark.parametrize(("reply", "says"), [(b"", "ended before"), (b'{"error": "no such role"}\n', "no such role")])
def test_what_goes_wrong_is_said(tmp_path: Path, reply: bytes, says: str) -> None:
    with process(tmp_path / socket_name(0), reply), pytest.raises(OperationError, match=says):
        ask_any(tmp_path, Report())


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="no proxy serves with --state"):
        ask_any(tmp_path, Report())
