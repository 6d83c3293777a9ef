"""What sessions of a dataset remember together is nobody else's: each dataset that is opened begins with nothing."""

from __future__ import annotations

from dpproxy.session.memo import LONG_TEXT, REMEMBERED, Memo
from dpproxy.session.outer_text import Outer


def test_a_dataset_that_is_opened_anew_remembers_nothing() -> None:
    old = Memo()
    old.unconcerned.add(b"SELECT 1")
    old.outers.learn("analyst", "SELECT 1", Outer("planned", "text", (), None))
    old.steadiness.immutable = frozenset({"abs"})
    new = Memo()
    assert (new.unconcerned, new.outers.guess("analyst", "SELECT 1"), new.steadiness.immutable) == (set(), None, None)
    assert old.outers.guess("analyst", "SELECT 1") is not None


def test_texts_without_a_word_are_remembered() -> None:
    memo = Memo()
    assert memo.mentions(b"SELECT * FROM People", [b"people"])
    assert not memo.mentions(b"SELECT 1", [b"people"])
    assert not memo.mentions(b"x" * (LONG_TEXT + 1), [b"people"])
    assert memo.unconcerned == {b"SELECT 1"}
    for number in range(REMEMBERED):
        memo.mentions(b"SELECT %d" % number, [b"people"])
    assert 0 < len(memo.unconcerned) <= REMEMBERED
