"""Whose turn it is on what all sessions share: the proxy's one loop, its planning threads, the facade's processors. Pure.

Knows: seconds of processor that were taken for a session, and a clock, as it is told. Must not know: messages, threads, sockets.

A session pays for what it takes by pauses: a second of processor is paid by `1 / PAID` seconds in which it asks for nothing.
People and dashboards pay by reading. A program that asks on pauses as well, for what it does with an answer, now and then for
long: pauses pay for nothing as far as they are shorter than `NO_PAUSE`, in the mean over the time that is spent in them, which
one long pause among many short ones hardly changes. A pause ends when a message arrives, not when the loop comes to read it.
Whoever connects goes on where a session of the same user has left: connecting anew is no payment.

Who asks on is in debt as soon as it owes more than `BURST`, as in a leaky bucket, or more than its part of what its role owes,
where that is more than `TOGETHER`. It waits while others work who are not in debt, in a line for each user of a role, which share
what is the role's: sixteen sessions of a role get what one gets, and no user waits behind another's sessions. A line moves at a
rate, as in virtual clock scheduling: a turn that took `s` seconds lets the next one begin `s / rate` later. All who are in debt
have together what others leave of `HEADROOM`, and `LEAST` in any case; where one role alone is at work, what others of it leave
of a whole processor. When nobody else is at work, nobody waits.

Sessions that all pause may be too many all the same. Roles share a loop that has no time left: then all sessions of a role that
takes more than its part, of users that take more than theirs of that, wait in their lines, which move at that part.

A turn's cost is known when it is over: the next place in the line is given by what a session's turns took before, and moved by
the difference. Places are given in the order of asking, and each moves the line by `LONGEST` at most: nobody starves.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from dpproxy.limits.rota import Place

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


Line = tuple[Hashable, Hashable]
"""A role, and a user of it."""


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
    before: float = 0.0  # seconds of other processors for its user until then
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
    place: Place | None = None  # where it waits for the loop, whether it is in debt or not
    user: Hashable = ""

    @property
    def line(self) -> Line:
        """Return the line in which it waits."""
        return self.role, self.user


class FairShare:
    """Gives turns. `now` is of any clock that goes forward."""

    def __init__(self) -> None:
        self._accounts: set[Account] = set()
        self._elsewhere: defaultdict[Line, float] = defaultdict(float)  # seconds of other processors
        self._lines: defaultdict[Line, float] = defaultdict(lambda: -math.inf)  # when a line's next turn in debt is
        self._left: defaultdict[Line, deque[Account]] = defaultdict(deque)  # those who went and have not paid
        self._parts: dict[Line, float] = {}  # of a processor, for users that take more
        self._bursts: dict[Line, float] = {}  # what a session may owe, of users that owe too much together
        self._looked = -math.inf
        self._share = 1.0  # of a processor, for a role in debt
        self._users: dict[Hashable, int] = {}  # of a role, that are in debt

    def opened(self, role: Hashable, now: float, user: Hashable = "") -> Account:
        """Return the account of a new session: it owes what the first of its user owed that went and was not followed yet."""
        account = Account(role, since=now, before=self._elsewhere[role, user], faded=now, user=user)
        left = self._left[account.line]
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
        left = self._left[account.line]
        if account.owed > 0:
            left.append(account)
        while left and now - left[0].since >= FORGIVEN:
            left.popleft()

    def beside(self, account: Account, seconds: float, now: float) -> None:
        """Note processor time that was taken for a session elsewhere: no pause of its user, but the loop was free for others."""
        if seconds > 0:
            self._elsewhere[account.line] += seconds
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
        pause = arrived - account.since - (self._elsewhere[account.line] - account.before)
        if pause > 0:
            account.pauses = FORGETS * account.pauses + pause
            account.squares = FORGETS * account.squares + pause**2
            usual = account.squares / account.pauses
            account.owed = max(0.0, account.owed - PAID * pause * max(0.0, 1 - NO_PAUSE / usual))
        self._pauses(account, now)

    def _pauses(self, account: Account, now: float) -> None:
        account.since, account.before = now, self._elsewhere[account.line]

    def wait(self, account: Account, now: float) -> float:
        """Return the seconds until a session's turn comes; 0: it has begun. To be asked again, at the latest then."""
        if account.turn is None:
            self._ask(account, now)
        self._look(now)
        if account.turn is None:
            return 0.0
        free = self._rate(account) == 1.0 and account.line not in self._parts
        if account.turn > now and not free:
            return account.turn - now
        if free:
            self._lines[account.line] = now
        self.left(account, now)
        return 0.0

    def left(self, account: Account, now: float) -> None:
        """Note that a session waits no more. It has not paid meanwhile: it did not pause of its own will."""
        account.turn = None
        self._pauses(account, now)

    def behind(self, account: Account, now: float) -> bool:
        """Return whether what is done for a session had better wait for what is done for others."""
        self._look(now)
        return self._rate(account) < 1.0 and _lately(account.late, now)

    def _rate(self, account: Account) -> float:
        """Return the share of a processor of who is in debt."""
        return self._share / self._users.get(account.role, 1)

    # what a session asks

    def _ask(self, account: Account, now: float) -> None:
        """Give a place in the line to who is in debt, or whose role takes more than its part."""
        self._book(account, now)
        account.usual = max(QUANTUM, account.taken, (account.usual + account.taken) / 2)
        account.taken = account.prepaid = 0.0
        account.rate = 1.0
        if not account.asking:
            self._pay(account, now, now)
        part = self._parts.get(account.line, 1.0)
        if self._in_debt(account):
            if not _lately(account.late, now):
                self._looked = -math.inf  # who is in debt has changed
            account.late = now
            self._look(now)
            part = self._rate(account)
        if part == 1.0:
            return
        account.rate, account.prepaid = part, account.usual
        account.turn = max(now, self._lines[account.line])
        self._lines[account.line] = account.turn + min(LONGEST, account.usual / account.rate)

    def _in_debt(self, account: Account) -> bool:
        return account.owed > min(BURST, self._bursts.get(account.line, BURST))

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
            line = max(now, self._lines[account.line])
            self._lines[account.line] = line + min(LONGEST, (seconds - covered) / account.rate)

    def _look(self, now: float) -> None:
        """Find out who is at work, and what that leaves for who is in debt."""
        if now < self._looked + _LOOK:
            return
        self._looked = now
        waiting, others = defaultdict[Hashable, set[Hashable]](set), 0.0
        used: defaultdict[Hashable, dict[Line, float]] = defaultdict(dict)
        owed: defaultdict[Hashable, defaultdict[Line, list[float]]] = defaultdict(lambda: defaultdict(list))
        for account in self._accounts:
            self._book(account, now)
            if not _lately(account.active, now):
                continue
            role, line = account.role, account.line
            used[role][line] = used[role].get(line, 0.0) + account.used
            owed[role][line].append(account.owed if account.asking else max(0.0, account.owed - PAID * (now - account.since)))
            if _lately(account.late, now) or (account.turn is not None and self._in_debt(account)):
                waiting[role].add(line)
            else:
                others += account.used
        room = HEADROOM if len(used) > 1 else 1.0
        whole = max(LEAST, room - others) if others else 1.0
        self._share = whole / max(1, len(waiting))
        self._users = {role: len(lines) for role, lines in waiting.items()}
        self._bursts = _shared(owed)
        self._parts = _parts(used)


def _shared(owed: Mapping[Hashable, Mapping[Line, list[float]]]) -> dict[Line, float]:
    """What a session may owe, of users that owe more than their part of what their role may owe together."""
    bursts: dict[Line, float] = {}
    for lines in owed.values():
        part = TOGETHER / len(lines)
        if sum(map(sum, lines.values())) > TOGETHER:
            bursts |= {line: max(2 * QUANTUM, part / len(each)) for line, each in lines.items() if sum(each) > part}
    return bursts


def _parts(used: Mapping[Hashable, Mapping[Line, float]]) -> dict[Line, float]:
    """What of a full processor is left to users that take more than their part of their role's, which does so as well."""
    parts: dict[Line, float] = {}
    part = FULL / max(1, len(used))
    roles = {role: sum(lines.values()) for role, lines in used.items()}
    if len(roles) < 2 or sum(roles.values()) <= FULL:
        return parts
    for role, lines in used.items():
        if roles[role] > part:
            parts |= {line: part / len(lines) for line, taken in lines.items() if taken > part / len(lines)}
    return parts


def _lately(then: float, now: float) -> bool:
    return now - then < LATELY
