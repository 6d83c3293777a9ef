"""The proxy as a client of the facade: where to connect, and how to answer when a password is asked for.

Knows: endpoints, authentication requests. Must not know: statements. The embedded facade asks for none; a remote one for
SCRAM-SHA-256, which is all that is answered: a password is never sent in the clear.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, cast

import scramp

from dpproxy.errors import PROTOCOL_VIOLATION
from dpproxy.facade.cluster import Endpoint
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_authentication
from dpproxy.wire.protocol import ProtocolError

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
