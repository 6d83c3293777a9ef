"""Who ends a statement, and when: before the charge at once; after it the answer goes on, and only who waits stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dpproxy.answers.statement_end import ASK_AGAIN, GOES_ON, TIMEOUT, USER, Ending, Grid
from dpproxy.errors import Refusal

ANY_MOMENT = Grid(None)


class Points(Grid):
    """A grid whose next point comes when the test says so."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.waiting: list[Callable[[], object]] = []

    def then(self, work: Callable[[], object]) -> None:
        self.waiting.append(work)


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def started(work: asyncio.Future[None]) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    assert not work.done()


async def test_free_work_is_cancelled_and_costs_nothing() -> None:
    ending, gone = Ending(), asyncio.Event()

    async def work() -> None:
        try:
            await never()
        finally:
            gone.set()

    racing = asyncio.ensure_future(ending.race(work()))
    await started(racing)
    assert ending.ask(USER), "somebody waits, and stops"
    with pytest.raises(Refusal, match="canceling statement due to user request") as refused:
        await racing
    assert gone.is_set()
    assert (refused.value.sqlstate, refused.value.detail, refused.value.hint) == ("57014", None, None)


async def test_what_is_through_is_told_and_what_fails_raises() -> None:
    ending = Ending()

    async def failing() -> None:
        raise ValueError("the facade's")

    assert await ending.race(asyncio.sleep(0, "told")) == "told"
    with pytest.raises(ValueError, match="the facade's"):
        await ending.race(failing())


async def test_nobody_waits_so_something_else_may_be_at_work() -> None:
    ending = Ending()
    assert not ending.ask(USER)
    with pytest.raises(Refusal, match=USER):
        ending.check()


async def test_the_first_reason_stands() -> None:
    ending = Ending()
    ending.ask(TIMEOUT)
    ending.ask(USER)
    with pytest.raises(Refusal, match="statement timeout"):
        ending.check()


async def test_what_is_charged_goes_on_without_the_client() -> None:
    ending, through = Ending(), asyncio.Event()
    ending.charged(ANY_MOMENT)
    paid: asyncio.Task[bool] = asyncio.ensure_future(through.wait())
    waiting = asyncio.ensure_future(ending.outlasted(paid, lambda: False))
    await asyncio.sleep(0)
    ending.ask(USER)
    with pytest.raises(Refusal) as refused:
        await waiting
    assert (refused.value.detail, refused.value.hint) == (GOES_ON, ASK_AGAIN)
    assert not paid.done()
    through.set()
    assert await paid


async def test_what_is_all_but_through_is_waited_for() -> None:
    ending, through = Ending(), asyncio.Event()
    ending.charged(ANY_MOMENT)
    waiting = asyncio.ensure_future(ending.outlasted(asyncio.ensure_future(through.wait()), lambda: True))
    await asyncio.sleep(0)
    ending.ask(USER)
    await asyncio.sleep(0)
    through.set()
    assert await waiting


async def test_after_the_charge_it_is_heard_on_a_point_of_the_grid() -> None:
    ending, grid = Ending(), Points()
    ending.charged(grid)
    assert ending.ask(USER), "it will stop"
    ending.check()
    (point,) = grid.waiting
    point()
    with pytest.raises(Refusal):
        ending.check()


async def test_the_clients_own_timeout() -> None:
    ending = Ending()
    ending.limit(None)
    ending.limit(0)
    assert ending._timer is None
    ending.limit(1e-9)
    ending.limit(1000)  # the first one holds
    with pytest.raises(Refusal, match=TIMEOUT):
        await ending.race(never())


async def test_a_statement_that_has_ended_is_not_timed_out() -> None:
    ending, later = Ending(), asyncio.Event()
    ending.limit(1e-9)
    ending.over()
    asyncio.get_running_loop().call_later(0.01, later.set)  # behind it in the loop's queue
    await later.wait()
    assert ending.reason is None
