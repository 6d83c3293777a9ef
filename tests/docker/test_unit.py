"""The unit, its account and its options, as the page on systemd installs them: what it starts serves with the rights that it says.

Knows: directives of the unit, namespaces of mounts. Must not know: systemd's own work (credentials, notification, folders), of which
only the outcome is made here. Paths of a server are below a folder of the test's own. `test_monitoring.py` lets systemd itself read
the unit, where it is installed.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from tests.worlds.certificates import certificate
from tests.worlds.confined import ROOT, USER, accounts, can_be_confined, confined
from tests.worlds.demo_shop import PASSWORD, small_shop

PATIENCE: Final = 300.0
PLACES: Final = ("/etc/dpproxy", "/var/lib/dpproxy", "/var/backups/dpproxy", "/run/dpproxy")


def directives() -> dict[str, str]:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "packaging" / "dpproxy.service")
    return dict(unit["Service"])


def writable(service: dict[str, str]) -> list[str]:
    """What the unit may write to, as ProtectSystem=strict leaves it."""
    folders = [f"/var/lib/{service['StateDirectory']}", f"/run/{service['RuntimeDirectory']}"]
    return [*folders, *(path.lstrip("-") for path in service.get("ReadWritePaths", "").split())]


@pytest.fixture
def root() -> Iterator[Path]:
    """Not below /tmp, which the process has for itself; open to the unit's account."""
    with tempfile.TemporaryDirectory(prefix="dpproxy-unit-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        place = Path(made)
        place.chmod(0o755)
        for name in (*PLACES, "/spare", "/credentials"):
            (place / name.lstrip("/")).mkdir(parents=True)
        yield place


def below(root: Path, text: str) -> str:
    return re.sub("|".join(PLACES), lambda found: f"{root}{found[0]}", text).replace("%d", f"{root}/credentials")


def installed(root: Path) -> None:
    """What the page installs into /etc/dpproxy, and what systemd makes of folders and credentials."""
    etc = root / "etc" / "dpproxy"
    options = (ROOT / "packaging" / "dpproxy.yaml").read_text()
    options = re.sub(r"(?<=:)(6432|9432)\b", "0", below(root, options))
    (etc / "dpproxy.yaml").write_text(options)
    shutil.copy(ROOT / "policies" / "shop.yaml", etc)
    small_shop(etc / "shop.duckdb")
    certificate(etc, "server")
    os.chown(etc / "server.key", 0, USER)
    (etc / "server.key").chmod(0o640)
    (root / "credentials" / "key").write_text("a secret of more than sixteen bytes")
    for path in (root / "credentials" / "key", *(root / place.lstrip("/") for place in writable(directives()))):
        os.chown(path, USER, USER)


def test_what_the_unit_may_write_to_is_what_its_options_write() -> None:
    options = (ROOT / "packaging" / "dpproxy.yaml").read_text()
    written = re.findall(r"^(?:anchor|unix_socket): (\S+)", options, re.M)
    assert len(written) == 2
    for path in written:
        assert any(Path(path).is_relative_to(folder) for folder in writable(directives())), path


@pytest.mark.long
def test_what_the_unit_starts_serves_with_its_rights(root: Path) -> None:
    if not can_be_confined():
        pytest.skip("NAMESPACES ABSENT: needs root, unshare and setpriv, and nothing of it below /tmp")
    service = directives()
    installed(root)
    shown = {accounts(root): Path("/etc/passwd")} | {root / p.lstrip("/"): root / p.lstrip("/") for p in writable(service)}
    told = dict(pair.split("=", 1) for pair in below(root, service["Environment"]).split())
    env = {**os.environ, **told, "TMPDIR": "/tmp", "NOTIFY_SOCKET": str(root / "run" / "dpproxy" / "notify")}
    program = [sys.executable, "-m", "dpproxy"]
    start = [*program, *below(root, service["ExecStart"]).split()[1:]]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(env["NOTIFY_SOCKET"])
        os.chmod(env["NOTIFY_SOCKET"], 0o777)
        notified.settimeout(PATIENCE)
        with (root / "said").open("w") as said:
            process = subprocess.Popen([*confined(root / "spare", shown), *start], env=env, stdout=said, stderr=said, umask=0o077)
        try:
            assert notified.recv(100) == b"READY=1", (root / "said").read_text()
            said_at = re.search(r"listening on \S+?:(\d+)", (root / "said").read_text())
            assert said_at is not None
            address = f"port={said_at[1]} user=ada password={PASSWORD} dbname=shop"
            with psycopg.connect(f"host=127.0.0.1 sslmode=require {address}") as connection:
                assert connection.execute("SELECT count(*) FROM customers").fetchone() is not None
            assert (root / "var" / "backups" / "dpproxy" / "anchor").is_file(), "written with the first charge"
            reload = [*program, *service["ExecReload"].split()[1:]]
            assert subprocess.run(reload, env=env, capture_output=True, timeout=PATIENCE, check=False).returncode == 0
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, (root / "said").read_text()
        assert notified.recv(100) == b"STOPPING=1"
