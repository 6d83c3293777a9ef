"""Room for clients' bytes: never more than there is, by user and in all; in order; and everybody's message is whole in the end."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from dpproxy.session.inflow import FREE, OF_ALL, OF_USER, BufferPool
from dpproxy.wire.framing import MAX_MESSAGE

OF_ONE, ALL = 100, 250


@dataclass(eq=False)
class Session:
    user: str
    told: int = 0

    def granted(self) -> None:
        self.told += 1


@dataclass
class Client:
    """Sends messages one after the other, byte by byte, while it is read from."""

    session: Session
    messages: list[int]
    sent: int = 0
    reads: bool = True
    done: int = field(default=0)

    def go_on(self, pool: BufferPool) -> int:
        """One byte more; return the bytes there are above what is free."""
        if self.session.told:
            self.session.told, self.reads = 0, True
        if self.reads and self.done < len(self.messages):
            size = self.messages[self.done]
            self.sent += 1
            if self.sent < size:
                self.reads = pool.hold(self.session, 0, FREE + size)
            else:
                self.sent, self.done = 0, self.done + 1
                self.reads = pool.hold(self.session, 0, 0)
        return self.sent


sizes = st.lists(st.integers(1, OF_ONE), max_size=4)
clients = st.lists(st.tuples(st.sampled_from("abcd"), sizes), min_size=1, max_size=8)


@given(clients, st.data())
def test_room_is_never_exceeded_and_every_message_is_whole_in_the_end(
    made: list[tuple[str, list[int]]], data: st.DataObject
) -> None:
    pool = BufferPool(OF_ONE, ALL)
    senders = [Client(Session(user), messages) for user, messages in made]
    order = data.draw(st.lists(st.integers(0, len(senders) - 1), max_size=200))
    for i in [*order, *(list(range(len(senders))) * (4 * OF_ONE + 10) * 4)]:
        if all(sender.done == len(sender.messages) for sender in senders):
            break
        senders[i].go_on(pool)
        held = Counter[str]()
        for sender in senders:
            held[sender.session.user] += max(0, sender.sent - 1)  # the byte by which it learns that it must wait is there
        assert held.total() <= pool.held + len(senders) <= ALL + 2 * len(senders)
        assert max(held.values()) <= OF_ONE
    assert [sender.done for sender in senders] == [len(sender.messages) for sender in senders], "somebody waits for ever"
    assert pool.held == 0


def test_what_is_free_waits_for_nothing() -> None:
    pool = BufferPool(0, 0)
    sessions = [Session("ada") for _ in range(100)]
    assert all(pool.hold(session, FREE, FREE) for session in sessions)
    assert pool.held == 0
    assert not pool.hold(sessions[0], 0, FREE + 1)


def test_the_longest_message_of_a_user_fits_twice() -> None:
    pool, (one, two, three) = BufferPool(), (Session("ada") for _ in range(3))
    assert [pool.hold(each, 0, MAX_MESSAGE + 1) for each in (one, two, three)] == [True, True, False]
    assert pool.held <= OF_USER
    pool.leave(one)
    assert three.told == 1


def test_who_waits_for_its_own_user_holds_up_nobody_else() -> None:
    pool = BufferPool(OF_ONE, ALL)
    ada, more, eve = Session("ada"), Session("ada"), Session("eve")
    assert pool.hold(ada, 0, FREE + OF_ONE)
    assert not pool.hold(more, 0, FREE + 50)
    assert pool.hold(eve, 0, FREE + OF_ONE)
    assert (more.told, eve.told) == (0, 0)


def test_the_first_who_waits_is_the_first_who_gets_room() -> None:
    """However much less the others want."""
    pool = BufferPool(OF_ONE, ALL)
    ada, first, second = (Session("ada") for _ in range(3))
    assert pool.hold(ada, 0, FREE + 60)
    assert not pool.hold(first, 0, FREE + 90)
    assert not pool.hold(second, 0, FREE + 20)
    pool.leave(ada)
    assert (first.told, second.told) == (1, 0)
    pool.leave(first)
    assert second.told == 1


def test_those_who_wait_do_not_fill_the_room_they_wait_for() -> None:
    pool = BufferPool(OF_ONE, ALL)
    sessions = [Session("ada") for _ in range(200)]
    assert [pool.hold(each, 0, FREE + OF_ONE) for each in sessions] == [True] + 199 * [False]
    for before, after in itertools.pairwise(sessions):
        pool.leave(before)
        assert after.told == 1


def test_whole_messages_count_where_there_is_no_room_for_them() -> None:
    pool = BufferPool(OF_ONE, ALL)
    ada, more = Session("ada"), Session("ada")
    assert not pool.hold(ada, FREE + 300, FREE + 300)
    assert pool.held == 300
    assert not pool.hold(more, 0, FREE + 1)
    assert pool.hold(ada, 0, 0)
    assert (pool.held, more.told) == (1, 1)


def test_who_asks_again_keeps_its_place() -> None:
    pool = BufferPool(OF_ONE, ALL)
    ada, first, second = (Session("ada") for _ in range(3))
    assert pool.hold(ada, 0, FREE + OF_ONE)
    assert not pool.hold(first, 0, FREE + 60)
    assert not pool.hold(second, 0, FREE + 60)
    assert not pool.hold(first, 0, FREE + 80)
    pool.leave(ada)
    assert (first.told, second.told, pool.held) == (1, 0, 80)


def test_who_leaves_waits_no_more() -> None:
    pool = BufferPool(OF_ONE, ALL)
    ada, gone = Session("ada"), Session("ada")
    assert pool.hold(ada, 0, FREE + OF_ONE)
    assert not pool.hold(gone, 0, FREE + 50)
    pool.leave(gone)
    pool.leave(ada)
    assert (gone.told, pool.held) == (0, 0)


def test_where_all_have_no_room_nobody_comes_before_the_first() -> None:
    """Or those who want little would keep those who want much waiting for ever. The last byte of the room is room."""
    pool = BufferPool(OF_ONE, ALL)
    ada, eve, cyd, bob, dan = (Session(user) for user in ("ada", "eve", "cyd", "bob", "dan"))
    assert pool.hold(ada, 0, FREE + OF_ONE)
    assert pool.hold(eve, 0, FREE + OF_ONE)
    assert not pool.hold(cyd, 0, FREE + 60)
    assert not pool.hold(bob, 0, FREE + 1)
    assert pool.hold(ada, 0, FREE + 90)
    assert (cyd.told, bob.told, pool.held) == (1, 0, ALL)
    assert not pool.hold(dan, 0, FREE + 1)
    pool.leave(eve)
    assert (bob.told, dan.told) == (1, 1)


def test_what_a_user_holds_already_is_not_asked_for_twice() -> None:
    pool, ada = BufferPool(OF_ONE, ALL), Session("ada")
    assert pool.hold(ada, FREE + 60, FREE + 60)
    assert pool.hold(ada, FREE + 60, FREE + OF_ONE)
    assert pool.held == OF_ONE


def test_one_user_has_a_quarter_of_the_room() -> None:
    pool = BufferPool()
    sessions = [Session(user) for user in "abcde" for _ in range(2)]
    assert [pool.hold(each, 0, MAX_MESSAGE + 1) for each in sessions].count(True) == 8
    assert pool.held <= OF_ALL == 4 * OF_USER < 129 << 20
