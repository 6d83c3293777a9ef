"""Drivers fetched for the tests: by pip, npm or apt, into a folder of their own, nothing installed into the system.

What cannot be fetched skips its test, loudly: tests/conftest.py lists what was not tried and why at the end of the run.
The folder is `$DPPROXY_CLIENTS`, or one of this user's under the temporary files; what is complete there is used again, so
that only the first run needs a network. A plain test run fetches only what takes a few seconds (`light`); the rest comes
with `DPPROXY_FETCH=all`, which scripts/clients sets, and `DPPROXY_FETCH=none` fetches nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

TIMEOUT = 600  # seconds for one download and installation
ABSENT = "DRIVERS ABSENT"
"""How the reason of such a skip begins."""

_failed: dict[str, str] = {}
"""What went wrong with a kind of download: a machine without a network is not asked again and again."""


def absent(why: str) -> NoReturn:
    pytest.skip(f"{ABSENT}: {why}")


def cache() -> Path:
    named = os.environ.get("DPPROXY_CLIENTS")
    folder = (
        Path(named) if named else Path("/tmp") / f"dpproxy-clients-{os.getuid()}"
    )  # for later runs, too: a run's own are gone with it
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = folder.stat()
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        absent(f"{folder} is somebody else's")
    return folder


def pip(*packages: str, light: bool = False) -> Path:
    """A folder for PYTHONPATH."""

    def install(folder: Path) -> None:
        options = ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "20", "--only-binary", ":all:"]
        run([sys.executable, "-m", "pip", "install", *options, "--target", str(folder), *packages])

    return made(f"pip-{sys.version_info.major}.{sys.version_info.minor}", packages, install, light)


def venv(*packages: str) -> Path:
    """The interpreter of an environment with these, where they come with programs or pin what others need otherwise."""

    def install(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder)])
        options = ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "20"]
        run([str(folder / "bin" / "python"), "-m", "pip", "install", *options, *packages])

    return made("venv", packages, install, light=False) / "bin" / "python"


def npm(*packages: str, light: bool = True) -> Path:
    """A folder that holds node_modules."""
    need("node", "npm")

    def install(folder: Path) -> None:
        options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries", "1", "--fetch-timeout", "20000"]
        run(["npm", "install", *options, "--prefix", str(folder), *packages])

    return made("npm", packages, install, light)


def deb(*packages: str) -> Path:
    """Debian packages unpacked, with what they depend on and the system has not: a root file system of only these."""
    need("apt-get", "dpkg-deb")

    def install(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as downloads:
            options = lists(Path(downloads), packages)
            would = run(["apt-get", "install", "--simulate", "-qq", "--no-install-recommends", *options, *packages])
            names = {line.split()[1] for line in would.splitlines() if line.startswith("Inst ")} | set(packages)
            run(["apt-get", "download", "-qq", *options, *sorted(names)], cwd=downloads)
            for package in Path(downloads).glob("*.deb"):
                run(["dpkg-deb", "-x", str(package), str(folder)])

    return made("deb", packages, install, light=False)


def lists(folder: Path, packages: tuple[str, ...]) -> list[str]:
    """apt's options to find these packages: lists fetched into a folder of their own where the system's know them not."""
    known = subprocess.run(["apt-cache", "show", *packages], capture_output=True, timeout=60)
    if known.returncode == 0:
        return []
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "archives" / "partial").mkdir(parents=True)
    options = [f"Dir::State::lists={folder / 'lists'}", f"Dir::Cache={folder}", "Debug::NoLocking=1"]
    arguments = [part for option in options for part in ("-o", option)]
    run(["apt-get", "update", "-qq", *arguments])
    return arguments


def need(*programs: str) -> None:
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        absent(f"no {', '.join(missing)} on this machine")


def run(command: list[str], cwd: str | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        absent(f"{' '.join(command[:3])} took more than {TIMEOUT} s")
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        absent(f"{' '.join(command)[:200]}: {' | '.join(said[-3:])[:500]}")
    return done.stdout


def made(kind: str, packages: tuple[str, ...], install: Callable[[Path], None], light: bool) -> Path:
    """The folder of these packages, made once however many tests ask at the same time."""
    name = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:12]
    folder = cache() / f"{kind}-{name}"
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not (folder / "complete").exists():
            may_fetch(kind, packages, light)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                install(folder)
            except pytest.skip.Exception as error:
                _failed[kind] = str(error)
                raise
            (folder / "complete").touch()
    return folder


def long_run() -> None:
    """What takes minutes though everything is there already is tried by scripts/clients only."""
    if os.environ.get("DPPROXY_FETCH") != "all":
        absent("takes minutes; scripts/clients tries it")


def may_fetch(kind: str, packages: tuple[str, ...], light: bool) -> None:
    asked = os.environ.get("DPPROXY_FETCH", "light")
    if not (asked == "all" or (asked == "light" and light)):
        absent(f"{', '.join(packages[:3])} not fetched by a plain test run; scripts/clients does")
    if kind in _failed and light:
        pytest.skip(_failed[kind])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
