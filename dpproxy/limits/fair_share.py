"""Whose turn it is on what all sessions share: the proxy's one loop, its planning threads, the facade's processors. Pure.

Knows: seconds of processor that were taken for a session, and a clock, as it is told. Must not know: messages, threads, sockets.

A session pays for what it takes by pauses: a second of processor is paid by `1 / PAID` seconds in which it asks for nothing.
People and dashboards pay by reading. A program that asks on pauses as well, for what it does with an answer, now and then for
long: pauses pay for nothing as far as they are shorter than `NO_PAUSE`, in the mean over the time that is spent in them, which
one long pause among many short ones hardly changes. A pause ends when a message arrives, not when the loop comes to read it.
Whoever connects goes on where one of its role has left: connecting anew is no payment.

Who asks on is in debt as soon as it owes more than `BURST`, as in a leaky bucket, or more than its part of what its role owes,
where that is more than `TOGETHER`. It waits while others work who are not in debt, in one line for each role: sixteen sessions of
a role get what one gets. The line moves at a rate, as in virtual clock scheduling: a turn
that took `s` seconds lets the next one begin `s / rate` later. All who are in debt have together what others leave of
`HEADROOM`, and `LEAST` in any case; where one role alone is at work, what others of it leave of a whole processor. When nobody
else is at work, nobody waits.

Sessions that all pause may be too many all the same. Roles share a loop that has no time left: then all sessions of a role that
takes more than its part wait in its line, which moves at that part.

A turn's cost is known when it is over: the next place in the line is given by what a session's turns took before, and moved by
the difference. Places are given in the order of asking, and each moves the line by `LONGEST` at most: nobody starves.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

PAID: Final = 1 / 2
"""Seconds of processor that a second of pause pays for: a statement of 10 milliseconds is paid by 20 of reading."""
NO_PAUSE: Final = 0.03
"""Seconds: the mean pause up to which pauses pay for nothing. A program takes some milliseconds to read an answer."""
FORGETS: Final = 0.9
"""What a pause leaves of the weight of those before it: the last ten count."""
BURST: Final = 0.05
"""Seconds of processor a session may owe: a dashboard's first charts."""
TOGETHER: Final = 6 * BURST
"""Seconds of processor the sessions of a role may owe together: a dashboard that asks for all its charts at once owes as much."""
MOST_OWED: Final = 0.15
"""What is owed beyond is forgotten: who pauses for half a second is welcome again."""
FORGIVEN: Final = 2.0
"""Seconds after which whoever comes owes nothing of what those before it did."""
QUANTUM: Final = 0.005
"""Seconds of processor that a turn may take before another is asked for: a relayed statement takes a hundredth of it."""
LEAST: Final = 1 / 16
"""Of a processor, for all that are in debt together, whatever the others do."""
HEADROOM: Final = 1 / 4
"""Of a processor, for all roles together, when some are in debt: beyond it others would wait for each other as well."""
FULL: Final = 0.95
"""Of a processor: while all roles together take more, none of them gets more than its part of this."""
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
    """What one session has taken. `fresh`: seconds of processor that are not booked yet; whoever works for it adds to it.
    `turn`: when its turn in the line comes; None: it does not wait."""

    role: Hashable
    fresh: float = 0.0
    resumed: float = 0.0  # the loop's processor time when what is done for it last began or went on
    turn: float | None = None
    owed: float = 0.0
    asking: bool = False  # something is begun for it that has not ended: no pause
    since: float = -math.inf  # the beginning of a pause that is not counted yet
    before: float = 0.0  # seconds of other processors for its role until then
    active: float = -math.inf  # when it was last worked for
    pauses: float = 0.0  # seconds of its pauses of late, and squares of each
    squares: float = 0.0
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
        self._elsewhere: defaultdict[Hashable, float] = defaultdict(float)  # seconds of other processors, by role
        self._lines: defaultdict[Hashable, float] = defaultdict(lambda: -math.inf)  # when a role's next turn in debt is
        self._left: defaultdict[Hashable, deque[Account]] = defaultdict(deque)  # those who went and have not paid, by role
        self._parts: dict[Hashable, float] = {}  # of a processor, for roles that take more
        self._bursts: dict[Hashable, float] = {}  # what a session may owe, of roles that owe too much together
        self._looked = -math.inf
        self._share = 1.0  # of a processor, for a line

    def opened(self, role: Hashable, now: float) -> Account:
        """Return the account of a new session: it owes what the first of its role owed that went and was not followed yet."""
        account = Account(role, since=now, before=self._elsewhere[role], faded=now)
        left = self._left[role]
        while left:
            former = left.popleft()
            if now - former.since < FORGIVEN:
                account.owed = former.owed  # the time between pays for nothing
                break
        self._accounts.add(account)
        return account

    def closed(self, account: Account, now: float) -> None:
        """Note that a session has gone; whoever comes next takes over what it owes."""
        if account not in self._accounts:
            return
        self._book(account, now)
        self._accounts.discard(account)
        self._pauses(account, now)
        left = self._left[account.role]
        if account.owed > 0:
            left.append(account)
        while left and now - left[0].since >= FORGIVEN:
            left.popleft()

    def beside(self, account: Account, seconds: float, now: float) -> None:
        """Note processor time that was taken for a session elsewhere: no pause of its role, but the loop was free for others."""
        if seconds > 0:
            self._elsewhere[account.role] += seconds
            self._owe(account, seconds, now)
            self._pauses(account, now)

    def works(self, account: Account, arrived: float, now: float) -> None:
        """Note that what a session asks for, which `arrived` some time ago, is begun: it has paid until then."""
        self._pay(account, arrived, now)
        account.asking = True

    def rests(self, account: Account, now: float) -> None:
        """Note that nothing is done for a session any more: from here on it pays."""
        self._book(account, now)
        self._pauses(account, now)
        account.asking = False

    def _pay(self, account: Account, arrived: float, now: float) -> None:
        """Count a pause that ended with what `arrived`."""
        pause = arrived - account.since - (self._elsewhere[account.role] - account.before)
        if pause > 0:
            account.pauses = FORGETS * account.pauses + pause
            account.squares = FORGETS * account.squares + pause**2
            usual = account.squares / account.pauses
            account.owed = max(0.0, account.owed - PAID * pause * max(0.0, 1 - NO_PAUSE / usual))
        self._pauses(account, now)

    def _pauses(self, account: Account, now: float) -> None:
        account.since, account.before = now, self._elsewhere[account.role]

    def wait(self, account: Account, now: float) -> float:
        """Return the seconds until a session's turn comes; 0: it has begun. To be asked again, at the latest then."""
        if account.turn is None:
            self._ask(account, now)
        self._look(now)
        if account.turn is None:
            return 0.0
        free = self._share == 1.0 and account.role not in self._parts
        if account.turn > now and not free:
            return account.turn - now
        if free:
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
        """Give a place in the line to who is in debt, or whose role takes more than its part."""
        self._book(account, now)
        account.usual = max(QUANTUM, account.taken, (account.usual + account.taken) / 2)
        account.taken = account.prepaid = 0.0
        account.rate = 1.0
        if not account.asking:
            self._pay(account, now, now)
        part = self._parts.get(account.role, 1.0)
        if self._in_debt(account):
            if not _lately(account.late, now):
                self._looked = -math.inf  # who is in debt has changed
            account.late = now
            self._look(now)
            part = self._share
        if part == 1.0:
            return
        account.rate, account.prepaid = part, account.usual
        account.turn = max(now, self._lines[account.role])
        self._lines[account.role] = account.turn + min(LONGEST, account.usual / account.rate)

    def _in_debt(self, account: Account) -> bool:
        return account.owed > min(BURST, self._bursts.get(account.role, BURST))

    # books

    def _book(self, account: Account, now: float) -> None:
        seconds, account.fresh = account.fresh, 0.0
        account.used = account.used * math.exp((account.faded - now) / _WINDOW) + seconds / _WINDOW
        account.faded = now
        if seconds <= 0:
            return
        account.active = now
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
        waiting, others = set(), 0.0
        roles: defaultdict[Hashable, float] = defaultdict(float)
        owed: defaultdict[Hashable, list[float]] = defaultdict(list)
        for account in self._accounts:
            self._book(account, now)
            if not _lately(account.active, now):
                continue
            roles[account.role] += account.used
            owed[account.role].append(account.owed if account.asking else max(0.0, account.owed - PAID * (now - account.since)))
            if _lately(account.late, now) or (account.turn is not None and self._in_debt(account)):
                waiting.add(account.role)
            else:
                others += account.used
        room = HEADROOM if len(roles) > 1 else 1.0
        whole = max(LEAST, room - others) if others else 1.0
        self._share = whole / max(1, len(waiting))
        self._bursts = {role: max(2 * QUANTUM, TOGETHER / len(each)) for role, each in owed.items() if sum(each) > TOGETHER}
        full = len(roles) > 1 and sum(roles.values()) > FULL
        self._parts = {role: FULL / len(roles) for role, used in roles.items() if full and used > FULL / len(roles)}


def _lately(then: float, now: float) -> bool:
    return now - then < LATELY
