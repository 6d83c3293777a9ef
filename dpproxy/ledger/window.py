"""Budget windows on the calendar, in UTC.

Knows: dates. Must not know: whose clock it is; the ledger hands in the time of its own monotone record.
"""

from __future__ import annotations

import datetime as dt

from dpproxy.amounts import Window

WINDOWS: tuple[Window, ...] = ("day", "week", "month", "quarter", "year", "never")

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""Return the start of the window `never`: before any record."""


def start(window: Window, at: dt.datetime) -> dt.datetime:
    """Return the start of the window that holds `at` (timezone-aware). Weeks start on Monday (ISO 8601)."""
    midnight = at.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match window:
        case "day":
            return midnight
        case "week":
            return midnight - dt.timedelta(days=midnight.weekday())
        case "month":
            return midnight.replace(day=1)
        case "quarter":
            return midnight.replace(month=midnight.month - (midnight.month - 1) % 3, day=1)
        case "year":
            return midnight.replace(month=1, day=1)
        case "never":
            return EPOCH


def end(window: Window, at: dt.datetime) -> dt.datetime | None:
    """Return the first moment after the window that holds `at`, when it reopens; None for `never`."""
    longest = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
    if window == "never":
        return None
    begin = start(window, at)
    return start(window, begin + dt.timedelta(days=longest[window]))
