"""Who gives way at an HTTP door, and that what is accepted waits at it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from dpproxy.console.web import AT_A_TIME, OF_ONE, PLACES, QUEUE, Door, Listener, Peer


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(60)
        yield ours, theirs


def ended(theirs: socket.socket) -> bool:
    """Whether the other side has ended it."""
    theirs.setblocking(False)
    try:
        return theirs.recv(1) == b""
    except BlockingIOError:
        return False


def peers(count: int) -> list[Peer]:
    return [("10.0.0.1", port) for port in range(1, count + 1)]


@pytest.mark.parametrize(("steps", "gives_way"), [("", 0), ("asked", 1), ("answered", 1), ("left", 1)])
def test_the_one_that_was_silent_for_longest_gives_way(steps: str, gives_way: int) -> None:
    """Unless it is worked on, was answered since, or is gone."""
    door = Door(places=4, of_one=2)
    first, second, third, fourth = peers(4)
    with pair() as one, pair() as two, pair() as three, pair() as four:
        door.arrived(first, one[0])
        if steps:
            door.asked(first)
        door.arrived(second, two[0])
        if steps == "answered":
            door.answered(first)
        elif steps == "left":
            door.left(first)
        door.arrived(third, three[0])
        door.arrived(fourth, four[0])
        seen = [ended(theirs) for _, theirs in (one, two, three, four)]
    assert seen[gives_way]
    assert not seen[3], "who comes last is not turned away"
    assert len(door) == 2


def test_a_port_that_comes_again_is_another_connection() -> None:
    door = Door(places=2, of_one=2)
    (first,) = peers(1)
    with pair() as one, pair() as two:
        door.arrived(first, one[0])
        door.arrived(first, two[0])
        assert (len(door), ended(one[1]), ended(two[1])) == (1, False, False)


def test_who_has_gone_is_not_given_a_place_again() -> None:
    door = Door()
    (first,) = peers(1)
    with pair() as one:
        door.arrived(first, one[0])
        door.left(first)
        door.answered(first)
        door.asked(first)
        assert len(door) == 0


def test_what_is_closed_already_may_give_way() -> None:
    door = Door(places=1, of_one=1)
    first, second = peers(2)
    with pair() as one, pair() as two:
        door.arrived(first, one[0])
        one[0].close()
        door.arrived(second, two[0])
        assert not ended(two[1])


def test_what_is_accepted_waits_at_the_door() -> None:
    door = Door(places=2, of_one=1)
    with Listener(socket.create_server(("127.0.0.1", 0)), door) as listener:
        listener.listen(1)
        clients = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        accepted = [listener.accept()[0] for _ in clients]
        seen = [client.recv(1) for client in clients[:2]]
        assert (seen, ended(clients[2]), len(door)) == ([b"", b""], False, 1)
        for each in (*clients, *accepted):
            each.close()


def test_threads_may_share_a_door() -> None:
    door = Door(places=8, of_one=4)

    def come_and_go(number: int) -> None:
        for port in range(300):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                peer = (f"10.0.{number}.1", port)
                door.arrived(peer, ours)
                door.asked(peer)
                door.answered(peer)
                door.left(peer)

    threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(door) == 0


def test_more_may_wait_than_are_accepted_in_one_go() -> None:
    assert 2 * AT_A_TIME <= OF_ONE < PLACES < QUEUE
