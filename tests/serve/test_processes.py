"""Two serving processes on one port: cancel keys, caps, budgets and answers they share, signals, the death of one."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from decimal import Decimal
from pathlib import Path

import duckdb
import psutil
import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.operations.requests import CancelSession, Drain, PauseRole, Reload, Report, ResumeRole, ask, sockets
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import LaunchError, Proxy, launched
from dpproxy.server.server import NUMBER_BITS
from tests.worlds.running import SAFETY, Running

Connection = psycopg.Connection[tuple[object, ...]]

POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1000, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit, region: { values: [east, west] } } }
roles: { analyst: { budget: { epsilon: 100, delta: 0, every: never }, query: { epsilon: 1, max_epsilon: 1 } } }
users:
  ada: { role: analyst, password: "VERIFIER" }
  eve: { role: analyst, password: "VERIFIER" }
"""
VERIFIER = make_verifier("x")


@pytest.fixture(scope="module")
def shared_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("ledger")) as server:
        yield server


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("town")
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id, 'east' AS region FROM range(100) AS t(i)")
    (folder / "town.yaml").write_text(POLICY.replace("VERIFIER", VERIFIER))
    return folder / "town.yaml"


@pytest.fixture(scope="module")
def proxy(policy: Path, shared_ledger: Scratch) -> Iterator[Proxy]:
    options = ("--processes", "2", "--ledger", shared_ledger.dsn(), "--connections", "16", "--connections-per-user", "12")
    options = (*options, "--drain", "2", "--unix-socket", str(policy.parent))
    with launched([policy], policy.parent / "state", options=options) as running:
        yield running
    assert not policy.parent.joinpath(f".s.PGSQL.{running.port}").exists()


def connect(proxy: Proxy, user: str = "ada", dbname: str = "town") -> Connection:
    return psycopg.connect(f"host={proxy.host} port={proxy.port} user={user} password=x dbname={dbname}", autocommit=True)


def process_of(connection: Connection) -> int:
    return connection.info.backend_pid >> (31 - NUMBER_BITS)


def one_of_each(proxy: Proxy, stack: ExitStack, dbname: str = "town") -> list[Connection]:
    """A connection to each process: the system chooses where one goes, so that some are tried."""
    found: dict[int, Connection] = {}
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        connection = connect(proxy, dbname=dbname)
        if process_of(connection) in found:
            connection.close()
        else:
            found[process_of(connection)] = stack.enter_context(connection)
        if len(found) == 2:
            return [found[1], found[2]]
    raise AssertionError(f"only processes {set(found)} were reached\n" + "\n".join(proxy.said))


def workers(proxy: Proxy) -> list[psutil.Process]:
    return [p for p in psutil.Process(proxy.pid).children() if "dpproxy.serve.member_process" in p.cmdline()]


def spent(connection: Connection) -> Decimal:
    row = connection.execute("SELECT epsilon_spent FROM dpproxy.budget").fetchone()
    assert row is not None
    assert isinstance(row[0], Decimal)
    return row[0]


def test_one_budget_and_one_store_of_answers(proxy: Proxy) -> None:
    with ExitStack() as stack:
        one, two = one_of_each(proxy, stack)
        before = spent(one)
        first = one.execute("SELECT count(*) FROM people WHERE region = 'east'").fetchone()
        assert two.execute("SELECT count(*) FROM people WHERE region = 'east'").fetchone() == first
        assert (spent(one) - before, spent(two) - before) == (1, 1), "paid once"
        two.execute("SELECT count(*) FROM people WHERE region = 'west'")
        assert spent(one) - before == 2


def test_any_process_answers_the_operator_for_all(proxy: Proxy, policy: Path) -> None:
    state, private = policy.parent / "state", "SELECT count(*) FROM people WHERE region = 'east'"
    with ExitStack() as stack:
        one, two = one_of_each(proxy, stack)
        one.execute(private)
        for path in sockets(state):
            statuses = ask(path, Report(checked=True))
            assert sorted(status["process"] for status in statuses) == [1, 2]
            assert all(check["works"] for status in statuses for check in status["checks"])
            sessions = {session["session"]: session["process"] for status in statuses for session in status["sessions"]}
            assert {one.info.backend_pid: 1, two.info.backend_pid: 2}.items() <= sessions.items()
        second, first = reversed(sockets(state)), sockets(state)
        ask(next(iter(second)), PauseRole("analyst", "a lost laptop"))
        for connection in (one, two):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
                connection.execute(private)
        ask(first[0], ResumeRole("analyst"))
        two.execute(private)
        ask(first[0], CancelSession(two.info.backend_pid, end=True))
        with pytest.raises(psycopg.OperationalError):
            two.execute("SELECT 1")
        one.execute("SELECT 1")


def test_a_cancel_request_finds_its_process(proxy: Proxy) -> None:
    """Each request goes to whichever process the system chooses: half of them to the wrong one."""
    with ExitStack() as stack:
        for connection in one_of_each(proxy, stack) * 5:
            running = Running(connection, 3600)
            connection.cancel_safe(timeout=SAFETY)
            assert running.ended() == "57014"


def test_sessions_are_cancelled_by_number_across_processes(proxy: Proxy) -> None:
    with ExitStack() as stack:
        one, two = one_of_each(proxy, stack)
        running = Running(two, 3600)
        assert one.execute("SELECT pg_cancel_backend(%s)", (two.info.backend_pid,)).fetchone() == (True,)
        assert running.ended() == "57014"
        one.execute("SELECT pg_terminate_backend(%s)", (two.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            two.execute("SELECT 1")


def test_a_cancel_request_does_not_reach_the_next_statement(proxy: Proxy) -> None:
    """Its connection ends when it has been heard, in whichever process that is."""
    with ExitStack() as stack:
        for connection in one_of_each(proxy, stack) * 15:
            connection.cancel_safe()
            connection.execute("SELECT pg_sleep(0.03)")


def test_they_share_a_unix_socket(proxy: Proxy, policy: Path) -> None:
    seen: set[int] = set()
    for _ in range(200):
        with psycopg.connect(f"host={policy.parent} port={proxy.port} user=ada password=x dbname=town") as connection:
            seen.add(process_of(connection))
        if seen == {1, 2}:
            return
    raise AssertionError(f"only processes {seen} were reached")


def test_wrong_cancel_requests_harm_nobody(proxy: Proxy) -> None:
    with ExitStack() as stack:
        connections = one_of_each(proxy, stack)
        for number in (0, 1, 2, 3, 64, 127):
            with socket.create_connection((proxy.host, proxy.port)) as wire:
                pid = number << (31 - NUMBER_BITS) | 5
                wire.sendall((272).to_bytes(4, "big") + (80877102).to_bytes(4, "big") + pid.to_bytes(4, "big") + bytes(260))
                wire.settimeout(300)
                wire.recv(1000)
        for connection in connections:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def refused(proxy: Proxy, user: str, stack: ExitStack, most: int) -> tuple[int, str]:
    """How many connections a user gets, and what the next one is told."""
    for i in range(most):
        try:
            stack.enter_context(connect(proxy, user))
        except psycopg.OperationalError as error:
            return i, str(error)
    return most, ""


def test_caps_are_of_all_processes_together(proxy: Proxy) -> None:
    with ExitStack() as stack:
        mine, why = refused(proxy, "ada", stack, 20)
        assert (mine, "too many connections for user" in why) == (12, True)
        others, why = refused(proxy, "eve", stack, 20)
        assert (others, "too many clients" in why) == (4, True)
    deadline = time.monotonic() + SAFETY
    while time.monotonic() < deadline:  # those that ended give their places back when that has come through
        with ExitStack() as stack:
            if (found := refused(proxy, "ada", stack, 12)) == (12, ""):
                return
    raise AssertionError(f"places are not given back: {found}")


def test_sighup_reaches_all(proxy: Proxy, policy: Path) -> None:
    added = policy.read_text() + f'  new: {{ role: analyst, password: "{VERIFIER}" }}\n'
    before = sum("policy reloaded" in line for line in proxy.said)
    policy.write_text(added)
    proxy.process.send_signal(signal.SIGHUP)
    wait_for(lambda: sum("policy reloaded" in line for line in proxy.said) == before + 2)
    with ExitStack() as stack:
        assert {process_of(stack.enter_context(connect(proxy, "new"))) for _ in range(12)} <= {1, 2}


def wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + SAFETY
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never came to be")


def test_a_process_that_dies_is_started_again(proxy: Proxy) -> None:
    with ExitStack() as stack:
        one, two = one_of_each(proxy, stack)
        victim = next(p for p in workers(proxy) if p.cmdline()[-1] == "1")
        paid = spent(two)
        one.execute("SELECT count(*) AS again FROM people")
        victim.kill()
        victim.wait(60)  # while its sockets are closed one by one, its listener may still take a connection
        with pytest.raises(psycopg.OperationalError):
            one.execute("SELECT 1")
        assert spent(two) == paid + 1, "the other goes on, and nothing is forgotten"
        again, _ = one_of_each(proxy, stack)
        assert spent(again) == paid + 1
        again.execute("SELECT count(*) AS again FROM people")
        assert spent(again) == paid + 1, "the answer was kept"


def replaced(path: Path, people: int) -> None:
    new = path.with_name("new.duckdb")
    with duckdb.connect(str(new)) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT i AS id, 'east' AS region FROM range({people}) AS t(i)")
    os.replace(new, path)


def test_all_serve_the_same_data(policy: Path, tmp_path: Path, shared_ledger: Scratch) -> None:
    """The file is replaced, and a process dies: it does not come back with other data than the others', until a reload."""
    text = policy.read_text().replace("dataset: town", "dataset: village").replace("1000,", "100000,").replace("100,", "10000,")
    (tmp_path / "village.yaml").write_text(text.replace("epsilon: 1, max_epsilon: 1", "epsilon: 50, max_epsilon: 50"))
    replaced(tmp_path / "town.duckdb", 100)
    options = ("--processes", "2", "--ledger", shared_ledger.dsn(), "--drain", "2")

    def counted(connection: Connection, text: str) -> object:
        row = connection.execute(f"SELECT count(*) FROM people WHERE region <> '{text}'").fetchone()
        return None if row is None else row[0]

    with launched([tmp_path / "village.yaml"], tmp_path / "state", options=options) as proxy:
        with ExitStack() as stack:
            assert [counted(c, f"x{i}") for i, c in enumerate(one_of_each(proxy, stack, "village"))] == [100, 100]
        replaced(tmp_path / "town.duckdb", 40)
        next(p for p in workers(proxy) if p.cmdline()[-1] == "2").kill()
        wait_for(lambda: any("others than those" in line for line in list(proxy.said)))
        for i in range(8):
            with connect(proxy, dbname="village") as connection:
                assert (process_of(connection), counted(connection, f"y{i}")) == (1, 100)
        before = sum("policy reloaded" in line for line in list(proxy.said))
        proxy.process.send_signal(signal.SIGHUP)
        wait_for(lambda: sum("policy reloaded" in line for line in list(proxy.said)) > before)
        with ExitStack() as stack:
            assert [counted(c, f"z{i}") for i, c in enumerate(one_of_each(proxy, stack, "village"))] == [40, 40]
        replaced(tmp_path / "town.duckdb", 60)
        doors, tries = sockets(tmp_path / "state"), itertools.count()
        assert [dataset["problem"] for dataset in ask(doors[1], Reload())] == [""]

        def told() -> list[object]:
            with suppress(psycopg.Error), ExitStack() as stack:  # sessions end when the data are others
                return [counted(c, f"w{next(tries)}") for c in one_of_each(proxy, stack, "village")]
            return []

        wait_for(lambda: told() == [60, 60])
        ask(doors[1], Drain())
        assert proxy.process.wait(300) == 0, "both, and who watches them"


def test_sigterm_ends_all(policy: Path, shared_ledger: Scratch) -> None:
    options = ("--processes", "2", "--ledger", shared_ledger.dsn(), "--drain", "3600")
    with launched([policy], policy.parent / "other", options=options) as proxy, connect(proxy) as connection:
        children = psutil.Process(proxy.pid).children(recursive=True)
        running = Running(connection, 1)
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(300) == 0
        assert running.ended() == "done", "a running statement was let end"
    psutil.wait_procs(children, timeout=300)
    assert not [p for p in children if p.is_running()]


def test_no_process_outlives_the_watcher(policy: Path, shared_ledger: Scratch) -> None:
    options = ("--processes", "2", "--ledger", shared_ledger.dsn())
    with launched([policy], policy.parent / "third", options=options) as proxy:
        children = psutil.Process(proxy.pid).children(recursive=True)
        proxy.process.kill()
        _, alive = psutil.wait_procs(children, timeout=300)
        assert alive == []


def test_a_ledger_of_one_writer_is_refused(policy: Path, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="--ledger postgresql://"), launched([policy], tmp_path, options=("--processes", "2")):
        pass


def test_what_one_cannot_serve_all_refuse(policy: Path, tmp_path: Path, shared_ledger: Scratch) -> None:
    (tmp_path / "bad.yaml").write_text(policy.read_text().replace("region:", "nowhere:"))
    (tmp_path / "town.duckdb").symlink_to(policy.with_name("town.duckdb"))
    program = Path(sys.executable).with_name("dpproxy")
    arguments = ["--listen", "127.0.0.1:0", "--state", str(tmp_path), "--processes", "2", "--ledger", shared_ledger.dsn()]
    command = [program, "serve", str(tmp_path / "bad.yaml"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "bad.yaml:8:" in done.stderr
    assert "Traceback" not in done.stderr
