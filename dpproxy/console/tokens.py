"""Who may read what operators read by HTTP: who shows the token, or is on this machine.

Knows: tokens, addresses. Must not know: what is read.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dpproxy.errors import OperatorError
from dpproxy.private_files import write_whole

LEAST_TOKEN: Final = 16
"""Characters: a token is drawn, not thought of."""


class AccessError(OperatorError):
    """Operators' pages could be read by others, or by nobody; the text says why."""


def read_token(path: Path) -> str:
    """Return the token in a file. Raises AccessError."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"the token file {path} cannot be read: {error}") from None
    if len(token) < LEAST_TOKEN or not token.isascii():
        raise AccessError(f"the token file {path} holds fewer than {LEAST_TOKEN} characters of ASCII")
    return token


def is_local(host: str) -> bool:
    """Return whether an address is of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_console(host: str, encrypted: bool) -> None:
    """Raise AccessError where a token would go through the network as it is. `encrypted`: by us, or by somebody before us."""
    if not encrypted and not is_local(host):
        raise AccessError(
            f"whoever listens on the way to {host} could read the console's token: say --tls-cert and --tls-key, an address of "
            "this machine alone, or --console-without-tls where a proxy before it encrypts"
        )


def check_address(host: str, token: str | None) -> None:
    """Raise AccessError where anybody in the network could read what roles have spent."""
    if token is None and not is_local(host):
        raise AccessError(
            f"metrics on {host} can be read by others: say --metrics-token-file, or an address of this machine alone"
        )


def shown(authorization: str, token: str | None) -> bool:
    """Return whether a header shows the token; without a token nothing has to be shown."""
    return token is None or hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())


# Operators' tokens: files in the state folder that its owner alone can read.
#
# Knows: files. Must not know: who shows a token. The shared token is drawn when it is first asked for; `renew` draws another,
# and an operator may write one of their own there. `give` draws a token for one operator, of which the SHA-256 alone is kept,
# in a file of the operator's name. From the first of these on the shared token lets nobody in, also after the last of them is
# revoked: whoever acts then has a name. Whoever is logged in by a token that is no longer one is logged out with the next
# request.


FILE: Final = "console.token"  # in the state folder
FOLDER: Final = "console.tokens"  # in the state folder: a file for each operator
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
"""Of an operator: it is a file's name, and stands in the audit log beside the address."""
SHARED: Final = ""
"""The name of whoever shows the shared token."""


def token_of(state: Path) -> str:
    """Return the shared token of a state folder; it is drawn where there is none. Raises AccessError."""
    if (state / FOLDER).exists():
        raise AccessError("operators have tokens of their own here: the shared one lets nobody in; --for NAME draws one")
    path = state / FILE
    if not path.exists():
        _write(path, secrets.token_urlsafe(32), replace=False)
    _check_mode(path)
    return read_token(path)


def renew(state: Path) -> str:
    """Draw another shared token. Raises AccessError."""
    if not (state / FOLDER).exists():
        _write(state / FILE, secrets.token_urlsafe(32), replace=True)
    return token_of(state)


def digests(state: Path) -> Mapping[str, str]:
    """Return the SHA-256 of each token that lets in, by the operator's name, which is `SHARED` for the shared one. Raises
    AccessError."""
    folder = state / FOLDER
    if not folder.exists():
        return {SHARED: digest(token_of(state))}
    found = {}
    for path in sorted(folder.iterdir()):
        if NAME.fullmatch(path.name):
            _check_mode(path)
            found[path.name] = path.read_text().strip()
    return found


def digest(token: str) -> str:
    """Return what is kept of a token. It is drawn, so that nobody finds it by its digest."""
    return hashlib.sha256(token.encode()).hexdigest()


def give(state: Path, name: str) -> str:
    """Draw a token for an operator, in place of the one before; return it. Raises AccessError."""
    path, token = _file_of(state, name), secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise AccessError(f"the folder {path.parent} cannot be made: {error.strerror}") from None
    _write(path, digest(token), replace=True)
    return token


def revoke(state: Path, name: str) -> None:
    """Let an operator in no more. Raises AccessError."""
    try:
        _file_of(state, name).unlink()
    except FileNotFoundError:
        raise AccessError(f"operator {name} has no token here") from None
    except OSError as error:
        raise AccessError(f"the token of {name} cannot be removed: {error.strerror}") from None


def _file_of(state: Path, name: str) -> Path:
    if not NAME.fullmatch(name):
        raise AccessError(
            "an operator's name begins with a letter or digit, and has letters, digits and . _ @ - alone, at most 63"
        )
    return state / FOLDER / name


def _check_mode(path: Path) -> None:
    try:
        shared = path.stat().st_mode & 0o077
    except OSError as error:
        raise AccessError(f"the token file {path} cannot be read: {error.strerror}") from None
    if shared:
        raise AccessError(f"the token file {path} can be read by others: chmod 600 {path}")


def _write(path: Path, text: str, replace: bool) -> None:
    try:
        write_whole(path, f"{text}\n".encode(), replace=replace)
    except OSError as error:
        raise AccessError(f"the token file {path} cannot be written: {error.strerror}") from None


# Who is let in to the operators' pages: tokens, wrong tokens, sessions, and what every form must hold.
#
# Knows: digests of tokens by operators' names, addresses, clocks it is given. Must not know: HTTP. A session is a random name
# in a cookie; what is kept of it is its hash, in memory. It ends an hour after it was last used, eight hours after it began,
# and with the token it was begun by. Each has a secret of its own (`Session.form`) that every form sends: a page of somebody
# else cannot know it.


IDLE: Final = 3600.0
LONGEST: Final = 8 * 3600.0
"""Seconds a session lasts unused, and at all."""
SESSIONS: Final = 64
"""At once; the one unused longest goes first."""
WRONG: Final = 5
WRONG_OF_ALL: Final = 60
"""Wrong tokens that are looked at within `WITHIN`, of one address and of all together; then nobody's there is, right or wrong."""
WITHIN: Final = 60.0
"""Seconds."""


class TooManyGuesses(Exception):
    """No token is looked at for a while."""


@dataclass
class Session:
    """An operator who has shown a token. `operator`: the name, empty for the shared token; `token`: the digest of what was
    shown; `form`: what each of its forms must hold; `said`: what the next page says of what was done."""

    operator: str
    form: str
    token: str
    began: float
    used: float
    said: str = ""
    went_wrong: bool = False

    def sent(self, form: str) -> bool:
        """Return whether a form is this session's."""
        return hmac.compare_digest(self.form.encode(), form.encode())


class Entrance:
    """Lets operators in. `tokens` returns the digests of the tokens that count now, by the names of their operators."""

    def __init__(self, tokens: Callable[[], Mapping[str, str]], clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens, self._clock = tokens, clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._all: deque[float] = deque()
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()

    @staticmethod
    def visitor() -> str:
        """Return a name for a visitor who is not logged in."""
        return secrets.token_urlsafe(16)

    def sent_by(self, visitor: str, form: str) -> bool:
        """Return whether a login form is a visitor's."""
        return bool(visitor) and hmac.compare_digest(self.login_form(visitor).encode(), form.encode())

    def login_form(self, visitor: str) -> str:
        """Return what the login form of a visitor must hold, who is named by a cookie."""
        return hmac.new(self._secret, visitor.encode(), "sha256").hexdigest()

    def admit(self, address: str, shown: str) -> str | None:
        """Return the name of a new session; None for a wrong token. Raises TooManyGuesses, AccessError."""
        now, tokens, given = self._clock(), self._tokens(), _hash(shown)
        with self._lock:
            of_address = self._recent(self._wrong.get(address, deque()), now)
            if len(of_address) >= WRONG or len(self._recent(self._all, now)) >= WRONG_OF_ALL:
                raise TooManyGuesses
            matching = [operator for operator, token in tokens.items() if hmac.compare_digest(token.encode(), given.encode())]
            if not matching:
                self._count(address, now)
                return None
            name = secrets.token_urlsafe(32)
            self._sessions[_hash(name)] = Session(matching[0], secrets.token_urlsafe(32), given, now, now)
            if len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)
            return name

    def session(self, name: str) -> Session | None:
        """Return the session of a name, which is used by that. Raises AccessError."""
        now, key, tokens = self._clock(), _hash(name), self._tokens()
        with self._lock:
            found = self._sessions.get(key)
            if found is None:
                return None
            if now - found.used > IDLE or now - found.began > LONGEST or tokens.get(found.operator) != found.token:
                del self._sessions[key]
                return None
            found.used = now
            self._sessions.move_to_end(key)
            return found

    def leave(self, name: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_hash(name), None)

    def _count(self, address: str, now: float) -> None:
        self._wrong.setdefault(address, deque()).append(now)
        self._wrong.move_to_end(address)
        self._all.append(now)
        if len(self._wrong) > WRONG_OF_ALL:  # no more of them can matter
            self._wrong.popitem(last=False)

    @staticmethod
    def _recent(times: deque[float], now: float) -> deque[float]:
        while times and now - times[0] > WITHIN:
            times.popleft()
        return times


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
