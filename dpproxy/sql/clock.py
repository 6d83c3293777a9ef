"""How closely a text looks at the clock: not at all, at the day, or at the time of day.

Knows: PostgreSQL's names of the time. Must not know: what they mean in a statement. A plan holds what these names came to, so it
is good for as long as they come to the same. Words are looked for wherever they stand, in names and texts too: whoever takes
a text for one that looks at the clock plans it once more than needed, and nothing worse.
"""

from __future__ import annotations

import re
from typing import Final, Literal

CLOCK: Final = "transaction start"
"""The name, among a session's settings, of when its transaction began: a time of its own time zone."""

Reading = Literal["none", "day", "moment"]
CLOSENESS: Final[tuple[Reading, ...]] = ("none", "day", "moment")

_MOMENT = re.compile(r"(?i)\b(now|current_timestamp|localtimestamp|transaction_timestamp|statement_timestamp)\b")
_DAY = re.compile(r"(?i)\b(current_date|today|yesterday|tomorrow|age)\b")


def reading(text: str) -> Reading:
    """Say how closely a text looks at the clock."""
    return "moment" if _MOMENT.search(text) else "day" if _DAY.search(text) else "none"


def shown(clock: str | None, read: Reading) -> str | None:
    """Return as much of an ISO time as is looked at."""
    if clock is None or read == "none":
        return None
    return clock if read == "moment" else clock.partition(" ")[0]
