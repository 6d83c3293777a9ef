"""Back-end messages: pygwire, an independent decoder, reads what we emit; our own decoders read it back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygwire.codec import BackendMessageDecoder, FrontendMessageDecoder
from pygwire.constants import ConnectionPhase

from dpproxy.wire import backend as b
from dpproxy.wire import frontend_build as build
from dpproxy.wire.framing import ProtocolError

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
fields = st.builds(
    b.Field,
    texts,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([0, 1]),
)


def independent(raw: bytes, phase: ConnectionPhase = ConnectionPhase.EXTENDED_QUERY) -> dict[str, Any]:
    """pygwire's reading of exactly one message."""
    decoder = BackendMessageDecoder()
    decoder.phase = phase
    decoder.feed(raw)
    (found,) = list(decoder)
    assert decoder.buffered == 0
    return {"class": type(found).__name__, **asdict(found)}


@given(texts, texts, st.none() | texts, st.none() | texts, st.none() | st.integers(1, 10**6))
def test_error_response(state: str, text: str, detail: str | None, hint: str | None, position: int | None) -> None:
    raw = b.error_response("ERROR", state, text, detail, hint, position)
    expected = {"S": "ERROR", "V": "ERROR", "C": state, "M": text}
    expected |= {} if detail is None else {"D": detail}
    expected |= {} if hint is None else {"H": hint}
    expected |= {} if position is None else {"P": str(position)}
    assert independent(raw) == {"class": "ErrorResponse", "fields": expected}
    assert b.read_report(raw[5:]) == expected


def test_notice_response() -> None:
    raw = b.notice_response("NOTICE", "00000", "charged", hint="see")
    assert independent(raw) == {
        "class": "NoticeResponse",
        "fields": {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": "charged", "H": "see"},
    }


def test_a_nul_or_a_surrogate_in_a_text_cannot_shift_the_stream() -> None:
    raw = b.error_response("ERROR", "42601", "a\0b\ud800", position=3)
    assert b.read_report(raw[5:])["M"] == "a\ufffdb?"
    assert b.read_report(raw[5:])["P"] == "3"


@given(st.lists(fields, max_size=5))
def test_row_description(columns: list[b.Field]) -> None:
    raw = b.row_description(columns)
    assert b.read_row_description(raw[5:]) == tuple(columns)
    found = independent(raw)["fields"]
    assert [(c["name"], c["table_oid"], c["type_oid"], c["format_code"]) for c in found] == [
        (c.name, c.table, c.type, c.format) for c in columns
    ]
    assert [(c["column_attr"], c["type_size"], c["type_modifier"]) for c in found] == [
        (c.attnum, c.size, c.modifier) for c in columns
    ]


@given(st.lists(st.none() | st.binary(max_size=40), max_size=6))
def test_data_row(values: list[bytes | None]) -> None:
    raw = b.data_row(values)
    assert b.read_data_row(raw[5:]) == tuple(values)
    assert independent(raw) == {"class": "DataRow", "columns": values}


def test_text_rows() -> None:
    assert b.text_rows([["a", None], ["é", ""]]) == b.data_row([b"a", None]) + b.data_row([b"\xc3\xa9", b""])


@given(st.lists(st.integers(0, 2**32 - 1), max_size=6))
def test_parameter_description(oids: list[int]) -> None:
    raw = b.parameter_description(oids)
    assert b.read_parameter_description(raw[5:]) == tuple(oids)
    assert independent(raw) == {"class": "ParameterDescription", "type_oids": oids}


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b.parse_complete(), "ParseComplete"),
        (b.bind_complete(), "BindComplete"),
        (b.close_complete(), "CloseComplete"),
        (b.no_data(), "NoData"),
        (b.portal_suspended(), "PortalSuspended"),
        (b.empty_query_response(), "EmptyQueryResponse"),
    ],
)
def test_messages_without_a_body(raw: bytes, name: str) -> None:
    assert independent(raw) == {"class": name}


def test_start_up_messages() -> None:
    assert independent(b.parameter_status("TimeZone", "UTC")) == {
        "class": "ParameterStatus",
        "name": "TimeZone",
        "value": "UTC",
    }
    assert b.read_parameter_status(b"TimeZone\0UTC\0") == ("TimeZone", "UTC")
    key = b.backend_key_data(77, b"abcd")
    assert independent(key, ConnectionPhase.INITIALIZATION) == {
        "class": "BackendKeyData",
        "process_id": 77,
        "secret_key": b"abcd",
    }
    assert b.read_backend_key_data(key[5:]) == (77, b"abcd")
    # the whole version, not the minor alone: byte for byte what PostgreSQL 18 answers to a client of 3.9
    assert b.negotiate_protocol_version(2, ["_pq_.x"]) == b"v\0\0\0\x13\0\3\0\2\0\0\0\1_pq_.x\0"
    assert b.read_negotiate_protocol_version(b"\0\3\0\2\0\0\0\1_pq_.x\0") == (2, ("_pq_.x",))


@pytest.mark.parametrize("size", [3, 257])
def test_a_cancel_key_out_of_bounds_is_not_sent(size: int) -> None:
    with pytest.raises(ValueError, match="cancel key"):
        b.backend_key_data(1, b"x" * size)


@pytest.mark.parametrize("status", ["I", "T", "E"])
def test_ready_for_query(status: Any) -> None:
    raw = b.ready_for_query(status)
    assert str(independent(raw)["status"]) == status
    assert b.read_ready_for_query(raw[5:]) == status


def test_command_complete() -> None:
    raw = b.command_complete("SELECT 3")
    assert independent(raw) == {"class": "CommandComplete", "tag": "SELECT 3"}
    assert b.read_command_complete(raw[5:]) == "SELECT 3"


def test_authentication() -> None:
    phase = ConnectionPhase.AUTHENTICATING
    sasl = b.authentication_sasl(["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"])
    assert independent(sasl, phase)["mechanisms"] == ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]
    assert b.read_authentication(sasl[5:]) == b.Authentication(10, b"", ("SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"))
    more, final = b.authentication_sasl_continue(b"r=x"), b.authentication_sasl_final(b"v=y")
    assert independent(more, phase) == {"class": "AuthenticationSASLContinue", "data": b"r=x"}
    assert independent(final, phase) == {"class": "AuthenticationSASLFinal", "data": b"v=y"}
    assert b.read_authentication(final[5:]) == b.Authentication(12, b"v=y")
    assert independent(b.authentication_ok(), phase)["class"] == "AuthenticationOk"
    assert b.read_authentication(b.authentication_ok()[5:]) == b.Authentication(0, b"")


def test_what_we_send_to_the_facade_is_read_by_others() -> None:
    decoder = FrontendMessageDecoder()
    decoder.feed(build.startup("ada", "shop", {"TimeZone": "UTC"}))
    (startup,) = list(decoder)
    assert startup.params == {"user": "ada", "database": "shop", "TimeZone": "UTC"}
    decoder.phase = ConnectionPhase.READY
    decoder.feed(
        build.parse("s", "select $1", [25])
        + build.bind("p", "s", [b"1", None], [0, 1], [1])
        + build.describe("P", "p")
        + build.execute("p", 7)
        + build.close("S", "s")
        + build.sync()
        + build.flush()
        + build.query("select 2")
        + build.terminate()
    )
    parse, bind, describe, execute, close, sync, flush, query, terminate = list(decoder)
    assert (parse.statement, parse.query, parse.param_types) == ("s", "select $1", [25])
    assert (bind.portal, bind.statement, bind.param_formats) == ("p", "s", [0, 1])
    assert (bind.param_values, bind.result_formats) == ([b"1", None], [1])
    assert (describe.kind, describe.name, execute.portal, execute.max_rows) == ("P", "p", "p", 7)
    assert (close.kind, close.name, query.query_string) == ("S", "s", "select 2")
    assert [type(m).__name__ for m in (sync, flush, terminate)] == ["Sync", "Flush", "Terminate"]


@pytest.mark.parametrize(
    ("read", "payload"),
    [
        (b.read_report, b"Sx"),
        (b.read_report, b"Sx\0"),
        (b.read_report, b"\0x"),
        (b.read_row_description, b"\0\1a\0"),
        (b.read_row_description, b"\0\0x"),
        (b.read_data_row, b"\0\1\0\0\0\5abcd"),
        (b.read_parameter_description, b"\xff\xff"),
        (b.read_ready_for_query, b"X"),
        (b.read_ready_for_query, b""),
        (b.read_command_complete, b"SELECT"),
        (b.read_parameter_status, b"a\0"),
        (b.read_backend_key_data, b"\0"),
        (b.read_authentication, b"\0\0\0\nSCRAM"),
        (b.read_negotiate_protocol_version, b"\0\3\0\2\xff\xff\xff\xff"),
    ],
)
def test_malformed_messages_of_the_facade_are_protocol_errors(read: Any, payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(payload)
