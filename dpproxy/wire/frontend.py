"""Messages a client sends, as frozen values, and the way from a frame to one.

Knows: the layout of each front-end message. Must not know: what a statement means, in which order messages may come,
how frames were cut out of the stream (`framing`). A decoder reads its payload to the last byte: what is left over is
an error, since two readers that disagree about the end of a message are how requests are smuggled.

Names and SQL are `str`, decoded as strict UTF-8. A value of Bind stays bytes: its meaning depends on types only the
server knows. An unknown tag is a value too (`Unknown`): whether to refuse it is the session's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, PROTOCOL_VIOLATION
from dpproxy.wire.protocol import CANCEL_CODE, GSSENC_CODE, MAJOR, SSL_CODE, Frame, ProtocolError, Reader, decode_text

MAX_CANCEL_SECRET: Final = 256
"""Bytes of a cancel key in protocol 3.2; 3.0 has always 4."""


@dataclass(frozen=True, slots=True)
class Startup:
    """Opens a connection. `params` holds `user`, `database`, run-time settings and `_pq_.` options; of a repeated name the last
    counts."""

    major: int
    minor: int
    params: dict[str, str]


@dataclass(frozen=True, slots=True)
class SSLRequest:
    pass


@dataclass(frozen=True, slots=True)
class GSSENCRequest:
    pass


@dataclass(frozen=True, slots=True)
class CancelRequest:
    pid: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class Password:
    """A password in clear text; it is decoded only to be refused, since the proxy asks for SCRAM."""

    data: bytes

    def __repr__(self) -> str:
        return "Password(...)"


@dataclass(frozen=True, slots=True)
class SASLInitialResponse:
    mechanism: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class SASLResponse:
    data: bytes


@dataclass(frozen=True, slots=True)
class Query:
    sql: str


@dataclass(frozen=True, slots=True)
class Parse:
    name: str
    sql: str
    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Binds values to a statement. `formats` and `result_formats` hold 0 (text) or 1 (binary): none, one for all, or one for
    each."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """Asks what a statement or portal is like. `kind`: S for a prepared statement, P for a portal."""

    kind: Literal["S", "P"]
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Runs a portal. `limit` is the number of rows wanted; zero or less means all."""

    portal: str
    limit: int


@dataclass(frozen=True, slots=True)
class Close:
    kind: Literal["S", "P"]
    name: str


@dataclass(frozen=True, slots=True)
class Flush:
    pass


@dataclass(frozen=True, slots=True)
class Sync:
    pass


@dataclass(frozen=True, slots=True)
class Terminate:
    pass


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Calls a function by message. Its arguments are never read: the message is refused whole."""


@dataclass(frozen=True, slots=True)
class CopyData:
    data: bytes


@dataclass(frozen=True, slots=True)
class CopyDone:
    pass


@dataclass(frozen=True, slots=True)
class CopyFail:
    message: str


@dataclass(frozen=True, slots=True)
class Unknown:
    tag: bytes


StartupMessage = Startup | SSLRequest | GSSENCRequest | CancelRequest
AuthMessage = Password | SASLInitialResponse | SASLResponse
FrontendMessage = (
    Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Flush
    | Sync
    | Terminate
    | FunctionCall
    | CopyData
    | CopyDone
    | CopyFail
    | AuthMessage
    | Unknown
)


def decode_startup(frame: Frame) -> StartupMessage:
    """Decode the packet that opens a connection. Raises a fatal ProtocolError."""
    try:
        return _startup(Reader(frame.payload))
    except ProtocolError as error:
        raise ProtocolError(error.sqlstate, error.message, fatal=True) from None


def _startup(reader: Reader) -> StartupMessage:
    code = reader.uint32()
    if code == SSL_CODE:
        reader.end()
        return SSLRequest()
    if code == GSSENC_CODE:
        reader.end()
        return GSSENCRequest()
    if code == CANCEL_CODE:
        pid, secret = reader.int32(), reader.rest()
        if not 4 <= len(secret) <= MAX_CANCEL_SECRET:
            raise ProtocolError(PROTOCOL_VIOLATION, "invalid length of cancel request packet")
        return CancelRequest(pid, secret)
    major, minor = code >> 16, code & 0xFFFF
    if major != MAJOR:
        text = f"unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2"
        raise ProtocolError(FEATURE_NOT_SUPPORTED, text)
    return Startup(major, minor, _startup_params(reader))


def _startup_params(reader: Reader) -> dict[str, str]:
    params: dict[str, str] = {}
    while name := reader.text():
        params[name] = reader.text()
    reader.end()
    return params


def decode_frontend(frame: Frame) -> FrontendMessage:
    """Decode a message after start-up. Raises a ProtocolError that is not fatal.

    Tag `p` is decoded as a clear-text Password: which of the three messages it is only the state of the
    authentication tells, so that the session calls `decode_sasl_initial` or `decode_sasl_response` instead.
    """
    decode = _DECODERS.get(frame.tag)
    if decode is None:
        return Unknown(frame.tag)
    reader = Reader(frame.payload)
    message = decode(reader)
    reader.end()
    return message


def decode_sasl_initial(frame: Frame) -> SASLInitialResponse:
    """Decode the first answer of a SASL login. Raises ProtocolError, also when the frame is no answer to an authentication
    request."""
    _expect_auth(frame)
    reader = Reader(frame.payload)
    message = SASLInitialResponse(reader.text(), reader.value())
    reader.end()
    return message


def decode_sasl_response(frame: Frame) -> SASLResponse:
    """Decode a further answer of a SASL login. Raises ProtocolError when the frame is no answer to an authentication request."""
    _expect_auth(frame)
    return SASLResponse(frame.payload)


def _expect_auth(frame: Frame) -> None:
    if frame.tag != b"p":
        text = f"expected SASL response, got message type {ord(frame.tag or b'?')}"
        raise ProtocolError(PROTOCOL_VIOLATION, text, fatal=True)


def peek_bind(buffer: bytes, start: int) -> tuple[str, str]:
    """Return portal and statement of the Bind message that begins at `start`, without reading its values.

    For the relay's fast path: the facade reads the rest. Raises ProtocolError.
    """
    reader = Reader(buffer, start + 5)
    return reader.name(), reader.name()


def peek_name(buffer: bytes, start: int) -> str:
    """Return the first string of the message at `start`: Parse's statement, Execute's portal. Raises ProtocolError."""
    return Reader(buffer, start + 5).name()


def _parse(reader: Reader) -> Parse:
    return Parse(reader.name(), reader.text(), reader.uint32s(reader.int16()))


def _bind(reader: Reader) -> Bind:
    portal, statement = reader.name(), reader.name()
    formats = _formats(reader)
    values = tuple([reader.value() for _ in range(reader.int16())])
    if len(formats) > 1 and len(formats) != len(values):
        text = f"bind message has {len(formats)} parameter formats but {len(values)} parameters"
        raise ProtocolError(PROTOCOL_VIOLATION, text)
    return Bind(portal, statement, formats, values, _formats(reader))


def _formats(reader: Reader) -> tuple[int, ...]:
    formats = reader.int16s(reader.int16())
    for code in formats:
        if code > 1:
            raise ProtocolError(INVALID_PARAMETER_VALUE, f"unsupported format code: {code}")
    return formats


def _describe(reader: Reader) -> Describe:
    return Describe(_kind(reader, "DESCRIBE"), reader.name())


def _close(reader: Reader) -> Close:
    return Close(_kind(reader, "CLOSE"), reader.name())


def _kind(reader: Reader, message: str) -> Literal["S", "P"]:
    kind = reader.take(1)
    if kind == b"S":
        return "S"
    if kind == b"P":
        return "P"
    raise ProtocolError(PROTOCOL_VIOLATION, f"invalid {message} message subtype {kind[0]}")


def _function_call(reader: Reader) -> FunctionCall:
    reader.rest()
    return FunctionCall()


def _terminate(reader: Reader) -> Terminate:
    reader.rest()  # PostgreSQL lets it carry anything
    return Terminate()


_DECODERS: Final[dict[bytes, Callable[[Reader], FrontendMessage]]] = {
    b"Q": lambda reader: Query(reader.text()),
    b"P": _parse,
    b"B": _bind,
    b"D": _describe,
    b"E": lambda reader: Execute(reader.name(), reader.int32()),
    b"C": _close,
    b"H": lambda reader: Flush(),
    b"S": lambda reader: Sync(),
    b"X": _terminate,
    b"F": _function_call,
    b"d": lambda reader: CopyData(reader.rest()),
    b"c": lambda reader: CopyDone(),
    b"f": lambda reader: CopyFail(reader.text()),
    b"p": lambda reader: Password(reader.rest()),
}

__all__ = [
    "AuthMessage",
    "Bind",
    "CancelRequest",
    "Close",
    "CopyData",
    "CopyDone",
    "CopyFail",
    "Describe",
    "Execute",
    "Flush",
    "FrontendMessage",
    "FunctionCall",
    "GSSENCRequest",
    "Parse",
    "Password",
    "Query",
    "SASLInitialResponse",
    "SASLResponse",
    "SSLRequest",
    "Startup",
    "StartupMessage",
    "Sync",
    "Terminate",
    "Unknown",
    "decode_frontend",
    "decode_sasl_initial",
    "decode_sasl_response",
    "decode_startup",
    "decode_text",
    "peek_bind",
    "peek_name",
]
