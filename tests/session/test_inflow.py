"""A client's bytes on their way in: every place that holds them counts, and the client is read exactly when nothing speaks against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from dpproxy.session.inflow import FREE, QUEUE_LIMIT, BufferPool, Half, Inflow
from dpproxy.wire import frontend_build as front
from dpproxy.wire.framing import MOST, FrontendFramer

MB = 1 << 20


@dataclass
class Transport:
    reading: bool = True
    closing: bool = False
    calls: int = 0

    def pause_reading(self) -> None:
        assert self.reading
        self.reading, self.calls = False, self.calls + 1

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading, self.calls = True, self.calls + 1

    def is_closing(self) -> bool:
        return self.closing


@dataclass
class Client:
    pool: BufferPool
    user: str = "ada"
    transport: Transport = field(default_factory=Transport)
    unsent: int = 0

    def __post_init__(self) -> None:
        framer = FrontendFramer()
        framer.startup_done()
        framer.authenticated()
        self.inflow = Inflow(framer, cast(Any, self.transport), self.pool, self.user, lambda: self.unsent)

    def relayed(self, data: bytes) -> None:
        self.inflow.cut(data)
        self.inflow.settle()

    def queued(self, data: bytes) -> None:
        buffer, spans, _ = self.inflow.cut(data)
        self.inflow.put(buffer, spans)


def query(size: int) -> bytes:
    return front.query("x" * (size - 6))


def test_an_unfinished_message_takes_its_whole_room_with_its_header() -> None:
    client = Client(BufferPool())
    whole = query(4 * MB)
    client.relayed(whole[:5])
    assert client.pool.held == 4 * MB - FREE
    assert client.inflow.half == Half(0, 5, 4 * MB)
    client.relayed(whole[5:])
    assert not client.inflow.unfinished
    assert (client.pool.held, client.transport.calls) == (0, 0)


def test_who_finds_no_room_is_not_read_until_there_is() -> None:
    pool = BufferPool(4 * MB, 8 * MB)
    first, second = Client(pool), Client(pool)
    whole = query(3 * MB)
    first.relayed(whole[:-1])
    second.relayed(whole[:100])
    assert (first.transport.reading, second.transport.reading) == (True, False)
    assert second.inflow.half is None, "the client may not go on: it is not late"
    first.relayed(whole[-1:])
    assert second.transport.reading
    assert second.inflow.half == Half(0, 100, 3 * MB)
    second.inflow.leave()
    assert pool.held == 0


def test_waiting_messages_the_one_worked_on_and_what_the_facade_leaves_count() -> None:
    pool = BufferPool()
    client = Client(pool)
    client.queued(query(MB // 4) + query(MB // 2))
    assert pool.held == 3 * MB // 4 - FREE
    client.inflow.take()
    assert pool.held == 3 * MB // 4 - FREE, "it is being worked on"
    client.inflow.take()
    assert pool.held == MB // 2 - FREE
    client.inflow.rest()
    assert pool.held == 0
    client.unsent = 2 * MB
    client.inflow.facade_slow(True)
    assert (pool.held, client.transport.reading) == (2 * MB - FREE, False)
    client.unsent = 0
    client.inflow.facade_slow(False)
    assert (pool.held, client.transport.reading) == (0, True)


def test_a_client_is_read_when_nothing_speaks_against_it_any_more() -> None:
    """In whatever order the reasons go: a queue that is empty does not make up for a facade that is slow."""
    for last in range(3):
        pool = BufferPool(4 * MB, 8 * MB)
        other, client = Client(pool), Client(pool)
        other.relayed(query(4 * MB)[:100])
        client.queued(query(QUEUE_LIMIT + 100) + query(2 * MB)[:100])
        client.inflow.facade_slow(True)
        assert not client.transport.reading

        def empty(inflow: Inflow = client.inflow) -> None:
            inflow.take()
            inflow.rest()

        ends: list[Callable[[], None]] = [empty, partial(client.inflow.facade_slow, False), other.inflow.leave]
        for end in (*ends[:last], *ends[last + 1 :]):
            end()
            assert not client.transport.reading
        ends[last]()
        assert client.transport.reading
        assert client.transport.calls == 2


def test_small_messages_take_no_room_and_no_calls() -> None:
    client = Client(BufferPool(0, 0))
    for _ in range(100):
        client.relayed(query(FREE)[:-1])
        client.relayed(query(FREE)[-1:])
    assert (client.pool.held, client.transport.calls) == (0, 0)


def test_a_transport_that_closes_is_left_alone() -> None:
    client = Client(BufferPool(0, 0))
    client.transport.closing = True
    client.relayed(query(MB)[:100])
    assert client.transport.calls == 0


def test_who_is_sent_away_holds_nothing_any_more() -> None:
    client = Client(BufferPool())
    client.queued(query(MB) + query(MB)[:100])
    client.inflow.leave()
    assert (client.pool.held, list(client.inflow.queue), client.inflow.unfinished) == (0, [], False)
    client.inflow.rest()
    client.inflow.settle()
    assert client.pool.held == 0
    client.relayed(query(MB)[:100])
    assert client.pool.held == 0, "what comes while its connection is closed"


def test_whole_messages_take_their_room_where_there_is_none() -> None:
    client = Client(BufferPool(0, 0))
    client.queued(query(MB))
    assert (client.pool.held, client.transport.reading) == (MB - FREE, False)


def test_messages_that_are_not_cut_yet_wait_like_those_that_are() -> None:
    """They are whole: they take what room they have, hold reading up, and are no unfinished message."""
    client = Client(BufferPool())
    size = QUEUE_LIMIT // MOST
    client.queued(query(size) * (2 * MOST) + query(MB)[:100])
    assert len(client.inflow.queue) == MOST
    assert client.inflow.more
    assert client.inflow.half is None
    assert client.pool.held == size * 2 * MOST + 100 - FREE
    assert not client.transport.reading
    while client.inflow.queue:
        client.inflow.take()
    client.queued(b"")
    assert (len(client.inflow.queue), client.transport.reading) == (MOST, True)
    client.queued(b"")
    assert (len(client.inflow.queue), client.inflow.more) == (MOST, False)
    assert client.pool.held == size * (MOST + 1) + MB - FREE
    assert client.inflow.half == Half(2 * MOST, 100, MB)


def test_who_is_read_from_has_no_unfinished_message_before_the_rest_is_cut() -> None:
    """However little there is of what is whole."""
    client = Client(BufferPool())
    client.queued(query(10) * (MOST + 1) + query(MB)[:100])
    assert client.inflow.more
    assert client.transport.reading
    assert client.inflow.half is None


def test_while_many_messages_wait_what_comes_stays_bytes() -> None:
    """A message of five bytes takes a hundred once it is cut, and a thousand pieces would be copied a thousand times."""
    client = Client(BufferPool())
    pieces = 100
    for _ in range(pieces):
        client.queued(front.SYNC * MOST)
        assert len(client.inflow.queue) == MOST
    assert client.inflow.half is None, "the client may not go on: what it has sent waits"
    taken = 0
    while client.inflow.queue or client.inflow.more:
        if not client.inflow.queue:
            client.queued(b"")
        assert client.inflow.take() == (b"S", front.SYNC)
        taken += 1
    assert taken == pieces * MOST
    assert not client.inflow.unfinished


def test_what_waits_as_bytes_counts_and_stops_the_reading() -> None:
    client = Client(BufferPool())
    client.queued(front.SYNC * MOST)
    while client.transport.reading:
        client.queued(front.SYNC * MOST)
    assert QUEUE_LIMIT < client.pool.held + FREE < QUEUE_LIMIT + 10 * MOST
    while client.inflow.queue or client.inflow.more:
        if not client.inflow.queue:
            client.queued(b"")
        client.inflow.take()
    client.inflow.rest()
    assert (client.pool.held, client.transport.reading) == (0, True)
