"""Framing: the same messages however the stream is cut; a wrong length is refused from its header alone."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.wire import frontend_build as build
from dpproxy.wire.backend import data_row, error_response, message, ready_for_query
from dpproxy.wire.framing import LONG, MAX_SASL, MOST, BackendFramer, Batch, FrontendFramer, Phase, ProtocolError

TAGS = (b"Q", b"P", b"B", b"D", b"E", b"C", b"H", b"S", b"X", b"d", b"c", b"f", b"F")
messages = st.builds(message, st.sampled_from(TAGS), st.binary(max_size=200))


def normal(**caps: int) -> FrontendFramer:
    framer = FrontendFramer(**caps)
    framer.startup_done()
    framer.authenticated()
    return framer


def cut(stream: bytes, sizes: Iterable[int]) -> list[bytes]:
    pieces, position = [], 0
    for size in sizes:
        pieces.append(stream[position : position + size])
        position += size
    return [piece for piece in (*pieces, stream[position:]) if piece]


def spans_of(batch: Batch) -> list[bytes]:
    return [batch.buffer[start:end] for _, start, end in batch.spans]


@given(st.lists(messages, max_size=20), st.lists(st.integers(1, 60), max_size=40))
def test_next_and_batch_agree_on_every_cut(sent: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(sent)
    one, many = normal(), normal()
    taken: list[bytes] = []
    batched: list[bytes] = []
    for piece in cut(stream, sizes):
        one.feed(piece)
        while (frame := one.next()) is not None:
            assert frame.tag + struct.pack("!i", len(frame.payload) + 4) + frame.payload == frame.raw
            taken.append(frame.raw)
        batch = many.batch(piece)
        assert batch.error is None
        assert all(batch.buffer[start : start + 1] == tag for tag, start, _ in batch.spans)
        batched += spans_of(batch)
    assert taken == sent
    assert batched == sent
    assert one.pending == many.pending == 0


@given(st.lists(messages, max_size=20), st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=40))
def test_what_was_kept_uncut_comes_in_order(sent: list[bytes], sizes: list[tuple[int, bool]]) -> None:
    framer, batched = normal(), list[bytes]()
    pieces = cut(b"".join(sent), [size for size, _ in sizes])
    for i, piece in enumerate(pieces):
        if i < len(sizes) and sizes[i][1]:
            framer.keep(piece)
            assert framer.pending >= len(piece)
        else:
            batched += spans_of(framer.batch(piece))
    while framer.more:
        batched += spans_of(framer.batch(b""))
    assert batched == sent
    assert framer.pending == 0


long_messages = st.builds(
    message, st.sampled_from((b"Q", b"P", b"d")), st.binary(min_size=1).map(lambda part: part * (LONG // len(part)))
)


@given(
    st.lists(st.one_of(messages, long_messages), max_size=6),
    st.lists(st.tuples(st.integers(1, LONG), st.sampled_from(("batch", "keep", "feed"))), max_size=20),
)
def test_a_long_message_is_the_same_however_it_comes(sent: list[bytes], sizes: list[tuple[int, str]]) -> None:
    framer, taken = normal(), list[bytes]()
    for piece, (_, way) in zip_longest(cut(b"".join(sent), [size for size, _ in sizes]), sizes, fillvalue=(0, "batch")):
        if not isinstance(piece, bytes):
            break
        if way == "feed":
            framer.feed(piece)
            while (frame := framer.next()) is not None:
                taken.append(frame.raw)
        elif way == "keep":
            framer.keep(piece)
        else:
            taken += spans_of(framer.batch(piece))
        assert framer.needed >= framer.pending
    while framer.more:
        taken += spans_of(framer.batch(b""))
    assert taken == sent
    assert framer.pending == 0


def test_what_is_put_together_is_given_away_without_a_copy() -> None:
    stream = build.query("x" * 8 * LONG) + build.sync()
    framer = normal()
    for position in range(0, len(stream), LONG):
        batch = framer.batch(stream[position : position + LONG])
    assert batch.buffer == stream[:-5]
    assert batch.buffer[slice(*batch.spans[0][1:])] is batch.buffer
    assert framer.more
    assert framer.batch(b"").buffer == build.sync()


@given(st.lists(messages, min_size=1, max_size=5), st.binary(min_size=1, max_size=4))
def test_rubbish_behind_does_not_swallow_what_came_before(sent: list[bytes], rubbish: bytes) -> None:
    stream = b"".join(sent) + b"Q\xff\xff\xff\xff" + rubbish
    for pieces in ([stream], [bytes([byte]) for byte in stream]):
        framer = normal()
        got: list[bytes] = []
        error = None
        for piece in pieces:
            batch = framer.batch(piece)
            got += spans_of(batch)
            error = batch.error
        assert got == sent
        assert error is not None
        assert (error.sqlstate, error.fatal) == ("08P01", True)
        assert framer.pending == 0


def test_a_block_without_a_tail_is_returned_without_copying() -> None:
    block = build.query("select 1") + build.sync()
    batch = normal().batch(block)
    assert batch.buffer is block
    assert [tag for tag, _, _ in batch.spans] == [b"Q", b"S"]


@pytest.mark.parametrize("length", [0, 3, 4, 7, 10_001, 0x16030100, 0xFFFFFFFF])
def test_startup_length_is_judged_from_four_bytes(length: int) -> None:
    framer = FrontendFramer()
    framer.feed(struct.pack("!I", length))
    with pytest.raises(ProtocolError, match="invalid length of startup packet") as caught:
        framer.next()
    assert caught.value.fatal
    with pytest.raises(ProtocolError):
        framer.next()


@pytest.mark.parametrize(("length", "body"), [(8, 4), (10_000, 9_996)])
def test_startup_packets_at_the_caps_pass(length: int, body: int) -> None:
    framer = FrontendFramer()
    framer.feed(struct.pack("!I", length) + b"x" * body + b"behind")
    frame = framer.next()
    assert frame is not None
    assert (frame.tag, len(frame.payload), len(frame.raw), framer.pending) == (b"", body, length, 6)


@pytest.mark.parametrize(
    ("tag", "length", "allowed"),
    [
        (b"Q", 3, False),
        (b"Q", -1, False),
        (b"Q", 4, True),
        (b"Q", 1 << 20, True),
        (b"Q", (1 << 20) + 1, False),
        (b"S", 10_000, True),
        (b"S", 10_001, False),
        (b"X", 10_001, False),
        (b"p", MAX_SASL, True),
        (b"p", MAX_SASL + 1, False),
        (b"Q", 0x7FFFFFFF, False),
    ],
)
def test_message_length_is_judged_from_the_header(tag: bytes, length: int, allowed: bool) -> None:
    header = tag + struct.pack("!i", length)
    by_batch = normal(max_message=1 << 20).batch(header)
    assert (by_batch.error is None) is allowed
    framer = normal(max_message=1 << 20)
    framer.feed(header)
    if allowed:
        assert (framer.next() is None) is (length > 4)
    else:
        with pytest.raises(ProtocolError, match=f"invalid message length {length}"):
            framer.next()


def test_before_authentication_only_tokens_pass() -> None:
    framer = FrontendFramer()
    framer.startup_done()
    assert framer.phase is Phase.AUTH
    framer.feed(build.sasl_response(b"x"))
    assert framer.next() is not None
    framer.feed(b"Q" + struct.pack("!i", 100))
    with pytest.raises(ProtocolError, match="expected SASL response, got message type 81"):
        framer.next()


def test_what_was_pipelined_behind_the_startup_is_found_by_batch() -> None:
    framer = FrontendFramer()
    framer.feed(build.startup("u", "d", {}) + build.query("select 1") + b"S")
    assert framer.next() is not None
    framer.startup_done()
    framer.authenticated()
    batch = framer.batch(b"\x00\x00\x00\x04")
    assert spans_of(batch) == [build.query("select 1"), build.sync()]


def test_a_long_message_in_small_pieces_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once when its header came, once when it is complete: the work is linear in its length."""
    framer = normal()
    looked: list[int] = []
    split = framer._split
    monkeypatch.setattr(framer, "_split", lambda data: looked.append(len(data)) or split(data))
    query = build.query("x" * 300_000)
    for piece in cut(query[:-1], [1000] * 300):
        assert framer.batch(piece).spans == []
    assert framer.pending == len(query) - 1
    assert looked == [1000]
    assert spans_of(framer.batch(query[-1:])) == [query]
    assert framer.pending == 0


def test_after_an_error_nothing_more_is_held() -> None:
    framer = normal()
    assert framer.batch(b"Q\xff\xff\xff\xff").error is not None
    framer.batch(b"x" * 100_000)
    framer.feed(b"x" * 100_000)
    assert framer.pending == 0


@given(st.lists(st.integers(0, 300).map(bytes), max_size=12), st.lists(st.integers(1, 97), max_size=60))
def test_backend_stream_is_forwarded_byte_for_byte(rows: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(data_row([row]) for row in rows) + ready_for_query("I")
    framer = BackendFramer(piece=64)
    out, tags = b"", []
    for piece in cut(stream, sizes):
        batch = framer.batch(piece)
        assert batch.error is None
        assert framer.pending <= 64
        out += b"".join(spans_of(batch))
        tags += [tag for tag, _, _ in batch.spans if tag]
    assert out == stream
    assert tags == [b"D"] * len(rows) + [b"Z"]
    assert framer.passthrough == 0


def test_a_huge_row_is_passed_on_in_pieces() -> None:
    framer = BackendFramer()
    head = b"D" + struct.pack("!i", 500_000_000)
    first = framer.batch(head + b"x" * 65536)
    assert first.spans == [(b"D", 0, 65541)]
    assert framer.passthrough == 500_000_000 - 4 - 65536
    assert framer.batch(b"x" * 1000).spans == [(b"", 0, 1000)]
    assert framer.passthrough == 500_000_000 - 4 - 66536
    assert framer.pending == 0


def test_an_error_is_never_cut() -> None:
    framer = BackendFramer(piece=64)
    report = error_response("ERROR", "22012", "x" * 1000)
    assert framer.batch(report[:500]).spans == []
    assert spans_of(framer.batch(report[500:])) == [report]


@pytest.mark.parametrize("header", [b"Z\x00\x00\x00\x03", b"D\xff\xff\xff\xff", b"T\x7f\xff\xff\xff"])
def test_a_backend_that_lost_its_framing_is_noticed(header: bytes) -> None:
    batch = BackendFramer().batch(ready_for_query("I") + header)
    assert len(batch.spans) == 1
    assert batch.error is not None
    assert "lost synchronization" in batch.error.message


@pytest.mark.parametrize("tag", [b"z", b"\0", b"T", b"\x16"])
def test_an_unknown_type_is_refused_at_once(tag: bytes) -> None:
    """Nobody waits for the bytes of a message that would be refused anyhow."""
    for length in (4, 8192, 2**31 - 1):
        framer = FrontendFramer()
        framer.authenticated()
        batch = framer.batch(b"S\0\0\0\4" + tag + length.to_bytes(4, "big"))
        assert [span[0] for span in batch.spans] == [b"S"]
        assert "invalid frontend message type" in str(batch.error)


def test_a_client_s_messages_are_cut_so_many_at_a_time() -> None:
    """However small they are and however much comes at once; nothing is lost, and the work stays linear."""
    sync, query = b"S\0\0\0\x04", b"Q\0\0\0\x06a\0"
    framer, data = normal(), (sync * 7 + query) * 500 + query[:3]
    sizes, got = [], []
    batch = framer.batch(data)
    while True:
        sizes.append(len(batch.spans))
        got += spans_of(batch)
        if not framer.more:
            break
        batch = framer.batch(b"")
    assert sizes == [MOST] * 4 + [0]
    assert b"".join(got) == data[:-3]
    assert (framer.pending, framer.more) == (3, False)
    assert spans_of(framer.batch(query[3:])) == [query]


@given(st.lists(messages, max_size=6), st.lists(st.integers(1, 60), max_size=20))
def test_what_is_needed_is_known_with_the_header(sent: list[bytes], sizes: list[int]) -> None:
    """Of an unfinished message: its whole size once five bytes of it are there, and never less than what is held."""
    framer, stream, position = normal(), b"".join(sent), 0
    ends = [sum(map(len, sent[:i])) for i in range(len(sent) + 1)]
    for piece in cut(stream, sizes):
        framer.batch(piece)
        position += len(piece)
        begun = max(end for end in ends if end <= position)
        whole = min((end for end in ends if end > begun), default=begun) - begun
        held = position - begun
        assert framer.pending == held
        assert framer.needed == (whole if held >= 5 else held)


@pytest.mark.parametrize("body", [b"p" + struct.pack("!i", MAX_SASL + 1), b"p\0\0\xff\xff" + b"x" * 60_000])
def test_nothing_long_is_kept_before_the_login(body: bytes) -> None:
    framer = FrontendFramer()
    framer.startup_done()
    framer.feed(body)
    with pytest.raises(ProtocolError, match="invalid message length"):
        framer.next()
    assert framer.pending == 0


@pytest.mark.parametrize("size", [10, LONG // 2, 2 * LONG])
@pytest.mark.parametrize("first", [1, 5, 9])
def test_what_is_kept_is_whole_at_its_last_byte(size: int, first: int) -> None:
    """And not before, nor only at the next message's: who waits for an answer sends none."""
    framer, whole = normal(), build.query("x" * size)
    assert spans_of(framer.batch(whole[:first])) == []
    framer.keep(whole[first:-1])
    assert spans_of(framer.batch(b"")) == []
    framer.keep(whole[-1:])
    assert framer.more
    assert spans_of(framer.batch(b"")) == [whole]
