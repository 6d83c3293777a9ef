"""The PostgreSQL ledger's own promises: several proxies, a server that dies, tampering, repair."""

from __future__ import annotations

import asyncio
import io
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.ledger import BudgetExhausted, Grant, LedgerCorrupt, LedgerError, Limits, charge
from dpproxy.privacy.accountant import Limit
from dpproxy.records import postgres as postgres_ledger
from dpproxy.records import record
from dpproxy.records.postgres import PostgresLedger, PostgresReader

from .conftest import LATER, NOON, WRITER, MakeRequest, PostgresServer


def test_two_proxies_share_one_budget(postgres: Any, request_of: MakeRequest) -> None:
    limits = Limits(Limit(2 * MICRO), Limit(2 * MICRO))
    one, two = PostgresLedger(postgres.dsn), PostgresLedger(postgres.dsn)
    charge(one, request_of(limits=limits))
    charge(two, request_of(limits=limits))
    for ledger in (one, two):
        with pytest.raises(BudgetExhausted):
            charge(ledger, request_of(limits=limits))
        assert ledger.standing("shop", "role", "analyst", limits.role, NOON).left_epsilon == 0
    one.close()
    two.close()


def test_racing_proxies_cannot_overspend(postgres: Any, request_of: MakeRequest) -> None:
    limits = Limits(Limit(50 * MICRO), Limit(50 * MICRO))
    ledgers = [PostgresLedger(postgres.dsn) for _ in range(4)]
    verdicts: list[bool] = []

    def work(ledger: PostgresLedger) -> None:
        futures = [ledger.submit(request_of(limits=limits)) for _ in range(5)]
        verdicts.extend(f.exception() is None for f in futures)

    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in ledgers for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(verdicts), sum(verdicts)) == (100, 50)
    for ledger in ledgers:
        ledger.close()
    assert record.verify(PostgresReader(postgres.dsn, "shop")).entries == 51


def test_a_connection_that_is_cut_comes_back(postgres: Any, request_of: MakeRequest) -> None:
    ledger = PostgresLedger(postgres.dsn)
    charge(ledger, request_of())
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpproxy ledger'"
    asyncio.run(postgres.execute(cut))
    charge(ledger, request_of())
    assert ledger.standing("shop", "role", "analyst", Limit(10**9), NOON).charges == 2
    ledger.close()


def test_no_server_no_charge(tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        PostgresLedger(f"postgresql://postgres@/postgres?host={tmp_path}")


def test_datasets_do_not_wait_for_each_other(postgres: Any, request_of: MakeRequest) -> None:
    """While one proxy holds one dataset's lock, another charges another dataset."""
    ledger, other = PostgresLedger(postgres.dsn), PostgresLedger(postgres.dsn)
    charge(ledger, request_of())  # the record exists: what holds others off is the lock, not its creation
    entered, release = threading.Event(), threading.Event()

    def hold(tx: object) -> None:
        entered.set()
        release.wait(300)

    held = ledger._enqueue("shop", hold)
    entered.wait(300)
    charge(other, request_of(dataset="clinic"))
    waiting = other.submit(request_of())
    time.sleep(0.05)
    assert not waiting.done()
    release.set()
    assert waiting.result().dataset == "shop"
    held.result()
    ledger.close()
    other.close()


def test_tampering_and_repair(postgres: Any, request_of: MakeRequest) -> None:
    ledger = PostgresLedger(postgres.dsn)
    for _ in range(5):
        charge(ledger, request_of(role="r0"))
    ledger.close()
    out = io.StringIO()
    record.export(PostgresReader(postgres.dsn, "shop"), out)
    assert record.verify_export(out.getvalue().splitlines()).entries == 6
    assert postgres_ledger.repair(postgres.dsn, "shop", at=LATER, reason="nothing") is None
    asyncio.run(postgres.execute("DELETE FROM dpproxy_ledger.entries WHERE sequence = 4"))
    ledger = PostgresLedger(postgres.dsn)
    with pytest.raises(LedgerCorrupt):
        charge(ledger, request_of(role="r0"))
    ledger.close()
    repaired = postgres_ledger.repair(postgres.dsn, "shop", at=LATER, reason="a bad restore")
    assert repaired is not None
    assert repaired.entries == 6  # opened, four charges, exhausted
    ledger = PostgresLedger(postgres.dsn)
    with pytest.raises(BudgetExhausted):
        charge(ledger, request_of(1, role="r0"))
    for scope, name in (("role", "r0"), ("dataset", "shop")):
        ledger.grant(Grant("shop", scope, name, MICRO, 0, "checked", LATER))  # type: ignore[arg-type]
    charge(ledger, request_of(MICRO, role="r0"))
    ledger.close()


def _kill_loop(server: Any, kills: int) -> tuple[int, int]:
    """Kill one proxy or two, or the server under them; every acknowledged charge is there afterwards."""
    rng, acknowledged, charged = random.Random(11), set[str](), 0
    for i in range(kills):
        command = [sys.executable, str(WRITER), server.dsn, "1000000", "4"]
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(1 + i % 2)]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            if i == 0:  # however slow the machine is, some charges are acknowledged
                acknowledged.add(writer.stdout.readline().decode().rstrip("\n"))
        time.sleep(rng.uniform(0.01, 0.12))
        if i % 8 in (2, 3):
            server.kill()
            server.start()
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            acknowledged |= set(writer.communicate()[0].decode().split("\n")[:-1])
        found = {entry.id for _, entry in record.show(PostgresReader(server.dsn, "shop"))}  # type: ignore[union-attr]
        record.verify(PostgresReader(server.dsn, "shop"))
        assert acknowledged <= found
        charged = len(found)
    return len(acknowledged), charged


def test_kill_loses_no_charge_in_postgres(postgres: Any) -> None:
    acknowledged, charged = _kill_loop(postgres, 4)
    assert acknowledged > 0
    assert charged - acknowledged <= 4 * 16


@pytest.mark.long
def test_two_hundred_kills_in_postgres(postgres: Any, capsys: pytest.CaptureFixture[str]) -> None:
    acknowledged, charged = _kill_loop(postgres, 200)
    with capsys.disabled():
        print(f"\n200 kills: {acknowledged} acknowledged, {charged} charged, 0 lost")


def test_a_known_id_is_not_refused_when_the_budget_is_gone(postgres: Any, request_of: MakeRequest) -> None:
    """Asked for again through another proxy, by one that was never told: still the first charge."""
    limits, one, two = Limits(Limit(MICRO), Limit(MICRO)), PostgresLedger(postgres.dsn), PostgresLedger(postgres.dsn)
    request = request_of(limits=limits)
    first = charge(one, request)
    assert charge(two, request) == first
    with pytest.raises(BudgetExhausted):
        charge(two, request_of(limits=limits))
    one.close()
    two.close()


def test_names_are_quoted(postgres: Any, request_of: MakeRequest) -> None:
    odd = 'it\'s \\ a "name"; -- ü'
    ledger = PostgresLedger(postgres.dsn)
    done = charge(ledger, request_of(role=odd, user=odd, dataset=odd))
    ledger.close()
    ((_, found),) = record.show(PostgresReader(postgres.dsn, odd))
    assert found == done


def test_servers_none_of_which_is_what_was_asked_for(postgres: Any) -> None:
    """As in the midst of a fail-over, when all that an address names are standbys."""
    with pytest.raises(LedgerError, match="the ledger's PostgreSQL"):
        PostgresLedger(f"{postgres.dsn}&target_session_attrs=standby")


@pytest.mark.long
def test_eight_writers(postgres: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight processes, each charging one statement after the other, to one dataset; the promise is 500 a second."""
    command = [sys.executable, str(WRITER), postgres.dsn, "1000000", "1"]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(8)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    time.sleep(0.5)
    reader = PostgresReader(postgres.dsn, "shop")
    counted, began = record.verify(reader).entries, time.monotonic()
    time.sleep(5)
    seconds, rate = time.monotonic() - began, record.verify(reader).entries - counted
    for writer in writers:
        writer.kill()
        writer.communicate()
    with capsys.disabled():
        print(f"\n8 writers: {rate / seconds:.0f} charges/s")
    assert rate / seconds >= 500


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_server_that_forgets_is_told_of(postgres: PostgresServer, name: str, caplog: pytest.LogCaptureFixture) -> None:
    PostgresLedger(postgres.dsn).close()
    assert not caplog.records
    try:
        for statement in (f"ALTER SYSTEM SET {name} = off", "SELECT pg_reload_conf()"):
            asyncio.run(postgres.execute(statement))
        wait_for(postgres, name, "off")
        PostgresLedger(postgres.dsn).close()
        assert f"{name} = off" in caplog.text
    finally:
        for statement in (f"ALTER SYSTEM RESET {name}", "SELECT pg_reload_conf()"):
            asyncio.run(postgres.execute(statement))
        wait_for(postgres, name, "on")


def wait_for(postgres: PostgresServer, name: str, value: str) -> None:
    """A server takes up its configuration when it gets to it."""

    async def shown() -> object:
        connection = await asyncpg.connect(postgres.dsn)
        try:
            return await connection.fetchval("SELECT current_setting($1)", name)
        finally:
            await connection.close()

    while asyncio.run(shown()) != value:
        time.sleep(0.02)
