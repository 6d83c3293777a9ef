"""Clients that do not speak UTF-8: each encoding is PostgreSQL's, and what has no place in it is refused in its words."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.session.encodings import CODECS, check_texts, codec, converted, decoded

SAMPLES = {
    "LATIN1": ("é", b"\xe9"), "LATIN2": ("ł", b"\xb3"), "LATIN5": ("ğ", b"\xf0"), "LATIN9": ("€", b"\xa4"),
    "LATIN10": ("ș", b"\xba"), "ISO_8859_5": ("ж", b"\xd6"), "ISO_8859_7": ("ω", b"\xf9"), "WIN866": ("ж", b"\xa6"),
    "WIN1250": ("ł", b"\xb3"), "WIN1252": ("€", b"\x80"), "KOI8R": ("ж", b"\xd6"), "KOI8U": ("ї", b"\xa7"),
    "UTF8": ("€", "€".encode()), "UNICODE": ("€", "€".encode()), "SQL_ASCII": ("€", "€".encode()),
}  # fmt: skip
"""Characters as PostgreSQL's documentation of each encoding has them."""


@pytest.mark.parametrize("encoding", SAMPLES)
def test_texts_go_there_and_back(encoding: str) -> None:
    character, code = SAMPLES[encoding]
    utf8 = f"{{a,{character}}}".encode()
    assert converted([utf8, None, b"{}"], encoding) == [b"{a," + code + b"}", None, b"{}"]
    assert decoded([code, None], encoding) == [character, None]


@pytest.mark.parametrize("encoding", CODECS)
def test_ascii_is_the_same_everywhere(encoding: str) -> None:
    ascii_ = bytes(range(32, 127))
    assert converted([ascii_], encoding) == [ascii_]
    assert decoded([ascii_], encoding) == [ascii_.decode()]


@pytest.mark.parametrize("encoding", [None, "", "BIG5", "SJIS", "utf8"])
def test_others_are_refused_with_the_way_out(encoding: str | None) -> None:
    with pytest.raises(Refusal, match="cannot be queried with this client_encoding") as refused:
        codec(encoding)
    assert (refused.value.sqlstate, refused.value.hint) == ("0A000", "SET client_encoding = 'UTF8';")


def test_a_character_without_a_place_is_refused_in_postgresqls_words() -> None:
    with pytest.raises(Refusal) as refused:
        converted([b"{ok}", "{€}".encode()], "LATIN1")
    assert refused.value.sqlstate == "22P05"
    assert refused.value.message == (
        'character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in encoding "LATIN1"'
    )


def test_what_the_proxy_reads_is_ascii_in_another_encoding() -> None:
    check_texts("UTF8", ["é"])
    check_texts("LATIN1", ["e", "SELECT 1"])
    with pytest.raises(Refusal, match="only be queried in ASCII"):
        check_texts("LATIN1", ["e", "é"])
