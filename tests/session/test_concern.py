"""Which messages the proxy has to read: those with a word of the dataset's, those that may name a private prepared statement."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from dpproxy.session.concern import REACH, Concern, WordSearch, concern, concerns, text_concerns
from dpproxy.wire import frontend_build as front


@dataclass
class Session:
    private: frozenset[str]
    words: tuple[bytes, ...] = (b"people",)
    looks: list[int] = field(default_factory=list)

    def mentions(self, text: bytes) -> bool:
        self.looks.append(len(text))
        return b"people" in text.lower()

    async def searched(self, text: memoryview, words: tuple[bytes, ...]) -> bool:
        self.looks.append(len(text))
        return WordSearch(words).found(text)


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


LONG = b" " * REACH


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"SELECT 1", Concern.NOTHING),
        (b"SELECT 1 FROM People", Concern.TEXT),
        (b"execute mine", Concern.NOTHING),
    ],
)
def test_a_long_text_is_looked_through_once_and_not_where_it_arrives(text: bytes, why: Concern) -> None:
    session, query = Session(frozenset()), b"Q\0\0\0\0" + LONG + text
    assert concerns(session, b"Q", query, 0, len(query))
    assert session.looks == []
    assert asyncio.run(concern(session, b"Q", query)) is why
    assert session.looks == [len(query) - 5]


def test_a_long_text_may_name_a_prepared_statement_or_take_its_name() -> None:
    session = Session(frozenset({"mine"}))
    assert asyncio.run(concern(session, b"Q", b"Q\0\0\0\0" + LONG + b"Execute mine")) is Concern.TEXT
    assert asyncio.run(concern(session, b"P", b"P\0\0\0\0mine\0" + LONG)) is Concern.NAME
    assert asyncio.run(concern(session, b"P", b"P\0\0\0\0other\0" + LONG)) is Concern.NOTHING
    assert asyncio.run(concern(session, b"P", b"P\0\0\0\0other\0" + LONG + b"PEOPLE")) is Concern.TEXT
    assert len(session.looks) == 4


def test_how_long_a_text_may_be_hangs_on_how_many_words_there_are() -> None:
    many = Session(frozenset(), tuple(b"table_%d" % i for i in range(200)))
    query = b"Q\0\0\0\0" + b" " * (REACH // 100)
    assert concerns(many, b"Q", query, 0, len(query))
    assert not concerns(Session(frozenset()), b"Q", query, 0, len(query))
