"""Places on the engine: a role waits for its own statements alone, in the order of coming, and not for ever."""

from __future__ import annotations

import asyncio

import pytest

from dpproxy.errors import Refusal
from dpproxy.limits.side_threads import Seats, share


@pytest.mark.parametrize(("places", "roles", "each"), [(32, 4, 8), (32, 0, 32), (32, 1, 32), (7, 3, 2), (4, 100, 2)])
def test_the_share_of_a_role(places: int, roles: int, each: int) -> None:
    assert share(places, roles) == each


async def test_roles_do_not_wait_for_each_other_and_a_role_waits_in_its_order() -> None:
    seats, came = Seats(1), []
    leave = asyncio.Event()

    async def sit(name: str, role: str) -> None:
        async with seats.taken(role):
            came.append(name)
            await leave.wait()

    sitting = [asyncio.ensure_future(sit(*who)) for who in (("first", "a"), ("second", "a"), ("third", "a"), ("other", "b"))]
    for _ in range(10):  # turns of the loop: whoever can sit does
        await asyncio.sleep(0)
    assert came == ["first", "other"]
    leave.set()
    await asyncio.gather(*sitting)
    assert came == ["first", "other", "second", "third"]


@pytest.mark.parametrize(("each", "told"), [(1, "one statement"), (2, "2 statements")])
async def test_who_waits_too_long_is_refused_and_told_why(each: int, told: str) -> None:
    seats = Seats(each, patience=0.0)
    places = [seats.taken("a") for _ in range(each)]
    for place in places:
        await place.__aenter__()
    with pytest.raises(Refusal) as refused:
        async with seats.taken("a"):
            pass
    assert refused.value.sqlstate == "53300"
    assert refused.value.detail == (
        f"A role may have {told} measured at once; no place became free within 0 seconds. Nothing was charged."
    )


async def test_a_place_is_free_again_after_a_failure() -> None:
    seats = Seats(1, patience=0.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="the engine"):
            async with seats.taken("a"):
                raise ValueError("the engine")
