"""What a start-up packet asks for: who wants to be let into which dataset, with which settings.

Knows: start-up parameters and versions of the protocol. Must not know: users, passwords, sockets. The listening side reads it
before anybody is known; the session that is opened passes its settings on to the facade. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_AUTHORIZATION
from dpproxy.wire import backend as back
from dpproxy.wire.frontend import Startup
from dpproxy.wire.protocol import MINOR, ProtocolError

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
