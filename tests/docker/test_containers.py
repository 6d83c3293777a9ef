"""The image and the compose file where Docker is: built, started with the rights that the pages say, and asked as an analyst would.

Needs a Docker daemon, and testcontainers (`pip install -c constraints.txt '.[containers]'`); skips loudly without them. What can be
shown without Docker is in `test_image.py`, and in `tests/fresh/test_image_steps.py`, which carries the Dockerfile out step by step.
The names of everything are the test's own, so that volumes of a proxy that serves on this machine are left alone.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from tests.worlds.demo_shop import PASSWORD, small_shop

ROOT = Path(__file__).resolve().parents[2]
PROJECT: Final = "dpproxy-tried"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def docker() -> None:
    pytest.importorskip("testcontainers", reason="TESTCONTAINERS ABSENT: pip install -c constraints.txt '.[containers]'")
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("DOCKER ABSENT: no `docker` on the path")
    if done.returncode:
        pytest.skip("DOCKER ABSENT: no daemon answers")


def asked(host: str, port: int, statement: str) -> Any:
    address = f"host={host} port={port} user=ada password={PASSWORD} dbname=shop"
    with psycopg.connect(address, autocommit=True) as connection:
        (found,) = connection.execute(statement).fetchall()
    return found[0]


def rights() -> dict[str, Any]:
    """What `docker run` on the page says of rights, in the words of Docker's library."""
    page = (ROOT / "docs" / "how-to" / "docker.md").read_text()
    assert {"--read-only", "--tmpfs", "--cap-drop", "--security-opt", "--memory"} <= set(re.findall(r"--[a-z-]+", page))
    return {
        "read_only": True,
        "tmpfs": {"/tmp": ""},
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "mem_limit": "2g",
    }


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """The sample shop, readable by the image's user."""
    small_shop(tmp_path / "shop.duckdb")
    (tmp_path / "shop.yaml").write_text((ROOT / "policies" / "shop.yaml").read_text())
    for path in (tmp_path, *tmp_path.iterdir()):
        path.chmod(0o755)
    return tmp_path


@pytest.fixture
def image() -> Iterator[str]:
    from testcontainers.core.image import DockerImage

    with DockerImage(path=ROOT, dockerfile_path="docker/Dockerfile", tag=f"{PROJECT}:latest") as built:
        yield str(built)


def test_the_image_serves_without_rights(image: str, policies: Path) -> None:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import HealthcheckWaitStrategy

    checked = DockerContainer(image).with_volume_mapping(policies, "/etc/dpproxy").with_kwargs(**rights())
    with checked.with_command("policy check /etc/dpproxy/shop.yaml") as command:
        assert command.wait() == 0, command.get_logs()
    serving = DockerContainer(image).with_volume_mapping(policies, "/etc/dpproxy").with_kwargs(**rights())
    serving = serving.with_exposed_ports(6432).waiting_for(HealthcheckWaitStrategy().with_startup_timeout(120))
    with serving as container:
        port = container.get_exposed_port(6432)
        assert 3_500 < asked(container.get_container_host_ip(), port, "SELECT count(*) FROM customers") < 4_500
        assert container.exec("id -u").output.strip() == b"10001"
        assert container.exec("touch /etc/dpproxy/x").exit_code != 0
        container.get_wrapped_container().stop(timeout=40)
        assert container.wait() == 0, container.get_logs()


def test_spark_with_two_proxies_that_share_a_ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the one has paid for the other shows, with the same noise; neither Spark nor the ledger is reached from outside."""
    from testcontainers.compose import DockerCompose

    (tmp_path / "key").write_text("k" * 32)
    monkeypatch.setenv("KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", f"{PROJECT}-spark")
    with DockerCompose(ROOT / "docker", compose_file_name="compose.spark.yaml", build=True, wait=True) as compose:
        found = []
        for service in ("dpproxy", "dpproxy2"):
            host, port = compose.get_service_host_and_port(service, 6432)
            assert port is not None
            found.append(asked(str(host), port, "SELECT count(*) FROM customers"))
            assert compose.exec_in_container(["touch", "/etc/dpproxy/x"], service)[2] != 0
        assert 4_000 < found[0] < 6_000
        assert found[0] == found[1]
        assert not compose.get_container("spark").Publishers


def test_the_compose_file_serves_and_hides_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    from testcontainers.compose import DockerCompose

    monkeypatch.setenv("COMPOSE_PROJECT_NAME", PROJECT)  # `down` takes this project's volumes, and no other's
    with DockerCompose(ROOT / "docker", compose_file_name="compose.yaml", build=True, wait=True) as compose:
        host, port = compose.get_service_host_and_port("dpproxy", 6432)
        assert port is not None
        assert 4_000 < asked(str(host), port, "SELECT count(*) FROM customers") < 6_000
        reach = "exec 3<>/dev/tcp/$0/$1"
        out, _, code = compose.exec_in_container(["bash", "-c", reach, "dpproxy", "6432"], "bi")
        assert code == 0, out
        with pytest.raises(subprocess.CalledProcessError):
            compose.exec_in_container(["bash", "-c", reach, "db", "5432"], "bi")
