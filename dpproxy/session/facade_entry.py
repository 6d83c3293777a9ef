"""A session's first words with the facade: a connection that may have to be tried again, start-up, the greeting passed on.

Knows: start-up messages, a facade that is being restarted. Must not know: statements, who the client is. The client hears the
facade's own greeting, with a cancel key of the proxy's.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Protocol

from dpproxy.facade.cluster import Endpoint
from dpproxy.session.facade_login import FacadeLogin, open_link
from dpproxy.session.link import FacadeLink, LinkLost, Peer
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front

AGAIN = 0.1  # seconds until a facade that does not answer is tried again

Key = tuple[int, bytes]
"""Process and secret, for cancel requests."""

SECRET_BYTES = {0: 4, 2: 32}  # of a cancel key, by minor version of the protocol


def new_secret(minor: int) -> bytes:
    """Return a secret for the key of a client that speaks this minor version."""
    return secrets.token_bytes(SECRET_BYTES.get(minor, 4))


class Entrant(Peer, Protocol):
    """Is a session that has no connection to the facade yet. `key` is the one its client is told."""

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
    """Start-up on the facade. Raises LinkLost when it refused: the client has heard its reason."""
    key = (0, b"")
    while True:
        tag, raw = await entrant.link.read()
        if tag == b"R":
            entrant.link.write(login.answer(raw[5:]))
        elif tag == b"K":
            key = back.read_backend_key_data(raw[5:])
            entrant.tell(back.backend_key_data(*entrant.key))
        elif tag == b"N":
            entrant.tell(raw)
        elif tag == b"Z":
            entrant.tell(raw)
            return key
