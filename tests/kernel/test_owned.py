"""What stays known of some of a relation's columns."""

from __future__ import annotations

from dpproxy.kernel.owned import Owned


def test_some_columns_alone() -> None:
    whole = Owned(
        True, frozenset((1, 2)), constant=frozenset((2, 3)), equal=(frozenset((1, 2)), frozenset((4, 5, 6))),
        present=frozenset((1, 4)), numbers=frozenset((7,)), fixed=True,
    )  # fmt: skip
    some = whole.holding(frozenset((1, 4, 5)))
    assert (some.owner, some.constant, some.equal) == ({1}, frozenset(), (frozenset((4, 5)),))
    assert (some.present, some.numbers, some.fixed, some.private) == ({1, 4}, frozenset(), True, True)
