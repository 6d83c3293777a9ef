"""Who asks during a round waits for the next one, which begins after they asked."""

from __future__ import annotations

from dpproxy.serve.runtime import Rounds


async def test_the_next_round_to_begin() -> None:
    rounds = Rounds()
    before = rounds.next()
    with rounds.round():
        during, also = rounds.next(), rounds.next()
    await before
    assert (during.done(), also.done()) == (False, False)
    with rounds.round():
        pass
    await during
    await also


async def test_a_round_that_fails_has_ended_and_nobody_need_wait() -> None:
    rounds = Rounds()
    awaited = rounds.next()
    try:
        with rounds.round():
            raise ValueError
    except ValueError:
        await awaited
    with rounds.round():
        pass
