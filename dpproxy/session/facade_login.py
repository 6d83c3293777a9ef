"""The proxy as a client of the facade: where to connect, and how to answer when a password is asked for.

Knows: endpoints, authentication requests. Must not know: statements. The embedded facade asks for none; a remote one for
SCRAM-SHA-256, which is all that is answered: a password is never sent in the clear.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import scramp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_AUTHORIZATION, PROTOCOL_VIOLATION
from dpproxy.facade.cluster import Endpoint
from dpproxy.session.link import FacadeLink, LinkLost, Peer
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_authentication
from dpproxy.wire.frontend import Startup
from dpproxy.wire.protocol import MINOR, ProtocolError

SCRAM = "SCRAM-SHA-256"


async def open_link(endpoint: Endpoint, link: asyncio.Protocol) -> asyncio.BaseTransport:
    """Open a connection to the facade. Raises OSError."""
    loop = asyncio.get_running_loop()
    if endpoint.path is not None:
        transport, _ = await loop.create_unix_connection(lambda: link, endpoint.path)
        return transport
    remote, _ = await loop.create_connection(lambda: link, endpoint.host, endpoint.port)
    return remote


class _Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def cancel_at(endpoint: Callable[[], Endpoint], key: tuple[int, bytes], timeout: float) -> None:
    """Returns when PostgreSQL closes the connection, which it does once its signal is sent; or when it cannot be told."""
    heard = _Heard()
    with contextlib.suppress(OSError, TimeoutError):
        transport = cast("asyncio.Transport", await open_link(endpoint(), heard))
        try:
            transport.write(front.cancel_request(*key))
            async with asyncio.timeout(timeout):
                await heard.closed
        finally:
            transport.close()


class FacadeLogin:
    """Answers the facade's authentication requests, one after the other."""

    def __init__(self, user: str, password: str | None) -> None:
        self._user = user
        self._password = password
        self._client: Any = None

    def answer(self, payload: bytes) -> bytes:
        """Return what to send; nothing when the facade is content. Raises ProtocolError, also when the server is an impostor."""
        request = read_authentication(payload)
        try:
            if request.code == 10 and self._password is not None and SCRAM in request.mechanisms:
                self._client = scramp.ScramClient([SCRAM], self._user, self._password)
                return front.sasl_initial(SCRAM, self._client.get_client_first().encode())
            if request.code == 11 and self._client is not None:
                self._client.set_server_first(request.data.decode())
                return front.sasl_response(self._client.get_client_final().encode())
            if request.code == 12 and self._client is not None:
                self._client.set_server_final(request.data.decode())
                return b""
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise ProtocolError(PROTOCOL_VIOLATION, "the facade's login failed", fatal=True) from error
        if request.code == 0:
            return b""
        raise ProtocolError(PROTOCOL_VIOLATION, "the facade asks for a login that is not supported", fatal=True)


# A session's first words with the facade: a connection that may have to be tried again, start-up, the greeting passed on.
#
# Knows: start-up messages, a facade that is being restarted. Must not know: statements, who the client is. The client hears the
# facade's own greeting, with a cancel key of the proxy's.


AGAIN = 0.1  # seconds until a facade that does not answer is tried again

Key = tuple[int, bytes]
"""Process and secret, for cancel requests."""

SECRET_BYTES = {0: 4, 2: 32}  # of a cancel key, by minor version of the protocol


def new_secret(minor: int) -> bytes:
    """Return a secret for the key of a client that speaks this minor version."""
    return secrets.token_bytes(SECRET_BYTES.get(minor, 4))


class Entrant(Peer, Protocol):
    """A session that has no connection to the facade yet. `key` is the one sent to its client."""

    link: FacadeLink
    key: Key


async def enter(entrant: Entrant, endpoint: Callable[[], Endpoint], role: str, database: str, settings: dict[str, str]) -> Key:
    """Connect, again and again while the facade is being restarted, and return the facade's key. Raises LinkLost."""
    while True:
        try:
            facade = endpoint()
            await open_link(facade, entrant.link)
            entrant.link.write(front.startup(role, database, settings))
            return await _greet(entrant, FacadeLogin(role, facade.password))
        except OSError:
            pass
        except LinkLost:
            if not entrant.link.too_early:
                raise
            entrant.link = FacadeLink(entrant)
        await asyncio.sleep(AGAIN)


async def _greet(entrant: Entrant, login: FacadeLogin) -> Key:
    """Start-up on the facade. Raises LinkLost when it refused: the client has heard its reason. Of a facade that ends meanwhile
    the client has heard nothing."""
    key, greeting = (0, b""), list[bytes]()
    while True:
        tag, raw = await entrant.link.read()
        if tag == b"R":
            entrant.link.write(login.answer(raw[5:]))
        elif tag == b"K":
            key = back.read_backend_key_data(raw[5:])
            greeting.append(back.backend_key_data(*entrant.key))
        elif tag == b"N":
            greeting.append(raw)
        elif tag == b"Z":
            entrant.link.begin()
            entrant.tell(b"".join((*greeting, raw)))
            return key


# What a start-up packet asks for: who wants to be let into which dataset, with which settings.
#
# Knows: start-up parameters and versions of the protocol. Must not know: users, passwords, sockets. The listening side reads it
# before anybody is known; the session that is opened passes its settings on to the facade. Pure.


ENCODINGS = frozenset(("utf8", "unicode", "sqlascii"))
"""Client encodings in which the proxy's own bytes (UTF-8) are right, without punctuation. In another a session is relayed, as
it is after a SET, and statements over private tables are refused; which these are, the names of the tables must say in ASCII."""


@dataclass(frozen=True)
class Origin:
    """Where a session comes from. `address`: empty for a unix socket; `since`: seconds since 1970."""

    address: str = ""
    tls: bool = False
    since: float = 0.0


NOWHERE = Origin()


@dataclass(frozen=True)
class Greeting:
    """What a start-up packet asks for. `settings` go on to the facade. `minor`: of the protocol, as agreed, `newer`: the
    client asked for more. `unknown`: options the client must hear of."""

    user: str
    database: str
    settings: Mapping[str, str]
    minor: int
    newer: bool
    unknown: tuple[str, ...]

    @property
    def foreign(self) -> str | None:
        """Return the client's encoding, where it is not one of ENCODINGS."""
        encoding = self.settings.get("client_encoding", "UTF8")
        return None if "".join(c for c in encoding.lower() if c.isalnum()) in ENCODINGS else encoding

    @property
    def negotiation(self) -> bytes:
        """Return NegotiateProtocolVersion where the client asked for more than there is, else nothing."""
        return back.negotiate_protocol_version(self.minor, self.unknown) if self.newer or self.unknown else b""


def greet(startup: Startup) -> Greeting:
    """Raises a fatal ProtocolError for what cannot be served."""
    params = dict(startup.params)
    user = params.pop("user", "")
    if not user:
        raise _fatal(INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet")
    database = params.pop("database", "") or user
    if params.pop("replication", "off").lower() not in ("off", "false", "no", "0"):
        raise _fatal(FEATURE_NOT_SUPPORTED, "replication connections are not supported")
    unknown = tuple(name for name in params if name.startswith("_pq_."))
    settings = {name: value for name, value in params.items() if not name.startswith("_pq_.")}
    return Greeting(user, database, settings, min(startup.minor, MINOR), startup.minor > MINOR, unknown)


def _fatal(sqlstate: str, text: str) -> ProtocolError:
    return ProtocolError(sqlstate, text, fatal=True)
