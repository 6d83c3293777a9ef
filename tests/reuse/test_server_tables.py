"""Stored answers on a server: what a lost connection does, a server that is away, another key; and the clock that ages them."""

from __future__ import annotations

import datetime as dt
import threading
import time
from pathlib import Path

import asyncpg
import psycopg
import pytest
from scratch_postgres import Scratch

from dpproxy.errors import Refusal
from dpproxy.reuse import server_tables
from dpproxy.reuse.server_tables import ServerTables
from dpproxy.reuse.store import AnswerStore
from dpproxy.reuse.tables import Sealer, SealError, TablesAway
from tests.reuse.test_store import NOON, asked, find, release, released, same
from tests.worlds.waiting import SAFETY

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpproxy stored answers'"
SEALED = Sealer(b"k" * 32)


def run(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[call-overload]
        return list(cursor.fetchall()) if cursor.description else []


def test_what_one_keeps_another_shows(answers_server: str) -> None:
    """Over two connections, one of which is lost between each two calls; nothing of an answer is in plain text."""
    stores = [AnswerStore(answers_server, sealer=SEALED) for _ in range(2)]
    made = asked(accepts={"k": frozenset({"marker"})})
    run(answers_server, CUT)
    stores[0].put(release(made=made))
    run(answers_server, CUT)
    found = find(stores[1], made, role="b")
    assert found is not None
    assert found.stored is not None
    assert same(found.released, released())
    run(answers_server, CUT)
    stores[1].mark_seen(found.stored, "b", NOON)
    again = find(stores[0], made, role="b")
    assert again is not None
    assert again.seen("b")
    ((payload,),) = run(answers_server, "SELECT payload FROM dpproxy_ledger.releases")
    assert isinstance(payload, bytes)
    assert b"marker" not in payload
    assert "région".encode() not in payload
    for store in stores:
        store.close()


def test_a_goodbye_that_is_half_read_is_a_lost_connection(answers_server: str) -> None:
    """asyncpg has read that the server ends the session, and not yet that it is gone, when the next call begins."""
    store = AnswerStore(answers_server, sealer=SEALED)
    tables = store._tables
    assert isinstance(tables, ServerTables)
    message = b"SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"

    async def goodbye() -> None:
        tables._db._protocol.data_received(b"E" + (len(message) + 4).to_bytes(4, "big") + message)

    async def plain() -> None:
        await tables._db.execute("SELECT 1")

    tables._do(goodbye())
    with pytest.raises(asyncpg.InternalClientError):  # which is no InterfaceError
        tables._do(plain())
    store.put(release(seed=1))
    tables._do(goodbye())
    assert find(store, asked()) is not None
    store.close()


def test_what_was_kept_without_an_acknowledgement_is_kept_once(answers_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Averages of several releases would count one of two copies as another."""
    monkeypatch.setattr(server_tables, "PAUSE", 0.0)
    store, real, lost = AnswerStore(answers_server, sealer=SEALED), ServerTables._do, []

    def do(self: ServerTables, work: object) -> object:
        done = real(self, work)  # type: ignore[arg-type]
        if not lost and run(
            answers_server, "SELECT 1 FROM dpproxy_ledger.releases"
        ):  # to others it is there once it is committed
            lost.append(True)
            raise ConnectionResetError("gone before it said so")
        return done

    monkeypatch.setattr(ServerTables, "_do", do)
    store.put(release(seed=1))
    assert lost == [True]
    assert run(
        answers_server, "SELECT count(*), min(role) FROM dpproxy_ledger.releases JOIN dpproxy_ledger.seen ON release = id"
    ) == [(1, "a")]
    store.close()


def test_a_server_that_is_away_is_no_miss(ledger_server: Scratch, answers_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever measured anew would pay for what is paid for. What was paid for meanwhile is kept when the server is back."""
    monkeypatch.setattr(server_tables, "PAUSE", 0.05)
    store = AnswerStore(answers_server, sealer=SEALED)
    store.put(release())
    ledger_server.wait(ledger_server.server.stop())
    try:
        for _ in (1, 2):
            with pytest.raises(Refusal, match="stored answers cannot be reached"):
                find(store)
        assert store.count("shop", "a") == 0
        keeping = threading.Thread(target=store.put, args=(release(made=asked("paid for"), seed=2),))
        keeping.start()
    finally:
        ledger_server.wait(ledger_server.server.start())
    keeping.join(SAFETY)
    for made, seed in ((asked(), 0), (asked("paid for"), 2)):
        found = find(store, made)
        assert found is not None
        assert same(found.released, released(seed=seed))
    store.close()


def test_patience_has_an_end(answers_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is known of an answer that could not be kept is its name."""
    monkeypatch.setattr(server_tables, "PAUSE", 0.0)
    monkeypatch.setattr(server_tables, "PATIENCE", 0.0)
    store = AnswerStore(answers_server, sealer=SEALED)
    tables = store._tables
    assert isinstance(tables, ServerTables)
    with monkeypatch.context() as away:
        away.setattr(tables, "_dsn", "postgresql://postgres@127.0.0.1:1/postgres")
        run(answers_server, CUT)
        store.put(release())
        with pytest.raises(TablesAway):
            tables.writing(lambda: None)
    store.put(release(seed=1))
    assert find(store, role="b") is None, "the first release may have been another"
    assert find(store) is not None
    store.close()


@pytest.mark.parametrize("key", [None, b"l" * 32])
def test_another_key_begins_nothing_anew(answers_server: str, key: bytes | None) -> None:
    store = AnswerStore(answers_server, sealer=SEALED)
    store.put(release())
    with pytest.raises(SealError, match="beside the ledger"):
        AnswerStore(answers_server, sealer=Sealer(key) if key else None)
    assert find(store) is not None
    run(answers_server, "UPDATE dpproxy_ledger.seal SET format = 99")
    with pytest.raises(SealError, match="another version"):
        AnswerStore(answers_server, sealer=SEALED)
    store.close()


def test_all_go_by_the_clock_of_the_server(answers_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is wrong by days neither shows what is too old nor drops what is not."""
    wrong = time.time() + 10 * 86400
    monkeypatch.setattr(time, "time", lambda: wrong)
    store = AnswerStore(answers_server, sealer=SEALED)
    ((now,),) = run(answers_server, "SELECT clock_timestamp()")
    assert isinstance(now, dt.datetime)
    assert abs(store.now() - now) < dt.timedelta(minutes=1)
    assert store.now() <= store.now()
    store.close()
