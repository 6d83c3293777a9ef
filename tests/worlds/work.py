"""How much work something is: function calls, which are as many however busy or slow the machine is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class TooMuch(BaseException):
    """More calls than allowed. Not an Exception, so that nothing on the way takes it for a failure of its own."""


def calls(work: Callable[[], object], most: int) -> int:
    """How many functions this thread calls meanwhile, C's included. Raises TooMuch in the middle of the work."""
    made = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")
        if made > most:
            raise TooMuch(f"more than {most} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made


@contextmanager
def calls_by_turn() -> Iterator[list[tuple[int, str]]]:
    """How many functions are called in each turn of the loop meanwhile, C's included, and whose turn it was; without turns of the
    task that asks."""
    turns: list[tuple[int, str]] = []
    own, run = asyncio.current_task(), asyncio.Handle._run

    def counted(handle: asyncio.Handle) -> None:
        made = 0
        callback: Any = handle._callback  # type: ignore[attr-defined]

        def count(_frame: FrameType, event: str, _argument: Any) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            run(handle)
        finally:
            sys.setprofile(None)
        if getattr(callback, "__self__", None) is not own:
            turns.append((made, repr(callback)[:200]))

    asyncio.Handle._run = counted  # type: ignore[method-assign]
    try:
        yield turns
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        sys.setprofile(None)
