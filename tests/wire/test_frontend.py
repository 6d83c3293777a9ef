"""Front-end messages: what is built decodes to itself, and every malformed payload is named as PostgreSQL names it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.wire import frontend as f
from dpproxy.wire import frontend_build as build
from dpproxy.wire.backend import message
from dpproxy.wire.framing import Frame, FrontendFramer, ProtocolError

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
names = texts.filter(lambda text: len(text.encode()) < 64)
"""What is longer is cut to 63 bytes, as PostgreSQL cuts it (`tests/session/test_long_names.py`)."""
oids = st.lists(st.integers(0, 2**32 - 1), max_size=6).map(tuple)
values = st.lists(st.none() | st.binary(max_size=30), max_size=6).map(tuple)
formats = st.lists(st.sampled_from([0, 1]), max_size=6).map(tuple)
kinds = st.sampled_from(["S", "P"])


def tagged(raw: bytes) -> Frame:
    return Frame(raw[:1], raw[5:], raw)


def packet(raw: bytes) -> Frame:
    framer = FrontendFramer()
    framer.feed(raw)
    frame = framer.next()
    assert frame is not None
    return frame


@given(names, texts, oids)
def test_parse(name: str, sql: str, types: tuple[int, ...]) -> None:
    raw = build.parse(name, sql, types)
    assert f.decode_frontend(tagged(raw)) == f.Parse(name, sql, types)
    assert f.peek_name(b"behind" + raw, 6) == name


@given(names, names, values, st.data(), formats)
def test_bind(portal: str, statement: str, row: tuple[bytes | None, ...], data: st.DataObject, results: tuple[int, ...]) -> None:
    count = data.draw(st.sampled_from([0, 1, len(row)]))
    codes = tuple(data.draw(st.lists(st.sampled_from([0, 1]), min_size=count, max_size=count)))
    raw = build.bind(portal, statement, row, codes, results)
    assert f.decode_frontend(tagged(raw)) == f.Bind(portal, statement, codes, row, results)
    assert f.peek_bind(b"xx" + raw, 2) == (portal, statement)


@given(names, kinds, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50))
def test_the_others(name: str, kind: str, limit: int, data: bytes) -> None:
    assert kind in ("S", "P")
    expected = {
        build.query(name): f.Query(name),
        build.describe(kind, name): f.Describe(kind, name),
        build.close(kind, name): f.Close(kind, name),
        build.execute(name, limit): f.Execute(name, limit),
        build.sync(): f.Sync(),
        build.flush(): f.Flush(),
        build.terminate(): f.Terminate(),
        build.copy_fail(name): f.CopyFail(name),
        message(b"d", data): f.CopyData(data),
        message(b"c"): f.CopyDone(),
        message(b"F", data): f.FunctionCall(),
        message(b"p", data): f.Password(data),
        message(b"z", data): f.Unknown(b"z"),
    }
    for raw, value in expected.items():
        assert f.decode_frontend(tagged(raw)) == value


@given(texts, st.binary(max_size=50))
def test_sasl(name: str, data: bytes) -> None:
    assert f.decode_sasl_initial(tagged(build.sasl_initial(name, data))) == f.SASLInitialResponse(name, data)
    empty = message(b"p", name.encode() + b"\0\xff\xff\xff\xff")
    assert f.decode_sasl_initial(tagged(empty)) == f.SASLInitialResponse(name, None)
    assert f.decode_sasl_response(tagged(build.sasl_response(data))) == f.SASLResponse(data)


@pytest.mark.parametrize("decode", [f.decode_sasl_initial, f.decode_sasl_response])
def test_another_message_is_no_sasl_response(decode: object) -> None:
    assert callable(decode)
    with pytest.raises(ProtocolError, match="got message type 81") as caught:
        decode(tagged(build.query("select 1")))
    assert caught.value.fatal


@given(st.dictionaries(texts.filter(bool), texts, max_size=5), texts, texts, st.integers(0, 99))
def test_startup(params: dict[str, str], user: str, database: str, minor: int) -> None:
    frame = packet(build.startup(user, database, params, minor))
    expected = {"user": user, "database": database, **params}
    assert f.decode_startup(frame) == f.Startup(3, minor, expected)


def test_other_start_packets() -> None:
    assert f.decode_startup(packet(build.ssl_request())) == f.SSLRequest()
    assert f.decode_startup(packet(struct.pack("!II", 8, 80877104))) == f.GSSENCRequest()
    for secret in (b"1234", b"x" * 256):
        assert f.decode_startup(packet(build.cancel_request(-5, secret))) == f.CancelRequest(-5, secret)


@pytest.mark.parametrize(
    ("payload", "sqlstate"),
    [
        (struct.pack("!I", 80877103) + b"x", "08P01"),
        (struct.pack("!Ii", 80877102, 1) + b"123", "08P01"),
        (struct.pack("!Ii", 80877102, 1) + b"x" * 257, "08P01"),
        (struct.pack("!I", 2 << 16), "0A000"),
        (struct.pack("!I", 4 << 16), "0A000"),
        (struct.pack("!I", 3 << 16), "08P01"),
        (struct.pack("!I", 3 << 16) + b"user\0a\0", "08P01"),
        (struct.pack("!I", 3 << 16) + b"user\0a\0\0x", "08P01"),
        (struct.pack("!I", 3 << 16) + b"user\0\xff\0\0", "22021"),
        (b"\0", "08P01"),
    ],
)
def test_bad_start_packets_are_fatal(payload: bytes, sqlstate: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        f.decode_startup(Frame(b"", payload, payload))
    assert (caught.value.sqlstate, caught.value.fatal) == (sqlstate, True)


# Texts as PostgreSQL 18 answered them to the same bytes.
MALFORMED = [
    (b"Q", b"select 1", "08P01", "invalid string in message"),
    (b"Q", b"select 1\0\0", "08P01", "invalid message format"),
    (b"Q", b"a\0b\0", "08P01", "invalid message format"),
    (b"Q", b"select '\xc3('\0", "22021", 'invalid byte sequence for encoding "UTF8": 0xc3 0x28'),
    (b"Q", b"select '\xe2\x82\0", "22021", 'invalid byte sequence for encoding "UTF8": 0xe2 0x82'),
    (b"Q", b"\xff\0", "22021", 'invalid byte sequence for encoding "UTF8": 0xff'),
    (b"Q", b"\xed\xa0\x80\0", "22021", 'invalid byte sequence for encoding "UTF8": 0xed 0xa0 0x80'),
    (b"P", b"", "08P01", "invalid string in message"),
    (b"P", b"\xff\0select 1\0\0\0", "22021", 'invalid byte sequence for encoding "UTF8": 0xff'),
    (b"P", b"\0\0\xff\xff", "08P01", "insufficient data left in message"),
    (b"D", b"Xa\0", "08P01", "invalid DESCRIBE message subtype 88"),
    (b"C", b"\0a\0", "08P01", "invalid CLOSE message subtype 0"),
    (b"B", b"\0\0\0\1\0\7\0\1\xff\xff\xff\xff\0\0", "22023", "unsupported format code: 7"),
    (b"B", b"\0\0\0\0\0\0\0\1\0\2", "22023", "unsupported format code: 2"),
    (b"B", b"\0\0\0\0\0\1\xff\xff\xff\xfb\0\0", "08P01", "insufficient data left in message"),
    (b"B", b"\0\0\0\0\0\1\x7f\xff\xff\xff\0\0", "08P01", "insufficient data left in message"),
    (b"B", b"\0\0\0\0\xff\xff", "08P01", "insufficient data left in message"),
    (b"B", b"\0\0\0\3\0\0\0\0\0\0\0\0\0\0", "08P01", "bind message has 3 parameter formats but 0 parameters"),
    (b"E", b"\0\0\0\0", "08P01", "insufficient data left in message"),
    (b"S", b"x", "08P01", "invalid message format"),
    (b"H", b"x", "08P01", "invalid message format"),
    (b"D", b"", "08P01", "insufficient data left in message"),
]


@pytest.mark.parametrize(("tag", "payload", "sqlstate", "text"), MALFORMED)
def test_malformed(tag: bytes, payload: bytes, sqlstate: str, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        f.decode_frontend(Frame(tag, payload, b""))
    assert (caught.value.sqlstate, caught.value.message, caught.value.fatal) == (sqlstate, text, False)


@given(texts, texts, values)
def test_every_truncation_of_a_message_is_an_error(portal: str, sql: str, row: tuple[bytes | None, ...]) -> None:
    for raw in (build.bind(portal, sql, row, (), (1,)), build.parse(portal, sql, (23,)), build.execute(portal, 5)):
        for size in range(len(raw) - 5):
            with pytest.raises(ProtocolError):
                f.decode_frontend(Frame(raw[:1], raw[5 : 5 + size], b""))


def test_what_the_proxy_builds_cannot_hold_nul() -> None:
    with pytest.raises(ValueError, match="NUL"):
        build.query("select 1\0; drop")


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(f.Password(b"secret"))
