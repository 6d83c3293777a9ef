"""The cursor over a payload: what it takes, what it names when there is less than a message claims, and names as PostgreSQL cuts them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.wire.protocol import CANCEL_CODE, GSSENC_CODE, NAME_BYTES, SSL_CODE, ProtocolError, Reader, decode_text

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(
    texts,
    st.integers(0, 32767),
    st.integers(-(2**31), 2**31 - 1),
    st.lists(st.integers(0, 2**32 - 1), max_size=5),
    st.none() | st.binary(),
)
def test_what_is_packed_is_read(text: str, short: int, long: int, many: list[int], value: bytes | None) -> None:
    packed = text.encode() + b"\0" + struct.pack("!Hi", short, long) + struct.pack(f"!{len(many)}I", *many)
    packed += struct.pack("!i", -1 if value is None else len(value)) + (value or b"") + b"behind"
    reader = Reader(b"xx" + packed, 2)
    assert (reader.text(), reader.int16(), reader.int32()) == (text, short, long)
    assert (reader.uint32s(len(many)), reader.value()) == (tuple(many), value)
    with pytest.raises(ProtocolError, match="invalid message format"):
        reader.end()
    assert reader.rest() == b"behind"
    reader.end()


@pytest.mark.parametrize(
    ("data", "read", "says"),
    [
        (b"abc", Reader.text, "invalid string in message"),
        (b"\0", Reader.int16, "insufficient data left in message"),
        (b"\0\0\0", Reader.int32, "insufficient data left in message"),
        (b"\0\0\0\x04abc", Reader.value, "insufficient data left in message"),
        (b"\xff\xff\xff\xfe", Reader.value, "insufficient data left in message"),
        (b"\0\0\0\0", lambda r: r.uint32s(65535), "insufficient data left in message"),
        (b"\0\0\0", lambda r: r.int16s(2), "insufficient data left in message"),
    ],
)
def test_less_than_claimed(data: bytes, read: object, says: str) -> None:
    assert callable(read)
    with pytest.raises(ProtocolError) as caught:
        read(Reader(data))
    assert (caught.value.sqlstate, caught.value.message, caught.value.fatal) == ("08P01", says, False)
    assert str(caught.value) == f"08P01 {says}"


def test_counts_go_to_65535() -> None:
    assert Reader(b"\xff\xff").int16() == 65535


@pytest.mark.parametrize(
    ("data", "told"),
    [(b"a\xff", "0xff"), (b"\xc3(", "0xc3 0x28"), (b"x\xe2\x28\xa1y", "0xe2 0x28 0xa1"), (b"\xf0\x9f", "0xf0 0x9f")],
)
def test_wrong_bytes_are_named(data: bytes, told: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_text(data)
    assert (caught.value.sqlstate, caught.value.message) == ("22021", f'invalid byte sequence for encoding "UTF8": {told}')


@given(texts, texts)
def test_names_are_the_same_where_postgresqls_are(a: str, b: str) -> None:
    """It keeps 63 bytes, of which the last may be part of a character."""
    names = [Reader(text.encode() + b"\0").name() for text in (a, b)]
    kept = [text.encode()[:NAME_BYTES] for text in (a, b)]
    assert (names[0] == names[1]) == (kept[0] == kept[1])


@pytest.mark.parametrize("end", ["é", "日", "𝄞", "z"])
@pytest.mark.parametrize("fill", range(59, 64))
def test_long_names_that_begin_alike_are_one(end: str, fill: int) -> None:
    def kept(text: str) -> str:
        return Reader(text.encode() + b"\0").name()

    assert kept("x" * fill + end * 6) == kept("x" * fill + end * 6 + "more")
    assert kept("x" * fill + end) != kept("y" * fill + end)


def test_codes_are_the_chapters() -> None:
    assert [code - (1234 << 16) for code in (CANCEL_CODE, SSL_CODE, GSSENC_CODE)] == [5678, 5679, 5680]
