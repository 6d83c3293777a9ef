"""Passwords as SCRAM-SHA-256 verifiers, in the format of PostgreSQL's `pg_authid.rolpassword`.

Knows: RFC 5802 and 7677, RFC 4013 (SASLprep). Must not know: users, policies. A verifier lets the proxy check a
login and tells whoever reads the policy neither the password nor how to log in; a weak password can still be guessed
from it, so policy files deserve care all the same.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field

from scramp import ScramException, ScramMechanism

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096  # RFC 7677's least and PostgreSQL's default; every driver can afford it
MAX_ITERATIONS = 10_000_000  # about five seconds of hashing: more only locks the user out
_FORMAT = re.compile(r"SCRAM-SHA-256\$([1-9][0-9]{0,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)\Z")
_KEY_BYTES = 32  # of SHA-256


@dataclass(frozen=True)
class Verifier:
    """Holds what a server needs for a SCRAM login."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def make_verifier(password: str, iterations: int = ITERATIONS, salt: bytes | None = None) -> str:
    """Return `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, with a fresh random salt unless one is given.

    Raises ValueError for an empty password, one that SASLprep forbids, or too few iterations.
    """
    if not password:
        raise ValueError("the password is empty")
    try:
        made = ScramMechanism(MECHANISM).make_auth_info(password, iteration_count=iterations, salt=salt)
    except ScramException as error:
        raise ValueError("the password holds a character that SASLprep forbids, or iterations are below 4096") from error
    salt_, stored, server, count = made
    text = [base64.b64encode(part).decode() for part in (salt_, stored, server)]
    return f"{MECHANISM}${count}:{text[0]}${text[1]}:{text[2]}"


def parse_verifier(text: str) -> Verifier:
    """Parse a verifier. Raises ValueError, which never repeats `text`, when it is none."""
    if text.startswith("md5"):
        raise ValueError("md5 hashes are not accepted")
    if not text.startswith(MECHANISM + "$"):
        raise ValueError("plain text is not accepted")
    found = _FORMAT.match(text)
    if found is None:
        raise ValueError("it is not of the form SCRAM-SHA-256$iterations:salt$key:key")
    try:
        salt, stored, server = (base64.b64decode(part, validate=True) for part in found.groups()[1:])
    except binascii.Error:
        raise ValueError("a part of it is not base64") from None
    iterations = int(found[1])
    if len(stored) != _KEY_BYTES or len(server) != _KEY_BYTES or not salt:
        raise ValueError("a part of it has been cut")
    if not ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"iterations must be from {ITERATIONS} to {MAX_ITERATIONS}")
    return Verifier(iterations, salt, stored, server)
