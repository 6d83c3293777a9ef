"""The Dockerfile is carried out without Docker, step by step, and what it makes serves with the rights of the compose file.

Knows: the instructions that the Dockerfile has, namespaces of mounts. Must not know: how anything is installed; that is the
Dockerfile's. Its paths are below a folder of the test, its packages come from the folder of wheels, and its base image is this
machine. An instruction that is unknown here fails the test. Run by `scripts/fresh`, as root.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.fresh.conftest import Machine
from tests.worlds.confined import ROOT, USER, can_be_confined, confined
from tests.worlds.demo_shop import PASSWORD, small_shop
from tests.worlds.dockerfile import instructions, sent

pytestmark = pytest.mark.fresh
PATIENCE: Final = 300
AS_ACCOUNTS: Final = 'mount --make-rprivate / && mount --bind "$0" /etc && eval "$1"'
"""A step with the image's accounts in place of the machine's."""


@dataclass
class Image:
    """What has been made so far, below `root`."""

    root: Path
    machine: Machine
    work: Path = field(init=False)
    env: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.work = self.root

    def below(self, text: str) -> str:
        """A text with the paths that are here for those of the image."""
        for place in ("/opt/dpproxy", "/var/lib/dpproxy", "/usr/local/bin/"):
            text = text.replace(place, f"{self.root}{place}")
        return text

    def carry_out(self, word: str, rest: str) -> None:
        match word:
            case "FROM":
                assert rest.startswith("python:3.")
                self.work = self.root
            case "WORKDIR":
                self.work = self.root / rest.lstrip("/")
                self.work.mkdir(parents=True)
            case "COPY" if rest.startswith("--from=build "):
                source, target = rest.split()[1:]
                assert source == target, "an environment does not move"
            case "COPY":
                self._copy(*rest.split())
            case "RUN":
                step = self.below(rest).replace("python -m venv", f"{self.machine.interpreter} -m venv")
                self.machine.run(("unshare", "-m", "sh", "-ec", AS_ACCOUNTS, self.root / "etc", step), self.work)
            case "ENV":
                pairs = (pair.split("=", 1) for pair in shlex.split(self.below(rest)))
                path = f"{self.root}/usr/local/bin:{os.environ['PATH']}"
                self.env |= {name: value.replace("$PATH", path) for name, value in pairs}
            case "ARG":
                assert rest.endswith("="), "nothing is said to be built but the default"
            case "USER" | "VOLUME" | "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                self.told[word] = rest
            case _:
                raise AssertionError(f"{word} is not known here")

    def _copy(self, *names: str) -> None:
        """Files and folders, as far as they are sent."""
        *sources, last = names
        assert set(sources) <= set(sent())
        target = Path(self.below(last)) if last.startswith("/") else self.work / last
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into = target / source if last.endswith("/") else target
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, into)


@pytest.fixture
def root() -> Iterator[Path]:
    """Not below /tmp, which the process has for itself; open to the image's user."""
    with tempfile.TemporaryDirectory(prefix="dpproxy-image-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        place = Path(made)
        place.chmod(0o755)
        (place / "var" / "lib").mkdir(parents=True)
        shutil.copytree("/etc", place / "etc", symlinks=True, ignore=shutil.ignore_patterns("ssl", "alternatives"))
        yield place


def test_the_image_is_made_step_by_step_and_serves(machine: Machine, root: Path) -> None:
    if not can_be_confined():
        pytest.skip("NAMESPACES ABSENT: needs root, unshare and setpriv, and nothing of it below /tmp")
    image = Image(root, machine)
    for word, rest in instructions():
        image.carry_out(word, rest)
    assert image.told["USER"] == f"{USER}:{USER}"
    assert f"dpproxy:x:{USER}:{USER}:" in (root / "etc" / "passwd").read_text()
    state = Path(image.below(image.told["VOLUME"]))
    assert (state.stat().st_uid, state.stat().st_mode & 0o777) == (USER, 0o700)

    policies = root / "policies"
    (root / "spare").mkdir()
    policies.mkdir()
    small_shop(policies / "shop.duckdb")
    shutil.copy(ROOT / "policies" / "shop.yaml", policies)
    own = {"DPPROXY_POLICIES": str(policies), "DPPROXY_STATE": str(state), "DPPROXY_LISTEN": "127.0.0.1:0", "TMPDIR": "/tmp"}
    serve(image, {**os.environ, **image.env, **own, "PGPASSWORD": PASSWORD}, state)


def serve(image: Image, env: dict[str, str], state: Path) -> None:
    """What the image starts, how it tells that it is well, and that it ends well."""
    shown = {image.root / "etc" / name: Path("/etc") / name for name in ("passwd", "group")} | {state: state}
    port = "47391"
    env["DPPROXY_LISTEN"] = f"127.0.0.1:{port}"
    command = [*json.loads(image.told["ENTRYPOINT"]), *json.loads(image.told["CMD"])]
    healthy = json.loads(image.told["HEALTHCHECK"].partition("CMD ")[2])
    with (image.root / "said").open("w") as said:
        process = subprocess.Popen([*confined(image.root / "spare", shown), *command], env=env, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(healthy, env=env, capture_output=True, check=False).returncode:
            assert process.poll() is None, (image.root / "said").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        ask = ["dpproxy", "psql", "-X", "-At", "-c", "SELECT count(*) FROM customers", f"postgresql://ada@127.0.0.1:{port}/shop"]
        done = subprocess.run(ask, env=env, capture_output=True, text=True, check=True, timeout=PATIENCE)
        assert 3_500 < int(done.stdout) < 4_500
    finally:
        process.send_signal(getattr(signal, image.told["STOPSIGNAL"]))
        assert process.wait(PATIENCE) == 0, (image.root / "said").read_text()
