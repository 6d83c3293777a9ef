"""TLS files, and TLS as the command line serves it: on uvloop, whose TLS is not asyncio's, and over SIGHUP."""

from __future__ import annotations

import hashlib
import json
import signal
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from dpproxy.admin import admin_app
from dpproxy.serve.launch import Proxy, launched
from dpproxy.server.tls import TlsError, TlsFiles, end_point, load_tls
from tests.worlds.certificates import ED25519, P384, RSA, certificate, dsn, openssl
from tests.worlds.one_table import written


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return certificate(tmp_path_factory.mktemp("tls"), "server")


def test_end_points(tmp_path: Path) -> None:
    for kind, algorithm in ((RSA, "sha256"), (P384, "sha384"), (ED25519, None)):
        files = certificate(tmp_path, "c", kind)
        der = ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
        assert end_point(der) == (hashlib.new(algorithm, der).digest() if algorithm else None)


def test_unusable_files(tmp_path: Path, files: TlsFiles) -> None:
    other = certificate(tmp_path, "other")
    open_key = tmp_path / "open.key"
    open_key.write_bytes(files.key.read_bytes())
    open_key.chmod(0o644)
    locked = tmp_path / "locked.key"
    openssl("rsa", "-in", files.key, "-aes128", "-passout", "pass:secret", "-out", locked)
    locked.chmod(0o600)
    for wrong, reason in (
        (TlsFiles(files.certificate, tmp_path / "none"), "No such file"),
        (TlsFiles(tmp_path / "none", files.key), "No such file"),
        (TlsFiles(files.certificate, other.key), "MISMATCH"),
        (TlsFiles(files.certificate, open_key), "chmod 600"),
        (TlsFiles(files.certificate, locked), "passphrase"),
        (TlsFiles(files.certificate, files.key, tmp_path / "none"), "client authority"),
    ):
        with pytest.raises(TlsError, match=reason):
            load_tls(wrong)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, TlsFiles]]:
    folder = written(tmp_path_factory.mktemp("served"))
    files = certificate(folder, "first")
    options = ("--tls-cert", str(files.certificate), "--tls-key", str(files.key), "--require-tls")
    with launched([folder / "shop.yaml"], folder / "state", options=options) as running:
        yield running, files


@pytest.mark.parametrize("negotiation", ["postgres", "direct"])
def test_served(proxy: tuple[Proxy, TlsFiles], negotiation: str) -> None:
    running, files = proxy
    more = {"sslmode": "verify-full", "sslrootcert": files.certificate, "sslnegotiation": negotiation}
    for _ in range(20):
        with psycopg.connect(dsn(running.port, **more, channel_binding="require"), autocommit=True) as connection:
            assert connection.execute("SELECT sum(length(repeat('x', 5000))) FROM generate_series(1, 100)").fetchone()
            assert len(connection.execute("SELECT repeat('x', 5000) FROM generate_series(1, 2000)").fetchall()) == 2000
    with pytest.raises(psycopg.OperationalError, match="over TLS only"):
        psycopg.connect(dsn(running.port, sslmode="disable"))


def test_certificates_are_read_again(proxy: tuple[Proxy, TlsFiles]) -> None:
    running, files = proxy
    old = psycopg.connect(dsn(running.port, sslmode="require"), autocommit=True)
    first = files.certificate.read_text()
    files.certificate.write_text("nonsense")
    running.process.send_signal(signal.SIGHUP)
    wait_for(running, "certificates not reloaded")
    assert psycopg.connect(dsn(running.port, sslmode="require")).close() is None
    certificate(files.certificate.parent, "first")
    assert files.certificate.read_text() != first
    running.process.send_signal(signal.SIGHUP)
    wait_for(running, "certificates reloaded")
    with psycopg.connect(dsn(running.port, sslmode="verify-full", sslrootcert=files.certificate, channel_binding="require")):
        pass
    assert old.execute("SELECT 1").fetchone() == (1,)
    old.close()


def test_a_reload_says_what_is_wrong_with_certificates(proxy: tuple[Proxy, TlsFiles], tmp_path: Path) -> None:
    """It fails, says why, and what was there is used."""
    running, files = proxy
    kept, other = {path: path.read_bytes() for path in (files.certificate, files.key)}, certificate(tmp_path, "other")
    state = ["--state", str(files.certificate.parent / "state")]

    def reload() -> tuple[int, str]:
        done = CliRunner().invoke(admin_app, ["reload", *state])
        return done.exit_code, next(line for line in done.stdout.splitlines() if line.startswith("certificates"))

    def broken(path: Path, content: bytes, mode: int = 0o600) -> tuple[int, str]:
        path.write_bytes(content)
        path.chmod(mode)
        try:
            found = reload()
            assert psycopg.connect(dsn(running.port, sslmode="verify-full", sslrootcert=str(was))).close() is None
            status = json.loads(CliRunner().invoke(admin_app, ["status", *state]).stdout)
            assert status["certificates"] == found[1].split("\t")[2]
            return found
        finally:
            path.write_bytes(kept[path])
            path.chmod(0o600)

    was = tmp_path / "was.crt"
    was.write_bytes(kept[files.certificate])
    assert reload() == (0, "certificates\t-\tserved")
    for found, reason in (
        (broken(files.key, other.key.read_bytes()), "MISMATCH"),
        (broken(files.certificate, b""), str(files.certificate)),
        (broken(files.key, b""), str(files.key)),
        (broken(files.key, kept[files.key], 0o644), "chmod 600"),
    ):
        assert found[0] == 1
        assert reason in found[1]
    assert reload() == (0, "certificates\t-\tserved")


def wait_for(running: Proxy, words: str) -> None:
    for _ in range(15_000):
        if any(words in line for line in running.said):
            return
        time.sleep(0.02)
    raise AssertionError(f"never said: {words}")
