"""A ledger whose server answers late: what costs nothing goes on, what costs waits, and is answered and charged once, or refused uncharged."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import duckdb
import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.ledger.ledger import Charge
from dpproxy.records import record
from dpproxy.records.place import ledger_key
from dpproxy.records.postgres import LOCK_SECONDS, PostgresReader
from dpproxy.serve.launch import Proxy, launched
from tests.worlds.slow_cable import Cable, cable
from tests.worlds.town import DATA, POLICY, VERIFIER
from tests.worlds.waiting import SAFETY

KEY: Final = b"k" * 32
LOCKED: Final = "SELECT count(*) FROM pg_locks WHERE NOT granted"
FLUSHING: Final = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'dpproxy ledger'"
FOLLOWED: Final = {"max_wal_senders": "2", "wal_level": "replica"}
STANDBY: Final = "SHOW synchronous_standby_names"
CROSSING: Final = 0.3
"""Seconds there and back, on a network that is slow."""
Told = tuple[str, str]


@dataclass
class Site:
    """A proxy whose ledger is on a server, at the other end of a cable. `ask`: the rows, and what the first notice says first."""

    proxy: Proxy
    server: Scratch
    cable: Cable

    def ask(self, statement: str) -> Told:
        notices: list[str] = []
        address = f"host={self.proxy.host} port={self.proxy.port} user=ada password=x dbname=town"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
            rows = connection.execute(statement).fetchall()  # type: ignore[call-overload]
        return str(sorted(rows)), notices[0].split()[0].rstrip(",") if notices else ""

    def charges(self) -> int:
        reader = PostgresReader(self.server.dsn(), "town")
        record.verify(reader, key=ledger_key(KEY))
        return sum(isinstance(entry, Charge) for _, entry in record.show(reader))

    @contextlib.contextmanager
    def slow(self) -> Iterator[psycopg.Connection[tuple[object]]]:
        """Until the end of the block, or of what is done with the connection, the server answers no question about the record."""
        with psycopg.connect(self.server.conninfo()) as connection:
            connection.execute("SELECT 1 FROM dpproxy_ledger.head FOR UPDATE")
            yield connection

    @contextlib.contextmanager
    def no_disk(self) -> Iterator[None]:
        """Until the end of the block no commit is durable: each waits for the disk of a standby that is not there."""
        self._follow("'nobody'")
        try:
            yield
        finally:
            self._follow("''")

    def _follow(self, standby: str) -> None:
        """Return once the server has read it: it knows when it gets to it."""
        with psycopg.connect(self.server.conninfo(), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = {standby}".encode())
            connection.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + SAFETY
        while True:
            with psycopg.connect(self.server.conninfo(), autocommit=True) as connection:
                if connection.execute(STANDBY).fetchone() == (standby.strip("'"),):
                    return
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def asked(self, threads: ThreadPoolExecutor, statement: str, until: str = LOCKED) -> Future[Told]:
        """Ask, and return once the ledger waits for its server."""
        with psycopg.connect(self.server.conninfo(), autocommit=True) as connection:
            asked, deadline = threads.submit(self.ask, statement), time.monotonic() + SAFETY
            while connection.execute(until.encode()).fetchone() == (0,):
                assert not asked.done(), asked.result()
                assert time.monotonic() < deadline
                time.sleep(0.02)
        return asked


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("slow")
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute(DATA)
    policy = POLICY.replace("VERIFIER", VERIFIER) + "\nreuse_answers: { for: 1h, epoch: one }\n"
    (folder / "town.yaml").write_text(policy)
    (folder / "key").write_bytes(KEY)
    with scratch_server(folder / "ledger", settings=FOLLOWED) as server, cable(folder, server.home) as slow:
        options = ("--ledger", f"postgresql://postgres@/postgres?host={folder}", "--key-file", str(folder / "key"))
        with launched([folder / "town.yaml"], folder / "state", options=options) as proxy:
            yield Site(proxy, server, slow)


def question(number: int) -> str:
    return f"SELECT region, sum(income) FROM people WHERE income <> {number} GROUP BY region"


def test_what_costs_nothing_goes_on_and_what_waits_is_charged_once(site: Site) -> None:
    paid, told = site.ask(question(1))
    before = site.charges()
    with ThreadPoolExecutor() as threads:
        with site.slow():
            waiting = site.asked(threads, question(2))
            assert told == "charged"
            assert site.ask("SELECT 1") == ("[(1,)]", "")
            assert "people" in site.ask("SELECT relname FROM pg_class WHERE relname = 'people'")[0]
            assert site.ask(question(1)) == (paid, "reused")
            assert not waiting.done(), "answered before the charge could be durable"
            assert site.charges() == before
        shown, said = waiting.result(SAFETY)
    assert said == "charged"
    assert site.charges() == before + 1
    assert site.ask(question(2)) == (shown, "reused")


def test_a_commit_that_takes_long_is_waited_for(site: Site) -> None:
    paid, _ = site.ask(question(5))
    before = site.charges()
    with ThreadPoolExecutor() as threads:
        with site.no_disk():
            waiting = site.asked(threads, question(6), until=FLUSHING)
            assert site.ask("SELECT 1") == ("[(1,)]", "")
            assert site.ask(question(5)) == (paid, "reused")
            assert not waiting.done(), "answered before the charge was durable"
        shown, said = waiting.result(SAFETY)
    assert said == "charged"
    assert site.charges() == before + 1
    assert site.ask(question(6)) == (shown, "reused")


def test_a_network_is_slow(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Each crossing is waited for; the charge is made once, and who asks what costs nothing waits for none."""
    site.ask(question(7))
    before = site.charges()
    site.cable.delay, crossed, began = CROSSING / 2, site.cable.crossings, time.monotonic()
    try:
        shown, said = site.ask(question(8))
        seconds, crossed = time.monotonic() - began, site.cable.crossings - crossed
        assert site.ask("SELECT 1") == ("[(1,)]", "")
    finally:
        site.cable.delay = 0.0
    assert said == "charged"
    assert seconds >= CROSSING
    assert site.charges() == before + 1
    assert site.ask(question(8)) == (shown, "reused")
    with capsys.disabled():
        print(f"\na ledger {CROSSING} s away: charged and answered in {seconds:.1f} s, {crossed} crossings")


@pytest.mark.long
def test_who_waits_too_long_is_refused_and_nothing_is_charged(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.ask(question(3))
    before = site.charges()
    with ThreadPoolExecutor() as threads, site.slow():
        began = time.monotonic()
        waiting = site.asked(threads, question(4))
        with pytest.raises(psycopg.Error) as refused:
            waiting.result(SAFETY)
        seconds = time.monotonic() - began
    assert refused.value.sqlstate in ("57P03", "XX000")
    assert seconds >= LOCK_SECONDS
    assert site.charges() == before
    assert site.ask(question(4))[1] == "charged"
    assert site.charges() == before + 1
    with capsys.disabled():
        print(f"\na ledger that does not answer: refused {refused.value.sqlstate} after {seconds:.0f} s: {refused.value}")
