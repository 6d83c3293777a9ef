"""A PostgreSQL server of one's own for as long as a `with` block lasts: for tests, acceptance runs and benches.

Knows: the facade's starter of embedded servers. Must not know: proxies, policies. The server listens on a socket in a
private folder only (`dsn`), unless `settings` says otherwise; it vanishes with the block.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from dpproxy.facade.account import choose_account, choose_place, find_binaries, wheel_folder
from dpproxy.facade.server import Bounds, EmbeddedServer


@dataclass
class Scratch:
    """Names a running server. `major` is its version; `home` holds its socket and data."""

    server: EmbeddedServer
    loop: asyncio.AbstractEventLoop

    @property
    def home(self) -> Path:
        return self.server.place.home

    @property
    def major(self) -> int:
        return self.server.place.binaries.major

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.home}"

    def conninfo(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return the address as libpq reads it."""
        return f"host={self.home} user={user} dbname={database}"

    def wait(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def restart(self) -> None:
        """Restart the server: sessions end with 57P01; files stay."""
        self.wait(self.server.stop())
        self.wait(self.server.start())


def installations() -> dict[int, Path]:
    """Return the `bin` folders by major version: the wheel's, and those that DPPROXY_TEST_POSTGRES names, separated by colons."""
    newest = wheel_folder()
    folders = sorted(p.parent for p in newest.parent.parent.glob("pginstall*/bin/postgres")) if newest is not None else []
    folders += [Path(name) for name in os.environ.get("DPPROXY_TEST_POSTGRES", "").split(":") if name]
    return {find_binaries(folder).major: folder for folder in folders}


class KeptFiles:
    """Empty files of servers, by version, for the next server of this process: `initdb` takes longer than a start."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Path] = {}

    def get(self, name: tuple[str, int]) -> Path | None:
        return self._kept.get(name)

    def keep(self, name: tuple[str, int], data: Path) -> None:
        """Copy the files of a server that has not been started."""
        folder = Path(tempfile.mkdtemp(prefix="dpproxy-files-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._kept[name] = shutil.copytree(data, folder / "data", symlinks=True)


kept_files = KeptFiles()


@contextlib.contextmanager
def scratch_server(
    state: Path,
    folder: Path | None = None,
    settings: Mapping[str, str] | None = None,
    hba: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
) -> Iterator[Scratch]:
    """Run a fresh server of the programs in `folder` (default: the wheel's newest). Raises FacadeError.

    `files` are laid in its data directory: keys, certificates, `standby.signal`. `hba` rules come before its own.
    """
    account = choose_account()
    state.mkdir(parents=True, exist_ok=True)
    place = choose_place(state, account, find_binaries(folder))
    server = EmbeddedServer(place, account, connections=40, on_exit=lambda: None, bounds=Bounds(memory=4 << 30, disk=4 << 30))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="scratch-postgres", daemon=True)
    thread.start()
    scratch = Scratch(server, loop)
    try:
        name = ("scratch", scratch.major)
        scratch.wait(server.create(kept_files.get(name)))
        if kept_files.get(name) is None:
            kept_files.keep(name, place.data)
        lines = [f"{name} = '{value}'\n" for name, value in (settings or {}).items()]
        with open(place.data / "postgresql.conf", "a") as configuration:
            configuration.writelines(lines)
        rules = place.data / "pg_hba.conf"
        rules.write_text("".join(f"{line}\n" for line in hba) + rules.read_text())
        for name, content in (files or {}).items():
            target = place.data / name
            target.write_bytes(content)
            target.chmod(0o600)
            os.chown(target, place.data.stat().st_uid, place.data.stat().st_gid)
        scratch.wait(server.start())
        yield scratch
    finally:
        scratch.wait(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        if place.temporary:
            remove(place.home)


@dataclass(frozen=True)
class Container:
    """Names a server in a container, at a port of this machine."""

    port: int

    def conninfo(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname={database}"


def docker_answers() -> bool:
    """Return whether there is a Docker to start containers with."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, timeout=30, check=False).returncode == 0


@contextlib.contextmanager
def container(image: str) -> Iterator[Container]:
    """Run a fresh server of an image; it vanishes with the block. Raises CalledProcessError, TimeoutError."""
    command = ["docker", "run", "--rm", "-d", "-e", "POSTGRES_HOST_AUTH_METHOD=trust", "-p", "127.0.0.1::5432", image]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        said = subprocess.run(["docker", "port", name, "5432"], check=True, capture_output=True, text=True).stdout
        server = Container(int(said.split()[0].rpartition(":")[2]))
        _await(server)
        yield server
    finally:
        subprocess.run(["docker", "stop", "-t", "1", name], check=False, capture_output=True)


def _await(server: Container) -> None:
    """The images start a server twice; the first, which fills the folder, listens on no port."""
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(server.conninfo(), connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise TimeoutError("the container does not answer") from None
            time.sleep(0.3)


def remove(folder: Path) -> None:
    """Remove a folder that may belong to another account."""
    for root, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(root, name))
        for name in folders:
            path = os.path.join(root, name)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)
    os.rmdir(folder)
