"""How much work something is: function calls, which are as many however busy or slow the machine is."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
