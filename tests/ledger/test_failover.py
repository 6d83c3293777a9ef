"""Three proxies over one ledger whose server has a synchronous standby: a partition, a wait cut short, a fail-over.

Nothing that was acknowledged is lost, nothing is charged twice, and what the standby has not got is acknowledged to nobody. What was
paid for before is still stored after it, and so is what was paid for meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.ledger import BudgetExhausted, ChargeRequest, LedgerError, Limits, charge
from dpproxy.privacy.accountant import Limit
from dpproxy.records import record
from dpproxy.records.postgres import PostgresLedger, PostgresReader
from dpproxy.reuse.store import AnswerStore
from dpproxy.reuse.tables import Sealer
from tests.reuse.test_store import asked, find, release
from tests.worlds.waiting import SAFETY

from .conftest import MakeRequest, PostgresServer

LIMITS = Limits(Limit(40 * MICRO), Limit(40 * MICRO))
SENDER = "SELECT pid FROM pg_stat_replication"
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    primary = PostgresServer(tmp_path_factory.mktemp("primary"))
    standby = primary.standby(tmp_path_factory.mktemp("standby"))
    yield primary, standby
    for server in (primary, standby):
        server.stop()


def ask(server: PostgresServer, query: str) -> list[Any]:
    async def found() -> list[Any]:
        connection = await asyncpg.connect(server.dsn)
        try:
            return [row[0] for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return asyncio.run(found())


def wait_until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SAFETY
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def cut_off(primary: PostgresServer) -> Iterator[int]:
    """Stop what sends the log to the standby, as if the network between the two were cut."""
    (sender,) = wait_until(lambda: ask(primary, SENDER))
    os.kill(sender, signal.SIGSTOP)
    try:
        yield sender
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(sender, signal.SIGCONT)


def insisted(ledger: PostgresLedger, request: ChargeRequest) -> bool:
    """Charge, asking for the same again while the ledger fails, as often as it takes."""
    deadline = time.monotonic() + SAFETY
    while True:
        try:
            charge(ledger, request)
            return True
        except BudgetExhausted:
            return False
        except LedgerError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_the_standby_lacks_is_acknowledged_to_nobody(
    pair: tuple[PostgresServer, PostgresServer], request_of: MakeRequest
) -> None:
    """A wait for the standby that an administrator cancels ends in PostgreSQL as a success with a warning; then the primary dies."""
    primary, standby = pair
    both = f"postgresql://postgres@/postgres?host={primary.place.home},{standby.place.home}&target_session_attrs=read-write"
    ledgers, sealer = [PostgresLedger(both) for _ in range(3)], Sealer(b"k" * 32)
    stores = [AnswerStore(both, sealer=sealer) for _ in range(2)]
    stores[0].put(release())
    before = [request_of(limits=LIMITS) for _ in range(9)]
    with ThreadPoolExecutor(40) as threads:
        assert all(threads.map(insisted, ledgers * 3, before))
        with cut_off(primary) as sender:
            cut = ledgers[0].submit(request_of(limits=LIMITS))
            for _ in (1, 2):  # a transaction is tried twice
                waiting = wait_until(lambda: cut.done() or ask(primary, WAITING))
                assert not cut.done(), "acknowledged, and the standby has not got it"
                ask(primary, f"SELECT pg_cancel_backend({waiting[0]})")
                wait_until(lambda before=waiting: ask(primary, WAITING) != before)
            with pytest.raises(LedgerError, match="synchronous replication"):
                cut.result(SAFETY)
            racing = [request_of(limits=LIMITS) for _ in range(40)]
            answers = [threads.submit(insisted, ledgers[i % 3], request) for i, request in enumerate(racing)]
            wait_until(lambda: ask(primary, WAITING))
            assert not any(answer.done() for answer in answers), "nobody is told what the standby has not got"
            keeping = threads.submit(stores[0].put, release(made=asked("paid meanwhile"), seed=1))
            primary.kill()
            os.kill(sender, signal.SIGKILL)
        ask(standby, "SELECT pg_promote()")
        told = [answer.result(SAFETY) for answer in answers]
        keeping.result(SAFETY)
    assert (find(stores[1]), find(stores[1], asked("paid meanwhile"))).count(None) == 0
    for store in stores:
        store.close()
    for ledger in ledgers:
        ledger.close()
    reader = PostgresReader(standby.dsn, "shop")
    found = [entry.id for _, entry in record.show(reader)]  # type: ignore[union-attr]
    record.verify(reader)
    acknowledged = [r.id for r in before] + [r.id for r, granted in zip(racing, told, strict=True) if granted]
    assert sorted(found) == sorted(acknowledged), "each that was told of is there once, and no other"
    assert len(found) == 40, "three proxies share one limit"
