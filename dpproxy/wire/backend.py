"""Messages a server sends: bytes out of values for those the proxy speaks itself, values out of bytes for those it
reads in the facade's stream.

Knows: the layout of each back-end message. Must not know: where a value came from. There is no function here from
`Exact` to bytes, and none may be written: rows built here hold released values, policy and ledger entries only.

Builders return one whole message, so that concatenation is always a valid stream. Decoders take a payload (what
follows tag and length) and raise ProtocolError when it is not what its tag claims; the facade is trusted to mean well,
not to be of a version we know.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dpproxy.errors import PROTOCOL_VIOLATION
from dpproxy.wire.protocol import INT16, INT32, ProtocolError, Reader

_FIELD: Final = struct.Struct("!IhIhih")
"""Table OID, attribute number, type OID, type length, type modifier, format of a RowDescription's column."""

Status = Literal["I", "T", "E"]
"""Idle, in a transaction, in a failed transaction."""
Severity = Literal["ERROR", "FATAL", "PANIC", "WARNING", "NOTICE", "DEBUG", "INFO", "LOG"]


@dataclass(frozen=True, slots=True)
class Field:
    """Describes a column of a RowDescription. `table` and `attnum` are 0 where it is not a column of a table."""

    name: str
    type: int
    table: int = 0
    attnum: int = 0
    size: int = -1
    modifier: int = -1
    format: int = 0


@dataclass(frozen=True, slots=True)
class Authentication:
    """Asks for, or confirms, a login. `code`: 0 ok, 3 clear text, 5 md5 (data: salt), 10 SASL (mechanisms), 11 SASL continue, 12
    SASL final."""

    code: int
    data: bytes
    mechanisms: tuple[str, ...] = ()


def message(tag: bytes, payload: bytes = b"") -> bytes:
    return tag + INT32.pack(len(payload) + 4) + payload


def cstring(text: str) -> bytes:
    """Return a text as a NUL-terminated string. A NUL inside would end it early and shift all that follows: it is replaced."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace") + b"\0"


# Builders: authentication and start-up


def authentication_ok() -> bytes:
    return message(b"R", INT32.pack(0))


def authentication_sasl(mechanisms: Sequence[str]) -> bytes:
    return message(b"R", INT32.pack(10) + b"".join(map(cstring, mechanisms)) + b"\0")


def authentication_sasl_continue(data: bytes) -> bytes:
    return message(b"R", INT32.pack(11) + data)


def authentication_sasl_final(data: bytes) -> bytes:
    return message(b"R", INT32.pack(12) + data)


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", cstring(name) + cstring(value))


def backend_key_data(pid: int, secret: bytes) -> bytes:
    """Return the message with the key for cancel requests. Raises ValueError unless `secret` has 4 to 256 bytes; clients of
    protocol 3.0 understand 4 bytes only."""
    if not 4 <= len(secret) <= 256:
        raise ValueError("a cancel key has 4 to 256 bytes")
    return message(b"K", INT32.pack(pid) + secret)


def negotiate_protocol_version(minor: int, unknown: Sequence[str]) -> bytes:
    """Return the message that says what the server does not speak. `minor`: the newest minor version it speaks; `unknown`: the
    `_pq_.` options it does not know."""
    head = INT32.pack((3 << 16) | minor) + INT32.pack(len(unknown))
    return message(b"v", head + b"".join(map(cstring, unknown)))


def ready_for_query(status: Status) -> bytes:
    return message(b"Z", status.encode())


# Builders: errors


def error_response(
    severity: Severity,
    sqlstate: str,
    text: str,
    detail: str | None = None,
    hint: str | None = None,
    position: int | None = None,
) -> bytes:
    """Return an ErrorResponse. `position` is 1-based and counts characters of the statement."""
    return message(b"E", _report(severity, sqlstate, text, detail, hint, position))


def notice_response(severity: Severity, sqlstate: str, text: str, detail: str | None = None, hint: str | None = None) -> bytes:
    return message(b"N", _report(severity, sqlstate, text, detail, hint, None))


def _report(severity: str, sqlstate: str, text: str, detail: str | None, hint: str | None, position: int | None) -> bytes:
    fields = {"S": severity, "V": severity, "C": sqlstate, "M": text, "D": detail, "H": hint}
    if position is not None:
        fields["P"] = str(position)
    return b"".join(code.encode() + cstring(value) for code, value in fields.items() if value is not None) + b"\0"


# Builders: extended query and rows


def parse_complete() -> bytes:
    return message(b"1")


def bind_complete() -> bytes:
    return message(b"2")


def close_complete() -> bytes:
    return message(b"3")


def no_data() -> bytes:
    return message(b"n")


def portal_suspended() -> bytes:
    return message(b"s")


def empty_query_response() -> bytes:
    return message(b"I")


def command_complete(tag: str) -> bytes:
    return message(b"C", cstring(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", INT16.pack(len(oids)) + struct.pack(f"!{len(oids)}I", *oids))


def row_description(fields: Sequence[Field]) -> bytes:
    return message(b"T", INT16.pack(len(fields)) + b"".join(map(_field, fields)))


def _field(field: Field) -> bytes:
    numbers = _FIELD.pack(field.table, field.attnum, field.type, field.size, field.modifier, field.format)
    return cstring(field.name) + numbers


def data_row(values: Sequence[bytes | None]) -> bytes:
    return message(b"D", INT16.pack(len(values)) + b"".join(map(_value, values)))


def _value(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else INT32.pack(len(value)) + value


def text_rows(rows: Iterable[Sequence[str | None]]) -> bytes:
    """Return DataRow messages of values in text format."""
    return b"".join(data_row([None if cell is None else cell.encode() for cell in row]) for row in rows)


# Decoders


def read_report(payload: bytes) -> Mapping[str, str]:
    """Return the fields of an ErrorResponse or NoticeResponse by their one-letter codes (C SQLSTATE, M message, P position)."""
    reader = Reader(payload)
    fields: dict[str, str] = {}
    while (code := reader.take(1)) != b"\0":
        fields[code.decode("latin-1")] = reader.text()
    reader.end()
    return fields


def read_row_description(payload: bytes) -> tuple[Field, ...]:
    reader = Reader(payload)
    fields = tuple([_read_field(reader) for _ in range(reader.int16())])
    reader.end()
    return fields


def _read_field(reader: Reader) -> Field:
    name = reader.text()
    table, attnum, oid, size, modifier, code = _FIELD.unpack(reader.take(_FIELD.size))
    return Field(name, oid, table, attnum, size, modifier, code)


def read_parameter_description(payload: bytes) -> tuple[int, ...]:
    reader = Reader(payload)
    oids = reader.uint32s(reader.int16())
    reader.end()
    return oids


def read_data_row(payload: bytes) -> tuple[bytes | None, ...]:
    reader = Reader(payload)
    values = tuple([reader.value() for _ in range(reader.int16())])
    reader.end()
    return values


def read_ready_for_query(payload: bytes) -> Status:
    for status in _STATUSES:
        if payload == status.encode():
            return status
    raise ProtocolError(PROTOCOL_VIOLATION, "invalid transaction status")


_STATUSES: Final[tuple[Status, ...]] = ("I", "T", "E")


def read_command_complete(payload: bytes) -> str:
    reader = Reader(payload)
    tag = reader.text()
    reader.end()
    return tag


def read_parameter_status(payload: bytes) -> tuple[str, str]:
    reader = Reader(payload)
    pair = reader.text(), reader.text()
    reader.end()
    return pair


def read_backend_key_data(payload: bytes) -> tuple[int, bytes]:
    reader = Reader(payload)
    return reader.int32(), reader.rest()


def read_authentication(payload: bytes) -> Authentication:
    reader = Reader(payload)
    code = reader.int32()
    if code != 10:
        return Authentication(code, reader.rest())
    mechanisms: list[str] = []
    while mechanism := reader.text():
        mechanisms.append(mechanism)
    reader.end()
    return Authentication(code, b"", tuple(mechanisms))


def read_negotiate_protocol_version(payload: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the newest minor version of the server and the options it does not know."""
    reader = Reader(payload)
    version = reader.uint32()
    unknown = tuple([reader.text() for _ in range(min(reader.uint32(), len(payload)))])
    reader.end()
    return version & 0xFFFF, unknown
