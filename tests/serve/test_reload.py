"""SIGHUP and SIGTERM on a served proxy: policies change under sessions, statements may end, patience is bounded."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched
from tests.worlds.running import SAFETY, Running

POLICY = """
version: 1
dataset: NAME
backend: { duckdb: data.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1000, delta: 1e-6, every: never }
tables:
  people: { unit: id, columns: { id: unit, EXTRA } }
roles: { analyst: { budget: { epsilon: 100, delta: 0, every: never }, query: { epsilon: 0.1, max_epsilon: 1 } } }
users:
  ada: { role: analyst, password: "VERIFIER" }
"""
REGION, AGE = "region: { values: [east, west] }", "age: { range: [0, 100] }"
EVE = '  eve: { role: analyst, password: "VERIFIER" }\n'
ADA = '  ada: { role: analyst, password: "VERIFIER" }\n'
VERIFIER = make_verifier("x")


def write(path: Path, text: str = POLICY, extra: str = REGION, name: str = "town") -> None:
    path.write_text(text.replace("EXTRA", extra).replace("NAME", name).replace("VERIFIER", VERIFIER))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id, 'east' AS region, 30 AS age FROM range(100) AS t(i)")
    write(tmp_path / "town.yaml")
    return tmp_path / "town.yaml"


@pytest.fixture
def proxy(policy: Path) -> Iterator[Proxy]:
    with launched([policy], policy.parent / "state", options=("--drain", "8")) as running:
        yield running


def connect(proxy: Proxy, user: str = "ada", dbname: str = "town") -> psycopg.Connection[tuple[object, ...]]:
    dsn = f"host={proxy.host} port={proxy.port} user={user} password=x dbname={dbname}"
    return psycopg.connect(dsn, autocommit=True)


def hang_up(proxy: Proxy, words: str, times: int = 1) -> None:
    """SIGHUP, and wait until the proxy has said `words` once more, or so many times more."""
    before = sum(words in line for line in list(proxy.said))
    proxy.process.send_signal(signal.SIGHUP)
    said(proxy, words, before + times)


def said(proxy: Proxy, words: str, times: int = 1) -> None:
    """Wait until the proxy has said so, so many times."""
    deadline = time.monotonic() + SAFETY
    while time.monotonic() < deadline:
        if sum(words in line for line in list(proxy.said)) >= times:
            return
        time.sleep(0.02)
    raise AssertionError(f"never said: {words}\n" + "\n".join(proxy.said))


def alive(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    try:
        return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:  # AdminShutdown is one
        return False


def test_policies_are_read_again(proxy: Proxy, policy: Path) -> None:
    ada = connect(proxy)
    hang_up(proxy, "policy unchanged")
    assert alive(ada)

    policy.write_text("version: 1\nnonsense: 2\n")
    hang_up(proxy, "policy not reloaded")
    assert alive(ada)

    write(policy, POLICY + EVE)
    hang_up(proxy, "policy reloaded")
    assert alive(ada), "another user came: nothing to ada"
    eve = connect(proxy, "eve")
    assert alive(eve)

    write(policy, POLICY.replace(ADA, EVE))
    hang_up(proxy, "policy reloaded")
    assert not alive(ada), "who is no user any more is sent away"
    assert alive(eve)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(proxy)

    write(policy, POLICY, AGE)
    hang_up(proxy, "policy reloaded")
    assert not alive(eve), "no session lives under two policies"
    with connect(proxy) as again:
        assert again.execute("SELECT count(*) > 0 FROM people WHERE age < 50").fetchone() == (True,)
        with pytest.raises(psycopg.errors.UndefinedColumn):
            again.execute("SELECT region, count(*) FROM people GROUP BY region")
        spent = again.execute("SELECT epsilon_spent::float FROM dpproxy.budget").fetchone()
        assert spent == (0.1,), "the ledger goes on"

    write(policy, POLICY, AGE, name="village")
    hang_up(proxy, "policy not reloaded")
    assert "charged as `town`" in "".join(proxy.said), "the same data begin with no new budget"
    with connect(proxy) as former:
        assert alive(former)

    shutil.copy(policy.parent / "data.duckdb", policy.parent / "other.duckdb")
    write(policy, POLICY.replace("data.duckdb", "other.duckdb"), AGE, name="village")
    hang_up(proxy, "policy reloaded")
    with connect(proxy, dbname="village") as renamed:
        assert alive(renamed)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(proxy)


def test_a_reload_waits_for_statements(proxy: Proxy, policy: Path) -> None:
    connection = connect(proxy)
    running = Running(connection, 1)
    write(policy, POLICY, AGE)
    hang_up(proxy, "policy reloaded")
    assert running.ended() == "done"
    assert not alive(connection)


def test_nobody_keeps_what_a_reload_hides(proxy: Proxy, policy: Path) -> None:
    """Neither in a transaction nor behind a statement that runs; and meanwhile others come in under the new policy."""
    waiting = connect(proxy)
    waiting.execute("BEGIN")
    waiting.execute("DECLARE c CURSOR FOR SELECT 1")
    waiting.execute("SELECT region, count(*) FROM people GROUP BY region")
    running = Running(connect(proxy), 3600)
    write(policy, POLICY, AGE)
    hang_up(proxy, "policy reloaded")
    with connect(proxy) as newcomer:
        assert alive(newcomer)
        assert newcomer.execute("SELECT count(*) > 0 FROM people WHERE age < 50").fetchone() == (True,)
    with pytest.raises(psycopg.OperationalError):
        waiting.execute("SELECT region, count(*) FROM people GROUP BY region")
    assert running.ended() == "57P01"


def stopped_during(policy: Path, drain: int, seconds: float, signals: int = 1) -> tuple[str, int | None]:
    """How a statement ended while SIGTERM arrived, and the proxy's exit code."""
    with launched([policy], policy.parent / "state", options=("--drain", str(drain))) as proxy:
        running = Running(connect(proxy), seconds)
        proxy.process.send_signal(signal.SIGTERM)
        refused = False
        while not refused:  # it was heard
            try:
                connect(proxy).close()
            except psycopg.OperationalError:
                refused = True
        for _ in range(signals - 1):
            proxy.process.send_signal(signal.SIGTERM)
        proxy.process.wait(SAFETY)
        return running.ended(), proxy.process.returncode


def test_sigterm_lets_statements_end(policy: Path) -> None:
    assert stopped_during(policy, drain=3600, seconds=1) == ("done", 0)


def test_sigterm_has_a_deadline(policy: Path) -> None:
    assert stopped_during(policy, drain=2, seconds=3600)[0] == "57P01"


def test_a_second_signal_ends_the_patience(policy: Path) -> None:
    assert stopped_during(policy, drain=3600, seconds=3600, signals=2)[0] == "57P01"
