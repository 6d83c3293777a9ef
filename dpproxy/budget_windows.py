"""Budget windows on the calendar, in UTC: after which time a budget begins anew.

Knows: dates, and all that anybody needs to know of a window. Must not know: whose clock it is; the ledger hands in the time of
its own monotone record. A window is a word of `Window` and a row of `WINDOWS`; nothing else lists windows. Shorter ones come
first, and `never` is the last.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Window = Literal["day", "week", "month", "quarter", "year", "never"]
"""The time after which a budget begins anew."""

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""The start of the window `never`: before any record."""


@dataclass(frozen=True)
class WindowRule:
    """All that is known of a kind of window. `start`: of the window that holds a midnight (UTC). `days`: the most that one lasts,
    None for ever. `a_year`: how many begin in a year, in the mean. `adjective`: for budgets that begin anew with it."""

    start: Callable[[dt.datetime], dt.datetime]
    days: int | None
    a_year: float
    adjective: str

    @property
    def a_month(self) -> int:
        """How often a budget may be spent within 31 days; one of a longer window may be spent in its first month."""
        return 1 if self.days is None else math.ceil(31 / self.days)


WINDOWS: Final[Mapping[Window, WindowRule]] = {
    "day": WindowRule(lambda midnight: midnight, 1, 365.25, "DAILY"),
    "week": WindowRule(lambda midnight: midnight - dt.timedelta(days=midnight.weekday()), 7, 365.25 / 7, "WEEKLY"),
    "month": WindowRule(lambda midnight: midnight.replace(day=1), 31, 12.0, "MONTHLY"),
    "quarter": WindowRule(
        lambda midnight: midnight.replace(month=midnight.month - (midnight.month - 1) % 3, day=1), 92, 4.0, "QUARTERLY"
    ),
    "year": WindowRule(lambda midnight: midnight.replace(month=1, day=1), 366, 1.0, "YEARLY"),
    "never": WindowRule(lambda midnight: EPOCH, None, 0.0, "NEVER"),
}
"""Every kind of window. Weeks start on Monday (ISO 8601)."""

KINDS: Final = tuple(WINDOWS)


def start(window: Window, at: dt.datetime) -> dt.datetime:
    """Return the start of the window that holds `at` (timezone-aware)."""
    return WINDOWS[window].start(at.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0))


def end(window: Window, at: dt.datetime) -> dt.datetime | None:
    """Return the first moment after the window that holds `at`, when it reopens; None for one that never ends."""
    days = WINDOWS[window].days
    return None if days is None else start(window, start(window, at) + dt.timedelta(days=days))
