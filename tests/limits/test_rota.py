"""Who has the loop next: with any number of waiting sessions, roles take turns, and users within them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest

from dpproxy.limits.rota import SLICE, Order, Path, Place, Rota
from dpproxy.limits.side_threads import metered

RUDE, COLLEAGUE, OTHER = ("interns", "eve"), ("interns", "bob"), ("analysts", "ada")


def served(order: Order[Path], pieces: int, seconds: float = SLICE) -> list[Path]:
    """Take so many pieces, each of which comes again at once; return whose they were."""
    taken = []
    for _ in range(pieces):
        path = order.take()
        order.charge(path, seconds)
        order.put(path, path)
        taken.append(path)
    return taken


def crowd(sessions: int) -> Order[Path]:
    order: Order[Path] = Order()
    for _ in range(sessions):
        order.put(RUDE, RUDE)
    return order


@pytest.mark.parametrize("sessions", [1, 2, 30, 1000])
@pytest.mark.parametrize("polite", [OTHER, COLLEAGUE])
@pytest.mark.parametrize("before", [0, 1, 40])
def test_who_comes_to_a_crowd_of_one_user_is_next(sessions: int, polite: Path, before: int) -> None:
    """Whatever the crowd had before; and each time again."""
    order = crowd(sessions)
    served(order, before)
    for _ in range(5):
        order.put(polite, polite)
        wait = 0
        while (path := order.take()) != polite:
            order.charge(path, SLICE)
            order.put(path, path)
            wait += 1
        order.charge(polite, SLICE / 10)
        assert wait <= 1


def test_roles_share_first_then_users() -> None:
    """A hundred sessions of two users, and one of another role: half of the turns are the other role's."""
    order = crowd(99)
    order.put(COLLEAGUE, COLLEAGUE)
    order.put(OTHER, OTHER)
    taken = served(order, 400)
    assert [taken.count(path) for path in (OTHER, COLLEAGUE, RUDE)] == pytest.approx([200, 100, 100], abs=2)


def test_sessions_of_a_user_come_round() -> None:
    order: Order[int] = Order()
    for number in range(30):
        order.put(RUDE, number)
    taken = []
    for _ in range(90):
        taken.append(order.take())
        order.charge(RUDE, SLICE)
        order.put(RUDE, taken[-1])
    assert taken == list(range(30)) * 3


def test_who_takes_longer_is_next_less_often() -> None:
    order = crowd(30)
    order.put(OTHER, OTHER)
    had = dict.fromkeys((RUDE, OTHER), 0.0)
    for _ in range(3000):
        path = order.take()
        seconds = SLICE if path == RUDE else SLICE / 10
        had[path] += seconds
        order.charge(path, seconds)
        order.put(path, path)
    assert had[RUDE] == pytest.approx(had[OTHER], abs=2 * SLICE)


def test_nobody_saves_time_up() -> None:
    """Who did nothing while others worked for long has no more turns in a row than one."""
    order = crowd(30)
    order.put(OTHER, OTHER)
    served(order, 10)
    while order.take() != OTHER:
        order.put(RUDE, RUDE)
        order.charge(RUDE, SLICE)
    served(order, 1000)
    order.put(OTHER, OTHER)
    assert served(order, 20).count(OTHER) <= 11


@pytest.mark.parametrize("seed", range(20))
def test_first_is_who_would_be_taken(seed: int) -> None:
    """What passes those that wait is what would be taken before them, had it been put."""
    dice, order = random.Random(seed), Order[object]()
    paths = [(role, user) for role in "abc" for user in "xyz"]
    for _ in range(400):
        path = dice.choice(paths)
        match dice.randrange(3):
            case 0:
                order.put(path, object())
            case 1 if len(order):
                order.take()
            case _:
                order.charge(path, dice.random())
        mine, probe = dice.choice(paths), object()
        if len(order) and order.first(mine):
            order.put(mine, probe)
            assert order.take() is probe


@dataclass
class Payer:
    place: Place | None
    fresh: float = 0.0
    resumed: float = 0.0


@pytest.mark.asyncio
@pytest.mark.parametrize("polite", [OTHER, COLLEAGUE])
async def test_sessions_of_a_user_have_a_slice_together_each_time_the_loop_comes_round(
    polite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty sessions that have work for a slice, again and again, and one of somebody else that waits for the loop ten times:
    each time a piece or two of the thirty go before. The clock is the test's."""
    clock, turns, pieces = 0.0, Rota(), 0
    monkeypatch.setattr("dpproxy.limits.side_threads.thread_time", lambda: clock)
    over, between = asyncio.Event(), []

    async def rude() -> None:
        nonlocal clock, pieces
        while not over.is_set():
            clock += SLICE
            pieces += 1
            await asyncio.sleep(0)

    async def asks() -> None:
        nonlocal clock
        for _ in range(10):
            before = pieces
            await asyncio.sleep(0)
            between.append(pieces - before)
            clock += SLICE / 10
        over.set()

    crowd = [asyncio.ensure_future(metered(rude, Payer(Place(turns, RUDE)))) for _ in range(30)]
    while pieces < 60:
        await asyncio.sleep(0)
    await metered(asks, Payer(Place(turns, polite)))
    await asyncio.gather(*crowd)
    assert len(between) == 10
    assert max(between) <= 2


@pytest.mark.asyncio
async def test_who_is_cancelled_while_it_waits_is_not_worked_for() -> None:
    turns, began = Rota(), list[bool]()

    async def work() -> None:
        began.append(True)

    task = asyncio.ensure_future(metered(work, Payer(Place(turns, RUDE))))
    turns.took(OTHER, SLICE)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert began == []
    piece = turns.call(RUDE, lambda: began.append(True))
    piece.cancel()
    done = asyncio.Event()
    turns.call(RUDE, done.set)
    await asyncio.wait_for(done.wait(), 300)
    assert began == []
