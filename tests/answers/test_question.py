"""A question is a value; what says that it needs no answer is no error for a client."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from dpproxy.answers.question import Needless, unrehearsed
from dpproxy.answers.statement_end import StatementFailed
from dpproxy.errors import Refusal

from .shop_of_answers import ShopOfAnswers


async def test_a_question_stays_as_it_was_asked(world: ShopOfAnswers) -> None:
    question = world.question(world.plan("SELECT region, count(*) AS n FROM people"))
    with pytest.raises(FrozenInstanceError):
        question.limit = 0.0  # type: ignore[misc]
    assert question.rehearse is unrehearsed


def test_needless_is_taken_for_no_error() -> None:
    """Whoever catches errors to tell a client must let it through."""
    assert not issubclass(Needless, Refusal | StatementFailed)
