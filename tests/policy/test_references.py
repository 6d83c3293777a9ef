"""References to secrets: replaced once, named and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.policy.includes import MAX_SECRET_BYTES, Secrets
from dpproxy.policy.reader import Reader
from dpproxy.policy.tree import Mapping, parse


def read(text: str, base: Path, **env: str) -> tuple[str | None, list[str]]:
    reader = Reader("p.yaml")
    tree = parse(f"x: {text}", "p.yaml")
    assert isinstance(tree, Mapping)
    node = tree.entries["x"]
    return Secrets(env, base).read(reader, node, "dsn"), [f"{p.what}; {p.fix}" for p in reader.problems]


def test_they_are_replaced_in_their_place(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("two\r\n\n")
    assert read('"a${env:ONE}b${file:key}c"', tmp_path, ONE="one") == ("aonebtwoc", [])
    assert read("plain", tmp_path) == ("plain", [])


def test_what_is_put_in_is_not_looked_into_again(tmp_path: Path) -> None:
    assert read('"${env:A}"', tmp_path, A="${env:B}", B="b") == ("${env:B}", [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"${env:GONE}"', "the environment has no `GONE`"),
        ('"${file:gone}"', "the file `gone` cannot be used (FileNotFoundError)"),
        ('"${file:large}"', "the file `large` cannot be used (ValueError)"),
        ('"${file:bytes}"', "the file `bytes` cannot be used (UnicodeDecodeError)"),
        ('"${vault:x}"', "not a reference that is known"),
        ('"${env:}"', "not a reference that is known"),
        ('""', "`dsn` must be text, not empty"),
        ("[a]", "`dsn` must be text, not a list"),
    ],
)
def test_what_cannot_be_read(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    found, problems = read(text, tmp_path)
    assert found is None
    assert [p.partition(";")[0] for p in problems] == [says]


def test_a_file_may_be_as_large_as_allowed(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"x" * MAX_SECRET_BYTES)
    assert read('"${file:key}"', tmp_path) == ("x" * MAX_SECRET_BYTES, [])


def test_no_message_shows_a_value(tmp_path: Path) -> None:
    found, problems = read('"${env:A}${env:B}"', tmp_path, A="hunter2")
    assert found is None
    assert "hunter2" not in "".join(problems)
