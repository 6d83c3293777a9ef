"""Requests, and a way to open each kind of ledger twice on the same record."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from dpproxy.amounts import MICRO
from dpproxy.facade.account import choose_account, choose_place, find_binaries
from dpproxy.ledger.journal import Journal
from dpproxy.ledger.ledger import ChargeRequest, Limits
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss
from dpproxy.records.postgres import PostgresLedger
from dpproxy.records.sqlite import SqliteLedger

MakeRequest = Callable[..., ChargeRequest]

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
LATER = NOON + dt.timedelta(hours=1)
WRITER = Path(__file__).with_name("crash_writer.py")
WIDE = Limits(Limit(10**15), Limit(10**15))


def make_request(
    epsilon: int = MICRO,
    *,
    limits: Limits = WIDE,
    role: str = "analyst",
    user: str = "ada",
    dataset: str = "shop",
    dataset_loss: Loss | None = None,
    at: dt.datetime = NOON,
    id: str | None = None,
    delta: int = 0,
) -> ChargeRequest:
    loss = Loss(epsilon, delta)
    whole = loss if dataset_loss is None else dataset_loss
    return ChargeRequest(id or str(uuid.uuid4()), dataset, role, user, loss, whole, limits, "hash", at)


@pytest.fixture
def request_of() -> MakeRequest:
    return make_request


class PostgresServer:
    """A durable server of its own (unlike the facade's): it can be killed and started again on the same files."""

    def __init__(self, home: Path) -> None:
        self.account = choose_account()
        self.place = choose_place(home, self.account, find_binaries())
        self.dsn = f"postgresql://postgres@/postgres?host={self.place.home}"
        self._initdb()
        self.start()

    def _program(self, name: str, *arguments: str) -> list[str]:
        return [self.place.binaries.program(name), "-D", str(self.place.data), *arguments]

    def _identity(self) -> dict[str, Any]:
        who = {"user": self.account.uid, "group": self.account.gid, "extra_groups": []} if self.account.switch else {}
        return {"cwd": str(self.place.home), "env": {"LC_ALL": "C", "PATH": os.defpath}} | who

    def _initdb(self) -> None:
        command = self._program("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-instructions")
        subprocess.run(command, check=True, capture_output=True, **self._identity())

    def standby(self, home: Path) -> PostgresServer:
        """Start a copy that follows this server; from now on each commit here waits for its disk."""
        made = copy.copy(self)
        made.place = choose_place(home, self.account, self.place.binaries)
        made.dsn = f"postgresql://postgres@/postgres?host={made.place.home}"
        folder = ("-D", str(made.place.data), "-h", str(self.place.home), "-U", "postgres", "-R", "-c", "fast")
        command = [self.place.binaries.program("pg_basebackup"), *folder]
        subprocess.run(command, check=True, capture_output=True, **made._identity())
        made.start()
        self.set("synchronous_standby_names", "'*'")
        return made

    def set(self, name: str, value: str) -> None:
        for statement in (f"ALTER SYSTEM SET {name} = {value}", "SELECT pg_reload_conf()"):
            asyncio.run(self.execute(statement))

    def start(self) -> None:
        options = ("-k", str(self.place.home), "-h", "", "-c", "max_connections=40", "-c", "shared_buffers=16MB")
        command, quiet = self._program("postgres", *options), subprocess.DEVNULL
        deadline = time.monotonic() + 300
        self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet, **self._identity())
        while True:
            if self._process.poll() is not None:  # the children of a killed server need a moment to go
                self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet, **self._identity())
            try:
                asyncio.run(self.execute("SELECT 1"))
                return
            except (OSError, asyncpg.PostgresError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.dsn)
        await connection.execute(statement)
        await connection.close()

    def kill(self) -> None:
        """As by a power failure, but for what the kernel still holds: all processes at once, no shutdown."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(300)
        if self.place.temporary:
            shutil.rmtree(self.place.home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    server = PostgresServer(tmp_path_factory.mktemp("pg"))
    yield server
    server.stop()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> PostgresServer:
    """The server without any record."""
    asyncio.run(postgres_server.execute("DROP SCHEMA IF EXISTS dpproxy_ledger CASCADE"))
    return postgres_server


OpenLedger = Callable[..., Journal]


@pytest.fixture(params=["sqlite", "postgres"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenLedger]:
    """Opens the same record each time; what is still open at the end is closed."""
    opened: list[Journal] = []
    dsn = request.getfixturevalue("postgres").dsn if request.param == "postgres" else ""

    def factory(**options: Any) -> Journal:
        ledger: Journal = PostgresLedger(dsn, **options) if dsn else SqliteLedger(tmp_path / "ledger.sqlite", **options)
        opened.append(ledger)
        return ledger

    yield factory
    for ledger in opened:
        ledger.close()
