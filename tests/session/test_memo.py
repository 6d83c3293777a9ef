"""What sessions of a dataset remember together is nobody else's: each dataset that is opened begins with nothing."""

from __future__ import annotations

from dpproxy.session.memo import Memo
from dpproxy.session.outer_text import Outer


def test_a_dataset_that_is_opened_anew_remembers_nothing() -> None:
    old = Memo()
    old.unconcerned.add(b"SELECT 1")
    old.outers.learn("analyst", "SELECT 1", Outer("planned", "text", (), None))
    old.steadiness.immutable = frozenset({"abs"})
    new = Memo()
    assert (new.unconcerned, new.outers.guess("analyst", "SELECT 1"), new.steadiness.immutable) == (set(), None, None)
    assert old.outers.guess("analyst", "SELECT 1") is not None
