"""Whose turn it is on what all sessions share: the proxy's one loop, its planning threads, the facade's processors. Pure.

Knows: seconds of processor that were taken for a session, and a clock, as it is told. Must not know: messages, threads, sockets.

A session pays for what it takes by pauses: a second of processor is paid by `1 / PAID` seconds in which it asks for nothing.
People and dashboards pay by reading. While the loop works for anybody, or the facade for its role, no pause is counted: whoever
asks may only wait behind others. Who asks on without a pause is in debt as soon as it owes more than `BURST`, as in a leaky
bucket, and waits while others work who are not, in one line for each role: sixteen sessions of a role get what one gets. The
line moves at a rate, as in virtual clock scheduling: a turn that took `s` seconds lets the next one begin `s / rate` later. All
lines have together what others leave of `HEADROOM`, and `LEAST` in any case; where one role alone is at work, what others of it
leave of a whole processor. When nobody else is at work, nobody waits.

A turn's cost is known when it is over: the next place in the line is given by what a session's turns took before, and moved by
the difference. Places are given in the order of asking, and each moves the line by `LONGEST` at most: nobody starves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

PAID: Final = 1 / 2
"""Seconds of processor that a second of pause pays for: a statement of 10 milliseconds is paid by 20 of reading."""
NO_PAUSE: Final = 0.005
"""Seconds of a pause that pay for nothing: so long may a message have waited for the loop, behind those of others."""
BURST: Final = 0.05
"""Seconds of processor a session may owe: a dashboard's first charts."""
MOST_OWED: Final = 0.15
"""What is owed beyond is forgotten: who pauses for half a second is welcome again."""
QUANTUM: Final = 0.005
"""Seconds of processor that a turn may take before another is asked for: a relayed statement takes a hundredth of it."""
LEAST: Final = 1 / 8
"""Of a processor, for all that are in debt together, whatever the others do."""
HEADROOM: Final = 1 / 2
"""Of a processor, for all roles together, when some are in debt: beyond it others would wait for each other as well."""
LATELY: Final = 2.0
"""Seconds for which a session counts as at work, or as in debt, after it last was."""
LONGEST: Final = 5.0
"""Seconds by which one turn may hold up those behind it in its line."""
_WINDOW: Final = 1.0
"""Seconds in which what was used is forgotten to a third."""
_LOOK: Final = 0.05
"""Seconds between two looks at all sessions: 500 of them take a fifth of a millisecond."""


@dataclass(eq=False)
class Account:
    """Holds what one session has taken. `fresh`: seconds of processor that are not booked yet; whoever works for it adds to it.
    `turn`: when its turn in the line comes; None: it does not wait."""

    role: Hashable
    fresh: float = 0.0
    turn: float | None = None
    owed: float = 0.0
    since: float = -math.inf  # the beginning of a pause that is not counted yet
    before: float = 0.0  # seconds of work then, behind which it may have waited
    active: float = -math.inf  # when it was last worked for
    late: float = -math.inf  # when it was last in debt
    used: float = 0.0  # processors of late, fading
    faded: float = -math.inf
    taken: float = 0.0  # since it last asked
    usual: float = QUANTUM  # of a turn: what the last took, or more
    prepaid: float = 0.0  # of this turn, by the place that the line gave it
    rate: float = 1.0  # at which its line moved when it got its place; 1: it is not in a line


class FairShare:
    """Gives turns. `now` is of any clock that goes forward."""

    def __init__(self) -> None:
        self._accounts: set[Account] = set()
        self._taken = 0.0  # seconds of the loop's processor, by all
        self._elsewhere: defaultdict[Hashable, float] = defaultdict(float)  # seconds of other processors, by role
        self._lines: defaultdict[Hashable, float] = defaultdict(lambda: -math.inf)  # when a role's next turn in debt is
        self._left: dict[Hashable, tuple[float, float]] = {}  # what those who went owed, and when
        self._looked = -math.inf
        self._share = 1.0  # of a processor, for a line

    def opened(self, role: Hashable, now: float) -> Account:
        """Return the account of a new session: it takes over what those of its role owed that went before they had paid."""
        owed, since = self._left.pop(role, (0.0, now))
        account = Account(role, owed=owed, since=since, before=self._busy(role), faded=now)
        self._accounts.add(account)
        return account

    def closed(self, account: Account, now: float) -> None:
        self._book(account, now)
        self._accounts.discard(account)
        before, since = self._left.get(account.role, (0.0, now))
        owed = min(MOST_OWED, account.owed + _paid(before, now - since))
        self._left[account.role] = (owed, now)

    def beside(self, account: Account, seconds: float, now: float) -> None:
        """Note processor time that was taken for a session elsewhere: no pause of its role, but the loop was free for others."""
        if seconds > 0:
            self._elsewhere[account.role] += seconds
            self._owe(account, seconds, now)
            self._pauses(account, now)

    def works(self, account: Account, now: float) -> None:
        """Note that something is done for a session again: it has paid until now."""
        account.owed = _paid(account.owed, now - account.since - (self._busy(account.role) - account.before) - NO_PAUSE)
        self._pauses(account, now)

    def _pauses(self, account: Account, now: float) -> None:
        account.since, account.before = now, self._busy(account.role)

    def _busy(self, role: Hashable) -> float:
        """Seconds of work, so far, behind which a session of this role may have waited."""
        return self._taken + self._elsewhere[role]

    def rests(self, account: Account, now: float) -> None:
        """Note that nothing is done for a session any more: from here on it pays."""
        self._book(account, now)
        self._pauses(account, now)

    def wait(self, account: Account, now: float) -> float:
        """Return the seconds until a session's turn comes; 0: it has begun. To be asked again, at the latest then."""
        if account.turn is None:
            self._ask(account, now)
        self._look(now)
        if account.turn is None:
            return 0.0
        if account.turn > now and self._share < 1.0:
            return account.turn - now
        if self._share == 1.0:
            self._lines[account.role] = now
        self.left(account, now)
        return 0.0

    def left(self, account: Account, now: float) -> None:
        """Note that a session waits no more. It has not paid meanwhile: it did not pause of its own will."""
        account.turn = None
        self._pauses(account, now)

    def behind(self, account: Account, now: float) -> bool:
        """Return whether what is done for a session had better wait for what is done for others."""
        self._look(now)
        return self._share < 1.0 and _lately(account.late, now)

    # what a session asks

    def _ask(self, account: Account, now: float) -> None:
        """Give a place in the line to who is in debt."""
        self._book(account, now)
        account.usual = max(QUANTUM, account.taken, (account.usual + account.taken) / 2)
        account.taken = account.prepaid = 0.0
        account.rate = 1.0
        self.works(account, now)
        if account.owed <= BURST:
            return
        if not _lately(account.late, now):
            self._looked = -math.inf  # who is in debt has changed
        account.late = now
        self._look(now)
        if self._share == 1.0:
            return
        account.rate, account.prepaid = self._share, account.usual
        account.turn = max(now, self._lines[account.role])
        self._lines[account.role] = account.turn + min(LONGEST, account.usual / account.rate)

    # books

    def _book(self, account: Account, now: float) -> None:
        seconds, account.fresh = account.fresh, 0.0
        account.used = account.used * math.exp((account.faded - now) / _WINDOW) + seconds / _WINDOW
        account.faded = now
        if seconds <= 0:
            return
        account.active = now
        self._taken += seconds
        self._owe(account, seconds, now)

    def _owe(self, account: Account, seconds: float, now: float) -> None:
        account.taken += seconds
        account.owed = min(MOST_OWED, account.owed + seconds)
        if account.rate < 1.0:
            covered = min(account.prepaid, seconds)
            account.prepaid -= covered
            line = max(now, self._lines[account.role])
            self._lines[account.role] = line + min(LONGEST, (seconds - covered) / account.rate)

    def _look(self, now: float) -> None:
        """Find out who is at work, and what that leaves for who is in debt."""
        if now < self._looked + _LOOK:
            return
        self._looked = now
        others, waiting, roles = [], set(), set()
        for account in self._accounts:
            self._book(account, now)
            if not _lately(account.active, now):
                continue
            roles.add(account.role)
            if account.turn is not None or _lately(account.late, now):
                waiting.add(account.role)
            else:
                others.append(account.used)
        room = HEADROOM if len(roles) > 1 else 1.0
        whole = max(LEAST, room - sum(others)) if others else 1.0
        self._share = whole / max(1, len(waiting))


def _lately(then: float, now: float) -> bool:
    return now - then < LATELY


def _paid(owed: float, pause: float) -> float:
    """What is still owed after a pause."""
    return max(0.0, owed - PAID * max(0.0, pause))
