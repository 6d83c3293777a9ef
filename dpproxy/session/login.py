"""From a start-up packet to a known user: what is accepted, what is passed on, how the password is proved.

Knows: start-up parameters, SCRAM's order of messages, a policy's users. Must not know: sockets, the facade. Pure but
for the nonce. Whether a user, a database or a password is wrong must not show: an unknown user goes through the same
exchange against a made-up verifier and fails with the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpproxy.policy.model import Policy, User
from dpproxy.wire import backend as back
from dpproxy.wire.frontend import Startup, decode_sasl_initial, decode_sasl_response
from dpproxy.wire.protocol import (
    FEATURE_NOT_SUPPORTED,
    INVALID_AUTHORIZATION,
    MINOR,
    Frame,
    ProtocolError,
)
from dpproxy.wire.scram import ITERATIONS, ScramServer, parse_verifier

ENCODINGS = frozenset(("utf8", "unicode", "sqlascii"))
"""Client encodings in which the proxy's own bytes (UTF-8) are right, without punctuation. In another a session is relayed, as
it is after a SET, and statements over private tables are refused; which these are, the names of the tables must say in ASCII."""


@dataclass(frozen=True)
class Greeting:
    """`settings` go on to the facade. `minor`: of the protocol, as agreed, `newer`: the client asked for more.
    `unknown`: options the client must hear of."""

    user: str
    database: str
    settings: Mapping[str, str]
    minor: int
    newer: bool
    unknown: tuple[str, ...]

    @property
    def foreign(self) -> str | None:
        """The client's encoding, where it is not one of ENCODINGS."""
        encoding = self.settings.get("client_encoding", "UTF8")
        return None if "".join(c for c in encoding.lower() if c.isalnum()) in ENCODINGS else encoding

    @property
    def negotiation(self) -> bytes:
        """NegotiateProtocolVersion where the client asked for more than there is, else nothing."""
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


def likeness_of(policies: Iterable[Policy]) -> tuple[int, ...]:
    """Iterations of all users' verifiers: those of somebody who is not known must be among them."""
    counts = [parse_verifier(user.password).iterations for policy in policies for user in policy.users.values()]
    return tuple(sorted(counts)) or (ITERATIONS,)


class Login:
    """One SCRAM exchange. `start` is sent first; each answer goes to `answer` until `user` is set.

    `binding`: what the server's certificate binds a login to, under TLS. `likeness`: iterations for who is not known.
    """

    def __init__(
        self,
        greeting: Greeting,
        policy: Policy | None,
        secret: bytes,
        binding: bytes | None = None,
        likeness: Sequence[int] = (ITERATIONS,),
    ) -> None:
        users: Mapping[str, User] = policy.users if policy else {}
        found = users.get(greeting.user)
        verifier = found.password if found else None
        self._scram = ScramServer(verifier, user=greeting.user, secret=secret, channel_binding=binding, iterations=likeness)
        self._found = found
        self._first = True
        self.user: User | None = None

    @property
    def start(self) -> bytes:
        return back.authentication_sasl(self._scram.mechanisms)

    def answer(self, frame: Frame) -> bytes:
        """The server's next message. Raises a fatal ProtocolError."""
        if self._first:
            self._first = False
            initial = decode_sasl_initial(frame)
            return back.authentication_sasl_continue(self._scram.first(initial.mechanism, initial.data))
        final = self._scram.final(decode_sasl_response(frame).data)
        self.user = self._found
        return back.authentication_sasl_final(final) + back.authentication_ok()
