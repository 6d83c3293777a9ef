"""Where a server listens: addresses as operators write them, sockets, what TLS it speaks.

Knows: sockets, certificate files. Must not know: protocols, who connects.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Final, Literal

from dpproxy.errors import OperatorError

Minimum = Literal["1.2", "1.3"]
"""A version of TLS."""
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def host_and_port(listen: str) -> tuple[str, int]:
    """Read HOST:PORT; without a host it is this machine's own address. Raises OperatorError."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise OperatorError(f"`{listen}` is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def bound(host: str, port: int, backlog: int) -> socket.socket:
    """Return a socket that listens at a port of a host's first address. Raises OSError."""
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=backlog)


def server_context(certificate: Path, key: Path, minimum: Minimum = "1.2") -> ssl.SSLContext:
    """Return what handshakes with this certificate use. Raises OperatorError, which says what is wrong with which file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[minimum]
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise OperatorError(f"certificate {certificate} with key {key}: {error}") from None
    return context


def _no_password() -> str:
    """OpenSSL would ask the terminal, which a server does not have."""
    raise ValueError("the key is encrypted: give one without a passphrase")
