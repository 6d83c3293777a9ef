"""Giving memory back: what start-up made is no garbage collection's business any more; what a flood left goes back."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Iterator

import pytest

from dpproxy.serve.runtime import PAUSE, SPARE, give_back, keep_giving_back, resident


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


class Library:
    """A C library that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def malloc_trim(self, pad: int) -> int:
        self.asked.append(pad)
        return 1


def test_garbage_goes_and_the_rest_is_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)

    class Ring:
        def __init__(self) -> None:
            self.self = self

    gone: list[int] = []
    ring = Ring()
    Ring.__del__ = lambda self: gone.append(1)  # type: ignore[attr-defined]
    del ring
    before = gc.get_freeze_count()
    give_back()
    assert gone == [1], "collected first, or it would stay for ever"
    assert gc.get_freeze_count() > before
    assert library.asked == [0]


@pytest.mark.parametrize("failure", [OSError, AttributeError])
def test_another_c_library_is_no_error(failure: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: None) -> None:
        raise failure("no such call")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(gc, "collect", lambda: 0)  # of all that the tests hold; the other test does it
    give_back()
    assert gc.get_freeze_count() > 0


async def test_free_pages_go_back_while_there_is_more_than_at_first() -> None:
    sizes = [100, 100 + SPARE, 101 + SPARE, 500 + SPARE, 100]
    given: list[int] = []
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        if not sizes:
            raise asyncio.CancelledError
        waited.append(seconds)

    with pytest.raises(asyncio.CancelledError):
        await keep_giving_back(pause, lambda: sizes.pop(0), lambda: given.append(len(sizes)))
    assert given == [2, 1]
    assert waited == [PAUSE] * 4


def test_the_memory_of_this_process_is_known() -> None:
    before = resident()
    held = bytes([1]) * (64 << 20)
    assert resident() - before > 60 << 20
    assert len(held) == 64 << 20
