"""Shares of the proxy's work over simulated time: who waits, how long, and what is left for whom. No clock, no thread."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from dpproxy.limits.fair_share import BURST, FORGIVEN, LATELY, LEAST, LONGEST, MOST_OWED, PAID, QUANTUM, Account, FairShare

TICK = 0.001


@dataclass
class Session:
    """Asks for work of `cost` seconds, again `pause` seconds after each answer. `worked`: seconds; `waits`: of each turn."""

    account: Account
    cost: float
    pause: float
    next: float = 0.0
    asked: float | None = None
    worked: float = 0.0
    waits: list[float] = field(default_factory=list)


@dataclass
class Machine:
    """Works for one session at a time. Who has its turn first is worked for first."""

    shares: FairShare = field(default_factory=FairShare)
    now: float = 0.0
    sessions: list[Session] = field(default_factory=list)

    def add(self, role: str, count: int, cost: float, pause: float, user: str = "") -> list[Session]:
        apart = (pause + cost) / count
        added = [Session(self.shares.opened(role, self.now, user), cost, pause, self.now + i * apart) for i in range(count)]
        self.sessions += added
        return added

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            for session in self.sessions:
                self._work(session)
            self.now += TICK

    def _work(self, session: Session) -> None:
        if session.next > self.now:
            return
        if session.asked is None:
            session.asked = self.now
            self.shares.works(session.account, session.next, self.now)
        account = session.account
        asks = account.turn is not None or account.fresh + account.taken > QUANTUM
        if asks and self.shares.wait(account, self.now) > 0:
            return
        session.waits.append(self.now - session.asked)
        session.asked = None
        account.fresh += session.cost
        session.worked += session.cost
        self.now += session.cost
        self.shares.rests(account, self.now)
        session.next = self.now + session.pause


def worked(sessions: list[Session]) -> float:
    return sum(session.worked for session in sessions)


def busy(sessions: list[Session], machine: Machine, seconds: float) -> float:
    """Processors that these sessions use from now on."""
    before = worked(sessions)
    machine.run(seconds)
    return (worked(sessions) - before) / seconds


PATIENT = {"count": 10, "cost": 0.005, "pause": 0.1}


@pytest.mark.parametrize(("count", "cost"), [(1, 0.002), (1, 0.02), (16, 0.0001), (16, 0.002), (16, 0.02)])
def test_whoever_asks_without_a_pause_gets_what_is_left(count: int, cost: float) -> None:
    """Sixteen sessions of a role get what one gets; those who pause hardly wait for a turn."""
    machine = Machine()
    good = machine.add("good", **PATIENT)
    machine.run(2)
    bad = machine.add("bad", count, cost, 0.0002)
    machine.run(5)
    assert LEAST * 0.8 <= busy(bad, machine, 10) <= LEAST * 1.6
    waits = [wait for session in good for wait in session.waits]
    assert sum(wait > TICK for wait in waits) < len(waits) / 20
    assert worked(good) / machine.now > 0.35, "what ten sessions want of a processor"


def test_alone_nobody_waits() -> None:
    """Sixteen sessions of one role, and one that has long stopped asking."""
    machine = Machine()
    other = machine.add("other", 1, 0.005, 0.1)
    machine.run(1)
    other[0].next = float("inf")
    hungry = machine.add("hungry", 16, 0.01, 0.0)
    machine.run(LATELY)
    assert busy(hungry, machine, 3) > 0.9


def test_of_one_role_alone_nothing_lies_idle() -> None:
    """Who is in debt waits for the others of its role, but gets all that these leave."""
    machine = Machine()
    machine.add("role", **PATIENT)
    hungry = machine.add("role", 1, 0.01, 0.0)
    machine.run(5)
    assert busy(hungry, machine, 5) > 0.35


def test_two_that_ask_without_a_pause_get_half_each() -> None:
    machine = Machine()
    one, sixteen = machine.add("one", 1, 0.01, 0.0), machine.add("sixteen", 16, 0.01, 0.0)
    machine.run(5)
    before = worked(one), worked(sixteen)
    machine.run(10)
    shares = [(worked(s) - b) / 10 for s, b in zip((one, sixteen), before, strict=True)]
    assert sum(shares) > 0.8
    assert all(0.35 < share < 0.6 for share in shares)


@pytest.mark.parametrize("role", ["rude", "other"])
def test_sessions_of_one_user_make_no_other_user_wait(role: str) -> None:
    """Thirty sessions ask on. One session of another user, of their role or not, reads its answers. A third user of the role asks
    on as well, and gets as much as the thirty."""
    machine = Machine()
    machine.add("quiet", 1, 0.001, 0.1)
    rude = machine.add("rude", 30, 0.005, 0.0002, "eve")
    machine.run(1)
    polite, hungry = machine.add(role, 1, 0.001, 0.1, "bob"), machine.add("rude", 1, 0.005, 0.0, "cid")
    machine.run(3)
    before = worked(rude), worked(hungry)
    polite[0].waits.clear()
    machine.run(20)
    assert max(polite[0].waits) < 4 * QUANTUM
    assert worked(hungry) - before[1] == pytest.approx(worked(rude) - before[0], rel=0.2)


def test_many_that_pause_just_enough_are_one_role_all_the_same() -> None:
    """Each of the thirty pauses long enough by itself; of a loop that has no time left their role gets its part."""
    machine = Machine()
    many = machine.add("many", 30, 0.01, 0.08)
    machine.run(3)
    good = machine.add("good", **PATIENT)
    machine.run(3)
    assert busy(good, machine, 10) > 0.35
    assert all(session.account.owed <= BURST for session in many)


@pytest.mark.parametrize(("cost", "pause"), [(0.0003, 0.006), (0.0003, 0.012), (0.002, 0.005), (0.002, 0.012), (0.01, 0.005)])
def test_a_pause_now_and_then_is_no_reading(cost: float, pause: float) -> None:
    """Sixteen sessions of one program answer each other's turns, late by chance. Ten that read, and ask in two messages, take
    three fifths of the loop; the sixteen get an eighth, whatever their statements cost."""
    machine, dice = Machine(), random.Random(1)
    good = machine.add("good", 10, 0.002, 0.05)
    machine.run(2)
    bad = machine.add("bad", 16, cost, pause)
    for _ in range(300):
        for session in good:
            session.pause = dice.choice((0.0, dice.uniform(0.025, 0.075)))
        for session in bad:
            session.pause = dice.expovariate(1 / pause)
        machine.run(0.01)
    good_before, bad_before, began = worked(good), worked(bad), machine.now
    for _ in range(500):
        for session in good:
            session.pause = dice.choice((0.0, dice.uniform(0.025, 0.075)))
        for session in bad:
            session.pause = dice.expovariate(1 / pause)
        machine.run(0.01)
    seconds = machine.now - began
    assert (worked(bad) - bad_before) / seconds < LEAST * 1.3
    assert (worked(good) - good_before) / seconds > 0.55
    assert sum(session.account.rate < 1 for session in good) == 0, "none of them is in a line"


@pytest.mark.parametrize(("count", "read", "waiting"), [(16, 0.0, 15), (8, 0.0, 0), (16, 0.05, 0)])
def test_sessions_of_a_role_have_a_burst_together(count: int, read: float, waiting: int) -> None:
    """Each owes less than a burst. Sixteen that ask on owe too much together; not those that are reading, and will have paid."""
    shares = FairShare()
    other, many = shares.opened("other", 0.0), [shares.opened("many", 0.0) for _ in range(count)]
    for account in many:
        account.fresh += BURST * 0.4
        shares.rests(account, 1.0)
        other.fresh += 0.001
    shares.behind(other, 1.0 + read)
    for account in many:
        shares.works(account, 1.0, 1.0 + read)
    assert sum(shares.wait(account, 1.0 + read) > 0 for account in many) == waiting


def test_waiting_for_the_loop_is_no_pause() -> None:
    """Two sessions ask half a second after their last answer, as the loop sees it. One asked at once."""
    shares = FairShare()
    one, other = shares.opened("role", 0.0), shares.opened("role", 0.0)
    for account, arrived in ((one, 0.501), (other, 0.995)):
        account.fresh += BURST
        shares.rests(account, 0.5)
        shares.works(account, arrived, 1.0)
    assert one.owed == BURST
    assert other.owed == 0


def test_working_for_a_session_is_no_pause() -> None:
    """An engine may take a second for a statement; what follows in the same flight has not waited for a reader."""
    shares = FairShare()
    one = shares.opened("role", 0.0)
    one.fresh += BURST
    shares.works(one, 0.0, 0.0)
    shares.wait(one, 1.0)
    assert one.owed == BURST
    shares.rests(one, 1.0)
    shares.wait(one, 2.0)
    assert one.owed == 0


def test_less_work_of_others_leaves_more() -> None:
    machine = Machine()
    machine.add("good", 1, 0.005, 0.1)
    bad = machine.add("bad", 1, 0.005, 0.0)
    machine.run(5)
    assert 0.15 < busy(bad, machine, 10) < 0.28


def test_every_session_gets_a_turn_within_the_bound() -> None:
    """Turns as long as can be: each waits for those before it, `LONGEST` for each at most."""
    machine = Machine()
    machine.add("good", **PATIENT)
    bad = machine.add("bad", 8, 1.0, 0.0)
    machine.run(400)
    assert all(len(session.waits) > 4 for session in bad)
    assert max(wait for session in bad for wait in session.waits) <= len(bad) * (LONGEST + 1) + 1


def test_a_burst_is_not_slowed_and_a_pause_pays() -> None:
    shares = FairShare()
    other, one = shares.opened("other", 0.0), shares.opened("one", 0.0)

    def take(now: float, seconds: float) -> float:
        other.fresh += 0.001
        one.fresh += seconds
        shares.rests(one, now)
        return shares.wait(one, now)

    assert take(0.0, BURST * 0.9) == 0
    assert take(0.1, BURST / 2) == 0, "its first turn in debt: nobody is before it in the line"
    assert take(0.1, BURST / 2) > 0
    shares.left(one, 0.2)
    for now in (0.3, 0.4):
        other.fresh += 0.001
        shares.behind(one, now)
    assert shares.behind(one, 0.5)
    later = 0.5 + MOST_OWED / PAID + 0.1
    other.fresh += 0.001
    assert shares.wait(one, later) == 0
    assert one.owed == 0


def test_the_line_moves_by_what_a_turn_took_in_all() -> None:
    """However it is booked; and neither waiting nor working is a pause, though nothing says that the session rests."""
    shares = FairShare()
    other, one = shares.opened("other", 0.0), shares.opened("one", 0.0)
    other.fresh += 0.001
    one.fresh += 1.0
    assert shares.wait(one, 0.0) == 0, "nobody is before it"
    for _ in range(4):
        other.fresh += 0.001
        one.fresh += 1.0
        shares.behind(one, 0.1)
        shares.beside(one, 0.5, 0.1)
    left = shares.wait(one, 0.1)
    assert left > 5 / 0.5, "six seconds of work, of which one was foreseen"
    other.fresh += 0.001
    assert shares.wait(one, 0.1 + left) == 0
    one.fresh += QUANTUM
    other.fresh += 0.001
    assert shares.wait(one, 0.1 + left) > 0, "it owes what it did before it waited"


def test_what_the_facade_does_for_a_role_is_no_pause_of_its_sessions() -> None:
    """Sixteen that keep the facade's processors busy wait for these; the loop is free all the time."""
    shares = FairShare()
    other, many = shares.opened("other", 0.0), [shares.opened("many", 0.0) for _ in range(16)]
    for step in range(1, 40):
        other.fresh += 0.001
        for one in many:
            shares.beside(one, 0.006, step / 10)
    first, *waits = [shares.wait(one, 4.0) for one in many]
    assert first == 0, "nobody is before it"
    assert min(waits) > 0
    assert shares.wait(other, 4.0) == 0


def test_waiting_in_the_line_is_no_pause() -> None:
    machine = Machine()
    machine.add("good", **PATIENT)
    bad = machine.add("bad", 16, 0.02, 0.0)
    machine.run(10)
    assert all(session.account.owed > BURST for session in bad)


def test_whoever_connects_anew_goes_on_where_another_left() -> None:
    """Or whoever connects for each statement would never be in debt. The time between pays for nothing; it is forgiven at last."""
    shares = FairShare()
    gone = [shares.opened("role", 0.0) for _ in range(2)]
    for account in gone:
        account.fresh += 1.0
        shares.closed(account, 1.0)
        shares.closed(account, 1.0)
    followers = [shares.opened("role", 1.01) for _ in range(3)]
    for account in followers:
        shares.wait(account, 1.01)
    assert [account.owed for account in followers] == [MOST_OWED, MOST_OWED, 0], "each that went is followed by one"
    assert shares.opened("other", 1.01).owed == 0
    for account in followers:
        shares.closed(account, 2.0)
    later = shares.opened("role", 2.5)
    shares.wait(later, 2.5)
    assert later.owed == MOST_OWED
    assert shares.opened("role", 2.0 + FORGIVEN).owed == 0


def test_who_waits_is_let_go_when_the_others_stop() -> None:
    machine = Machine()
    good = machine.add("good", **PATIENT)
    bad = machine.add("bad", 1, 0.5, 0.0)
    machine.run(5)
    for session in good:
        session.next = float("inf")
    machine.run(LATELY + 1)
    assert busy(bad, machine, 5) > 0.9
