"""`dpproxy` on a machine whose clock is wrong: `python -m tests.worlds.wrong_clock SECONDS serve ...`.

Knows: where Python tells the time. Must not know: tests. Only the clock that tells the date is wrong; what measures durations is not.
It is started in place of `dpproxy`, and never served to anybody. Pandas, which Spark's client brings and pyarrow looks for, cannot be imported
once the clock is wrong, and is before.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from typing import Any


def set_wrong(seconds: float) -> None:
    right, real = datetime.datetime, time.time

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, right)

    class Wrong(right, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return right.now(tz) + datetime.timedelta(seconds=seconds)

    datetime.datetime = Wrong  # type: ignore[misc]
    time.time = lambda: real() + seconds


if __name__ == "__main__":
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401
    set_wrong(float(sys.argv.pop(1)))
    from dpproxy.cli import app

    app()
