"""Certificates made with openssl, for tests; skipped loudly where it is absent."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dpproxy.server.tls import TlsFiles
from tests.worlds.wire_client import PASSWORD

RSA = ("-newkey", "rsa:2048")
P384 = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-sha384")
ED25519 = ("-newkey", "ed25519")


def openssl(*arguments: str | Path) -> None:
    try:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=300)
    except FileNotFoundError:
        pytest.skip("OPENSSL ABSENT: no certificates to test with")


def certificate(folder: Path, name: str, kind: tuple[str, ...] = RSA, more: tuple[str | Path, ...] = ()) -> TlsFiles:
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    openssl("req", "-x509", *kind, "-nodes", "-days", "30", *subject, "-keyout", key, "-out", cert, *more)
    key.chmod(0o600)
    return TlsFiles(cert, key)


def signed(folder: Path, name: str, ca: TlsFiles) -> TlsFiles:
    """A certificate that `ca` has signed."""
    cert, key, request = folder / f"{name}.crt", folder / f"{name}.key", folder / f"{name}.csr"
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    openssl("x509", "-req", "-in", request, "-CA", ca.certificate, "-CAkey", ca.key, "-CAcreateserial", "-out", cert)
    key.chmod(0o600)
    return TlsFiles(cert, key)


def dsn(port: int, **more: object) -> str:
    pairs = {"host": "localhost", "port": port, "user": "ada", "dbname": "shop", "password": f"'{PASSWORD}'", **more}
    return " ".join(f"{name}={value}" for name, value in pairs.items())
