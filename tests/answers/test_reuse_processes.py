"""A hundred clients of two processes ask for the same at once: it is measured once, paid once by each role, and nobody overspends.

So do clients of two proxies that share a ledger and no folder.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.amounts import MICRO
from dpproxy.ledger.ledger import Charge
from dpproxy.records import record
from dpproxy.records.place import ledger_key, place_of
from dpproxy.serve.launch import Proxy, launched
from tests.worlds.town import DATA, POLICY, VERIFIER
from tests.worlds.waiting import SAFETY

CLIENTS, CHARTS, LEFT = 100, 15, 10  # clients, charts, and how many of them a role can pay for
USERS = ("ada", "bob", "cy", "eve")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("ledger")) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("town")
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute(DATA)
    policy = re.sub(r"epsilon: 100, delta: 1e-4, every: month", f"epsilon: {LEFT}, delta: 0, every: never", POLICY)
    policy = policy.replace(", delta: 1e-7", "").replace(", budget: { epsilon: 3 }", "").replace("VERIFIER", VERIFIER)
    (folder / "town.yaml").write_text(policy)
    (folder / "key").write_text("k" * 32)
    return folder


@pytest.fixture(scope="module")
def proxy(folder: Path, ledger: Scratch) -> Iterator[Proxy]:
    options = ("--processes", "2", "--ledger", ledger.dsn())
    with launched([folder / "town.yaml"], folder / "state", options=options) as running:
        yield running


async def ask_all(proxy: Proxy, number: int, gates: list[asyncio.Barrier]) -> list[str | None]:
    """The answers of one client, chart by chart, all clients at once; None for a refusal."""
    dsn = f"host={proxy.host} port={proxy.port} user={USERS[number % len(USERS)]} password=x dbname=town"
    found: list[str | None] = []
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        for chart, gate in enumerate(gates):
            await gate.wait()
            try:
                cursor = await connection.execute(f"SELECT region, sum(income) FROM people WHERE income <> {chart} GROUP BY 1")
                found.append(str(sorted(await cursor.fetchall())))
            except psycopg.errors.ConfigurationLimitExceeded:
                found.append(None)
    return found


def charges_of(address: str, key: bytes | None = None) -> list[Charge]:
    reader = place_of(address, Path()).reader("town")
    record.verify(reader, key=key)
    return [entry for _, entry in record.show(reader) if isinstance(entry, Charge)]


@pytest.mark.slow
async def test_a_hundred_at_once(proxy: Proxy, ledger: Scratch, capsys: pytest.CaptureFixture[str]) -> None:
    gates = [asyncio.Barrier(CLIENTS) for _ in range(CHARTS)]
    answers = await asyncio.wait_for(asyncio.gather(*(ask_all(proxy, n, gates) for n in range(CLIENTS))), 300)
    charges = await asyncio.to_thread(charges_of, ledger.dsn())
    for role in ("analyst", "other"):
        mine = [c for c in charges if c.role == role]
        assert sum(c.loss.epsilon for c in mine) == LEFT * MICRO, "all of it, and not a bit more"
    for chart in range(CHARTS):
        shown = {a[chart] for a in answers} - {None}
        assert len(shown) == (chart < LEFT), "all see the same noise, or are refused"
    measured = sum(bool(c.dataset_loss) for c in charges)
    with capsys.disabled():
        print(
            f"\n{CLIENTS} clients of 2 processes x {CHARTS} charts: {measured} measured, {len(charges)} charges of 2 roles, 0 overspends"
        )
    assert (measured, len(charges)) == (LEFT, 2 * LEFT)


@pytest.mark.slow
async def test_two_machines(folder: Path, ledger: Scratch) -> None:
    """What one proxy is measuring the other waits for; what the one has paid for the other shows, also when the one is dead."""
    with psycopg.connect(ledger.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE machines")
    address, gates = ledger.dsn("machines"), [asyncio.Barrier(8) for _ in range(3)]
    options = ("--ledger", address, "--key-file", str(folder / "key"))
    key = ledger_key((folder / "key").read_bytes())
    with ExitStack() as machines:
        first, second = (
            machines.enter_context(launched([folder / "town.yaml"], folder / name, options=options)) for name in ("one", "two")
        )
        asking = [ask_all(proxy, number, gates) for proxy in (first, second) for number in range(len(USERS))]
        answers = await asyncio.wait_for(asyncio.gather(*asking), SAFETY)
        charges = await asyncio.to_thread(charges_of, address, key)
        os.kill(first.pid, signal.SIGKILL)
        again = await ask_all(second, 0, [asyncio.Barrier(1) for _ in gates])
        assert await asyncio.to_thread(charges_of, address, key) == charges, "nobody pays twice"
    for chart in range(len(gates)):
        assert len({a[chart] for a in (*answers, again)} - {None}) == 1, "all see the same noise"
    assert (sum(bool(c.dataset_loss) for c in charges), len(charges)) == (3, 6), (
        "each was measured once, and paid once by each role"
    )
    assert not (folder / "one" / "answers.sqlite").exists()
