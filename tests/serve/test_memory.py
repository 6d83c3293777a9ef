"""Giving memory back: what start-up made is no garbage collection's business any more."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator

import pytest

from dpproxy.serve.memory import give_back


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
