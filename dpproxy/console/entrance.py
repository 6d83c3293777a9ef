"""Who is let in to the operators' pages: tokens, wrong tokens, sessions, and what every form must hold.

Knows: digests of tokens by operators' names, addresses, clocks it is given. Must not know: HTTP. A session is a random name
in a cookie; what is kept of it is its hash, in memory. It ends an hour after it was last used, eight hours after it began,
and with the token it was begun by. Each has a secret of its own (`Session.form`) that every form sends: a page of somebody
else cannot know it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

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
