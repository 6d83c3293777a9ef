"""Where servers listen: addresses as operators write them, sockets, certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dpproxy.errors import OperatorError
from dpproxy.listeners import bound, host_and_port, server_context
from tests.worlds.certificates import certificate, openssl


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("0.0.0.0:5432", ("0.0.0.0", 5432)),
        ("[::1]:0", ("::1", 0)),
        ("::1:65535", ("::1", 65535)),
        (":8443", ("127.0.0.1", 8443)),
        ("localhost:1", ("localhost", 1)),
        *(
            (wrong, None)
            for wrong in ("", "localhost", "localhost:", "localhost:x", "localhost:-1", "localhost:65536", "h:\u00b2")
        ),
    ],
)
def test_addresses(listen: str, expected: tuple[str, int] | None) -> None:
    if expected is None:
        with pytest.raises(OperatorError, match="is not HOST:PORT"):
            host_and_port(listen)
    else:
        assert host_and_port(listen) == expected


def test_a_socket_is_bound_where_it_is_wanted() -> None:
    with bound("localhost", 0, 5) as one:
        host, port = one.getsockname()[:2]
        with pytest.raises(OSError, match="in use"):
            bound(host, port, 5)


def test_a_certificate_is_served_in_a_version_that_is_wanted(tmp_path: Path) -> None:
    """A key with a passphrase is refused: the terminal would be asked, and a server has none."""
    files = certificate(tmp_path, "one")
    assert server_context(files.certificate, files.key).minimum_version == ssl.TLSVersion.TLSv1_2
    assert server_context(files.certificate, files.key, "1.3").minimum_version == ssl.TLSVersion.TLSv1_3
    locked = tmp_path / "locked.key"
    openssl("rsa", "-in", files.key, "-aes128", "-passout", "pass:secret", "-out", locked)
    for key, reason in ((locked, "without a passphrase"), (tmp_path / "none", "No such file")):
        with pytest.raises(OperatorError, match=reason):
            server_context(files.certificate, key)
