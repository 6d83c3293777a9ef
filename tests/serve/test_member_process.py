"""What a process is told through its pipe is read whole, and not a byte too far; names of data are one word of a line."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any, cast

import pytest

from dpproxy.serve.member_process import NOTHING, Membership, decoded, encoded, packed, told

MEMBER = Membership(2, 5, None, cast(Any, ["options"]), {"town": "a file's name"})


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Its reading end is standard input."""
    reading, writing = os.pipe()

    class Stdin(io.StringIO):
        def fileno(self) -> int:
            return reading

    monkeypatch.setattr("sys.stdin", Stdin())
    yield reading, writing
    os.close(reading)


def test_no_byte_of_the_next_line_is_taken(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, packed(MEMBER) + b"heard 7\n")
    os.close(writing)
    assert told() == MEMBER
    assert os.read(reading, 100) == b"heard 7\n"


def test_a_watcher_that_is_gone_is_said(pipe: tuple[int, int]) -> None:
    _, writing = pipe
    os.write(writing, packed(MEMBER)[:-1])
    os.close(writing)
    with pytest.raises(SystemExit, match="the watcher is gone"):
        told()


def test_names_of_data_are_one_word() -> None:
    states = {"a town": "file\n\N{SNOWMAN}", "b": ""}
    assert decoded(encoded(states).encode()) == states
    assert len(encoded(states).split()) == 1
    assert decoded(NOTHING) == {}
