"""Which messages the proxy has to read: those with a word of the dataset's, those that may name a private prepared statement."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dpproxy.session.concern import concerns, text_concerns
from dpproxy.wire import frontend_build as front


@dataclass
class Session:
    private: frozenset[str]

    def mentions(self, text: bytes) -> bool:
        return b"people" in text.lower()


@pytest.mark.parametrize(
    ("message", "without", "with_one"),
    [
        (front.query("SELECT 1"), False, False),
        (front.query("SELECT 1 FROM People"), True, True),
        (front.query("EXECUTE mine"), False, True),
        (front.parse("", "SELECT 1"), False, False),
        (front.parse("", "SELECT 1 FROM people"), True, True),
        (front.parse("mine", "SELECT 1"), False, True),
        (front.bind("", "mine", ()), False, True),
        (front.bind("", "another", ()), False, False),
        (front.close("S", "mine"), False, True),
        (front.close("S", "another"), False, False),
        (b"F\0\0\0\4", True, True),
    ],
)
def test_what_has_to_be_read(message: bytes, without: bool, with_one: bool) -> None:
    """Of a session without private prepared statements, and of one that has prepared one."""
    for private, expected in ((frozenset[str](), without), (frozenset({"mine"}), with_one)):
        behind = b"H\0\0\0\4" + message
        assert concerns(Session(private), message[:1], behind, 5, len(behind)) is expected


def test_a_message_that_cannot_be_read_is_the_facades() -> None:
    assert not concerns(Session(frozenset({"mine"})), b"B", b"B\0\0\0\5x", 0, 6)


def test_a_text_concerns_by_its_words() -> None:
    assert not text_concerns(Session(frozenset()), b"DEALLOCATE ALL")
    assert text_concerns(Session(frozenset({"mine"})), b"DEALLOCATE ALL")
