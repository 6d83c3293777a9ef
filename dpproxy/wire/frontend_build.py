"""Front-end messages the proxy itself sends to the facade, as bytes.

Knows: layouts. Must not know: why a message is sent. The counterpart of `frontend`: what is built here decodes there to
the same values (a test says so). A name or a text with a NUL would end early and shift what follows, so it is a
ValueError here: these come from our own planner and from decoded messages, which cannot hold one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from dpproxy.wire.protocol import CANCEL_CODE, INT16, INT32, SSL_CODE, UINT32

FLUSH: Final = b"H\x00\x00\x00\x04"
SYNC: Final = b"S\x00\x00\x00\x04"
TERMINATE: Final = b"X\x00\x00\x00\x04"


def startup(user: str, database: str, params: Mapping[str, str], minor: int = 0) -> bytes:
    """Return a StartupMessage. `params` are run-time settings; `user` and `database` come first."""
    pairs = {"user": user, "database": database, **params}
    text = b"".join(_cstring(name) + _cstring(value) for name, value in pairs.items())
    return _packet(UINT32.pack((3 << 16) | minor) + text + b"\0")


def ssl_request() -> bytes:
    return _packet(UINT32.pack(SSL_CODE))


def cancel_request(pid: int, secret: bytes) -> bytes:
    return _packet(UINT32.pack(CANCEL_CODE) + INT32.pack(pid) + secret)


def password(text: str) -> bytes:
    return _message(b"p", _cstring(text))


def sasl_initial(mechanism: str, data: bytes) -> bytes:
    return _message(b"p", _cstring(mechanism) + INT32.pack(len(data)) + data)


def sasl_response(data: bytes) -> bytes:
    return _message(b"p", data)


def query(sql: str) -> bytes:
    return _message(b"Q", _cstring(sql))


def parse(name: str, sql: str, oids: Sequence[int] = ()) -> bytes:
    """Return a Parse message. `oids` are the types of the first parameters; 0 leaves one to be inferred."""
    return _message(b"P", _cstring(name) + _cstring(sql) + INT16.pack(len(oids)) + struct.pack(f"!{len(oids)}I", *oids))


def bind(
    portal: str,
    statement: str,
    values: Sequence[bytes | None],
    formats: Sequence[int] = (),
    result_formats: Sequence[int] = (),
) -> bytes:
    """Return a Bind message. Formats: none (all text), one for all, or one for each value; 0 is text, 1 binary."""
    parts = [_cstring(portal), _cstring(statement), _int16s(formats), INT16.pack(len(values))]
    for value in values:
        parts.append(_NULL if value is None else INT32.pack(len(value)) + value)
    parts.append(_int16s(result_formats))
    return _message(b"B", b"".join(parts))


_NULL: Final = INT32.pack(-1)


def describe(kind: Literal["S", "P"], name: str) -> bytes:
    return _message(b"D", kind.encode() + _cstring(name))


def execute(portal: str, limit: int = 0) -> bytes:
    """Return an Execute message. `limit` 0 means all rows."""
    return _message(b"E", _cstring(portal) + INT32.pack(limit))


def close(kind: Literal["S", "P"], name: str) -> bytes:
    return _message(b"C", kind.encode() + _cstring(name))


def copy_fail(text: str) -> bytes:
    return _message(b"f", _cstring(text))


def flush() -> bytes:
    return FLUSH


def sync() -> bytes:
    return SYNC


def terminate() -> bytes:
    return TERMINATE


def _message(tag: bytes, payload: bytes) -> bytes:
    return tag + INT32.pack(len(payload) + 4) + payload


def _packet(payload: bytes) -> bytes:
    return INT32.pack(len(payload) + 4) + payload


def _cstring(text: str) -> bytes:
    if "\0" in text:
        raise ValueError("a string of the protocol cannot hold NUL")
    return text.encode() + b"\0"


def _int16s(values: Sequence[int]) -> bytes:
    return INT16.pack(len(values)) + struct.pack(f"!{len(values)}H", *values)
