"""SCRAM-SHA-256 on the server's side (RFC 5802, RFC 7677), as a state machine over bytes.

Knows: verifiers (what a server may store), nonces, channel binding data. Must not know: passwords after a verifier was
made, sockets, policies. The cryptography is scramp's; this file adds what PostgreSQL's dialect of SCRAM needs:

- The user is the one of the start-up packet. libpq leaves the name in the SCRAM message empty, others repeat it, and
  PostgreSQL ignores it; so does this, by handing scramp a fixed name and restoring the message as it was sent, since
  the proof is computed over the bytes that travelled.
- An unknown user goes through the same steps: the salt is derived from whom was asked for and a secret that lasts, hence
  the same at each attempt, as a real one is; the proof is compared by the same code; the failure has the same wording.
  Both kinds of verifier are made for both kinds of user, so that the same is computed for each. Whatever a verifier
  shows before the proof (`Shape`) is that of a known user's, or it would tell who exists.
- Failure is an ErrorResponse (28P01), not SCRAM's own `e=` attribute, as from PostgreSQL.
- Channel binding is `tls-server-end-point`. A client that says `y` ("I could, you cannot") while SCRAM-SHA-256-PLUS
  was offered has been lied to by somebody in the middle: refused. `p` belongs to -PLUS only.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar

import scramp
from scramp.utils import ScramException

from dpproxy.errors import INVALID_AUTHORIZATION, INVALID_PASSWORD, PROTOCOL_VIOLATION
from dpproxy.wire.protocol import ProtocolError

PLAIN: Final = "SCRAM-SHA-256"
PLUS: Final = "SCRAM-SHA-256-PLUS"
ITERATIONS: Final = 4096
"""PostgreSQL's default (`scram_iterations`) and RFC 7677's minimum."""
_NOBODYS: Final = f"SCRAM-SHA-256${ITERATIONS}:{'A' * 22}==${'A' * 43}=:{'A' * 43}="
"""A verifier that is read, and not used, for users who do not exist."""
_SALT_BYTES: Final = 16
"""PostgreSQL's SCRAM_DEFAULT_SALT_LEN."""
Shape = tuple[int, int]
"""What a verifier shows to whoever asks: its iterations, and the bytes of its salt."""
USUAL: Final[Mapping[Shape, int]] = {(ITERATIONS, 32): 1}
"""The shape of what `dpproxy policy password` makes, for a policy without users."""
_VERIFIER: Final = re.compile(r"SCRAM-SHA-256\$(\d{1,8}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_BARE: Final = re.compile(r"n=[^,]*,(r=.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Verifier:
    """Proves a password without holding it."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def parse_verifier(text: str) -> Verifier:
    """Parse PostgreSQL's form, `SCRAM-SHA-256$iterations:salt$stored:server`. Raises ValueError, which quotes nothing."""
    match = _VERIFIER.fullmatch(text)
    if match is None:
        raise ValueError("not a SCRAM-SHA-256 verifier")
    try:
        salt, stored, server = (base64.b64decode(part, validate=True) for part in match.groups()[1:])
    except binascii.Error:
        raise ValueError("not a SCRAM-SHA-256 verifier: invalid base64") from None
    iterations = int(match[1])
    if not ITERATIONS <= iterations <= 10_000_000:  # the upper bound is scramp's
        raise ValueError(f"a SCRAM-SHA-256 verifier has {ITERATIONS} to 10000000 iterations")
    if len(salt) < 12 or len(stored) != 32 or len(server) != 32:
        raise ValueError("not a SCRAM-SHA-256 verifier: wrong length of salt or key")
    return Verifier(iterations, salt, stored, server)


def make_verifier(password: str, iterations: int = ITERATIONS, salt: bytes | None = None) -> str:
    """Return the verifier of a password. Raises ValueError for a password that SASLprep forbids, or of which it leaves
    nothing."""
    chosen = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    if not password:
        raise ValueError("the password is empty")
    try:
        mechanism = scramp.ScramMechanism(PLAIN)
        salt, stored, server, count = mechanism.make_auth_info(password, iteration_count=iterations, salt=chosen)
    except ScramException as error:
        raise ValueError(str(error)) from None
    texts = [base64.b64encode(part).decode() for part in (salt, stored, server)]
    return f"{PLAIN}${count}:{texts[0]}${texts[1]}:{texts[2]}"


def mock_verifier(name: bytes, secret: bytes, shapes: Mapping[Shape, int] = USUAL) -> Verifier:
    """Return a verifier for somebody who does not exist: the same for the same name and secret, and no password fits it (its keys
    are no password's).

    `shapes`: of the verifiers that exist, with the number of each, in which proportion they are drawn.
    """
    salt, stored, server = (hmac.digest(secret, purpose + name, "sha256") for purpose in (b"salt:", b"stored:", b"server:"))
    count, size = drawn({b"%d %d" % shape: (shape, number) for shape, number in shapes.items()}, name, secret)
    return Verifier(count, hashlib.shake_256(salt).digest(size), stored, server)


T = TypeVar("T")


def drawn(choices: Mapping[bytes, tuple[T, int]], name: bytes, secret: bytes) -> T:
    """Draw one of the weighted choices, the same for the same name and secret. When choices come or go, most names keep theirs
    (weighted rendezvous hashing): otherwise a name whose verifier changes its shape when another user comes would be known to be
    nobody's."""

    def score(key: bytes) -> float:
        number = int.from_bytes(hmac.digest(secret, b"choice:" + key + b":" + name, "sha256")[:8])
        return -math.log((number + 1) / (2**64 + 1)) / choices[key][1]

    return choices[min(choices, key=score)][0]


class _Step(Enum):
    FIRST = 1
    FINAL = 2
    DONE = 3
    FAILED = 4


def offered(bound: bool) -> tuple[str, ...]:
    """Return the mechanisms that AuthenticationSASL offers; `bound`: the server's certificate binds a login."""
    return (PLUS, PLAIN) if bound else (PLAIN,)


class ScramServer:
    """Checks one login. `first` is called, then `final`, each at most once; any ProtocolError ends the login and is fatal for the
    connection.

    `verifier` None: the user does not exist, and `mock` stands for it. `channel_binding`: the hash of the server's
    certificate when the connection is under TLS, else None.
    Raises ValueError when the verifier is malformed: the policy has checked it before.
    """

    def __init__(
        self,
        verifier: str | None,
        *,
        user: str,
        mock: Verifier,
        channel_binding: bytes | None = None,
        nonce: str | None = None,
    ) -> None:
        self._user = user
        self._known = verifier is not None
        read = parse_verifier(_NOBODYS if verifier is None else verifier)
        self._verifier = read if self._known else mock
        self._binding = None if channel_binding is None else ("tls-server-end-point", channel_binding)
        self._nonce = secrets.token_urlsafe(24) if nonce is None else nonce
        self._step = _Step.FIRST
        self._server: Any = None

    @property
    def done(self) -> bool:
        return self._step is _Step.DONE

    def first(self, mechanism: str, data: bytes | None) -> bytes:
        """Answer the client's first message with the server's first. Raises ProtocolError."""
        self._enter(_Step.FIRST)
        if mechanism not in offered(self._binding is not None):
            raise _violation("client selected an invalid SASL authentication mechanism")
        text = _text(data)
        header, bare = _split_first(text)
        self._check_binding_flag(mechanism, header)
        self._server = self._make_server(mechanism)
        try:
            self._server.set_client_first(f"{header}n=user,{bare}")
            self._server.client_first_bare = text[len(header) :]  # the proof is over what was sent
            answer: str = self._server.get_server_first()
        except ScramException:
            raise _violation("malformed SCRAM message") from None
        self._step = _Step.FINAL
        return answer.encode()

    def final(self, data: bytes) -> bytes:
        """Answer the client's proof with the server's. Raises ProtocolError 28P01 when the proof is wrong, or the user
        unknown."""
        self._enter(_Step.FINAL)
        try:
            self._server.set_client_final(_text(data))
            answer: str = self._server.get_server_final()
        except ScramException as error:
            raise self._failure(error) from None
        if not self._known:
            raise self._wrong_password()
        self._step = _Step.DONE
        return answer.encode()

    def _enter(self, step: _Step) -> None:
        current, self._step = self._step, _Step.FAILED
        if current is not step:
            raise _violation("unexpected SASL response")

    def _make_server(self, mechanism: str) -> Any:
        found = self._verifier
        info = (found.salt, found.stored_key, found.server_key, found.iterations)
        return scramp.ScramMechanism(mechanism).make_server(
            lambda _user: info, channel_binding=self._binding, s_nonce=self._nonce
        )

    def _check_binding_flag(self, mechanism: str, header: str) -> None:
        flag = header[0]
        if flag == "y" and self._binding is not None:
            text = "SCRAM channel binding negotiation error"
            raise ProtocolError(INVALID_AUTHORIZATION, text, fatal=True)
        if (flag == "p") is not (mechanism == PLUS):
            raise _violation("malformed SCRAM message")

    def _failure(self, error: ScramException) -> ProtocolError:
        reason = getattr(error.server_error, "value", "")
        if reason == "channel-bindings-dont-match":
            return ProtocolError(INVALID_AUTHORIZATION, "SCRAM channel binding check failed", fatal=True)
        if reason == "invalid-proof":
            return self._wrong_password()
        return _violation("malformed SCRAM message")

    def _wrong_password(self) -> ProtocolError:
        text = f'password authentication failed for user "{self._user}"'
        return ProtocolError(INVALID_PASSWORD, text, fatal=True)


def _violation(text: str) -> ProtocolError:
    return ProtocolError(PROTOCOL_VIOLATION, text, fatal=True)


def _text(data: bytes | None) -> str:
    """SCRAM messages are UTF-8 without NUL."""
    if not data or b"\0" in data:
        raise _violation("malformed SCRAM message")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _violation("malformed SCRAM message") from None


def _split_first(text: str) -> tuple[str, str]:
    """The GS2 header (`n,,`, `y,,` or `p=...,,`) and what follows the user name (`r=nonce...`)."""
    flag, first, rest = text.partition(",")
    identity, second, bare = rest.partition(",")
    match = _BARE.fullmatch(bare)
    if not flag or not first or not second or identity or match is None:
        raise _violation("malformed SCRAM message")
    return f"{flag},,", match[1]
