"""A proxy that was the last to write a record, several times in a row, charges in one crossing, and is wrong about nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.chains import ALONE
from dpproxy.ledger.ledger import BudgetExhausted, Grant, LedgerCorrupt, Limits, charge
from dpproxy.privacy.accountant import Limit
from dpproxy.records import record
from dpproxy.records.postgres import PostgresLedger, PostgresReader
from tests.worlds.waiting import SAFETY

from .conftest import NOON, MakeRequest, PostgresServer

KEY = b"k" * 32
FEW = ALONE + 3
LIMITS = Limits(Limit(FEW * MICRO), Limit(FEW * MICRO))
Open = Callable[[], PostgresLedger]


@pytest.fixture
def opened(postgres: PostgresServer) -> Iterator[Open]:
    """Opens the same sealed record each time."""
    ledgers: list[PostgresLedger] = []

    def one() -> PostgresLedger:
        ledgers.append(PostgresLedger(postgres.dsn, key=KEY))
        return ledgers[-1]

    yield one
    for ledger in ledgers:
        ledger.close()


def alone(opened: Open, request_of: MakeRequest) -> PostgresLedger:
    """A ledger that has found nothing of others for a while, with FEW - ALONE - 1 charges left; the next one is supposed."""
    ledger = opened()
    for _ in range(ALONE + 1):
        charge(ledger, request_of(limits=LIMITS))
    return ledger


def crossings(ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent from now on."""
    store, sent = ledger._chains._store, list[str]()
    do = store._do  # type: ignore[attr-defined]

    def noted(work: Any) -> Any:
        sent.append(work.__qualname__)
        return do(work)

    monkeypatch.setattr(store, "_do", noted)
    return sent


def test_one_crossing_for_a_charge(opened: Open, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = alone(opened, request_of)
    sent = crossings(ledger, monkeypatch)
    charge(ledger, request_of(limits=LIMITS))
    assert len(sent) == 1
    charge(opened(), request_of(limits=LIMITS))
    del sent[:]
    with pytest.raises(BudgetExhausted):
        charge(ledger, request_of(limits=LIMITS))
    assert len(sent) > 1, "what the other has charged was seen"


def test_who_looks_does_not_make_the_next_charge_dear(
    opened: Open, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each charge an analyst is told what is left."""
    ledger = alone(opened, request_of)
    sent = crossings(ledger, monkeypatch)
    for spent in (1, 2):
        assert ledger.standing("shop", "role", "analyst", LIMITS.role, NOON).charges == ALONE + spent
        del sent[:]
        charge(ledger, request_of(limits=LIMITS))
        assert len(sent) == 1


def test_what_another_has_spent_is_spent(postgres: PostgresServer, opened: Open, request_of: MakeRequest) -> None:
    ledger, other = alone(opened, request_of), opened()
    for _ in range(FEW - ALONE - 1):
        charge(other, request_of(limits=LIMITS))
    with pytest.raises(BudgetExhausted):
        charge(ledger, request_of(limits=LIMITS))
    assert record.verify(PostgresReader(postgres.dsn, "shop"), key=KEY).entries == FEW + 1


def test_what_another_has_granted_is_had(opened: Open, request_of: MakeRequest) -> None:
    """A refusal is never of what this proxy remembers alone."""
    ledger = alone(opened, request_of)
    for _ in range(FEW - ALONE - 1):
        charge(ledger, request_of(limits=LIMITS))
    other = opened()
    for scope, name in (("role", "analyst"), ("dataset", "shop")):
        other.grant(Grant("shop", scope, name, MICRO, 0, "asked for", NOON))  # type: ignore[arg-type]
    charge(ledger, request_of(limits=LIMITS))


def test_where_accounts_stand_is_asked(opened: Open, request_of: MakeRequest) -> None:
    ledger, other = alone(opened, request_of), opened()
    charge(other, request_of(limits=LIMITS))
    assert ledger.standing("shop", "role", "analyst", LIMITS.role, NOON).charges == ALONE + 2


def test_a_known_charge_is_charged_once(postgres: PostgresServer, opened: Open, request_of: MakeRequest) -> None:
    ledger = opened()
    first = request_of(limits=LIMITS)
    done = charge(ledger, first)
    for _ in range(ALONE):
        charge(ledger, request_of(limits=LIMITS))
    assert charge(ledger, first) == done
    charge(ledger, request_of(limits=LIMITS))
    assert record.verify(PostgresReader(postgres.dsn, "shop"), key=KEY).entries == ALONE + 3


def test_another_head_is_another_record(postgres: PostgresServer, opened: Open, request_of: MakeRequest) -> None:
    """As many entries as before, with a seal or a hash that is not ours."""
    ledger = alone(opened, request_of)
    for change in ("seal = decode(repeat('00', 32), 'hex')", "hash = decode(repeat('00', 32), 'hex')"):
        asyncio.run(postgres.execute(f"UPDATE dpproxy_ledger.head SET {change}"))
        with pytest.raises(LedgerCorrupt):
            charge(ledger, request_of(limits=LIMITS))


def test_two_that_each_think_they_are_alone(postgres: PostgresServer, opened: Open, request_of: MakeRequest) -> None:
    ledgers, verdicts = [alone(opened, request_of), opened()], list[bool]()
    ledgers[1].standing("shop", "role", "analyst", LIMITS.role, NOON)
    ledgers[1]._chains._unseen["shop"] = ALONE

    def work(ledger: PostgresLedger) -> None:
        futures = [ledger.submit(request_of(limits=LIMITS)) for _ in range(20)]
        ledger._chains._unseen["shop"] = ALONE
        verdicts.extend(f.exception() is None for f in futures)

    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in ledgers for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(verdicts) == FEW - ALONE - 1
    assert record.verify(PostgresReader(postgres.dsn, "shop"), key=KEY).entries == FEW + 1


def test_an_answer_that_is_lost_is_a_charge(
    postgres: PostgresServer, opened: Open, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes after the server has committed: the charge is found by its id, and made once."""
    ledger = alone(opened, request_of)
    store = ledger._chains._store
    settled = store._settled  # type: ignore[attr-defined]
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpproxy ledger'"

    def lost(text: str) -> None:
        monkeypatch.setattr(store, "_settled", settled)
        assert "still(" in text
        settled(text)
        asyncio.run(postgres.execute(cut))
        settled(text)  # finds that the connection is gone

    monkeypatch.setattr(store, "_settled", lost)
    request = request_of(limits=LIMITS)
    assert charge(ledger, request).id == request.id
    assert record.verify(PostgresReader(postgres.dsn, "shop"), key=KEY).entries == ALONE + 3


def test_a_charge_in_one_crossing_is_on_disk(postgres: PostgresServer, opened: Open, request_of: MakeRequest) -> None:
    """The server is killed as soon as it has answered, and has had no time to write what it was not told to."""
    wide = Limits(Limit(10**15), Limit(10**15))
    for _ in range(3):
        ledger = opened()
        for _ in range(ALONE + 1):
            charge(ledger, request_of(limits=wide))
        done = charge(ledger, request_of(limits=wide))
        postgres.kill()
        postgres.start()
        assert done in [entry for _, entry in record.show(PostgresReader(postgres.dsn, "shop"))]


def test_a_charge_among_others_is_on_disk(postgres: PostgresServer, opened: Open, request_of: MakeRequest) -> None:
    """The same where two take turns, and each has begun its next transaction before it acknowledges the last."""
    for _ in range(3):
        ledgers = [opened(), opened()]
        for _ in range(2):
            done = [charge(ledger, request_of()) for ledger in ledgers]
        assert all(ledger._chains._store.waiting for ledger in ledgers)
        postgres.kill()
        postgres.start()
        assert done[-1] in [entry for _, entry in record.show(PostgresReader(postgres.dsn, "shop"))]


def test_what_was_begun_ahead_is_given_back(postgres: PostgresServer, opened: Open, request_of: MakeRequest) -> None:
    """When nothing more comes, and before the server cuts the connection off."""
    ledgers = [opened(), opened()]
    for ledger in [*ledgers, *ledgers]:
        charge(ledger, request_of())
    assert all(ledger._chains._store.waiting for ledger in ledgers)
    connected = sessions(postgres)
    assert len(connected) == 2
    assert held_by(postgres, list(connected)) == [], "it keeps nobody waiting, and no row from being cleaned up"
    deadline = time.monotonic() + SAFETY
    while "idle in transaction" in sessions(postgres).values():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert sessions(postgres).keys() == connected.keys()
    for ledger in ledgers:
        charge(ledger, request_of())
    assert record.verify(PostgresReader(postgres.dsn, "shop"), key=KEY).entries == 7


def sessions(postgres: PostgresServer) -> dict[int, str]:
    async def found() -> dict[int, str]:
        connection = await asyncpg.connect(postgres.dsn)
        rows = await connection.fetch("SELECT pid, state FROM pg_stat_activity WHERE application_name = 'dpproxy ledger'")
        await connection.close()
        return {row["pid"]: row["state"] for row in rows}

    return asyncio.run(found())


def held_by(postgres: PostgresServer, sessions: list[int]) -> list[object]:
    """Locks, and transactions that see or write anything."""
    locks = "SELECT locktype FROM pg_locks WHERE pid = ANY($1::int[]) AND locktype <> 'virtualxid'"
    seen = "SELECT pid::text FROM pg_stat_activity WHERE pid = ANY($1::int[]) AND (backend_xmin, backend_xid) IS DISTINCT FROM (NULL, NULL)"

    async def found() -> list[object]:
        connection = await asyncpg.connect(postgres.dsn)
        rows = [row[0] for query in (locks, seen) for row in await connection.fetch(query, sessions)]
        await connection.close()
        return rows

    return asyncio.run(found())


def test_a_connection_that_is_cut_with_something_begun(postgres: PostgresServer, opened: Open, request_of: MakeRequest) -> None:
    ledgers = [opened(), opened()]
    for ledger in [*ledgers, *ledgers]:
        charge(ledger, request_of())
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpproxy ledger'"
    asyncio.run(postgres.execute(cut))
    for ledger in ledgers:
        charge(ledger, request_of())
    assert record.verify(PostgresReader(postgres.dsn, "shop"), key=KEY).entries == 7
