"""Who may read what operators read by HTTP: who shows the token, or is on this machine.

Knows: tokens, addresses. Must not know: what is read.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dpproxy.errors import OperatorError
from dpproxy.whole_file import write_whole

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
