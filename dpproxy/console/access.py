"""Who may read what operators read by HTTP: who shows the token, or is on this machine.

Knows: tokens, addresses. Must not know: what is read.
"""

from __future__ import annotations

import hmac
import ipaddress
from pathlib import Path
from typing import Final

from dpproxy.errors import OperatorError

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
