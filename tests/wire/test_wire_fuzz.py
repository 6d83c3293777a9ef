"""Rubbish: no bytes, however cut, raise anything but ProtocolError or hold more memory than the cap of one message."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.wire import backend, frontend
from dpproxy.wire import frontend_build as build
from dpproxy.wire.framing import BackendFramer, Frame, FrontendFramer, Phase, ProtocolError

READERS = [
    backend.read_report,
    backend.read_row_description,
    backend.read_parameter_description,
    backend.read_data_row,
    backend.read_ready_for_query,
    backend.read_command_complete,
    backend.read_parameter_status,
    backend.read_backend_key_data,
    backend.read_authentication,
    backend.read_negotiate_protocol_version,
]
CAP = 1000


def drain(framer: FrontendFramer, data: bytes) -> None:
    """Everything the session would do with these bytes."""
    framer.feed(data)
    try:
        while (frame := framer.next()) is not None:
            decode(framer.phase, frame)
    except ProtocolError:
        assert framer.pending == 0


def decode(phase: Phase, frame: Frame) -> None:
    try:
        if phase is Phase.STARTUP:
            frontend.decode_startup(frame)
        else:
            frontend.decode_frontend(frame)
            frontend.decode_sasl_initial(frame)
    except ProtocolError:
        pass


@given(st.sampled_from(list(Phase)), st.lists(st.binary(max_size=100), max_size=8))
def test_random_bytes(phase: Phase, pieces: list[bytes]) -> None:
    framer, batched = FrontendFramer(CAP, CAP, CAP), FrontendFramer(CAP, CAP, CAP)
    framer.phase = batched.phase = phase
    facade = BackendFramer(piece=CAP)
    for piece in pieces:
        drain(framer, piece)
        assert framer.pending <= CAP + len(piece)
        if phase is not Phase.STARTUP:
            batched.batch(piece)
            assert batched.pending <= CAP + len(piece)
        facade.batch(piece)


@given(st.sampled_from([b"Q", b"P", b"B", b"D", b"E", b"C", b"S", b"f", b"p", b"z"]), st.binary(max_size=200))
def test_random_payloads(tag: bytes, payload: bytes) -> None:
    decode(Phase.NORMAL, Frame(tag, payload, b""))
    decode(Phase.STARTUP, Frame(b"", payload, b""))
    for read in READERS:
        with contextlib.suppress(ProtocolError):
            read(payload)


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_mutated_conversations(seed: int) -> None:
    dice = random.Random(seed)
    stream = bytearray(
        build.parse("s", "select $1::int", (23,)) + build.bind("p", "s", [b"1"], (1,), (0,)) + build.execute("p") * 3
    )
    for _ in range(dice.randint(1, 4)):
        stream[dice.randrange(len(stream))] = dice.randrange(256)
    framer = FrontendFramer(CAP, CAP, CAP)
    framer.phase = Phase.NORMAL
    position = 0
    while position < len(stream):
        size = dice.randint(1, 20)
        drain(framer, bytes(stream[position : position + size]))
        position += size


def test_counts_without_items_allocate_nothing() -> None:
    claims = [
        Frame(b"P", b"\0\0\xff\xff", b""),
        Frame(b"B", b"\0\0\xff\xff", b""),
        Frame(b"B", b"\0\0\0\0\xff\xff", b""),
        Frame(b"B", b"\0\0\0\0\0\1\x7f\xff\xff\xff", b""),
    ]
    tracemalloc.start()
    for frame in claims:
        decode(Phase.NORMAL, frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
