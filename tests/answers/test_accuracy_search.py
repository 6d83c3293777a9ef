"""`dpproxy.accuracy`: from a cheap answer to the smallest epsilon that is exact enough."""

from __future__ import annotations

import contextlib

import pytest

from dpproxy.answers import accuracy_search
from dpproxy.errors import Refusal
from dpproxy.privacy.loss import ZERO, Loss


def test_the_next_epsilon() -> None:
    """Noise is as large as epsilon is small; while an answer is noise alone, larger steps; never beyond the limit."""
    assert accuracy_search.first(1_000_000) == 20_000
    assert accuracy_search.following(20_000, 0.01, 0.02, 1_000_000, "2%") is None
    assert accuracy_search.following(20_000, 0.10, 0.02, 1_000_000, "2%") == 100_000
    assert accuracy_search.following(20_000, 1.0, 0.02, 1_000_000, "2%") == 100_000
    assert accuracy_search.following(500_000, 1.0, 0.02, 1_000_000, "2%") == 1_000_000
    with pytest.raises(Refusal, match=r"accuracy 2% needs about epsilon 10; a query may cost 1"):
        accuracy_search.following(500_000, 0.4, 0.02, 1_000_000, "2%")
    with pytest.raises(Refusal, match=r"needs more than epsilon 1"):
        accuracy_search.following(1_000_000, 1.0, 0.02, 1_000_000, "2%")


def test_all_answers_together_cost_no_more_than_one_query_may() -> None:
    """Whatever the errors on the way: it was 1.6 times that."""
    most = 1_000_000
    for errors in ([1.0] * 9, [1.0, 1.0, 0.05], [0.4, 0.1], [0.03]):
        epsilon = spent = accuracy_search.first(most)
        with contextlib.suppress(Refusal):
            for error in errors:
                following = accuracy_search.following(epsilon, error, 0.02, most, "2%", spent)
                if following is None:
                    break
                epsilon, spent = following, spent + following
        assert spent <= most
    with pytest.raises(Refusal, match=r"needs about epsilon 0.9; a query may cost 1, and 0.88 is left of that"):
        accuracy_search.following(100_000, 0.18, 0.02, most, "2%", 120_000)


def test_a_refusal_says_what_was_charged() -> None:
    """In its message, with the delta: a client that shows no detail would be charged without a word."""
    refusal = Refusal("22023", "no", detail="because")
    assert accuracy_search.told(refusal, ZERO) is refusal
    said = accuracy_search.told(refusal, Loss.pure(20_000) + Loss.delta_only(10**11))
    assert (said.message, said.detail) == ("no; epsilon 0.02 and delta 0.0000001 was charged to find that out", "because")
